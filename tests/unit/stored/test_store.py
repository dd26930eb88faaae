"""The store: what it keeps, and what it says where the disk or the system refuses."""

import contextlib
import os
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from streamer.errors import StoreDamaged, StoreMismatch, StoreUnavailable
from streamer.index.codec import FORMAT, KEYS, ROWS, STATE_KEY
from streamer.index.messages import Keys
from streamer.index.postings import PARTS, Places, segments_of
from streamer.stored.database import Database
from streamer.stored.deep_check import check_index
from streamer.stored.lookup import StoredLookup
from streamer.stored.row_blocks import SLOTS_A_KEY_BLOCK, key_entries, row_entries
from streamer.stored.rows import StoredRows, scan_rows
from streamer.stored.store import Store
from tests.helpers.damage import sorted_files
from tests.helpers.kills import output_of, piped
from tests.helpers.stored_rows import assert_holds, flush, flushed, keys_of


def test_keys_never_posted_read_no_disk(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    read = Store.row_blocks

    def listen(store: Store, blocks: list[int]) -> list[bytes]:
        asked.extend(blocks)
        return read(store, blocks)

    flush(store, range(100))
    lookup = StoredLookup(store)
    monkeypatch.setattr(Store, "row_blocks", listen)
    lookup.find(keys_of(range(5000, 6000)))
    assert not asked
    lookup.find(keys_of(range(10)))
    assert len(asked) == 2, "blocks of eight rows"


def test_postings_of_a_flush_are_found_when_it_is_there_as_a_whole(store: Store) -> None:
    flush(store, range(20))
    lookup = StoredLookup(store)
    postings = flush(store, range(20, 40)).postings
    for part in range(PARTS // 2):
        lookup.table.add(postings, segments_of(part))
    found = lookup.find(keys_of(range(40)))
    assert (found.flushes, set(found.rows.tolist())) == (0, set(range(20)))
    lookup = StoredLookup(store)
    lookup.refresh(flush(store, range(40, 60)))
    found = lookup.find(keys_of(range(80)))
    assert (found.flushes, set(found.rows.tolist())) == (1, set(range(60)))


def test_a_key_posted_in_another_column_is_found_as_in_the_head(store: Store) -> None:
    flush(store, range(20))
    turned = np.roll(keys_of(range(20)), 1, axis=1)
    assert StoredLookup(store).find(turned).rows.tolist() == sorted([*range(20)] * 3)


def test_rows_of_a_crowd_are_compared_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    posted = StoredRows.posted

    def listen(rows: StoredRows, numbers: Places, keys: Keys) -> npt.NDArray[np.bool_]:
        compared.append(len(numbers))
        return posted(rows, numbers, keys)

    crowd = flushed(range(64))
    crowd.keys[:, 0] = keys_of([7])[0, 0]
    store.flush({}, crowd, b"")
    monkeypatch.setattr(StoredRows, "posted", listen)
    asked = np.repeat(crowd.keys[:1], 1000, axis=0)
    assert len(StoredLookup(store).find(asked).rows) == 1000 * (64 + 2)
    assert sum(compared) == 64 + 2 * 1000


def test_a_reader_of_a_missing_index_says_which_folder_to_name(folder: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"There is no index in .*--index"):
        Store.open(folder, writable=False)
    assert not folder.exists()


def test_a_second_writer_is_told_that_the_index_is_in_use(folder: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from streamer.stored.store import Store\n"
        "store = Store.open(Path(sys.argv[1])); print('open', flush=True); sys.stdin.read()"
    )
    with piped(program, folder) as other:
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(StoreUnavailable, match=r"in use by another process\. Wait"):
            Store.open(folder)
    Store.open(folder).close()


def test_another_format_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, contextlib.closing(Store.open(folder)) as store:
        patch.setattr("streamer.stored.store.FORMAT", 99)
        flush(store, [0])
    for _ in range(2):  # a refusal leaves no lock behind
        with pytest.raises(StoreMismatch, match=rf"has format 99, .* {FORMAT}\. Use the version"):
            Store.open(folder)


def test_a_store_of_something_else_is_refused(folder: Path) -> None:
    with contextlib.closing(Database.write_to(folder)) as database:
        database.write([], (b"zzz", b"not ours"))
    for _ in range(2):
        with pytest.raises(StoreMismatch, match="holds something else than an index"):
            Store.open(folder)


@pytest.mark.parametrize("family", [ROWS, KEYS, STATE_KEY], ids=["rows", "keys", "state"])
def test_a_sorted_file_that_is_too_short_is_told_at_once(folder: Path, family: bytes) -> None:
    with contextlib.closing(Store.open(folder)) as store:
        flush(store, range(20))
    [path] = sorted_files(folder, family)
    for damage in (path.read_bytes()[:-1], b""):
        path.write_bytes(damage)
        with pytest.raises(StoreDamaged, match=rf"{folder} is damaged .*{path.name}"):
            Store.open(folder)


@pytest.mark.parametrize("damage", [b"\1\2\3", bytes(3000)], ids=["some bytes", "a hole"])
def test_a_damaged_block_of_rows_is_told_and_others_are_read(folder: Path, damage: bytes) -> None:
    with contextlib.closing(Store.open(folder)) as store:
        flush(store, range(40))
    [path] = sorted_files(folder, ROWS)
    data, half = path.read_bytes(), path.stat().st_size // 2
    path.write_bytes(data[:half] + damage + data[half + len(damage) :])
    with contextlib.closing(Store.open(folder)) as store:
        lookup = StoredLookup(store)
        assert lookup.rows(np.arange(3)).refs == [7, 8, 9]
        with pytest.raises(StoreDamaged, match=rf"{folder} is damaged .Corruption: block checksum"):
            lookup.rows(np.arange(40))
        assert lookup.rows(np.arange(3)).refs == [7, 8, 9]


def test_a_file_that_has_lost_its_end_since_it_was_opened_is_told(folder: Path) -> None:
    with contextlib.closing(Store.open(folder)) as store:
        flush(store, range(40))
    [path] = sorted_files(folder, ROWS)
    with contextlib.closing(Store.open(folder)) as store:
        lookup = StoredLookup(store)
        os.truncate(path, 5_000)
        with pytest.raises(StoreDamaged, match=path.name):
            lookup.rows(np.arange(40))


def test_what_a_killed_flush_has_left_is_passed_over_and_written_over(folder: Path) -> None:
    with contextlib.closing(Store.open(folder)) as store:
        flush(store, range(10))
        state = STATE_KEY, msgspec.msgpack.encode(store.meta)
    left = flushed(range(100, 900))
    with contextlib.closing(Database.write_to(folder)) as database:
        slot = SLOTS_A_KEY_BLOCK
        database.write([list(row_entries(left, slot)), list(key_entries(left, slot))], state)
    for first in (10, 20, 30):
        with contextlib.closing(Store.open(folder)) as store:
            assert_holds(store, range(first))
            assert [row for part in scan_rows(store) for row in part.rows.refs] == [
                row + 7 for row in range(first)
            ]
            flush(store, range(first, first + 10))
            assert_holds(store, range(first + 10))
        assert not any(finding.damage for finding in check_index(folder.parent))


MANY_FLUSHES = """
import resource, sys
from pathlib import Path
from tests.helpers.stored_rows import assert_holds, flush
from streamer.stored.store import Store
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
store = Store.open(Path(sys.argv[1]))
for row in range(600):
    flush(store, [row], bytes(100_000))
assert_holds(store, range(600))
"""


def test_flushes_do_not_use_up_the_files_that_a_process_may_have_open(folder: Path) -> None:
    assert output_of(MANY_FLUSHES, folder) == []


LIMITED = """
import resource, signal, sys
from pathlib import Path
from tests.helpers.stored_rows import flushed
from streamer.errors import StoreUnavailable
from streamer.stored.store import Store
store = Store.open(Path(sys.argv[1]))
rows = flushed(range(1, 900))
store.flush({}, flushed([0]), b"before")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for limit in (0, 5_000, 100_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        store.flush({}, rows, b"lost")
    except StoreUnavailable as error:
        print(store.meta.owner.decode(), error, flush=True)
"""


def test_a_disk_that_ends_within_a_flush_leaves_the_index_as_it_was(folder: Path) -> None:
    """A limit on the size of files is a disk that takes a part and no more, for any user."""
    with piped(LIMITED, folder) as process:  # a file would not take what it prints
        said = process.stdout.read().decode().splitlines()
    assert len(said) == 3
    assert all(line.startswith(f"before The index {folder.parent}") for line in said)
    assert all("File too large" in line for line in said)
    with contextlib.closing(Store.open(folder)) as store:
        assert (store.meta and store.meta.owner) == b"before"
        assert_holds(store, [0])
        flush(store, range(1, 900))
        assert_holds(store, range(900))


UNMERGED = """
import contextlib, logging, resource, signal, sys
from pathlib import Path
from tests.helpers.stored_rows import assert_holds, flush
from streamer.errors import StoreUnavailable
from streamer.stored.database import MERGED_FILES
from streamer.stored.store import Store
logging.basicConfig(format="%(message)s", stream=sys.stdout)
for number in range(MERGED_FILES):
    with contextlib.closing(Store.open(Path(sys.argv[1]))) as store:
        flush(store, range(100 * number, 100 * number + 100))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
for _ in range(20):  # where a merge at the opening fails first, RocksDB takes no flush
    with contextlib.closing(Store.open(Path(sys.argv[1]))) as store, \\
            contextlib.suppress(StoreUnavailable):
        store.failed = print
        flush(store, [100 * MERGED_FILES])
        assert_holds(store, range(100 * MERGED_FILES + 1))
        break
with contextlib.closing(Store.open(Path(sys.argv[1]))) as store:
    try:
        store.settle()
    except StoreUnavailable as error:
        print(error)
"""


def test_files_that_the_disk_does_not_take_merged_are_logged_and_counted(folder: Path) -> None:
    """RocksDB's `compact_range` says nothing of a failure; each file alone is below the limit."""
    said = output_of(UNMERGED, folder)
    assert "merge" in said
    assert [line for line in said if line.startswith("The index could not merge files")]
    assert said[-1].startswith(f"RocksDB could not merge files of the index {folder}"), said
    with contextlib.closing(Store.open(folder)) as store:
        assert_holds(store, range(1601))
