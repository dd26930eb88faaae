"""The store: whole flushes or none, and every answer the same after restarts."""

import numpy as np
import numpy.typing as npt
import pytest

from streamer.index.messages import Keys
from streamer.index.postings import PARTS, Places, segments_of
from streamer.stored.lookup import StoredLookup
from streamer.stored.rows import StoredRows
from streamer.stored.store import Store
from tests.helpers.stored_rows import flush, flushed, keys_of


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
