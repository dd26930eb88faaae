"""Snapshots: an index that is copied at a flush comes back as it was, or not at all."""

import contextlib
import os
import random
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamer import errors
from streamer.run.index_folder import own_key, store_folder
from streamer.stored.store import Store
from streamer.upkeep.snapshot_places import Folder, SnapshotStopped
from streamer.upkeep.snapshots import (
    RegularSnapshots,
    SnapshotFolder,
    StoreCheckpoint,
    Taken,
    take_snapshot,
)
from tests.helpers import growing_index
from tests.helpers.commands import ended
from tests.helpers.damage import digests
from tests.helpers.growing_index import files_of_two_snapshots, grow, grow_and_take, holds
from tests.helpers.kills import answers_until_killed
from tests.helpers.stored_rows import assert_holds, flush, flushed

in_both_places = pytest.mark.parametrize("snapshots", ["folder", "bucket"], indirect=True)


@pytest.fixture
def home(snapshots: SnapshotFolder, tmp_path: Path) -> Path:
    """Return the folder that has the files of all snapshots."""
    return tmp_path / ("objects/bucket/index" if snapshots.name[:3] == "s3:" else "snapshots")


def stored(home: Path) -> set[str]:
    return {file.name for file in (home / "files").iterdir()}


def others_in(folder: Path) -> set[str]:
    """Return what is next to the snapshots, whatever these are in."""
    return {path.name for path in folder.iterdir()} - {"snapshots", "objects", "objects.log"}


@in_both_places
def test_an_index_comes_back_as_it_was_with_its_key(
    tmp_path: Path, index: Path, snapshots: SnapshotFolder
) -> None:
    grow(index, range(10), range(10, 900))
    own_key(index).write_text("a secret")
    own_key(index).chmod(0o600)
    taken = take_snapshot(index, snapshots, 0)
    assert (taken.snapshot.flush, taken.snapshot.pages) == (2, 900)
    assert not (index / "checkpoint").exists()
    grow(index, range(900, 910))
    assert snapshots.restore(tmp_path / "again") == [(tmp_path / "again", taken.snapshot)]
    holds(tmp_path / "again", 900)
    assert own_key(tmp_path / "again").read_text() == "a secret"
    assert own_key(tmp_path / "again").stat().st_mode & 0o777 == 0o600
    assert others_in(tmp_path) == {"index", "again"}
    grow(tmp_path / "again", range(900, 1000))
    holds(tmp_path / "again", 1000)
    holds(index, 910)


@in_both_places
def test_the_same_file_is_copied_once(index: Path, snapshots: SnapshotFolder, home: Path) -> None:
    first = grow_and_take(index, snapshots, range(900))
    assert first.size == first.snapshot.size
    before = stored(home)
    second = grow_and_take(index, snapshots, range(900, 905))
    large = [file for file in first.snapshot.files if file.size > 30_000]
    assert large
    assert all(file in second.snapshot.files for file in large)
    assert second.size < 30_000 < second.snapshot.size
    assert before < stored(home)


def test_what_a_restored_index_writes_does_not_pass_for_what_the_lost_one_wrote(
    tmp_path: Path, index: Path, snapshots: SnapshotFolder
) -> None:
    grow_and_take(index, snapshots, range(10))
    grow_and_take(index, snapshots, range(10, 20))
    again = tmp_path / "again"
    snapshots.restore(again, 1)
    grow(again, range(10, 15), range(15, 17))  # other files under the numbers of the lost ones
    take_snapshot(again, snapshots, 0)
    for number, rows in ((1, 10), (2, 20), (3, 17)):
        snapshots.restore(tmp_path / str(number), number)
        holds(tmp_path / str(number), rows)


