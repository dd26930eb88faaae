"""The errors, by what the operator does about them.

    StreamerError                exit 1   something failed; the message says what to do
    ├── SettingsError            exit 2   change the settings or the command line
    ├── StoreMismatch            exit 3   the index belongs to other settings or another input
    ├── StoreDamaged             exit 3   the index is damaged: restore it, or build it again
    ├── StoreUnavailable         exit 1   the disk is full or fails, or the index is in use
    ├── InputError               exit 1   an input cannot be opened or read
    └── OutputClosed             exit 141 the reader of standard output has closed it: no message
    InvalidPage                  never leaves a stage: the page becomes a dead letter, the run goes
    on

A message is one or two sentences: the cause with its values, then the remedy.

What the system or RocksDB says of an index becomes one of these here, with cause and remedy.
"""

import contextlib
import errno
import re
from collections.abc import Callable, Iterator
from pathlib import Path

_USER = re.compile(
    r"(\w[\w+.-]*://)[^\s/?#'\"]*@|(?<![^\s'\"=,(])[^\s/@:'\"=,(]+:[^\s/@'\"]+@(?=[\w\[])"
)
_URL = re.compile(r"\w[\w+.-]*://[^\s'\"<>]*[^\s'\"<>.,;:)]")
_VALUE = re.compile(r"=[^&;#]*")


def mask(text: str) -> str:
    """Return a text without the users, passwords and values of queries that its URLs have."""
    if "@" not in text and "://" not in text:
        return text
    return _URL.sub(_drop_values, _USER.sub(lambda found: f"{found[1] or ''}***@", text))


def _drop_values(url: re.Match[str]) -> str:
    place, mark, query = url[0].partition("?")
    hidden = _VALUE.sub("=***", query)
    return f"{place}{mark}{hidden if '=' in hidden or not query else '***'}"


class StreamerError(Exception):
    """End the run with one clear sentence, which shows no password of a URL."""

    exit_code = 1

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(mask(one) if isinstance(one, str) else one for one in arguments))


class SettingsError(StreamerError):
    """Report a setting or an option that cannot be used as given."""

    exit_code = 2


class StoreMismatch(StreamerError):  # noqa: N818 - a state of the index, the name operators search for
    """Report an index whose settings, position or inputs are not the ones of this run."""

    exit_code = 3


class StoreDamaged(StreamerError):  # noqa: N818 - as StoreMismatch
    """Report an index of which something is missing or not what was written.

    Attributes:
        part: the file or folder of the index that is damaged.
        what: what is wrong with it.
    """

    exit_code = 3

    def __init__(self, part: str, what: str, remedy: str) -> None:
        super().__init__(f"The index file {part} is damaged ({what}). {remedy}")
        self.part, self.what = part, what


class StoreUnavailable(StreamerError):  # noqa: N818 - as StoreMismatch
    """Report an index that cannot be opened or written now."""


class InputError(StreamerError):
    """Report an input that cannot be opened or read."""


class OutputClosed(StreamerError):  # noqa: N818 - not a failure of ours
    """End the run in silence, as a program that gets SIGPIPE: its output has no reader any more."""

    exit_code = 141


class InvalidPage(Exception):  # noqa: N818 - not an error of the run
    """Turn one page into a dead letter.

    Attributes:
        code: a stable, documented word (docs/dead-letters.md lists them).
        detail: what was found, without page text.
    """

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code, self.detail = code, detail


class SkippedRecord(Exception):  # noqa: N818 - not an error of the run
    """Count one record as skipped: it is no page, by the rules of its source.

    Attributes:
        code: a stable, documented word, counted in the summary.
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@contextlib.contextmanager
def on_failure(undo: Callable[[], object]) -> Iterator[None]:
    """Call `undo` if the body raises anything, an interrupt included."""
    try:
        yield
    except BaseException:
        undo()
        raise


@contextlib.contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Import what an extra of the distribution brings, and what `what` needs.

    Raises:
        SettingsError: it is not installed.
    """
    try:
        yield
    except ImportError as error:
        raise SettingsError(
            f"{what} needs {error.name}, which is not installed. Install streamer with the extra "
            f"{extra}: in a clone, pip install '.[{extra}]' (README.md, Install)."
        ) from error


