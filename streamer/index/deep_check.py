"""Every byte of an index, read once: what is damaged, and whether rows and postings agree.

To open a store is to read its whole database, so that is all there is to do for that. Blocks of
rows and of postings end with checksums, and are read here one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from streamer.errors import StoreDamaged
from streamer.index.codec import FlushMeta
from streamer.index.postings import PARTS, Postings
from streamer.index.row_blocks import ROWS_A_BLOCK
from streamer.index.store import Store
from streamer.index.stored_rows import StoredRows
from streamer.index.witness import NAME as WITNESS
from streamer.index.witness import read_places

ROWS_AT_ONCE = 4096
_DAMAGES_MAX = 20  # of a file that are told: more of them say no more
_CHANCE = 4  # postings of a flush whose marks may be zero like those of no posting, 1 in 2**32

Progress = Callable[[int], None]
Result = TypeVar("Result")


class Finding(msgspec.Struct):
    """What was found in a part of an index: how many bytes it has, and each damage in words."""

    part: str
    size: int
    damage: list[str] = []


def index_bytes(folder: Path) -> int:
    """Return how many bytes a check of all rows and postings reads, at most."""
    return sum(
        path.stat().st_size for name in ("rows-*", "postings-*") for path in folder.glob(name)
    )


def check_index(folder: Path, progress: Progress = lambda _bytes: None) -> list[Finding]:
    """Return what is found in the index in `folder`, which is opened for reading.

    `progress` is told how many of `index_bytes` are read. Where the database cannot be read nobody
    knows where blocks begin, and they are not looked at.

    Raises:
        StoreMismatch: its format is not ours.
        StoreUnavailable: there is no index, or the system refuses.
    """
    path = folder / "store"
    findings = [
        Finding(WITNESS, _size(folder / WITNESS), _witness_damage(folder)),
        Finding(path.name, sum(map(_size, path.glob("*")))),
    ]
    try:
        store = Store.open(path, writable=False)
    except StoreDamaged as error:
        part = Path(error.part).relative_to(folder)
        if str(part) != WITNESS:
            findings.append(Finding(str(part), _size(folder / part), [error.what]))
        return findings
    total = 0

    def advance(size: int) -> None:
        nonlocal total
        total += size
        progress(total)

    try:
        for shard, disk in enumerate(store.meta.shards if store.meta else []):
            check = _Shard(store, shard, disk.flushes, advance)
            findings += [check.rows(), check.postings()]
        return findings
    finally:
        store.close()


def _witness_damage(folder: Path) -> list[str]:
    places = read_places(folder)
    if places is None:
        return ["it is missing"]
    return [f"place {i} of {len(places)}" for i, n in enumerate(places, 1) if n is None]


class _Shard:
    """The check of one shard's files."""

    def __init__(
        self, store: Store, shard: int, flushes: Sequence[FlushMeta], advance: Progress
    ) -> None:
        self._store = store
        self._shard = shard
        self._flushes = flushes
        self._advance = advance
        self._marks: dict[int, int] = {}  # by the number of a flush, of which all rows were read

    def rows(self) -> Finding:
        """Read all rows, and count the keys that they are posted under."""
        finding, rows = Finding(f"rows-{self._shard}", 0), StoredRows(self._store, self._shard)
        for flush in self._flushes:
            numbers, known = self._store.row_numbers(self._shard, flush), len(finding.damage)
            marks = 0
            for start in range(0, len(numbers), ROWS_AT_ONCE):
                part = numbers[start : start + ROWS_AT_ONCE]
                try:
                    marks += int(np.count_nonzero(rows.marks(part, flush.keys)))
                except StoreDamaged:
                    self._read_blocks(flush, start, start + len(part), finding)
            if len(finding.damage) == known:
                self._marks[flush.seq] = marks
            finding.size += flush.size
            self._advance(flush.size)
        return finding

    def _read_blocks(self, flush: FlushMeta, start: int, end: int, finding: Finding) -> None:
        """Tell which blocks of a flush, with its rows from `start` to `end`, are damaged."""
        lengths = self._store.block_lengths(self._shard, flush)
        ends = finding.size + np.cumsum(lengths)
        blocks = slice(start // ROWS_A_BLOCK, -(-end // ROWS_A_BLOCK))
        for stop, length in zip(ends[blocks], lengths[blocks], strict=True):
            where = np.array([stop - length]), np.array([stop])
            _note(finding, partial(self._store.read_blocks, self._shard, *where))

    def postings(self) -> Finding:
        """Read all postings, and compare them with the rows of their flush."""
        finding = Finding(f"postings-{self._shard}", 0)
        for flush in self._flushes:
            read = partial(self._store.postings, self._shard, flush)
            parts = [_note(finding, partial(read, part)) for part in range(PARTS)]
            found = [postings for postings in parts if postings is not None]
            if len(found) == PARTS:
                finding.damage += self._disagreement(flush, found)
            finding.size += flush.postings_size
            self._advance(flush.postings_size)
        return finding

    def _disagreement(self, flush: FlushMeta, found: list[Postings]) -> list[str]:
        """Return in which way the postings of a flush are not those of its rows."""
        words = np.concatenate([postings.words for postings in found])
        marks = self._marks.get(flush.seq, len(words))
        if len(words) != flush.postings or abs(len(words) - marks) > _CHANCE:
            counts = f"{flush.postings:,} in the database, {marks:,} in the rows"
            return [f"flush {flush.seq}: {len(words):,} postings, {counts}"]
        posted: npt.NDArray[np.int64] = (words & np.uint64(0xFFFFFFFF)).astype(np.int64)
        numbers = self._store.row_numbers(self._shard, flush)
        strange = posted[~np.isin(posted, numbers)]
        return [f"flush {flush.seq}: a posting of row {strange[0]}"] if len(strange) else []


def _note(finding: Finding, read: Callable[[], Result]) -> Result | None:
    """Return what is read; None where it is damaged, which is noted."""
    try:
        return read()
    except StoreDamaged as error:
        if len(finding.damage) < _DAMAGES_MAX:
            finding.damage.append(error.what)
        return None


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