def test_as_many_snapshots_are_kept_as_are_wanted_and_no_file_besides(
    tmp_path: Path, index: Path, snapshots: SnapshotFolder, home: Path
) -> None:
    needed = files_of_two_snapshots(index, snapshots)
    assert stored(home) == needed
    snapshots.restore(tmp_path / "5", 5)
    holds(tmp_path / "5", 50)
    assert snapshots.read().number == 6
    assert snapshots.numbers()[0] == 5
    with pytest.raises(errors.StoreUnavailable, match=r"has no snapshot 4; it has 5, 6\."):
        snapshots.restore(tmp_path / "4", 4)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "flip": lambda data: data[:-9] + bytes(byte ^ 1 for byte in data[-9:-8]) + data[-8:],
    "cut": lambda data: data[:-1],
    "longer": lambda data: data + b"x",
    "missing": lambda data: data,
}


@in_both_places
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_snapshot_that_is_damaged_anywhere_is_refused_and_leaves_nothing(
    tmp_path: Path, index: Path, snapshots: SnapshotFolder, home: Path, damage: str
) -> None:
    grow_and_take(index, snapshots, range(600))
    files = [*home.glob("files/*"), *home.glob("*.json")]
    assert len(files) >= 5
    assert files[-1].suffix == ".json"
    for path in files:
        data = path.read_bytes()
        if not data and damage in {"flip", "cut"}:
            continue  # a log that has been filed
        path.write_bytes(DAMAGES[damage](data))
        if damage == "missing":
            path.unlink()
        with pytest.raises((errors.StoreDamaged, errors.StoreUnavailable)) as refusal:
            snapshots.restore(tmp_path / "again")
        assert path.name in str(refusal.value) or "There is no snapshot" in str(refusal.value)
        if path.suffix != ".json":
            with pytest.raises(errors.StoreDamaged):
                snapshots.check(1)
        assert not (tmp_path / "again").exists()
        path.write_bytes(data)
    assert snapshots.check(1).owner == b"600"
    snapshots.restore(tmp_path / "again")
    holds(tmp_path / "again", 600)


def test_a_file_that_was_lost_from_the_snapshots_is_copied_again(
    tmp_path: Path, index: Path, snapshots: SnapshotFolder, home: Path
) -> None:
    grow(index, range(600))
    largest = max(take_snapshot(index, snapshots, 0).snapshot.files, key=lambda file: file.size)
    (home / "files" / largest.digest).unlink()
    take_snapshot(index, snapshots, 0)
    for number in (1, 2):
        snapshots.restore(tmp_path / str(number), number)
        holds(tmp_path / str(number), 600)


def test_nothing_is_restored_over(tmp_path: Path, index: Path, snapshots: SnapshotFolder) -> None:
    grow_and_take(index, snapshots, range(5))
    before = digests(index)
    with pytest.raises(errors.StoreUnavailable, match=r"is not empty\. Move what is there"):
        snapshots.restore(index)
    assert digests(index) == before
    (tmp_path / "empty").mkdir()
    snapshots.restore(tmp_path / "empty")
    holds(tmp_path / "empty", 5)


def test_an_index_in_use_and_folders_without_one_are_refused(
    index: Path, snapshots: SnapshotFolder, home: Path
) -> None:
    with pytest.raises(errors.StoreUnavailable, match="There is no index in"):
        take_snapshot(index, snapshots, 0)
    assert not index.exists()
    assert not home.exists()
    with pytest.raises(errors.StoreUnavailable, match="There is no snapshot in"):
        snapshots.restore(index)
    with contextlib.closing(Store.open(store_folder(index))) as store:
        with pytest.raises(errors.StoreUnavailable, match="is empty"):
            take_snapshot(index, snapshots, 0)
        flush(store, [0])
        with pytest.raises(errors.StoreUnavailable, match="open in this process already"):
            take_snapshot(index, snapshots, 0)


def test_one_process_writes_snapshots(index: Path, snapshots: SnapshotFolder, home: Path) -> None:
    grow(index, range(5))
    with (
        Folder(home).writing(),
        pytest.raises(errors.StoreUnavailable, match="Another process writes snapshots to"),
    ):
        take_snapshot(index, snapshots, 0)
    take_snapshot(index, snapshots, 0)


