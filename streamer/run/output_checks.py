"""Names of output files, and whether a run may write them; nothing is changed.

An output of an index has a small file next to it that names the index, so that no other run takes
the output for its own.
"""

import contextlib
import hashlib
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath

from streamer.compression import is_parquet, is_table_name, unpack, zstd
from streamer.errors import SettingsError, StoreMismatch, is_utf8

STANDARD_OUTPUT = "-"
ROWS_SUFFIX = ".rows"  # of what a table of kept rows is made of
LINES_SUFFIX = ".jsonl.zst"  # of what Parquet verdicts are made of
_TABLE_NAME = re.compile(r"\.csv(\.gz|\.zst)?$", re.IGNORECASE)
_OPENED = ("/dev/fd/", "/dev/std", "/proc/self/fd/")
_EMPTY_FRAME_MAX = 64  # bytes: more than gzip or zstd make of nothing
_EDGE_BYTES = 4 << 10  # at both ends of what is known, some five lines each
Made = tuple[int, str]  # of a file that was made at the end of a run: its size and digest


def table_of(name: str, suffix: str) -> str:
    """Return the table that is made of an output with this suffix; of others their own name.

    Of rows any table is made, of verdicts Parquet alone.
    """
    table = name.removesuffix(suffix)
    is_made = is_parquet if suffix == LINES_SUFFIX else is_table_name
    return table if is_made(table) else name


def is_table(name: str) -> bool:
    """Return by its name whether a verdict file holds CSV."""
    return bool(_TABLE_NAME.search(name))


def part_of(name: str) -> Path:
    """Return the file that an output is until it is complete; nobody else has one of this name."""
    return Path(name).with_name(f".{Path(name).name}.streamer-part")


def owner_file(name: str) -> Path:
    """Return the file that names the index whose output `name` is."""
    return Path(f"{name}.index")


def is_opened(name: str) -> bool:
    """Return whether an output is no file of its own: a device, or what a shell has opened."""
    path = Path(name)
    return _is_from_shell(name) or (path.exists() and not path.is_file())


def _is_from_shell(name: str) -> bool:
    return name == STANDARD_OUTPUT or name.startswith(_OPENED)


def output_key(name: str) -> str:
    """Return the name of an output in the index's state: its resolved path."""
    return name if name == STANDARD_OUTPUT else os.path.realpath(name)


def check_ending(option: str, name: str, *endings: str) -> None:
    """Raise SettingsError if the name of an output of lines has an ending, and none of `endings`.

    Each may be compressed. JSON lines have three, of which `.jsonl` means all.
    """
    plain = PurePath(name.lower())
    if plain.suffix in {".gz", ".zst"}:
        plain = plain.with_suffix("")
    if plain.suffix not in {"", ".ndjson", ".json", *endings}:
        raise SettingsError(
            f"--{option} {name} ends in {plain.suffix}, which names no format of this output. "
            f"End it in {', '.join(endings)}."
        )


def check_place(name: str) -> None:
    """Raise SettingsError unless an output can be a file of this name, or a device is there.

    What a shell has opened (`/dev/fd/3`) is taken as it is.
    """
    path = Path(name)
    if _is_from_shell(name):
        return
    if not is_utf8(path):
        raise SettingsError(f"Cannot write {name!r}: its path is not UTF-8. Name another file.")
    if not path.parent.is_dir():
        raise SettingsError(
            f"Cannot write {name}: there is no folder {path.parent}. Make it, or name another file."
        )
    try:
        mode = path.lstat().st_mode
    except OSError:
        return  # it is not there, or the system says why it cannot be written
    if stat.S_ISLNK(mode):
        raise SettingsError(f"Cannot write {name}: it is a link. Name the file that it leads to.")
    if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode) or stat.S_ISDIR(mode)):
        raise SettingsError(
            f"Cannot write {name}: it is a pipe or a device. Name a file, or - for standard output."
        )


def check_output(
    name: str, known: int | None, *, index: Path | None, overwrite: bool = False
) -> None:
    """Raise what `OutputFile.open` does for a file that is not the one it should be.

    Without an index an existing file is only taken to `overwrite` it, and never that of an index.
    Nothing is made or changed.
    """
    if name == STANDARD_OUTPUT:
        return
    check_place(name)
    _check_owner_file(name)
    size = Path(name).stat().st_size if Path(name).is_file() else 0
    if index is None and size:
        _check_overwrite(name, overwrite=overwrite)
    elif known is None and size and not _is_empty_frame(Path(name), size):
        raise SettingsError(
            f"{name} exists and was not written with this index. Name another file, or give "
            "--moved OLD=NEW if the index has written it under another path."
        )
    elif known is not None and size < known:
        raise StoreMismatch(
            f"{name} has {size} bytes, but the index has published {known} to it. "
            "Put the file back, or name another one for what is still to come."
        )


