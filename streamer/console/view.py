"""The view: what the console shows, folded from verdicts and dead letters into an SQLite database.

Inputs are the truth, and the view is disposable: a file in a folder of its own, which is made again
when the inputs are not those that it was folded from. So it is written without waiting for the
disk: after a crash of the machine it is damaged at worst, and made again.

A page is known by its ref: the number that the view gives its source, and its sequence number in
that. A cluster is known by the ref of its representative. SQLite was measured against DuckDB on a
million verdicts: it finds any page in a fraction of a millisecond, has its memory
bounded by its cache, and is part of Python.
"""

import fcntl
import hashlib
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path

from streamer.errors import SettingsError, StoreUnavailable
from streamer.model import SEQUENCE_BITS

_FOLDER = Path(__file__).parent
_TABLES = (_FOLDER / "tables.sql").read_text(encoding="utf-8")
# Makes what look-ups need, unless it is there; a minute for ten million pages:
INDEXES = (_FOLDER / "indexes.sql").read_text(encoding="utf-8")
_OWN_NAME = re.compile(r"view-([0-9]{1,9})\.sqlite(-wal|-shm)?")
_CACHE_KIB = 64 << 10  # of the fold
_READER_CACHE_KIB = 4 << 10
_STEPS_A_LOOK = 10_000  # of SQLite's machine, a millisecond, until a query looks at the clock


class QueryTooLong(Exception):  # noqa: N818 - what happened to the query
    """End a query that takes longer than it may."""


class _ReadConnection(sqlite3.Connection):
    """A connection for queries whose time is limited."""

    is_over: Callable[[], bool] = staticmethod(lambda: False)


def check_time(connection: sqlite3.Connection) -> None:
    """End an answer that takes longer than it may outside of SQLite, too.

    Raises:
        QueryTooLong: the time of `VerdictView.read` is over.
    """
    if isinstance(connection, _ReadConnection) and connection.is_over():
        raise QueryTooLong


def ref_of(source: int, offset: int) -> int:
    """Return the ref of a page: its source's number in the view, and its number in that."""
    return source << SEQUENCE_BITS | offset


class VerdictView:
    """The view in `folder`, which is made if need be, for the one process that has its `lock`.

    The console has one, and its fold another.

    Attributes:
        path: the database; another one once the view is made again.
        stopped: once set, all queries that run on the view end soon.

    Raises:
        SettingsError: another console has the folder, or it cannot be written.
    """

    def __init__(self, folder: Path, lock: str = "lock") -> None:
        self.folder = folder = folder.absolute()
        self.stopped = threading.Event()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(folder / lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SettingsError(
                f"Cannot write {folder}: {error.strerror}. Name another folder with --view."
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise SettingsError(
                f"Another console has its view in {folder}. Stop it, or name another folder with "
                "--view."
            ) from error

    @property
    def path(self) -> Path:
        """Return where the database is."""
        return self._path(self._number())

    def _number(self) -> int:
        """Return the number of the newest database: the fold, which makes it, is elsewhere."""
        found = (_OWN_NAME.fullmatch(each.name) for each in self.folder.glob("view-*.sqlite"))
        return max((int(each[1]) for each in found if each), default=0)

    def _path(self, number: int) -> Path:
        return self.folder / f"view-{number}.sqlite"

    def open_to_fold(self) -> sqlite3.Connection:
        """Open the database for the fold; one that is damaged or has other tables is made again.

        Raises:
            StoreUnavailable: the disk refuses.
        """
        try:
            connection = self._connect(self.path)
            if has_tables(connection):
                return connection
            connection.close()
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise refused(self.folder, error) from error
        return self.make_again()

    def make_again(self) -> sqlite3.Connection:
        """Open an empty database in the place of the one that is there.

        A new file is made, so that queries that are being answered end as they began. It gets its
        name when it has its tables.

        Raises:
            StoreUnavailable: the disk refuses.
        """
        number, made = self._number() + 1, self.folder / "new.sqlite"
        try:
            made.unlink(missing_ok=True)
            with closing(sqlite3.connect(made, isolation_level=None)) as connection:
                connection.executescript(f"BEGIN; {_TABLES} COMMIT;")
            made.rename(self._path(number))
            connection = self._connect(self._path(number))
        except (sqlite3.Error, OSError) as error:
            raise refused(self.folder, error) from error
        for other in self.folder.glob("view-*"):  # a user's folder may have others of that name
            found = _OWN_NAME.fullmatch(other.name)
            if found and int(found[1]) != number:
                with suppress(OSError):
                    other.unlink()
        return connection

    def _connect(self, path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        # Temporary files, not memory, have what an index of ten million keys is sorted in.
        connection.executescript(
            f"PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA temp_store = FILE;"
            f"PRAGMA cache_size = -{_CACHE_KIB};"
        )
        return connection

    @contextmanager
    def read(self, seconds: float) -> Iterator[sqlite3.Connection]:
        """Open the database for queries that take so long at most, all of them together.

        Rows have names. Nothing can be written.

        Raises:
            QueryTooLong: they take longer, or the view is stopped.
            StoreUnavailable: the database cannot be read.
        """
        deadline = time.monotonic() + seconds

        def is_over() -> bool:
            return self.stopped.is_set() or time.monotonic() > deadline

        try:
            with closing(self._connect_to_read()) as connection:
                connection.is_over = is_over
                connection.set_progress_handler(is_over, _STEPS_A_LOOK)
                yield connection
        except sqlite3.Error as error:
            if is_over():
                raise QueryTooLong from error
            raise refused(self.folder, error) from error

    def _connect_to_read(self) -> _ReadConnection:
        path = self.path
        try:
            return _connect_to_read(path)
        except sqlite3.OperationalError:
            if path == (newest := self.path):
                raise
            return _connect_to_read(newest)  # the fold has made the view again meanwhile

    def close(self) -> None:
        """Release the folder."""
        os.close(self._lock)


def _connect_to_read(path: Path) -> _ReadConnection:
    place, kind = f"{path.as_uri()}?mode=ro", _ReadConnection
    connection = sqlite3.connect(place, uri=True, check_same_thread=False, factory=kind)
    connection.row_factory = sqlite3.Row
    connection.execute(f"PRAGMA cache_size = -{_READER_CACHE_KIB}")
    connection.execute("PRAGMA query_only = ON")
    return connection


def has_tables(connection: sqlite3.Connection) -> bool:
    """Return whether a database has the tables of a view, with all of their columns."""
    return _tables_of(connection) == _own_tables()


def _tables_of(connection: sqlite3.Connection) -> dict[str, str]:
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    return dict(connection.execute(query).fetchall())


@cache
def _own_tables() -> dict[str, str]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_TABLES)
        return _tables_of(connection)


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether SQLite says that a database is damaged; its other errors are of subclasses."""
    return type(error) is sqlite3.DatabaseError


def refused(folder: Path, error: sqlite3.Error | OSError) -> StoreUnavailable:
    """Return the error for a view that cannot be read or written now."""
    return StoreUnavailable(
        f"The view in {folder} cannot be used now ({error}). Free space on its disk, or name "
        "another folder with --view."
    )


def default_folder(inputs: Sequence[str]) -> Path:
    """Return where the view of these inputs is kept, in the user's cache.

    Raises:
        SettingsError: the user has none.
    """
    names = "\0".join(sorted(inputs))
    try:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError as error:
        raise SettingsError("There is no home directory: name a folder with --view.") from error
    digest = hashlib.blake2b(names.encode(errors="surrogateescape"), digest_size=8).hexdigest()
    return Path(cache) / "streamer" / "console" / digest