@in_both_places
def test_snapshots_are_of_one_index(index: Path, snapshots: SnapshotFolder, home: Path) -> None:
    grow(index, range(5))
    take_snapshot(index, snapshots, 0)
    with contextlib.closing(Store.open(store_folder(index))) as store:
        store.flush({"bands": 14, "key": "another"}, flushed([7]), b"")  # given as --key-file
    before = stored(home), snapshots.numbers()
    with pytest.raises(errors.StoreUnavailable, match="of an index with another key"):
        take_snapshot(index, snapshots, 1)
    assert (stored(home), snapshots.numbers()) == before


def test_an_index_has_no_snapshots_in_itself(index: Path) -> None:
    grow(index, range(5))
    for place in (index, index / "snapshots"):
        with pytest.raises(errors.StoreUnavailable, match="would be lost with it"):
            take_snapshot(index, SnapshotFolder(place), 0)
    assert not (index / "snapshots").exists()


@in_both_places
def test_a_kill_at_any_moment_leaves_whole_snapshots_and_whole_indexes(
    tmp_path: Path, index: Path, snapshots: SnapshotFolder, home: Path
) -> None:
    draw = random.Random(1)
    again = tmp_path / "again"
    for _ in range(4):
        reported = answers_until_killed(
            growing_index.TAKING_SNAPSHOTS, index, snapshots.name, 3, again,
            lines=draw.randrange(1, 4), pause=draw.uniform(0, 0.2),
        )  # fmt: skip
        assert snapshots.read().pages >= reported[-1], "one that was reported is lost"
        for number in snapshots.numbers():
            assert int(snapshots.check(number).owner) == snapshots.read(number).pages
        left = {"again", "again.old", "again.restoring"}  # by the kill
        assert others_in(tmp_path) - left == {"index"}
        if again.exists() and any(again.iterdir()):
            with contextlib.closing(Store.open(store_folder(again), writable=False)) as store:
                assert store.meta is not None
                assert_holds(store, range(int(store.meta.owner)))
    taken = take_snapshot(index, snapshots, 3)
    needed = {file.digest for n in snapshots.numbers() for file in snapshots.read(n).files}
    is_young = home.name != "snapshots"  # in a bucket for a day: another may be about to need it
    assert stored(home) == needed or is_young, "what kills have left is removed"
    assert sorted(p.name for p in index.iterdir()) == ["newest-flush", "store"]
    snapshots.restore(tmp_path / "last")
    holds(tmp_path / "last", taken.snapshot.pages)


def test_a_checkpoint_stays_as_it_was_while_the_index_goes_on(
    tmp_path: Path, index: Path, snapshots: SnapshotFolder
) -> None:
    with contextlib.closing(Store.open(store_folder(index))) as store:
        flush(store, range(50), b"50")
        checkpoint = StoreCheckpoint(index, store)
        for row in range(50, 150):
            flush(store, [row], b"more")
        snapshots.take(checkpoint, 0, threading.Event())
        checkpoint.remove()
    snapshots.restore(tmp_path / "again")
    holds(tmp_path / "again", 50)


@in_both_places
def test_a_snapshot_given_up_is_none(index: Path, snapshots: SnapshotFolder, home: Path) -> None:
    grow(index, range(50))
    stopping = threading.Event()
    stopping.set()
    with contextlib.closing(Store.open(store_folder(index))) as store:
        checkpoint = StoreCheckpoint(index, store)
        with pytest.raises(SnapshotStopped):
            snapshots.take(checkpoint, 0, stopping)
        checkpoint.remove()
    assert snapshots.numbers() == []
    assert not any(path.is_file() for path in home.rglob("*.json"))
    assert not any(path.is_file() for path in home.glob("files/*"))


def regular(
    index: Path, to: SnapshotFolder, now: list[float], reported: list[Taken | errors.StreamerError]
) -> RegularSnapshots:
    return RegularSnapshots(index, to, 60.0, 2, reported.append, lambda: now[0])


