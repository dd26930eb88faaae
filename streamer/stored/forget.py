"""Forget stored pages: find them by a scan, and overwrite them.

A forgotten row leaves its slot empty: no number, no key, no URL, no sketch. Blocks are rewritten a
few at a time, together with the part of the state that describes them. So a crash leaves an index
that has forgotten some of the pages, and the caller starts again. At the end the files of these
blocks are rewritten too, because the old bytes would stay in them.

What is to be forgotten is part of the shard's state until all is done. A log puts it there, and a
sweep follows a flush. While nothing else writes the index, a command puts it there and sweeps.
"""

# A sweep takes some seconds per million rows. Tombstones are swept every hour or every 100,000,
# commands as soon as possible. Sweeps take a quarter of the time at most, so a rebuild does not
# sweep for each command of a year. Expired rows are dropped in stretches of slots, a sixteenth of
# the rows or a flush each; RocksDB would put the note of a deletion into a file that spans the
# whole range, so the note gets a file of its own and is merged at once.

import itertools
from collections import Counter
from collections.abc import Callable, Iterator

import msgspec
import numpy as np
import numpy.typing as npt

from streamer.index import codec
from streamer.index.codec import SHINGLES, Entry, ShardState, Stretch
from streamer.index.forgetting import Forgetting, Terms
from streamer.index.log_time import LogTime
from streamer.index.messages import Forget
from streamer.index.ports import BEFORE_ALL, FlushedRows, KeptRows
from streamer.index.url_versions import is_hidden
from streamer.stored import row_blocks
from streamer.stored.generations import thaw
from streamer.stored.row_blocks import NO_ROW, ROWS_A_BLOCK, SLOTS_A_KEY_BLOCK, RowKeys
from streamer.stored.store import Store

_BLOCKS_AT_ONCE = 8  # of keys, and of the rows that belong to them: some 2 MB
_VERSIONS_AT_ONCE = 4096
_UNFINISHED = b"forgetting"  # the note that there is while a command forgets

Mask = npt.NDArray[np.bool_]
Progress = Callable[[int], None]  # called with the number of blocks of keys that were read


def forget(
    store: Store, wanted: Forget, *, dry_run: bool, progress: Progress = lambda _blocks: None
) -> int:
    """Forget kept pages of an index that is not in use, or only count them; return their number.

    What is wanted is put into the state, as a log would do it, and swept. The versions of URLs that
    are named go with the pages. When this returns, nothing of the pages is in the store. Where
    nothing is named, nothing is written.

    Raises:
        StoreDamaged: something of the index cannot be read.
        StoreUnavailable: the disk refuses; some of the pages may be forgotten then.
    """
    if store.meta is None:
        return 0
    wanted = LogTime(_state(store).time).terms_by_rows(wanted)
    pages, any_named = _look(store, Terms.of(wanted), progress)
    if dry_run or not (any_named or _is_unfinished(store)):
        return pages
    store.put_note(_UNFINISHED, b"1")
    thaw(store)  # what is frozen has their keys
    _order(store, wanted)
    sweep(store, again=True)
    store.put_note(_UNFINISHED, b"")
    store.reopen()  # the list of files that there were has keys of their first and last entries
    return pages


def _look(store: Store, wanted: Terms, progress: Progress) -> tuple[int, bool]:
    """Return how many kept pages are named, and whether anything is that must be swept."""
    hidden = Forgetting(_state(store).forgotten)
    counts: Counter[str] = Counter()
    any_named = False
    for done, block in enumerate(store.key_blocks, 1):
        found = _find(store, range(block, block + 1), wanted, counts, hidden)
        any_named |= any(list(found))
        progress(done)
    any_named = any_named or any(is_hidden(wanted, version) for _, version in store.scan_urls())
    return counts.total(), any_named


def _is_unfinished(store: Store) -> bool:
    """Return whether a process was killed before it had swept all that was to be forgotten."""
    return store.note(_UNFINISHED) is not None or bool(_state(store).forgotten.terms)


def _order(store: Store, wanted: Forget) -> None:
    """Have the state say what is to be forgotten, as a record of a log would."""
    state = _state(store)
    own = Forgetting(state.forgotten)
    own.records += 1
    own.accept(wanted, Terms.of(wanted, state.next_row, own.records))
    state.forgotten = own.pack()
    store.replace([], state=codec.pack_state(state))


def _state(store: Store) -> ShardState:
    return codec.unpack_state(store.known.state)


def sweep(store: Store, *, again: bool) -> Counter[str]:
    """Have nothing stored any more of what the state says is to be forgotten, nor in the state.

    It is done `again` where a process may have ended in the midst of it. Others may look up
    meanwhile. Return how many rows that were, by the commands that wanted it.

    Raises:
        StoreDamaged, StoreUnavailable: as `forget`.
    """
    state = _state(store)
    own, terms = Forgetting(state.forgotten), Terms(state.forgotten.terms)
    found, blocks = _write_over_all(store, terms)
    versions = _forget_versions(store, terms)
    store.settle(None if again else blocks, urls=versions)
    own.begin_sweep()
    own.end_sweep(found)
    state.forgotten = own.pack()
    store.replace([], state=codec.pack_state(state))
    store.settle(range(0))  # what the state before has named
    return found


