"""The filters of a shard as a file: a clean stop leaves it, and a start reads it, not all postings.

The file is no part of the truth. It is used only if it shows that it fits: it names the step of the
store that it was made at by a digest of that step's record, which the store must still have, and
each of its arrays has a digest. Runs that were flushed later are read as ever; if later ones were
merged, or if anything else is amiss, everything is built anew.

    digest of the header, its length u32, the header as MessagePack, then the arrays of u64, one
    after another: the parts of the overall filter, then each run's filter and crowded keys
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, NamedTuple

import mmh3
import msgspec
import numpy as np

from streamer.index.codec import RunMeta
from streamer.index.filter import GrowingFilter, KeyFilter
from streamer.index.postings import Keys
from streamer.index.run_keys import RunKeys

POSTINGS_MIN = 1 << 22  # of fewer, filters are built about as fast as a file is read

_DIGEST_BYTES = 16
_START = _DIGEST_BYTES + 4
_HEADER_BYTES_MAX = 1 << 20  # of some thousand runs

StepRecord = Callable[[int], bytes]  # of the step of the store with this seq; b"" if there is none


class Filters(NamedTuple):
    """What is in memory of the keys of runs: over all, and by the seq of each run."""

    overall: GrowingFilter
    runs: dict[int, RunKeys]


class _SavedRun(msgspec.Struct):
    seq: int
    capacity: int
    count: int
    crowded: int


class _Header(msgspec.Struct):
    """What the arrays are, and the digest of each; `overall` has capacities and counts."""

    layout: bytes
    seq: int
    step: bytes
    overall: list[tuple[int, int]]
    runs: list[_SavedRun]
    digests: list[bytes] = []


def saved_filters_path(store: Path, shard: int) -> Path:
    """Return where the filters of a shard lie: beside the store."""
    return store.parent / f"filters-{shard}"


def _digest(data: bytes | memoryview) -> bytes:
    """Return what tells whether bytes are the ones that were written."""
    return mmh3.mmh3_x64_128_digest(data)  # five times as fast as CRC-32, and wider


def save_filters(path: Path, filters: Filters, seq: int, record: bytes) -> None:
    """Write the filters of all runs at the step `seq`; leave no file where the disk refuses."""
    header = _Header(
        _layout(),
        seq,
        _digest(record),
        [(part.capacity, part.count) for part in filters.overall.parts],
        [
            _SavedRun(seq, keys.filter.capacity, keys.filter.count, len(keys.crowded_keys))
            for seq, keys in filters.runs.items()
        ],
    )
    arrays = _arrays(filters)
    header.digests = [_digest(array.data) for array in arrays]
    packed = msgspec.msgpack.encode(header)
    partial = path.with_name(f"{path.name}.part")
    try:
        with partial.open("wb") as file:
            file.write(_digest(packed) + len(packed).to_bytes(4, "little") + packed)
            for array in arrays:
                file.write(array.data)
        partial.replace(path)  # no sync: what a power cut leaves half written has other digests
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink()


def load_filters(path: Path, runs: list[RunMeta], step_record: StepRecord) -> Filters | None:
    """Return the filters of a shard that now has `runs`; None if the file does not fit them."""
    try:
        with path.open("rb") as file:
            header = _read_header(file)
            if header is None or not _fits(header, runs, step_record):
                return None
            place = file.tell()
        filters = _empty(header)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            whole = _read_arrays(pool, path, place, _arrays(filters), header.digests)
            same_layout = header.layout == _layout()  # loads the first kernel meanwhile
            return filters if same_layout and all(whole) else None
    except (OSError, msgspec.MsgspecError):
        return None


def _read_header(file: BinaryIO) -> _Header | None:
    start = file.read(_START)
    packed = file.read(min(int.from_bytes(start[_DIGEST_BYTES:], "little"), _HEADER_BYTES_MAX))
    if _digest(packed) != start[:_DIGEST_BYTES]:
        return None
    return msgspec.msgpack.decode(packed, type=_Header)


def _fits(header: _Header, runs: list[RunMeta], step_record: StepRecord) -> bool:
    """Tell whether the filters are of this store, and of all runs but some flushed since."""
    known = {run.seq for run in header.runs}
    return header.step == _digest(step_record(header.seq)) and all(
        run.level == 0 for run in runs if run.seq not in known
    )


def _layout() -> bytes:
    """Return what some keys make of a filter: a version that sets other bits gives another."""
    keys = KeyFilter(1000)
    keys.add(np.arange(1000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    return _digest(keys.words.data)


def _empty(header: _Header) -> Filters:
    """Return filters of the sizes that the header tells, with nothing in them."""
    overall = GrowingFilter.of([_sized(*sizes) for sizes in header.overall])
    runs = {}
    for run in header.runs:
        crowded = np.empty(run.crowded, np.uint64)
        runs[run.seq] = RunKeys.of(_sized(run.capacity, run.count), crowded)
    return Filters(overall, runs)


def _sized(capacity: int, count: int) -> KeyFilter:
    sized = KeyFilter(capacity)
    sized.count = count
    return sized


def _arrays(filters: Filters) -> list[Keys]:
    """Return the arrays in the order of the file."""
    arrays = [part.words for part in filters.overall.parts]
    for keys in filters.runs.values():
        arrays += [keys.filter.words, keys.crowded_keys]
    return arrays


def _read_arrays(
    pool: Executor, path: Path, place: int, arrays: list[Keys], digests: list[bytes]
) -> Iterator[bool]:
    """Begin to fill the arrays from `place` on; tell of each whether it is what was written."""
    starts = np.cumsum([place, *(array.nbytes for array in arrays)]).tolist()

    def read(number: int) -> bool:
        with path.open("rb") as file:
            file.seek(starts[number])
            file.readinto(arrays[number].data)
        return _digest(arrays[number].data) == digests[number]

    largest_first = sorted(range(len(arrays)), key=lambda number: -arrays[number].nbytes)
    return pool.map(read, largest_first)