def _is_empty_frame(path: Path, size: int) -> bool:
    """Return whether a packed file has no content: a run that was killed at its first flush."""
    with (
        contextlib.suppress(OSError, EOFError, zlib.error, zstd.ZstdError),
        path.open("rb") as file,
    ):
        opened = unpack(file, path.name)
        return opened is not file and size <= _EMPTY_FRAME_MAX and not opened.read(1)
    return False


def check_new(names: Sequence[str], inputs: Iterable[str] = (), *, overwrite: bool) -> None:
    """Raise SettingsError if an output of no index cannot be written, or is there already.

    None may be another output, or an input.
    """
    check_distinct(names, inputs)
    for name in names:
        check_output(name, None, index=None, overwrite=overwrite)
        if name != STANDARD_OUTPUT:
            check_writable(Path(name))


def check_made(name: str, made: Iterable[Made], *, index: Path | None, overwrite: bool) -> None:
    """As `check_output`, for a file that is made when a run ends: it may be one of `made`.

    Raises:
        SettingsError: it cannot be written.
    """
    check_place(name)
    now = file_state(Path(name))
    if index is not None and now[0] and now not in made:
        raise SettingsError(
            f"{name} exists, and this index has not made it as it is. Move it away, and a run "
            "makes it again of all pages, or name another file."
        )
    check_output(name, 0, index=index, overwrite=overwrite)
    check_writable(Path(name))


def file_state(path: Path) -> Made:
    """Return the size and the digest of a file; of none they are 0 and ""."""
    size = path.stat().st_size if path.is_file() else 0
    return size, content_digest(path, size)


def _check_owner_file(name: str) -> None:
    """Raise SettingsError if the name of the file that names the index is taken."""
    owner = owner_file(name)
    try:
        is_file = stat.S_ISREG(owner.lstat().st_mode)
        is_own = is_file and re.fullmatch(rb"(/[^\n]*\n)?", owner.read_bytes())
    except FileNotFoundError:
        return
    except OSError:
        is_own = False
    if not is_own:
        raise SettingsError(
            f"{owner} is not of streamer, and {name} needs this name for a note of its index. "
            "Move it, or name another output."
        )


def _check_overwrite(name: str, *, overwrite: bool) -> None:
    parts = [f"{name}{each}" for each in (ROWS_SUFFIX, LINES_SUFFIX) if is_table_name(name)]
    for file in filter(Path.exists, map(owner_file, [name, *parts])):
        owner = file.read_text(errors="replace").strip()
        raise SettingsError(
            f"{name} holds verdicts, dead letters or pages of the index {owner}, which needs them "
            "to continue. Name another file."
        )
    if not overwrite:
        why = f"{name} already exists. Name another file, or give --overwrite to replace it."
        raise SettingsError(why)


def check_distinct(outputs: Iterable[str], inputs: Iterable[str]) -> None:
    """Raise SettingsError if an output is the same file as an input or another output.

    So it can be by a link or another path.
    """
    files: dict[tuple[int, int], str] = {}
    for name in outputs:
        with contextlib.suppress(OSError):  # it is not there yet
            found = Path(name).stat()
            if stat.S_ISREG(found.st_mode):
                other = files.setdefault((found.st_dev, found.st_ino), name)
                if other != name:
                    raise SettingsError(f"{name} and {other} are one file. Name another output.")
    for name in inputs if files else ():
        with contextlib.suppress(OSError):
            found = os.stat(name)  # noqa: PTH116 - of many thousand
            if (output := files.get((found.st_dev, found.st_ino))) is not None:
                why = f"{output} and the input {name} are the same file. Name another output."
                raise SettingsError(why)


def check_writable(path: Path) -> None:
    """Find out before long work whether a file can be written at its end; leave all as it was.

    Raises:
        SettingsError: it cannot.
    """
    check_place(str(path))
    with explaining_output(path):
        if path.exists() and not path.is_file() and not path.is_dir():
            return
        made = not path.exists()
        path.open("ab").close()
        if made:
            path.unlink()


@contextlib.contextmanager
def explaining_output(name: object) -> Iterator[None]:
    """Raise SettingsError where the system refuses to write an output."""
    try:
        yield
    except OSError as error:
        raise SettingsError(f"Cannot write {name}: {error.strerror}. Name another file.") from error


def content_digest(path: Path, length: int) -> str:
    """Return a digest of the first `length` bytes of a file, by both ends of them.

    It is "" where nothing is known: of a file that is shorter, cannot be read or is none.
    """
    if not length or not path.is_file():
        return ""
    digest = hashlib.blake2b(length.to_bytes(8, "little"), digest_size=16)
    try:
        with path.open("rb") as file:
            for start in (0, max(0, length - _EDGE_BYTES)):
                file.seek(start)
                edge = file.read(min(length, _EDGE_BYTES))
                digest.update(edge)
                if len(edge) < min(length, _EDGE_BYTES):
                    return ""
    except OSError:
        return ""
    return digest.hexdigest()
