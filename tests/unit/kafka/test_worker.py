"""A worker: what it sees of its settings before it asks a broker, and the lines of its log."""

import asyncio
import inspect
import json
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from aiokafka import cluster
from aiokafka.consumer import group_coordinator
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    GroupCoordinatorNotAvailableError,
    KafkaError,
    NotLeaderForPartitionError,
    RequestTimedOutError,
)
from aiokafka.producer import sender

from streamer.config import load_settings
from streamer.errors import SettingsError, StoreMismatch, StoreUnavailable, StreamerError
from streamer.kafka import worker_log
from streamer.kafka.connection import Connection
from streamer.kafka.faust_chunks import ChunkApp, ChunkConsumer
from streamer.kafka.topics import Names
from streamer.kafka.worker import Worker, WorkerOptions
from streamer.metrics import Metrics
from streamer.pages.parse import PageParser
from streamer.panels import Role
from streamer.run.index_folder import IndexFolder
from streamer.run.judge import replay_judge
from tests.helpers.wait import Clock

SECRET = bytes(range(32))


def options(key_file: Path, role: Role = Role.ALL, **given: Any) -> WorkerOptions:
    settings = load_settings(**{"role": role, **given})
    names = Names("index", "pages", settings.per_partition)
    folder = key_file.parent / "index"
    return WorkerOptions(settings, Connection("localhost:1"), names, folder, key_file, PageParser())


def make_shard(wanted: WorkerOptions, number: int) -> None:
    """Leave an index with a flush where the worker has that shard."""
    folder = wanted.shard_folder(number)
    index = IndexFolder.open(folder, wanted.settings.signature, wanted.key_file)
    judge = replay_judge(index, wanted.settings.index)
    judge.flush(b"owner")
    judge.close()


def test_a_folder_of_another_method_is_refused_by_what_differs(key_file: Path) -> None:
    fitting = options(key_file, method="simhash")
    fitting.check()  # there is no folder yet
    make_shard(fitting, 0)
    fitting.check()
    with pytest.raises(StoreMismatch, match="--method is simhash there and minhash here"):
        options(key_file).check()
    options(key_file, Role.SIGN).check()  # signs pages only: the folder is not its own


@pytest.mark.parametrize("place", ["index", "index/shard-0/snapshots"])
def test_snapshots_in_the_index_are_refused_at_the_start(key_file: Path, place: str) -> None:
    options(key_file, snapshot_to=str(key_file.parent / "snapshots")).check()
    with pytest.raises(StoreUnavailable, match="would be lost with it"):
        options(key_file, snapshot_to=str(key_file.parent / place)).check()