DAMAGE_REMEDY = (
    "Put back a copy of the whole index, or remove its folder and build it again: a worker does so "
    "from its log. `streamer check --deep` says what is damaged."
)
_FULL = {errno.ENOSPC, errno.EDQUOT}
_RIGHTS = {errno.EACCES, errno.EPERM, errno.EROFS}
_GONE = "No such file or directory"

# RocksDB's errors differ in their texts only. Damage are those that begin with one of
# these statuses, and a missing file. Any other may pass, as "Stale file handle" of a network disk:
# nothing may be removed because of it.
_DAMAGE_HEADS = ("Corruption", "NotFound", "Not implemented", "Invalid argument")

# What the system refuses for now:
_FULL_TEXTS = ("No space left on device", "Disk quota exceeded")
_LOCK_TEXTS = ("IO error: While lock file", "IO error: lock ")
_RIGHTS_TEXTS = ("Permission denied", "Operation not permitted", "Read-only file system")


def damage_error(path: Path, what: str) -> StoreDamaged:
    """Return the error about a file or folder of an index that is not what was written."""
    return StoreDamaged(str(path), what, DAMAGE_REMEDY)


def is_utf8(path: Path) -> bool:
    """Return whether a path is UTF-8 from the root on, as what is noted of it must be."""
    real = str(path.resolve())
    return real.encode(errors="ignore").decode() == real


def is_there(path: Path) -> bool:
    """Return whether a path leads to something.

    Raises:
        OSError: the system does not say. From Python 3.14 on `Path.exists` takes that for a no.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


@contextlib.contextmanager
def explain_failures(path: Path) -> Iterator[None]:
    """Turn what the system says about the file or folder `path` into our errors."""
    try:
        yield
    except BlockingIOError as error:
        raise _describe_lock(path) from error
    except OSError as error:
        if error.errno in _FULL:
            raise _full(path) from error
        if error.errno == errno.ENOENT:
            raise damage_error(path, str(error.strerror)) from error
        said, of_rights = str(error.strerror or error), error.errno in _RIGHTS
        raise _describe_refusal(path, said, of_rights) from error


def database_error(path: Path, text: str) -> StoreDamaged | StoreUnavailable:
    """Return the error for what RocksDB says of the database in `path`."""
    if any(part in text for part in _FULL_TEXTS):
        return _full(path)
    if text.startswith(_LOCK_TEXTS):
        return _describe_lock(path)
    if text.startswith(_DAMAGE_HEADS) or _GONE in text:
        return damage_error(path, text)
    return _describe_refusal(path, text, any(part in text for part in _RIGHTS_TEXTS))


def _describe_refusal(path: Path, what: str, of_rights: bool) -> StoreUnavailable:  # noqa: FBT001 - private
    remedy = (
        "Its folder must be readable, and to judge pages with it also writable: fix the "
        "permissions, or use a copy."
        if of_rights
        else "Nothing in it has to be removed. Check its disk and the limits of the process, and "
        "run the same command again."
    )
    return StoreUnavailable(f"The index {path} cannot be used now: {what}. {remedy}")


def _full(path: Path) -> StoreUnavailable:
    return StoreUnavailable(
        f"No space is left on the disk of the index {path}. Free some and run the same command "
        "again; it continues where the index is."
    )


def open_here(path: Path) -> StoreUnavailable:
    """Return the error about an index that this process has open already."""
    return StoreUnavailable(f"The index {path} is open in this process already. Close it first.")


def _describe_lock(path: Path) -> StoreUnavailable:
    return StoreUnavailable(
        f"The index {path} is in use by another process. Wait for its end, or use another folder."
    )
