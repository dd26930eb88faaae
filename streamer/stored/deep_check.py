"""Read every byte of an index once: what is damaged, and whether rows and keys agree.

RocksDB compares each block with its checksum when it reads it, and reads the rest of a file when it
opens it. So it is enough to ask for every entry.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import numpy as np

from streamer.errors import StoreDamaged
from streamer.stored import row_blocks
from streamer.stored.generations import read_generation, read_note
from streamer.stored.store import Store
from streamer.stored.witness import NAME as WITNESS
from streamer.stored.witness import read_places

_DAMAGES_MAX = 20  # reported for each part: more would add nothing

Progress = Callable[[int], None]


class Finding(msgspec.Struct):
    """What was found in a part of an index: how many bytes it has, and each damage in words."""

    part: str
    size: int
    damage: list[str] = []


def index_bytes(folder: Path) -> int:
    """Return how many bytes a check of all rows and keys reads, about."""
    return sum(map(_size, (folder / "store").glob("*.sst")))


def check_index(folder: Path, progress: Progress = lambda _bytes: None) -> list[Finding]:
    """Return what is found in the index in `folder`, which is opened for reading.

    `progress` gets how many of `index_bytes` are read. Where the state cannot be read nobody
    knows what else there should be, and it is not looked at.

    Raises:
        StoreMismatch: its format is not ours.
        StoreUnavailable: there is no index, or the system refuses.
    """
    path, found = folder / "store", read_places(folder)
    damage = ["it is missing"]
    if found is not None:
        places = enumerate(found, 1)
        damage = [f"place {i} of {len(found)}" for i, number in places if number is None]
    whole = Finding(path.name, sum(map(_size, path.glob("*"))))
    findings = [Finding(WITNESS, _size(folder / WITNESS), damage), whole]
    try:
        store = Store.open(path, writable=False)
    except StoreDamaged as error:
        part = Path(error.part).relative_to(folder)
        if str(part) != WITNESS:
            findings.append(Finding(str(part), _size(folder / part), [error.what]))
        return findings
    with closing(store):
        return findings + _Check(store, progress).findings()


class _Check:
    """The check of a store's rows and keys."""

    def __init__(self, store: Store, progress: Progress) -> None:
        self._store = store
        self._progress = progress
        self._read = 0

    def findings(self) -> list[Finding]:
        """Read all."""
        meta = self._store.known
        rows, keys, sets = Finding("rows", 0), Finding("keys", 0), Finding("shingles", 0)
        count = posted = 0
        for part in self._keys(keys):
            count += len(part.rows)
            posted += int(np.bitwise_count(part.masks).sum())
            self._rows(part, rows)
            self._sets(part, sets)
        if not keys.damage and (count, posted) != (meta.rows, meta.postings):
            counted = f"{meta.rows:,} rows and {meta.postings:,} postings in the state"
            _note(keys, f"{count:,} rows, {posted:,} postings; {counted}")
        findings = [rows, keys, *([sets] if self._store.has_shingles else [])]
        return findings + self._frozen() + self._urls()

    def _frozen(self) -> list[Finding]:
        """Read the frozen keys, if there are some."""
        note = read_note(self._store)
        finding = Finding("frozen keys", 0)
        for generation in note.generations:
            with _noting(finding):
                for size in read_generation(self._store, generation):
                    self._advance(finding, size)
        return [finding] if note.generations else []

    def _urls(self) -> list[Finding]:
        """Read all versions of URLs, if there are any."""
        finding = Finding("versions of URLs", 0)
        with _noting(finding):
            for key, version in self._store.scan_urls():
                self._advance(finding, len(key) + len(version))
        return [finding] if finding.size or finding.damage else []

    def _keys(self, finding: Finding) -> Iterator[row_blocks.RowKeys]:
        for block in self._store.key_blocks:
            part = None
            with _noting(finding):
                part = self._store.read_keys(range(block, block + 1), whole=False)
            if part is not None:
                self._advance(finding, 5 * part.keys.size + 6 * len(part.rows))
                yield part

    def _rows(self, part: row_blocks.RowKeys, finding: Finding) -> None:
        """Read the rows of a block of keys, and compare their halves."""
        try:
            rows = row_blocks.rows_at(part.slots, self._store.row_blocks)
        except StoreDamaged:
            for number in np.unique(part.slots // row_blocks.ROWS_A_BLOCK).tolist():
                with _noting(finding):
                    self._store.row_blocks([number])
            return
        self._advance(finding, len(rows.data) - len(row_blocks.PADDING))
        halves = row_blocks.gather_halves(rows, part.keys.shape[1])
        posted = part.masks[:, None] >> np.arange(halves.shape[1], dtype=np.uint64) & np.uint64(1)
        if not np.array_equal(halves, (posted * part.whole(halves).keys).astype(np.uint32)):
            first = int(part.slots[0]) // row_blocks.SLOTS_A_KEY_BLOCK
            _note(finding, f"those of block {first} have other keys than that says")

    def _sets(self, part: row_blocks.RowKeys, finding: Finding) -> None:
        """Read the sets of shingles of a block of keys, if there are any."""
        for slot in part.slots.tolist() if self._store.has_shingles else ():
            with _noting(finding):
                self._advance(finding, sum(map(len, self._store.shingles([slot]))))

    def _advance(self, finding: Finding, size: int) -> None:
        finding.size += size
        self._read += size
        self._progress(self._read)


@contextmanager
def _noting(finding: Finding) -> Iterator[None]:
    """Note damage that is met, and go on after it."""
    try:
        yield
    except StoreDamaged as error:
        _note(finding, error.what)


def _note(finding: Finding, damage: str) -> None:
    if len(finding.damage) < _DAMAGES_MAX:
        finding.damage.append(damage)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