def test_regular_snapshots_are_due_if_there_is_news(index: Path, snapshots: SnapshotFolder) -> None:
    now, reported = [1000.0], list[Taken | errors.StreamerError]()
    with contextlib.closing(Store.open(store_folder(index))) as store:
        each = regular(index, snapshots, now, reported)
        assert not each.is_due(0), "there is nothing yet"
        assert each.is_due(0, changed=True)
        flush(store, [0], b"1")
        assert each.is_due(1)
        each.begin(store)
        assert not each.is_due(1, changed=True)
        each._thread.submit(int).result()  # noqa: SLF001 - after what was begun
        now[0] += 61
        assert not each.is_due(1), "nothing is new"
        assert each.is_due(1, changed=True)
        each.stop()
        [taken] = reported
        assert isinstance(taken, Taken)
        again = regular(index, snapshots, now, reported)
        assert not again.is_due(2), "the newest is of just now"
        now[0] += 61
        assert again.is_due(2)
        assert not again.is_due(1)


def fail(*_any: object) -> Taken:
    raise RuntimeError("a client's own error")


@pytest.mark.parametrize(
    ("take", "said"),
    [
        (SnapshotFolder.take, r"file cannot be used: .*Free space there"),
        (fail, "failed: RuntimeError: a client's own error."),
    ],
    ids=["no folder", "unforeseen"],
)
def test_a_snapshot_that_fails_is_told_and_the_next_is_tried(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch, take: Any, said: str
) -> None:
    now, reported = [0.0], list[Taken | errors.StreamerError]()
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(SnapshotFolder, "take", take)
    with contextlib.closing(Store.open(store_folder(index))) as store:
        each = regular(index, SnapshotFolder(tmp_path / "file"), now, reported)
        flush(store, [0], b"1")
        each.begin(store)
        each._thread.submit(int).result()  # noqa: SLF001 - after what was begun
        assert not each.is_due(1)
        now[0] += 61
        assert each.is_due(1)
    [error] = reported
    assert isinstance(error, errors.StreamerError)
    assert re.search(said, str(error))
    assert not (index / "checkpoint").exists()


def test_folders_of_indexes_and_snapshots_are_closed_to_others(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        grow(tmp_path / "above" / "index", range(50))
        to = SnapshotFolder(tmp_path / "all" / "snapshots")
        take_snapshot(tmp_path / "above" / "index", to, 0)
        to.restore(tmp_path / "again", None)
    finally:
        os.umask(before)
    folders = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert {path.name for path in folders} >= {"above", "index", "store", "snapshots", "files"}
    assert {path.stat().st_mode & 0o777 for path in folders} <= {0o750, 0o700}


@pytest.mark.parametrize("given", [{}, {"AWS_ACCESS_KEY_ID": "a"}, {"AWS_REGION": "r"}])
def test_s3_without_credentials_names_the_variables_before_any_request(
    given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("obstore")
    for name in [name for name in os.environ if name.upper().startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(
        errors.SettingsError, match="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    ):
        SnapshotFolder("s3://bucket/index")


def test_a_snapshot_of_another_format_is_refused(
    tmp_path: Path, index: Path, snapshots: SnapshotFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("streamer.stored.store.FORMAT", 99)
        patch.setattr("streamer.stored.opening.FORMAT", 99)
        grow_and_take(index, snapshots, range(5))
    with pytest.raises(errors.StoreMismatch, match="has format 99"):
        snapshots.restore(tmp_path / "again")
    assert not (tmp_path / "again").exists()


@in_both_places
def test_the_commands_copy_and_make_all_shards(tmp_path: Path, snapshots: SnapshotFolder) -> None:
    for shard in (0, 1):
        grow(tmp_path / "index" / f"shard-{shard}", range(10 + shard))
    code, said = ended("snapshot", tmp_path / "index", snapshots.name, "--keep", 1)
    assert (code, said.count("Snapshot 1 in ")) == (0, 2)
    assert "flush 1, 11 pages" in said
    code, said = ended("restore", snapshots.name, tmp_path / "again")
    assert (code, said.count("Snapshot 1 in ")) == (0, 2)
    for shard in (0, 1):
        holds(tmp_path / "again" / f"shard-{shard}", 10 + shard)
    code, said = ended("restore", snapshots.name, tmp_path / "third", "--snapshot", 7)
    assert (code, "has no snapshot 7; it has 1." in said) == (1, True)