def _write_over_all(store: Store, terms: Terms) -> tuple[Counter[str], range]:
    """Write over what the terms name; return counts, and what blocks that was in."""
    counts: Counter[str] = Counter()
    blocks, written = store.key_blocks, list[int]()
    for first in blocks[::_BLOCKS_AT_ONCE] if len(terms) else ():
        part = range(first, min(first + _BLOCKS_AT_ONCE, blocks.stop))
        if found := list(_find(store, part, terms, counts, None)):
            _write_over(store, found)
            written += [part.start, part.stop]
    return counts, range(min(written, default=0), max(written, default=0))


def _forget_versions(store: Store, wanted: Terms) -> bool:
    """Forget the versions of the named URLs; return whether there were any."""
    any_named = False
    versions = store.scan_urls() if len(wanted) else iter(())
    while part := list(itertools.islice(versions, _VERSIONS_AT_ONCE)):
        named = [key for key, version in part if is_hidden(wanted, version)]
        store.forget_urls(named)
        any_named |= bool(named)
    return any_named


Found = tuple[RowKeys, KeptRows, Mask]


def _find(
    store: Store, blocks: range, wanted: Terms, counts: Counter[str], hidden: Forgetting | None
) -> Iterator[Found]:
    """Yield each block of keys with its rows, and which of them are to be forgotten, if any.

    Those that answer pages until now are counted: not what has expired, or is `hidden`.
    """
    horizon = store.known.horizon
    for number in blocks:
        keys = store.read_keys(range(number, number + 1))
        if keys is None or not len(keys.rows):
            continue
        kept = row_blocks.gather_rows(row_blocks.rows_at(keys.slots, store.row_blocks))
        if named := wanted.find(keys.rows, np.array(kept.refs, np.uint64), kept.urls, kept.times):
            times = hidden.hide(kept, keys.rows).times if hidden is not None else kept.times
            answers = horizon.has(times, keys.rows) & (times > BEFORE_ALL)
            counts.update(ask for place, ask in named.items() if answers[place])
            gone = np.zeros(len(keys.rows), np.bool_)
            gone[[*named]] = True
            yield keys, kept, gone


def _write_over(store: Store, found: list[Found]) -> None:
    meta = store.known
    rows, postings, stretches = 0, 0, meta.stretches
    rows_of, keys_of, sets_of = list[Entry](), list[Entry](), list[Entry]()
    for keys, kept, gone in found:
        first = int(keys.slots[0]) // SLOTS_A_KEY_BLOCK * SLOTS_A_KEY_BLOCK
        left = _drop(keys, kept, gone, first)
        rows_of += row_blocks.row_entries(left, first)
        keys_of += row_blocks.key_entries(left, first)
        if store.has_shingles:
            slots = keys.slots[gone].tolist()
            sets_of += ((codec.entry_key(SHINGLES, slot), b"") for slot in slots)
        some, posted = int(gone.sum()), int(np.bitwise_count(keys.masks[gone]).sum())
        rows, postings = rows + some, postings + posted
        stretches = _fewer_in(stretches, first, some, posted)
    store.replace(
        [sets_of, rows_of, keys_of], rows=meta.rows - rows, postings=meta.postings - postings,
        forgotten=meta.forgotten + rows, stretches=stretches,
    )  # fmt: skip


def _drop(keys: RowKeys, kept: KeptRows, gone: Mask, first: int) -> FlushedRows:
    """Return the rows of a block that begins with slot `first`, those empty that are gone."""
    # Blocks never become shorter: who looks up may still ask for a row that was the last of one.
    count = -(-(int(keys.slots[-1]) + 1 - first) // ROWS_A_BLOCK) * ROWS_A_BLOCK
    there = ~gone
    at = keys.slots[there] - first
    sketches = np.zeros((count, kept.sketches.shape[1]), np.uint64)
    left = FlushedRows(
        np.full(count, NO_ROW),
        np.zeros(count, np.uint64),
        sketches,
        np.zeros((count, keys.keys.shape[1]), np.uint64),
        np.zeros(count, np.uint64),
        [b""] * count,
        np.full(count, BEFORE_ALL),
        b"",
    )
    stays = kept.take(np.flatnonzero(there))
    left.rows[at], left.keys[at], left.masks[at] = (
        keys.rows[there], keys.keys[there], keys.masks[there],
    )  # fmt: skip
    left.refs[at], left.sketches[at], left.times[at] = stays.refs, stays.sketches, stays.times
    for place, url in zip(at.tolist(), stays.urls, strict=True):
        left.urls[place] = url
    return left


def _fewer_in(stretches: list[Stretch], slot: int, rows: int, postings: int) -> list[Stretch]:
    """Return the stretches, with fewer rows and postings in the one that has a slot."""
    place = next(i for i, stretch in enumerate(stretches) if slot < stretch.end)
    old = stretches[place]
    new = msgspec.structs.replace(old, rows=old.rows - rows, postings=old.postings - postings)
    return [*stretches[:place], new, *stretches[place + 1 :]]
