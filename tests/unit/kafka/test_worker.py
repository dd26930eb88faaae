"""What a worker sees of its settings before it asks any broker."""

import asyncio
import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamer.config import load_settings
from streamer.errors import SettingsError, StoreMismatch, StoreUnavailable, StreamerError
from streamer.kafka.connection import Connection
from streamer.kafka.topics import Names
from streamer.kafka.worker import Worker, WorkerOptions
from streamer.metrics import Metrics
from streamer.pages.parse import PageParser
from streamer.panels import Role
from streamer.run.index_folder import IndexFolder
from streamer.run.judge import replay_judge

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
