"""The files of a RocksDB database: which hold its state, and how one reads them as they change.

A reader opens a folder of links to the files that a database has at one moment. A writer may drop
files, or begin new ones, at any time after that.
"""

import contextlib
import itertools
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from streamer.errors import StoreUnavailable, damage_error

LOG_BLOCK_BYTES = 32 << 10  # of RocksDB's logs; no record's part reaches over the end of one
LOG_HEADER_BYTES = 7  # checksum, length (2 bytes, the lower first), type
RECYCLED_TYPES = frozenset({5, 6, 7, 8, 11})  # of records in logs that are written over
_LISTS_READ_MAX = 100  # of files, until a writer has not changed it meanwhile
_STATE_FILES = ("CURRENT", "MANIFEST-*", "*.log", "*.sst")  # the others hold none of the state
_CONFIG = "rocksdict-config.json"  # which rocksdict writes into any folder


def state_files(path: Path) -> Iterator[Path]:
    """Yield the files of the database in `path` that hold its state."""
    return itertools.chain.from_iterable(map(path.glob, _STATE_FILES))


def remove_copy(path: Path) -> bool:
    """Remove a copy that `checkpoint` has made; return whether nothing is left of it.

    What holds anything else than the files of a database is no such copy, and stays.
    """
    if path.is_symlink() or not path.is_dir():
        return not os.path.lexists(path)
    own = {*state_files(path), *path.glob("OPTIONS-*"), path / _CONFIG}
    files = [*path.iterdir()]
    is_own = own.issuperset(files) and all(file.is_file() for file in files)
    if is_own:
        shutil.rmtree(path, ignore_errors=True)
    return is_own


@contextlib.contextmanager
def link_files(path: Path) -> Iterator[str]:
    """Yield a folder of links to the files in `path` that hold the state, and copies of its logs.

    RocksDB would read the list of files first, and the log after it. A flush of a writer between
    the two would be a state whose rows are in a file that is not in the list yet. So the log is
    copied first: then rows may be there that no state counts, as after a crash.
    """
    with contextlib.ExitStack() as stack:
        try:
            links = Path(stack.enter_context(TemporaryDirectory(prefix="streamer-")))
            _copy(path.glob("*.log"), links)
            for name, file in _copy_and_open(path, links, stack).items():
                Path(links, name).symlink_to(f"/proc/self/fd/{file}")
        except OSError as error:
            raise StoreUnavailable(
                f"Cannot copy the log of the index {path} to a temporary folder: {error}. "
                "Name another folder for that with TMPDIR."
            ) from error
        yield str(links)


def _copy_and_open(path: Path, links: Path, stack: contextlib.ExitStack) -> dict[str, int]:
    """Copy the list of files, and open them: they are there until then, though a writer drops them.

    It is done again where the list has changed meanwhile.
    """
    for _ in range(_LISTS_READ_MAX):
        seen = list_files(path, "MANIFEST-*")
        _copy([*path.glob("CURRENT"), *path.glob("MANIFEST-*")], links)
        opened = {}
        with contextlib.ExitStack() as closing:
            for file in path.glob("*.sst"):
                with contextlib.suppress(FileNotFoundError):
                    opened[file.name] = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
                    closing.callback(os.close, opened[file.name])
            if list_files(path, "MANIFEST-*") == seen:
                stack.push(closing.pop_all())
                break
    return opened


def list_files(path: Path, pattern: str = "*") -> list[tuple[str, int]]:
    """Return the names and sizes of the files of a database whose names fit a pattern."""
    found = []
    for file in path.glob(pattern):
        with contextlib.suppress(FileNotFoundError):
            found.append((file.name, file.stat().st_size))
    return sorted(found)


def _copy(files: Iterable[Path], folder: Path) -> None:
    for file in files:
        with contextlib.suppress(FileNotFoundError):  # a writer begins another one
            shutil.copyfile(file, folder / file.name)


def check_logs(path: Path, copies: Path) -> None:
    """Refuse logs in which RocksDB would go round for ever, holding the interpreter.

    They are `copies` of those of the database in `path`. It goes round at a part of a record that
    claims to be of a recycled log, which a single flipped bit makes of any other; checksums are
    compared only later. All other damage it finds itself.

    Raises:
        StoreDamaged: there is such a part.
    """
    for file in [*copies.glob("MANIFEST-*"), *copies.glob("*.log")]:
        with file.open("rb") as log:
            at, size = 0, os.fstat(log.fileno()).st_size
            while at + LOG_HEADER_BYTES <= size:
                left = LOG_BLOCK_BYTES - at % LOG_BLOCK_BYTES
                if left < LOG_HEADER_BYTES:
                    at += left
                    continue
                header = os.pread(log.fileno(), LOG_HEADER_BYTES, at)
                if len(header) == LOG_HEADER_BYTES and header[-1] in RECYCLED_TYPES:
                    what = f"the record at byte {at:,} has a type that none has"
                    raise damage_error(path / file.name, what)
                at += LOG_HEADER_BYTES + int.from_bytes(header[4:6], "little")
