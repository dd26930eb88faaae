"""Renewal: a duplicate makes the page that it is a duplicate of answer for longer.

A kept page that is inserted again has a later time and a later row, and so expires later. Nothing
else has to know: its older row goes on answering until it expires, under the same page ref. So no
row is ever changed, neither a flush nor a sweep shows, and rows are dropped in the order in which
they came. A page is inserted again once half of its age is over. So it has two rows at most at a
time, its keys are read twice in a lifetime at most, and it answers for at least half of the age
after it was met last. To insert it at each match would fill its buckets with itself.

A shard renews what it finds under the keys of a duplicate on arrival. Shards behind it get the page
once more, which is judged already, and renew the same representative if it shares a key there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.index.batch import Batch
from streamer.index.memtable import KEPT, Memtable
from streamer.index.messages import Pages
from streamer.index.ports import Lookup
from streamer.model import SIMILARITY_ONE
from streamer.sketch.signer import DISTINCT_MAX

NEVER = SIMILARITY_ONE + 1  # a threshold that nothing reaches


class RenewedPage(NamedTuple):
    """What a shard has of a kept page: all that it needs to insert the page again.

    `keys` are its own at the shard, and bit j of `mask` says whether it is posted under keys[j].
    """

    ref: int
    url: bytes
    sketch: npt.NDArray[np.uint64]
    keys: npt.NDArray[np.uint64]
    mask: int
    shingles: bytes


def kept_page(batch: Batch, at: tuple[int, int], memtable: Memtable, lookup: Lookup) -> RenewedPage:
    """Return the kept page that is a candidate of a page of the batch, by its place and row."""
    place, row = at
    has_sets = bool(batch.limits.exact)
    if place >= 0:
        own = memtable.shingles[place] if has_sets else b""
        columns = (
            memtable.sketches[place].copy(),
            memtable.keys[place].copy(),
            int(memtable.masks[place]),
        )
        return RenewedPage(int(memtable.refs[place]), memtable.urls[place], *columns, own)
    own = lookup.shingles(np.array([row]))[0] if has_sets else b""
    fetched, stored = batch.fetched, -1 - place
    about = fetched.refs[stored], fetched.urls[stored], fetched.sketches[stored]
    return RenewedPage(*about, *lookup.keys(row), own)


def again(kept: RenewedPage, time: int, columns: list[int], keys: int) -> Pages:
    """Return a kept page as one that comes at this time.

    `columns` are where the shard's own keys are among all `keys` of a page.
    """
    own = np.zeros((1, keys), np.uint64)
    own[0, columns] = kept.keys
    times = np.array([time])
    return Pages(
        np.array([kept.ref], np.uint64), own, kept.sketch.reshape(1, -1),
        np.array([DISTINCT_MAX], np.uint8), np.array([1], np.uint32), np.zeros(1, np.int64),
        [kept.url], [None], [b""], times, times, shingles=[kept.shingles],
    )  # fmt: skip


def unmatched(batch: Batch, mask: int) -> Batch:
    """Return a batch of one page that is kept whatever there is, with keys as the mask says."""
    arrivals = batch.arrivals._replace(
        masks=np.array([mask], np.uint64),
        final=np.ones(1, np.bool_),
        similarity_min=np.array([NEVER], np.int32),
        elsewhere=np.full(1, -1, np.int32),
    )
    return replace(batch, arrivals=arrivals, limits=batch.limits._replace(margin=0, contained=0))


def old_row_of(ref: int, batch: Batch, memtable: Memtable, next_row: int) -> tuple[int, int] | None:
    """Return the place and row of the kept page with a ref if the one page of a batch renews it.

    It does if they share a key here, and the newest row of the kept page is old, but answers.
    """
    limits, stored, time = batch.limits, batch.stored, int(batch.arrivals.times[0])
    found = [
        (row, -1 - at, int(stored.times[at]))
        for row, at in zip(stored.rows.tolist(), stored.places.tolist(), strict=True)
        if at >= 0 and batch.fetched.refs[at] == ref
    ]
    found += [
        (int(memtable.rows[entry]), entry, int(memtable.times[entry]))
        for entry in np.flatnonzero(memtable.refs[: memtable.count] == np.uint64(ref)).tolist()
        if KEPT <= memtable.states[entry] <= limits.newest_state
        and _share_a_key(batch, memtable, entry)
    ]
    oldest_time = max(time - limits.expire_after, limits.oldest_time)
    oldest_row = max(next_row - limits.keep_pages, limits.oldest_row)
    answering = [each for each in found if each[2] >= oldest_time and each[0] >= oldest_row]
    if not answering:
        return None
    row, place, own_time = max(answering)
    is_old = own_time < time - limits.renew_after or row < next_row - limits.renew_rows
    return (place, row) if is_old else None


def _share_a_key(batch: Batch, memtable: Memtable, entry: int) -> bool:
    """Return whether an entry of the memtable is posted under a key of the one page of a batch."""
    both = int(memtable.masks[entry]) & int(batch.arrivals.masks[0])
    agrees = (memtable.keys[entry] == batch.arrivals.keys[0]).tolist()
    return any(same and both >> bit & 1 for bit, same in enumerate(agrees))