@pytest.mark.parametrize(
    ("own_shards", "said"),
    [
        *((each, "Give numbers with commas") for each in ("0,x", "1/1", "-1/2", "0/0", "1/-2")),
        ("0,1", "no shard 1"),
    ],
)
def test_shards_that_are_none_are_refused(key_file: Path, own_shards: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        options(key_file, own_shards=own_shards).check()
    assert options(key_file, own_shards=" 0, 0").shards(range(1)) == (0,)
    assert options(key_file, own_shards="0/1").shards(range(1)) == (0,)
    assert options(key_file, own_shards="1/3", per_partition=True).shards(range(8)) == (1, 4, 7)


def test_what_a_worker_says_of_itself_has_all_that_is_in_force_and_no_secret(
    key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMER_SASL_PASSWORD", "hunter2")
    wanted = options(key_file, head_pages=77, sasl_username="crawler")
    settings = wanted.settings.in_force
    assert (settings["head_pages"], settings["threshold"]) == (77, 0.8)
    assert settings["sasl_username"] == "crawler"
    about = wanted.about()
    assert about["brokers"] == ["localhost:1"]
    assert (about["index"], about["pages"]) == ("index", "pages")
    assert about["shards"] == "all"
    assert about["health"] == "http://127.0.0.1:8080"
    said = json.dumps([about, settings])
    assert SECRET.hex() not in said
    assert "hunter2" not in said


def test_a_late_shard_ends_the_process(key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: BaseException) -> None:
        raise error

    shards: Any = [
        SimpleNamespace(owner=SimpleNamespace(number=n), close=partial(asyncio.sleep, 60 * n))
        for n in range(2)
    ]
    monkeypatch.setattr("streamer.kafka.worker.CLOSE_SECONDS_MAX", 0.05)
    worker = Worker(options(key_file), fail, Metrics())
    worker.shards = shards
    with pytest.raises(StreamerError, match="Shard 1 could not be written within 0 seconds"):
        asyncio.run(worker._close())  # noqa: SLF001 - what `run` ends with


REBALANCING = "Heartbeat failed for group %s because it is rebalancing"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Hide the root logger's handlers from the code under test, and bring all back after it."""
    root = logging.getLogger()
    changed = [root, logging.getLogger("streamer"), logging.getLogger("aiokafka")]
    handlers, levels = root.handlers, [each.level for each in changed]
    formatted = warnings.formatwarning
    root.handlers = []
    changed[2].setLevel(logging.NOTSET)  # a command that ran in this process has silenced it
    yield
    logging.captureWarnings(False)
    warnings.formatwarning = formatted
    root.handlers = handlers
    for logger, level in zip(changed, levels, strict=True):
        logger.setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    captured = capsys.readouterr()
    assert not captured.out
    return [json.loads(line) for line in captured.err.splitlines()]


def own_log() -> Any:
    return structlog.get_logger("streamer.kafka.worker")


def fail_with_a_page_at_hand() -> None:
    page = "text of " + "a page"
    raise ValueError(len(page))


def test_an_event_is_one_json_object_in_this_order(capsys: pytest.CaptureFixture[str]) -> None:
    worker_log.configure_logs("json", "info")
    own_log().info("shard caught up", shard=0, records=12)
    (line,) = lines(capsys)
    at = datetime.fromisoformat(line.pop("time"))
    assert at.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - at) < timedelta(minutes=1)
    assert list(line.items()) == [
        ("level", "info"),
        ("event", "shard caught up"),
        ("shard", 0),
        ("records", 12),
        ("logger", "streamer.kafka.worker"),
    ]


def test_an_exception_is_in_its_events_line(capsys: pytest.CaptureFixture[str]) -> None:
    worker_log.configure_logs("json", "info")
    for log in (own_log(), logging.getLogger("mode.worker")):
        try:
            fail_with_a_page_at_hand()
        except ValueError:
            log.exception("crashed\nhere")
    for line, name in zip(lines(capsys), ("streamer.kafka.worker", "mode.worker"), strict=True):
        assert (line["level"], line["event"], line["logger"]) == ("error", "crashed\nhere", name)
        assert "in fail_with_a_page_at_hand\n" in line["exception"]
        assert line["exception"].endswith("ValueError: 14")
        assert "text of a page" not in line["exception"], "no variables"


class _Unclean:
    def __del__(self) -> None:
        fail_with_a_page_at_hand()


def test_what_nothing_catches_is_a_line_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, hook in ((threading, "excepthook"), (sys, "unraisablehook")):
        monkeypatch.setattr(module, hook, getattr(module, hook))  # to be set back
    worker_log.configure_logs("json", "info")
    worker_log.log_uncaught()
    for work in (fail_with_a_page_at_hand, sys.exit):
        thread = threading.Thread(target=work, name="one")
        thread.start()
        thread.join()
    _Unclean()
    first, second = lines(capsys)
    assert (first["event"], first["thread"]) == ("thread_failed", "one")
    assert second["event"] == "not_cleaned_up"
    for line in (first, second):
        assert line["exception"].endswith("ValueError: 14")


@pytest.mark.parametrize(
    ("level", "shown"),
    [("info", ["own info", "own error", "their warning"]), ("error", ["own error"])],
)
def test_the_level_is_the_least_that_is_shown(
    level: str, shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    worker_log.configure_logs("json", level)
    log = own_log()
    log.info("own info")
    log.error("own error")
    logging.getLogger("faust").warning("their warning")
    assert [line["event"] for line in lines(capsys)] == shown


def test_warnings_of_python_are_lines_too(capsys: pytest.CaptureFixture[str]) -> None:
    worker_log.configure_logs("json", "info")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("this is odd", stacklevel=1)
        warnings.warn("this is old", DeprecationWarning, stacklevel=1)
    found = lines(capsys)
    assert [line["event"] for line in found] == ["this is odd", "DeprecationWarning: this is old"]
    assert {line["logger"] for line in found} == {"py.warnings"}


def test_the_console_has_an_event_in_one_readable_line(capsys: pytest.CaptureFixture[str]) -> None:
    worker_log.configure_logs("console", "info")
    own_log().info("shard caught up", shard=0)
    try:
        fail_with_a_page_at_hand()
    except ValueError:
        own_log().exception("crashed")
    shown = capsys.readouterr().err
    assert shown.splitlines()[0].split()[1:] == [
        "[info", "]", "shard", "caught", "up", "[streamer.kafka.worker]", "shard=0",
    ]  # fmt: skip
    assert "fail_with_a_page_at_hand" in shown
    assert "text of a page" not in shown


def record(name: str, message: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord(name, logging.WARNING, "", 0, message, args, None)


def test_a_librarys_line_comes_again_after_a_while_with_the_number_left_out() -> None:
    clock = Clock()
    shown = worker_log.LibraryFilter(clock)
    assert shown.filter(record("aiokafka", "no node %d", 1))
    for _ in range(7):
        clock.now += 0.1
        assert not shown.filter(record("aiokafka", "no node %d", 1))
    clock.now += worker_log.REPEAT_SECONDS
    again = record("aiokafka", "no node %d", 1)
    assert shown.filter(again)
    assert again.__dict__["repeated"] == 7
    clock.now += worker_log.REPEAT_SECONDS
    third = record("aiokafka", "no node %d", 1)
    assert shown.filter(third)
    assert "repeated" not in third.__dict__


def test_what_is_known_of_lines_stays_small() -> None:
    clock = Clock()
    shown = worker_log.LibraryFilter(clock)
    for number in range(2000):
        assert shown.filter(record("asyncio", "task %d", number))
    assert len(vars(shown)["_shown"]) <= 256


def test_noticing_a_rebalance_is_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    worker_log.configure_logs("json", "info")
    log = logging.getLogger("aiokafka.consumer.group_coordinator")
    log.warning(REBALANCING, "news.sign")
    log.warning("Heartbeat failed for group %s: generation id is not  current.", "news.sign")
    assert [line["event"][-7:] for line in lines(capsys)] == ["urrent."]


def test_all_lines_that_are_left_out_are_still_worded_so() -> None:
    modules = (group_coordinator, cluster, sender)
    source = "".join(inspect.getsource(module) for module in modules)
    words = " ".join("".join(source.split('"\n')).replace('"', "").split())
    for line in (REBALANCING, *worker_log._STARTING):  # noqa: SLF001 - by the words of another
        assert " ".join(line.split()) in words, line


COORDINATOR = "Group Coordinator Request failed: %s"
RETRYING = "Got error produce response on topic-partition %s, retrying. Error: %s"


def test_what_passes_by_itself_at_a_start_is_no_line_unless_it_goes_on() -> None:
    clock = Clock()
    shown = worker_log.LibraryFilter(clock)
    absent = GroupCoordinatorNotAvailableError()
    clock.now += 1000  # kernels are compiled before the first line
    for _ in range(int(worker_log.STARTING_SECONDS)):
        assert not shown.filter(record("aiokafka", COORDINATOR, absent))
        assert not shown.filter(record("aiokafka", RETRYING, "pages-0", NotLeaderForPartitionError))
        clock.now += 1
    assert shown.filter(record("aiokafka", COORDINATOR, absent))
    assert shown.filter(record("aiokafka", RETRYING, "pages-0", NotLeaderForPartitionError))


@pytest.mark.parametrize("error", [GroupAuthorizationFailedError("g"), RequestTimedOutError()])
def test_another_error_in_the_same_words_is_shown_at_once(error: KafkaError) -> None:
    shown = worker_log.LibraryFilter(Clock())
    assert shown.filter(record("aiokafka", COORDINATOR, error))
    assert shown.filter(record("aiokafka", RETRYING, "pages-0", type(error)))


def test_what_faust_does_under_our_names_is_a_librarys(capsys: pytest.CaptureFixture[str]) -> None:
    worker_log.configure_logs("json", "info")
    for kind in (ChunkApp, ChunkConsumer):
        kind.logger.info("[^ChunkApp]: Starting...")
        kind.logger.error("crashed")
    assert [line["event"] for line in lines(capsys)] == ["crashed", "crashed"]


def test_the_number_left_out_is_on_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    worker_log.configure_logs("json", "info")
    logging.getLogger("aiokafka").warning("no %s", "node", extra={"repeated": 7, "other": 1})
    for _ in range(2):
        logging.getLogger("aiokafka").warning("no node")
        own_log().error("ours")
    line, *others = lines(capsys)
    assert (line["event"], line["repeated"]) == ("no node", 7)
    assert "other" not in line
    assert [other["event"] for other in others] == ["ours", "ours"]
