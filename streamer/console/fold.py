"""The fold: lines of inputs to rows of the view, and the counts that views begin with.

A batch of lines and the position after it are one transaction, so a fold that was killed goes on
where it was. Pages are inserted first; counts of clusters, hosts and similarities are then made
of the rows that are new: of several verdicts of a page only the first counts, as in `streamer
clusters`. No count is ever made of all rows, which takes seconds at ten million.
"""

import base64
import binascii
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Self

import msgspec
import xxhash

from streamer.compression import is_parquet
from streamer.console.inputs import WITNESS_BYTES, FoldedLine, is_packed, read_batches, witness_of
from streamer.console.view import INDEXES, VerdictView, has_tables, is_damage, ref_of, refused
from streamer.errors import InputError, StreamerError
from streamer.hosts import host_of
from streamer.model import SIMILARITY_ONE, DeadLetter, Location
from streamer.run.verdict_lines import ReadVerdict

RECORD_BYTES_SHOWN = 16 << 10  # of a dead letter's record
_SOURCES_MAX = 1 << 23  # refs are SQLite's integers, which have a sign
_NAMES_REMEMBERED = 1 << 16
_SIGN = 1 << 63  # SQLite's integers have one, hashes have none
_POLL_SECONDS = 1.0
_PACE_SECONDS = 10.0  # that a rate is the mean of

_encode = msgspec.json.Encoder().encode
# Fields that not every verdict has, with what they are then.
_OPTIONAL = [
    (each.name, each.default)
    for each in msgspec.structs.fields(ReadVerdict)
    if not each.required and each.name != "schema"
]
_log = logging.getLogger("streamer")

_ADD_PAGE = """
INSERT OR IGNORE INTO page (
    ref, url, url_key, host, cluster, basis, similarity, same_url, text_bytes, fingerprint, more
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_ADD_NAMED = "INSERT OR IGNORE INTO {} (name) VALUES (?)"
_FIND_NAMED = "SELECT number FROM {} WHERE name = ?"
_ADD_SOURCE = "INSERT OR IGNORE INTO source (topic, partition, other) VALUES (?, ?, ?)"
_FIND_SOURCE = "SELECT number FROM source WHERE topic = ? AND partition = ? AND other = ?"
_ADD_CLUSTER = "INSERT OR IGNORE INTO cluster (ref, url, host) VALUES (?, ?, ?)"
_ADD_LETTER = """
INSERT OR IGNORE INTO letter (ref, code, detail, record_key, record, value_bytes)
VALUES (?, ?, ?, ?, ?, ?)
"""
# Over the rows of pages and letters above these numbers:
_COUNTS = (
    """
    INSERT INTO verdict_count
    SELECT iif(cluster IS NULL, 'unique', 'duplicate') AS verdict, basis, count(*), sum(text_bytes)
    FROM page WHERE number > :page GROUP BY verdict, basis
    ON CONFLICT DO UPDATE SET pages = pages + excluded.pages,
        text_bytes = text_bytes + excluded.text_bytes
    """,
    """
    INSERT INTO similarity_count
    SELECT similarity, count(*) FROM page
    WHERE number > :page AND basis = 'signature' AND similarity IS NOT NULL GROUP BY similarity
    ON CONFLICT DO UPDATE SET pages = pages + excluded.pages
    """,
    """
    INSERT INTO history
    SELECT ifnull(:minute, (number - 1) / 1000) AS slot,
        iif(cluster IS NULL, 'unique', 'duplicate') AS verdict, basis, count(*)
    FROM page WHERE number > :page GROUP BY slot, verdict, basis
    ON CONFLICT DO UPDATE SET pages = pages + excluded.pages
    """,
    """
    UPDATE cluster SET duplicates = duplicates + added.pages FROM (
        SELECT cluster AS ref, count(*) AS pages FROM page
        WHERE number > :page AND cluster IS NOT NULL GROUP BY cluster
    ) AS added WHERE cluster.ref = added.ref
    """,
    """
    UPDATE host SET pages = host.pages + added.pages, duplicates = duplicates + added.likes FROM (
        SELECT host, count(*) AS pages, count(cluster) AS likes FROM page
        WHERE number > :page GROUP BY host
    ) AS added WHERE host.number = added.host
    """,
    """
    INSERT INTO letter_count
    SELECT code, source, count(*) FROM letter WHERE number > :letter GROUP BY code, source
    ON CONFLICT DO UPDATE SET letters = letters + excluded.letters
    """,
)
_LINES = "SELECT ifnull(sum(lines), 0) FROM input"
_NEWEST = "SELECT ifnull(max(number), 0) FROM {}"
_INPUTS = "SELECT path, position, lines, seen_bytes, witness, note FROM input"
_SAVE_INPUT = """
INSERT INTO input (path, position, lines, seen_bytes, witness, note) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET position = excluded.position, lines = excluded.lines,
    seen_bytes = excluded.seen_bytes, witness = excluded.witness, note = excluded.note
