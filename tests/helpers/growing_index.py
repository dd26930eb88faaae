"""An index of rows that grows by flushes, and a process that takes snapshots of it on and on."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import xxhash

from streamer.run.index_folder import store_folder
from streamer.stored.deep_check import check_index
from streamer.stored.store import Store
from streamer.upkeep.snapshots import SnapshotFolder, Taken, take_snapshot
from tests.helpers.stored_rows import assert_holds, flush

# Arguments: the index, its snapshots, the rows of a flush, and a folder to restore to, if any.
TAKING_SNAPSHOTS = """
import shutil, sys
from pathlib import Path
from streamer.stored.store import Store
from streamer.run.index_folder import store_folder
from streamer.upkeep.snapshots import SnapshotFolder, Taken, take_snapshot
from tests.helpers.stored_rows import flush
index, snapshots, step = Path(sys.argv[1]), SnapshotFolder(sys.argv[2]), int(sys.argv[3])
while True:
    store = Store.open(store_folder(index))
    rows = int(store.meta.owner) if store.meta else 0
    flush(store, range(rows, rows + step), str(rows + step).encode())
    store.close()
    take_snapshot(index, snapshots, 3)
    print(rows + step, flush=True)
    for again in sys.argv[4:]:
        old = Path(f"{again}.old")  # so that a kill leaves no half of it in its place
        shutil.rmtree(old, ignore_errors=True)
        if Path(again).exists():
            Path(again).rename(old)
        snapshots.restore(Path(again))
"""


def grow(index: Path, *flushes: range) -> None:
    """Flush these rows; the owner's state is how many there are."""
    with contextlib.closing(Store.open(store_folder(index))) as store:
        for each in flushes:
            flush(store, each, str(each.stop).encode())


def grow_and_take(index: Path, snapshots: SnapshotFolder, rows: range) -> Taken:
    """Flush these rows, and take a snapshot that removes no other."""
    grow(index, rows)
    return take_snapshot(index, snapshots, 0)


def files_of_two_snapshots(index: Path, snapshots: SnapshotFolder) -> set[str]:
    """Take six snapshots of a growing index, keep two; return the digests of their files."""
    for rows in range(0, 60, 10):
        grow(index, range(rows, rows + 10))
        take_snapshot(index, snapshots, 2)
    assert snapshots.numbers() == [5, 6]
    return {file.digest for number in (5, 6) for file in snapshots.read(number).files}


def holds(index: Path, rows: int) -> None:
    """Assert that an index has the first `rows` rows, and no damage."""
    with contextlib.closing(Store.open(store_folder(index), writable=False)) as store:
        assert (store.meta and store.meta.owner) == str(rows).encode()
        assert_holds(store, range(rows))
    assert not any(finding.damage for finding in check_index(index))


def forge(path: Path, change: Callable[[list[dict[str, str]]], None]) -> None:
    """Change the files that the snapshot in a file names; the file fits its digest again."""
    snapshot = msgspec.json.decode(path.read_bytes())["snapshot"]
    change(snapshot["files"])
    packed = msgspec.json.encode(snapshot)
    sealed = {"digest": xxhash.xxh3_128_hexdigest(packed), "snapshot": msgspec.Raw(packed)}
    path.write_bytes(msgspec.json.encode(sealed))


def everything(folder: Path) -> dict[str, bytes | None]:
    """Return the bytes of each file in a folder, and None for each folder, by name."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }
