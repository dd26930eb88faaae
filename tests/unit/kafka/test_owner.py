"""The owner of a shard, without Kafka: a fold of a log that is in a list."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamer.errors import StoreMismatch, StreamerError
from streamer.index.messages import CONFIG, IndexSettings, Record
from streamer.kafka.owner import Owner
from streamer.kafka.wire import LogBounds, LogIdentity, ShardLog, pack_record
from streamer.run.index_folder import identity_of
from streamer.run.judge import LOG_FLUSHES, JudgeOptions
from streamer.sketch.settings import SignatureSettings
from streamer.upkeep.snapshots import RegularSnapshots, SnapshotFolder, Taken
from tests.helpers.kafka_doubles import take
from tests.helpers.signed_pages import family_pages

SECRET = bytes(range(32))
SIGNATURE = SignatureSettings()
FINGERPRINT = str(identity_of(SIGNATURE, SECRET)["fingerprint"])
IDENTITY = LogIdentity(FINGERPRINT, "origin")


def a_log(records: int = 12, pages: int = 20, seed: int = 1) -> list[bytes]:
    draw = random.Random(seed)
    log = [Record(CONFIG, 0, 1, np.array([0]), IndexSettings())]
    for start in range(0, records * pages, pages):
        made = family_pages(draw, pages)
        made.refs[:] = range(start, start + pages)
        made.urls[:] = [b"u%d" % ref for ref in made.refs.tolist()]
        log.append(Record("pages:0", start, start + pages, np.arange(start, start + pages), made))
    return [pack_record(record, IDENTITY) for record in log]


def owner(path: Path, key_file: Path, **changed: object) -> Owner:
    fields: dict[str, Any] = {"number": 0, "topic_id": "log", "identity": IDENTITY, **changed}
    return Owner(path, ShardLog(**fields), SIGNATURE, key_file, JudgeOptions(LOG_FLUSHES, 30))


def fold(target: Owner, log: list[bytes]) -> None:
    for offset, data in enumerate(log):
        take(target, offset, data)
        if target.flush_is_due:
            target.flush(target.state())


def test_a_log_that_does_not_reach_to_the_index_is_refused(tmp_path: Path, key_file: Path) -> None:
    log = a_log(3)
    one = owner(tmp_path / "index", key_file)
    fold(one, log)
    one.flush(one.state())
    one.check(LogBounds(0, 4, log[3]))
    with pytest.raises(StoreMismatch, match=r"ends at 3, the index .* is at 4"):
        one.check(LogBounds(0, 3, None))
    with pytest.raises(StoreMismatch, match=r"begins at 5, the index .* is at 4"):
        one.check(LogBounds(5, 9, None))
    with pytest.raises(StoreMismatch, match="another record at 3"):
        one.check(LogBounds(0, 9, log[2]))
    one.close()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"topic_id": "anew"}, "the log was made again. Restore that log"),
        ({"identity": LogIdentity(FINGERPRINT, "anew")}, "its offsets name other pages"),
    ],
)
def test_an_index_of_something_else_is_refused(
    tmp_path: Path, key_file: Path, changed: dict[str, object], message: str
) -> None:
    one = owner(tmp_path / "index", key_file)
    fold(one, a_log(1))
    one.flush(one.state())
    one.close()
    with pytest.raises(StoreMismatch, match=message):
        owner(tmp_path / "index", key_file, **changed)
    owner(tmp_path / "index", key_file).close()  # the refusal has released it


def test_neither_a_poisoned_record_nor_a_gap_moves_an_owner(tmp_path: Path, key_file: Path) -> None:
    log = a_log(1)
    one = owner(tmp_path / "index", key_file)
    take(one, 0, log[0])
    with pytest.raises(StoreMismatch):
        take(one, 1, b"\x91\x63")
    assert one.offset == 1
    assert take(one, 1, log[1])[0].verdicts
    with pytest.raises(StreamerError, match="delivered from 3 on, the index is at 2"):
        take(one, 3, log[1])
    one.close()


def test_an_owner_takes_a_snapshot_when_it_is_due(tmp_path: Path, key_file: Path) -> None:
    log, reported, now = a_log(3), list[object](), [0.0]
    to = SnapshotFolder(tmp_path / "snapshots")
    regular = RegularSnapshots(tmp_path / "index", to, 60, 2, reported.append, lambda: now[0])
    where = ShardLog(0, "log", IDENTITY)
    one = Owner(tmp_path / "index", where, SIGNATURE, key_file, snapshots=regular)
    assert not one.flush_is_due, "there is nothing yet"
    for offset, due in enumerate((True, False, False, True)):
        take(one, offset, log[offset])
        assert one.flush_is_due == due
        if due:
            one.flush(one.state())
            now[0] += 59
        now[0] += 1 * (offset == 2)
        regular._thread.submit(int).result()  # noqa: SLF001 - after what was begun
    one.close()
    assert [to.read(number).flush for number in to.numbers()] == [1, 2]
    assert all(isinstance(each, Taken) for each in reported)
