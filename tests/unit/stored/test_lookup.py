"""Look-ups in bounded memory, where postings without room are frozen; the lock of readers."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from streamer.errors import StoreUnavailable
from streamer.index.codec import BANDS, entry_key
from streamer.index.postings import KEYS_END
from streamer.stored import lookup as module
from streamer.stored.database import Database
from streamer.stored.deep_check import check_index
from streamer.stored.lookup import SharedLock, StoredLookup
from streamer.stored.row_blocks import RowKeys
from streamer.stored.store import Store
from tests.helpers.stored_rows import POSTINGS_A_ROW, assert_holds, flushed, keys_of


def flush(store: Store, lookup: StoredLookup, rows: Sequence[int]) -> None:
    lookup.refresh(store.flush({"bands": 14}, flushed(rows), b""))


def bounded(store: Store, flushes: int, memory_max: int | None = 0) -> StoredLookup:
    """Return a lookup after flushes of a hundred rows; without memory each of them is frozen."""
    lookup = StoredLookup(store, memory_max)
    for first in range(0, 100 * flushes, 100):
        flush(store, lookup, range(first, first + 100))
    lookup.wait()
    return lookup


def found(lookup: StoredLookup, rows: Sequence[int]) -> list[int]:
    numbers: list[int] = lookup.find(keys_of(rows)).rows.tolist()
    return numbers


SOON = 0.05
LONG = 20.0


@pytest.mark.parametrize(("most", "merged"), [(100, False), (0, True)])
def test_a_table_that_is_full_waits_for_no_merge_unless_generations_are_many(
    store: Store, monkeypatch: pytest.MonkeyPatch, most: int, *, merged: bool
) -> None:
    lookup = bounded(store, 3)
    monkeypatch.setattr(module, "GENERATIONS_MAX", most)
    merge, frozen = lookup.frozen.merge, threading.Event()

    def slow_merge() -> bool:
        assert frozen.wait(LONG)
        return merge()

    monkeypatch.setattr("streamer.stored.generations.STEP_BYTES", 1000)
    monkeypatch.setattr(lookup.frozen, "merge", slow_merge)
    flush(store, lookup, range(300, 400))  # the fourth
    waiting = Thread(target=flush, args=(store, lookup, range(400, 500)))
    waiting.start()
    while not lookup._is_awaited:  # noqa: SLF001 - whoever waits says so in no other way
        time.sleep(0.001)
    levels: list[int] = []
    frozen_before = lookup.frozen.freeze

    def freeze(*arguments: Any) -> None:
        levels.extend(each.high == KEYS_END for each in lookup.frozen.note.generations)
        frozen_before(*arguments)

    monkeypatch.setattr(lookup.frozen, "freeze", freeze)
    frozen.set()
    waiting.join(LONG)
    lookup.wait()
    assert all(levels) == merged, "the merge has ended before the next table was frozen"
    assert len(lookup.frozen.note.generations) == 2
    lookup.close()


def test_filters_and_tables_take_what_they_are_said_to_take(store: Store) -> None:
    lookup = bounded(store, 1, memory_max=1 << 30)
    assert lookup.frozen.note.count == 0, "there is room"
    assert lookup.memory_bytes == lookup.table.size_bytes
    lookup.close()
    lookup = bounded(store, 1)
    assert lookup.memory_bytes == lookup.table.size_bytes + lookup.frozen.note.filter_bytes
    assert lookup.frozen.note.filter_bytes >= 200 * POSTINGS_A_ROW * 12 / 8
    lookup.close()


def test_a_start_reads_no_frozen_keys(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    bounded(store, 2).close()
    flush(store, bounded(store, 0, memory_max=None), range(200, 210))
    read: list[range] = []
    inner = store.read_keys

    def read_keys(blocks: range, *, whole: bool) -> RowKeys | None:
        read.append(blocks)
        return inner(blocks, whole=whole)

    monkeypatch.setattr(store, "read_keys", read_keys)
    opened = StoredLookup(store)
    assert [block for part in read for block in part] == [2], "the third flush's"
    assert opened.table.count == 10 * POSTINGS_A_ROW
    assert found(opened, range(300)) == [row for row in range(210) for _ in range(POSTINGS_A_ROW)]


def test_with_less_memory_a_start_freezes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    bounded(store, 5, memory_max=None).close()
    monkeypatch.setattr(module, "_ROUND_POSTINGS_MIN", 1)
    monkeypatch.setattr(module, "_ROWS_A_PART", 512)
    lookup = StoredLookup(store, 0)
    assert lookup.frozen.note.count == 500 * POSTINGS_A_ROW
    assert found(lookup, range(600)) == [row for row in range(500) for _ in range(POSTINGS_A_ROW)]
    flush(store, lookup, range(500, 510))
    lookup.close()
    assert_holds(store, range(510))


def test_a_large_table_is_frozen_at_the_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FROZEN_AT_THE_END", 300 * POSTINGS_A_ROW)
    bounded(store, 2, memory_max=1 << 30).close()
    assert StoredLookup(store).frozen.note.count == 0, "it is not large yet"
    lookup = StoredLookup(store, 1 << 30)
    flush(store, lookup, range(200, 300))
    lookup.close()
    lookup.close()
    assert lookup.frozen.note.count == 300 * POSTINGS_A_ROW
    opened = StoredLookup(store)
    assert opened.table.count == 0
    assert found(opened, range(400)) == [row for row in range(300) for _ in range(POSTINGS_A_ROW)]


def test_a_table_in_part_is_not_frozen(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FROZEN_AT_THE_END", 1)
    lookup = bounded(store, 1, memory_max=1 << 30)
    store.flush({"bands": 14}, flushed(range(100, 200)), b"")  # and the table does not get it
    lookup.close()
    assert lookup.frozen.note.count == 0
    assert_holds(store, range(200))


def test_of_a_known_page_one_key_is_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    lookup = bounded(store, 1)
    read: list[int] = []
    inner = store.band_blocks

    def band_blocks(blocks: Sequence[int]) -> list[bytes]:
        read.extend(blocks)
        return inner(blocks)

    monkeypatch.setattr(store, "band_blocks", band_blocks)
    assert found(lookup, [7]) == [7] * POSTINGS_A_ROW
    assert len(read) == 1
    read.clear()
    assert found(lookup, range(100, 120)) == []
    assert len(read) <= 3, "but for what a filter lets through"
    lookup.close()


def test_a_disk_that_refuses_what_is_frozen_is_told_of_and_nothing_is_lost(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_entries: object) -> None:
        raise StoreUnavailable("The disk is full.")

    lookup, failed = bounded(store, 1), list[str]()
    with monkeypatch.context() as patch:
        patch.setattr(store, "write_bands", refuse)
        store.failed = failed.append
        flush(store, lookup, range(100, 200))
        with pytest.raises(StoreUnavailable, match="full"):
            lookup.wait()
        expected = [row for row in range(200) for _ in range(POSTINGS_A_ROW)]
        assert found(lookup, range(200)) == expected
    assert failed == ["freeze"]
    said = "The keys of kept pages could not be frozen. The disk is full."
    assert [each.getMessage() for each in caplog.records] == [said]
    lookup.close()
    assert_holds(store, range(200))


def test_a_deep_check_reads_what_is_frozen(store: Store, folder: Path) -> None:
    bounded(store, 1).close()
    [finding] = [each for each in check_index(folder.parent) if each.part.startswith("frozen")]
    assert finding.damage == []
    assert finding.size >= 8 * 100 * POSTINGS_A_ROW
    store.write_bands([[(entry_key(BANDS, 7), bytes(8))]])
    [finding] = [each for each in check_index(folder.parent) if each.part.startswith("frozen")]
    assert "generation 0 of its bands" in finding.damage[0]


def test_a_checkpoint_keeps_notes_waiting(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would have the note, but not the files that were written before."""
    bounded(store, 1).close()
    noting = Thread(target=store.put_note, args=(b"key", b"value"))

    def checkpoint(_database: Database, _folder: Path) -> None:
        noting.start()
        noting.join(0.05)
        assert store.note(b"key") is None

    monkeypatch.setattr(Database, "checkpoint", checkpoint)
    store.checkpoint()
    noting.join()
    assert store.note(b"key") == b"value"


def test_who_has_it_alone_waits_for_those_that_share_it_and_keeps_others_out() -> None:
    lock, seen = SharedLock(), list[str]()
    inside, leave = threading.Semaphore(0), threading.Event()

    def share(name: str) -> None:
        with lock.shared():
            inside.release()
            leave.wait(LONG)
            seen.append(name)

    def alone() -> None:
        with lock.alone():
            seen.append("alone")

    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(share, "before") for _ in range(2)]
        assert all(inside.acquire(timeout=LONG) for _ in calls), "both at once"
        calls.append(pool.submit(alone))
        while not lock._waiting:  # noqa: SLF001 - there is no other sign that it waits
            time.sleep(0.001)
        calls.append(pool.submit(share, "after"))
        time.sleep(SOON)
        assert seen == []
        leave.set()
        for done in calls:
            done.result(LONG)
    assert seen == ["before", "before", "alone", "after"]


def test_an_error_inside_lets_go_of_the_lock() -> None:
    lock = SharedLock()
    for hold in (lock.shared, lock.alone, lock.shared):
        with pytest.raises(ZeroDivisionError), hold():
            divmod(1, 0)
    with lock.alone():
        assert lock._sharing == 0  # noqa: SLF001