"""
_IS_OTHER = "SELECT count(*) FROM page WHERE ref = ? AND url <> ?"
_COUNT_OTHERS = "UPDATE input SET passed_over = passed_over + :lines WHERE path = :path"


def url_key(url: str) -> int:
    """Return the hash by which the view finds a URL."""
    return xxhash.xxh3_64_intdigest(url.encode()) - _SIGN


# ---- how far it is, in plain values --------------------------------------------------------------


class PartitionLag(msgspec.Struct, frozen=True):
    """A partition of the pages; `lag` messages are not signed and committed, None: unknown."""

    partition: int
    end: int
    lag: int | None


class FoldState(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a fold is.

    Attributes:
        is_done: whether the view has all that its inputs had at the start.
        trouble: what keeps the fold from going on; '' for nothing.
        rate: how many lines a second are new; None where that is not known.
        lags: of the partitions of pages; None where files are folded.
        refused: why the view cannot be opened; '' if it can.
    """

    is_done: bool = False
    trouble: str = ""
    rate: float | None = None
    lags: list[PartitionLag] | None = None
    refused: str = ""


class Pace:
    """How fast a count grows, as the mean of the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self.rate: float | None = None  # a second; None until it is known

    def note(self, count: int, now: float | None = None) -> None:
        """Take the count of this moment, in seconds of any clock."""
        now = time.monotonic() if now is None else now
        if self._seen and count < self._seen[-1][1]:  # another topic, or another view
            self._seen.clear()
        self._seen.append((now, count))
        while len(self._seen) > 1 + 1 and self._seen[1][0] <= now - _PACE_SECONDS:
            self._seen.popleft()
        (began, first), (ended, last) = self._seen[0], self._seen[-1]
        self.rate = (last - first) / (ended - began) if ended > began else None


def moment(seconds: float) -> str:
    """Return a time, in seconds since 1970, as people and programs read it."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


# ---- the fold ------------------------------------------------------------------------------------


class FoldedInput(NamedTuple):
    """How far an input is folded: its row in the view (tables.sql)."""

    path: str
    position: int = 0
    lines: int = 0
    seen_bytes: int = 0
    witness: str = ""
    note: str = ""

    def seen(self, path: Path, seen_bytes: int) -> Self:
        """Return it with so many bytes of the file seen."""
        witness = witness_of(path, seen_bytes) if seen_bytes else ""
        return self._replace(seen_bytes=seen_bytes, witness=witness)


