"""PAGES arguments as sources: which files there are, what each one is, and whether it is the same.

Of a directory the page files below it are read, by name. What cannot be opened, or is of another
kind, is an error here, before anything is read. A file's identity is its resolved path and a digest
of its beginning, with the length that the digest covers: so a file that has only grown is known
again.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from streamer.errors import InputError, on_failure
from streamer.pages import folders, formats
from streamer.pages.bytestream import FIRST_BYTES, STANDARD_INPUT, ByteStream, first_bytes
from streamer.pages.chunk import PAGE_BYTES_MAX, Chunk
from streamer.pages.identity import FileIdentity, folder_resolver, identify
from streamer.pages.lists import expand_lists
from streamer.pages.members import is_skippable
from streamer.pages.records import Format, InputFile, Records
from streamer.pages.remote import is_remote, look_up, name_of
from streamer.pages.stored_file import explaining_disk, read_beginning, status_of
from streamer.text.charset import other_charset

_CHARSET_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Source(InputFile):
    """One input to read: a regular file, a pipe, or standard input."""

    @property
    def total_bytes(self) -> int | None:
        """The size as stored, in bytes; None for a pipe."""
        return self.status()[0] if self.is_regular else None

    def identity(self) -> FileIdentity | None:
        """Return which file it is now; None for a pipe, which cannot be read again."""
        if self.remote is not None:
            return FileIdentity(self.remote.size, self.remote.version, 0)
        return identify(self.name) if self.is_regular else None

    def status(self) -> tuple[int, ...]:
        """Return size, times and inode: what is equal for a file that nobody has written to.

        Raises:
            InputError: the file cannot be read.
        """
        if self.remote is not None:
            return self.remote.status
        with explaining_disk(self.name):
            return status_of(os.stat(self.name))  # noqa: PTH116 - of many thousand

    def open(self, chunk_seconds: float | None = None) -> Records:
        """Open the file for its records; `chunk_seconds` is as for `ByteStream`.

        Raises:
            InputError: the file cannot be opened or read, or is of another kind.
        """
        stream = ByteStream(self.name, chunk_seconds, self.remote)
        with on_failure(stream.close):
            kind = self._format(stream)
            if not (self.is_regular or kind.packed):
                raise InputError(_describe_pipe(self.name, kind))
            if kind.is_utf8 and self.is_regular:
                head = stream.look(_CHARSET_BYTES)[:_CHARSET_BYTES]
                if found := other_charset(head, json=kind is formats.JSON_LINES):
                    raise InputError(  # letters would be U+FFFD, and different texts the same
                        f"{self.name}: is not UTF-8, but looks like {found}; convert it with "
                        f"iconv -f {found} -t UTF-8"
                    )
            return kind.open(self, stream)

    def read_small(self, *, complete: bool = True) -> tuple[Chunk, tuple[int, ...]] | None:
        """Return all records of a small file as one chunk, and its status.

        It is None where the file takes more care.

        Raises:
            InputError: the file cannot be read.
        """
        kind = formats.format_by_name(self.name)
        if kind is None or kind.small is None:
            return None
        if self.remote is None:
            found, data = read_beginning(self.name, kind.small_bytes_max + 1)
            status = status_of(found)
        else:
            status, is_small = self.remote.status, self.remote.size <= kind.small_bytes_max
            data = self.remote.whole() if is_small else b""
        is_whole = 0 < len(data) == status[0] <= kind.small_bytes_max
        if not is_whole or is_skippable(data) or formats.format_of(self.name, data) is not kind:
            return None
        if kind.is_utf8 and other_charset(data, json=kind is formats.JSON_LINES):
            return None  # which `open` says
        chunk = kind.small(self, data, complete)
        return None if chunk is None else (chunk, status)

    def likely_format(self) -> Format | None:
        """Return the format before anything is read, None of a pipe and of an empty file.

        It is recognised by its first bytes; of a remote file, which they would cost a request, by
        its name.

        Raises:
            InputError: the file cannot be read.
        """
        if self.remote is not None:
            return formats.format_by_name(self.name) if self.remote.size else None
        head = first_bytes(self.name, FIRST_BYTES) if self.is_regular else b""
        return formats.format_of(self.name, head) if head else None

    def _format(self, stream: ByteStream) -> Format:
        """Return the format by the first bytes, or else by the name; of a pipe it is lines."""
        if self.is_regular:
            head = stream.beginning(FIRST_BYTES)
            if self.remote and (fault := formats.fault_of(head, formats.format_by_name(self.name))):
                raise InputError(f"{self.name}: {fault}")
            return formats.format_of(self.name, head)
        head = stream.first
        if found := formats.format_by_head(head):
            return found
        if fault := formats.fault_of(head) or formats.fault_of_lines(head):
            raise InputError(f"{self.name}: {fault}")
        return formats.JSON_LINES


class Sources(NamedTuple):
    """What PAGES arguments stand for; `skipped` are in folders, and of which kind each is."""

    sources: list[Source]
    skipped: dict[str, str]


def open_sources(
    paths: Sequence[str],
    page_bytes_max: int = PAGE_BYTES_MAX,
    columns: frozenset[str] | None = None,
    url_prefix: str = "",
    cdx_base: str = "",
    choice: folders.FolderChoice = folders.ANY,
) -> Sources:
    """Return the sources that `paths` name, in that order; a file that is named twice comes once.

    A list of files means these, a folder or a prefix of a store the page files below it.
    `columns` are as in `InputFile`. The URL of a file that is one page is its path; with a prefix
    it is this and the way down from the folder that was named. `cdx_base` is as in `InputFile`.
    `choice` says which files of folders are wanted.

    Raises:
        InputError: a path is missing, unreadable or of no known kind, or a directory has no pages.
    """
    sources: dict[str, Source] = {}
    skipped: dict[str, str] = {}
    resolved, paths = folder_resolver(), expand_lists(paths)
    remote = look_up([path for path in paths if is_remote(path)])
    if "" in paths:  # which would be the folder one is in
        raise InputError("A path is the empty text; is a variable of the shell not set?")
    for path in map(name_of, paths):
        there = remote.get(path)
        objects = {each.name: each for each in there.objects} if there else {}
        found = [path]
        if is_folder := there.is_folder if there else Path(path).is_dir():
            found, others = (
                _choose(path, [*objects], choice, lambda name: objects[name].whole())  # noqa: B023 - called here
                if there
                else list_files_below(path, choice)
            )
            skipped |= others | dict.fromkeys(there.passed_over if there else (), folders.UNKNOWN)
            if not found:
                raise InputError(_describe_no_pages(path, others))
        for name in found:
            key = STANDARD_INPUT if name == STANDARD_INPUT else resolved(name)
            if key not in sources:
                regular = is_folder or _check(name)
                url = f"{url_prefix}{quote(_below(path, name))}" if url_prefix else name
                file = objects.get(name)
                sources[key] = Source(name, regular, page_bytes_max, url, columns, file, cdx_base)
    return Sources([*sources.values()], skipped)


def _describe_no_pages(folder: str, others: Mapping[str, str]) -> str:
    """Return what to say of a folder without pages."""
    if known := [name for name, kind in others.items() if kind != folders.UNKNOWN]:
        said = f"{len(known):,} files are passed over, as {known[0]} ({others[known[0]]})"
        return f"{folder}: holds no page files, and {said}; name the files to read as PAGES"
    return f"{folder}: holds no page files; page files end in {formats.KNOWN_NAMES}"


def _below(given: str, name: str) -> str:
    """Return the way from the folder `given` down to a file; of a file alone its name."""
    return os.path.relpath(name, given) if name != given else os.path.basename(name)  # noqa: PTH119 - of many thousand


class FolderFiles(NamedTuple):
    """The files of a folder, sorted by name: page files, and of which kind each other one is."""

    pages: list[str]
    others: dict[str, str]


def list_files_below(folder: str, choice: folders.FolderChoice = folders.ANY) -> FolderFiles:
    """Return the files below `folder`; a page file has the name of one, and is not of another kind.

    Of several ranks of formats the lowest is that of the pages: what is next to JSON lines as CSV,
    or as text, is about them.

    Raises:
        InputError: the folder or a page file cannot be read.
    """
    files, others, waiting = list[str](), dict[str, str](), [str(Path(folder))]
    with explaining_disk(folder, "check the directory"):
        while waiting:  # `os.walk` ends at a depth of 1,000
            try:
                entries = [*os.scandir(at := waiting.pop())]
            except PermissionError as error:
                why = f"{at}: no permission to read the folder; change its mode or the user"
                raise InputError(why) from error
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_dir():
                    others[entry.path] = folders.LINK
                elif entry.is_file() or entry.is_symlink():
                    files.append(entry.path)
                else:
                    others[entry.path] = folders.NO_FILE
    names = sorted(path.removeprefix("./") for path in files)
    found = _choose(folder, names, choice, _whole)
    return FolderFiles(found.pages, found.others | others)


def _whole(name: str) -> bytes:
    """Return all bytes of a file; raise InputError where it cannot be read."""
    with explaining_disk(name):
        return Path(name).read_bytes()


def _choose(
    folder: str, files: Sequence[str], choice: folders.FolderChoice, read: Callable[[str], bytes]
) -> FolderFiles:
    """Return which of the files of a folder are its pages."""
    paths = {name: _below(folder, name) for name in files}
    names = {path: name for name, path in paths.items()}
    known = {path: kind.name if (kind := formats.format_by_name(path)) else "" for path in names}
    over = folders.passed_over(known, choice, lambda path: read(names[path]), folder)
    left = [name for name in files if paths[name] not in over]
    kinds = {name: kind for name in left if (kind := _kind(name)) is not None}
    documents = _documents(kinds, choice)
    rank = min((kind.rank for name, kind in kinds.items() if name not in documents), default=0)
    found = FolderFiles([], {})
    for name in files:
        if name not in kinds:
            found.others[name] = over.get(paths[name], folders.UNKNOWN)
        elif name in documents:
            found.others[name] = folders.NO_BODY
        elif kinds[name].rank == rank or choice.include:
            found.pages.append(name)
        else:
            found.others[name] = folders.BESIDE
    for kind in {kinds[name].name: kinds[name] for name in found.pages}.values():
        kind.check()
    return found


def _documents(kinds: Mapping[str, Format], choice: folders.FolderChoice) -> set[str]:
    """Return the files of one JSON document that is no page, where there are other files, too."""
    given = [name for name in kinds if name.lower().endswith(".json") and not is_remote(name)]
    if choice.include or not choice.bodies or not 0 < len(given) < len(kinds):
        return set()
    small = (name for name in given if os.path.getsize(name) <= folders.DOCUMENT_BYTES_MAX)  # noqa: PTH202 - of many thousand
    return {name for name in small if folders.lacks_body(_whole(name), choice.bodies)}


def _kind(name: str) -> Format | None:
    """Return the format of a file; None: it is no page file, whatever its name says."""
    kind = formats.format_by_name(name)
    if kind is None or is_remote(name):
        return kind
    head = _readable_head(name)
    fault = formats.fault_of(head, kind)
    if formats.UTF16 in fault or formats.POINTER in fault:  # or a table would be missed
        raise InputError(f"{name}: {fault}")
    is_other = fault or (kind is formats.JSON_LINES and formats.fault_of_lines(head))
    return None if is_other else formats.format_of(name, head)


def _readable_head(name: str) -> bytes:
    """Return the first bytes of a regular file, none of a pipe, once it is known to be readable."""
    if not name.isprintable():
        raise InputError(f"{name!r}: the name is not printable UTF-8; rename the file")
    if not os.path.exists(name):  # noqa: PTH110 - of many thousand
        raise InputError(f"{name}: is a link to nothing; fetch what it leads to, or remove it")
    if not os.access(name, os.R_OK):
        raise InputError(f"{name}: no permission to read; change its mode or the user")
    return first_bytes(name, FIRST_BYTES) if os.path.isfile(name) else b""  # noqa: PTH113


def _check(name: str) -> bool:
    """Return whether the source `name` is a regular file, once it is known to be a page file."""
    if name == STANDARD_INPUT:
        return False
    kind, path, head = formats.format_by_name(name), Path(name), b""
    if not is_remote(name):
        if not path.exists():
            raise InputError(f"{name}: no such file; check the path")
        head = _readable_head(name)
        if not path.is_file():
            if kind and not kind.packed:
                raise InputError(_describe_pipe(name, kind))
            return False
    if fault := formats.fault_of(head, kind):
        raise InputError(f"{name}: {fault}")
    if kind is None:
        is_known = head.lstrip()[:1] == b"{" or head.startswith((b"WARC/", b"filedesc:"))
        rest = ", or pipe it into -" if is_known else " if it is one of these"
        raise InputError(f"{name}: not a known kind of file; name it {formats.KNOWN_NAMES}{rest}")
    formats.format_of(name, head).check()
    return True


def _describe_pipe(name: str, kind: Format) -> str:
    """Return what to say of a pipe with a format whose reader seeks."""
    return f"{name}: a {kind.name} file cannot be read from a pipe; name the file"