class Fold:
    """Folds files into a view, now and as they grow; for one thread.

    Attributes:
        trouble: what keeps the fold from going on; '' for nothing.
        is_done: set once all that the files had at the start is folded, and can be looked up.
        pace: how many lines a second are new since then.
    """

    def __init__(self, view: VerdictView, files: Sequence[Path]) -> None:
        self._view, self._files = view, files
        self._connection = view.open_to_fold()
        self._numbers = _Numbers(self._connection)
        self._tried: dict[str, tuple[int, int]] = {}  # size and time of files at their last reading
        self.trouble = ""
        self.is_done = threading.Event()
        self.pace = Pace()

    def state(self) -> FoldState:
        """Return how far the fold is, from any thread."""
        return FoldState(self.is_done.is_set(), self.trouble, self.pace.rate)

    def run(self) -> NoReturn:
        """Fold without end; what fails is logged, is the `trouble`, is tried again."""
        while True:
            try:
                self.go_on()
                self.trouble = ""
            except StreamerError as error:
                if str(error) != self.trouble:
                    _log.error("Verdicts cannot be read. %s", error)
                self.trouble = str(error)
            except Exception as error:  # noqa: BLE001 - the overview reports a fault, too
                said = f"The fold failed ({error!r}); report it, with what the log says."
                if said != self.trouble:
                    _log.exception("The fold failed")
                self.trouble, self._tried = said, {}
            time.sleep(_POLL_SECONDS)

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def go_on(self) -> None:
        """Fold what the files have now; all of it again if one is no longer what it was.

        A damaged view is made again, too.

        Raises:
            StoreUnavailable: the view cannot be written.
        """
        try:
            if not has_tables(self._connection) or self._has_changed():
                self._begin_again()
            self._fold_inputs()
            if not self.is_done.is_set():
                self._connection.executescript(INDEXES)
                self.is_done.set()
        except sqlite3.Error as error:
            self._tried = {}
            if not is_damage(error):
                raise refused(self._view.folder, error) from error
            self._begin_again()

    def _begin_again(self) -> None:
        """Take an empty view in the place of the one that is there."""
        self.is_done.clear()
        before, self._connection = self._connection, self._view.make_again()
        before.close()
        self._numbers, self._tried = _Numbers(self._connection), {}

    def _fold_inputs(self) -> None:
        for path in self._files:
            self._fold_file(path)
        if self.is_done.is_set():
            self.pace.note(self._connection.execute(_LINES).fetchone()[0])

    def _has_changed(self) -> bool:
        """Return whether a file that was folded was taken away, or replaced by another one."""
        given = {str(path.resolve()): path for path in self._files}
        for row in self._inputs():
            if row.path not in given:
                return True
            path = given[row.path]
            with suppress(InputError, OSError):  # it is away; `_fold_file` says so
                size = path.stat().st_size
                if row.seen_bytes and (
                    witness_of(path, row.seen_bytes) != row.witness
                    or (is_parquet(path.name) and size != row.seen_bytes)
                ):
                    return True
        return False

    def _inputs(self) -> list[FoldedInput]:
        return [FoldedInput(*row) for row in self._connection.execute(_INPUTS)]

    def _input(self, name: str) -> FoldedInput:
        found = self._connection.execute(f"{_INPUTS} WHERE path = ?", (name,)).fetchone()
        return FoldedInput(*(found or (name,)))

    def _save(self, row: FoldedInput) -> None:
        self._connection.execute(_SAVE_INPUT, row)

    def _fold_file(self, path: Path) -> None:
        """Fold what was appended to a file since; note at the input why no more of it is read."""
        name, note = str(path.resolve()), ""
        try:
            found = path.stat()
            if self._tried.get(name) == (found.st_size, found.st_mtime_ns):
                return
            self._tried[name] = found.st_size, found.st_mtime_ns
            self._read_on(self._input(name), path, found.st_size)
        except InputError as error:
            note = str(error)
        except OSError as error:
            note = f"{path}: {error.strerror or error}; check the path"
            self._tried.pop(name, None)  # it is read again once it is back, so that the note goes
        row = self._input(name)
        if note != row.note:
            self._save(row._replace(note=note))
            if note:
                _log.warning("An input is not read further. %s", note)

    def _read_on(self, row: FoldedInput, path: Path, size: int) -> None:
        if size == row.seen_bytes and not row.note:
            return
        packed = is_packed(path)
        try:
            for batch in read_batches(path, row.position, row.lines):
                lines, position = row.lines + len(batch.lines), batch.position
                # While a packed file is folded in part, the witness is of its beginning, and less
                # than all of it is seen: after a kill it is read on, and is no other file.
                seen = min(size - 1, WITNESS_BYTES) if packed else position
                row = row._replace(position=position, lines=lines).seen(path, seen)
                self._take(batch.lines, row, f"{path}: before line {lines + 1}")
        except InputError:
            if is_parquet(path.name) and row.position:
                self._save(row.seen(path, size))  # or it seems another file
            raise
        if packed:
            self._save(row.seen(path, size))

    def _take(
        self, lines: Sequence[FoldedLine], row: FoldedInput, where: str, minute: int | None = None
    ) -> None:
        """Fold lines, and save the row of their input as it is after them, in one transaction.

        `minute` is when they were published, since 1970; None: nobody knows.

        Raises:
            InputError: the view cannot hold one of them; `where` says which they are.
        """
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            before: dict[str, int | None] = {
                table: self._connection.execute(_NEWEST.format(table)).fetchone()[0]
                for table in ("page", "letter")
            }
            passed_over = self._add(lines)
            for count in _COUNTS:
                self._connection.execute(count, before | {"minute": minute})
            self._save(row)
            if passed_over:
                self._connection.execute(_COUNT_OTHERS, {"path": row.path, "lines": passed_over})
            self._connection.execute("COMMIT")
        except (OverflowError, ValueError) as error:
            self._undo()
            raise InputError(f"{where}: {error}; check the file") from error
        except BaseException:
            self._undo()
            raise

    def _undo(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        self._numbers = _Numbers(self._connection)  # which may have some that are gone

    def _add(self, lines: Iterable[FoldedLine]) -> int:
        """Insert lines; return how many verdicts are on a place that has another URL already."""
        pages: list[tuple[Any, ...]] = []
        letters: list[tuple[Any, ...]] = []
        clusters: dict[int, tuple[int, str, int]] = {}
        for line in lines:
            if isinstance(line, DeadLetter):
                letters.append(self._letter(line))
                continue
            cluster = None
            if (other := line.representative) is not None:
                index = other.index if isinstance(other.index, str) else ""
                cluster = self._numbers.ref(other.page, index)
                if cluster not in clusters:
                    clusters[cluster] = cluster, other.url, self._numbers.host(host_of(other.url))
            pages.append(self._page(line, cluster))
        self._connection.executemany(_ADD_CLUSTER, clusters.values())
        added = self._connection.executemany(_ADD_PAGE, pages).rowcount
        self._connection.executemany(_ADD_LETTER, letters)
        if added == len(pages) or not pages:
            return 0
        found = (self._connection.execute(_IS_OTHER, (ref, url)) for ref, url, *_ in pages)
        return sum(row.fetchone()[0] for row in found)

    def _page(self, line: ReadVerdict, cluster: int | None) -> tuple[Any, ...]:
        numbers = self._numbers
        return (
            numbers.ref(line.page, ""), line.url, url_key(line.url),
            numbers.host(host_of(line.url)), cluster, line.basis.value, _whole(line.similarity),
            line.same_url, line.text_bytes, numbers.fingerprint(line.index), _more(line),
        )  # fmt: skip

    def _letter(self, line: DeadLetter) -> tuple[Any, ...]:
        ref = self._numbers.ref(line.page, "")
        key = None if line.key_base64 is None else _bytes(line.key_base64)
        return ref, line.code, line.detail, key, _bytes(line.value_base64), line.value_bytes


def _more(verdict: ReadVerdict) -> str | None:
    """Return the fields of a verdict that not every one has, as JSON; None: it has none."""
    found = {
        name: value
        for name, default in _OPTIONAL
        if (value := getattr(verdict, name)) is not default and value != default
    }
    return _encode(found).decode() if found else None


def _whole(similarity: float | None) -> int | None:
    return None if similarity is None else round(similarity * SIMILARITY_ONE)


def _bytes(encoded: str) -> bytes:
    """Return the beginning of a record; what is no base64 is returned as it is."""
    part = encoded[: RECORD_BYTES_SHOWN * 4 // 3]
    try:
        return base64.b64decode(part[: len(part) & ~3])
    except (binascii.Error, ValueError):
        return part.encode()


class _Numbers:
    """The numbers of sources, hosts and fingerprints; new names get the next one."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        def numbering(add: str, find: str) -> Callable[..., int]:
            @lru_cache(maxsize=_NAMES_REMEMBERED)
            def number_of(*values: str | int) -> int:
                connection.execute(add, values)
                return int(connection.execute(find, values).fetchone()[0])

            return number_of

        self.host, self.fingerprint = (
            numbering(_ADD_NAMED.format(table), _FIND_NAMED.format(table))
            for table in ("host", "fingerprint")
        )
        self._source = numbering(_ADD_SOURCE, _FIND_SOURCE)

    def ref(self, page: Location, index: str) -> int:
        """Return the ref of a place, of a reference index if one is named."""
        source = self._source(page.topic, page.partition, index)
        if source >= _SOURCES_MAX:
            raise InputError("There are over eight million sources; give fewer files.")
        return ref_of(source, page.offset)
