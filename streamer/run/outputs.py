"""Output files that end with each line exactly once, whatever was killed in between.

With each flush the index stores the length of each output file. What comes after that length was
written by a run that was killed before its next flush: it is cut off, and written again with the
same bytes. Outputs reach the disk before the flush that stores their lengths, so no length is
beyond the end of its file. The index also stores a digest of what comes before, and refuses a file
that has been replaced.

Lines reach the system as soon as they are written, so a reader that follows a file sees them. Those
of a file whose name ends in .gz or .zst are compressed. A flush ends a gzip member or a zstd frame:
so the part that the index knows is complete, can be read by any tool, and can be cut there.
"""

import contextlib
import errno
import io
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol, Self

from streamer.compression import unpack, zstd
from streamer.errors import OutputClosed, StoreUnavailable
from streamer.pages.made_bytes import Parts
from streamer.run import output_checks
from streamer.text.visible import Buffer

_GZIP_LEVEL = 6  # with a header that has no name and no time
# Not of WARC: some readers end at an empty member before others.
_PACKED_LINES = re.compile(r"\.(jsonl|ndjson|json|csv)\.(gz|zst)$", re.IGNORECASE)


Claim = Callable[[Path], None]


class StandardOutput:
    """Standard output, written to its last byte.

    Python's own buffered writer (3.11) loses part of a large write to a pipe if the process is
    stopped and continued meanwhile, as a shell's job control or a container's pause does.
    """

    def write(self, data: Buffer) -> int:
        """Write all of `data`, though the system takes parts of it only; return its size."""
        left = memoryview(data)
        while left:
            left = left[os.write(sys.stdout.fileno(), left) :]
        return memoryview(data).nbytes


class _Packer(Protocol):
    """What compresses one gzip member or zstd frame."""

    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self) -> bytes: ...


def _new_packer(name: str) -> _Packer | None:
    """Return what compresses the lines of a file so named; None where nothing does."""
    if name.lower().endswith(".gz"):
        return zlib.compressobj(_GZIP_LEVEL, wbits=31)
    if name.lower().endswith(".zst"):
        return zstd.ZstdCompressor(options={zstd.CompressionParameter.checksum_flag: 1})
    return None


def pack(name: str, parts: Iterable[Buffer], *, alone: bool = False) -> bytes:
    """Return parts as an output of this name stores them; to be called in any thread.

    Where it is compressed, all of them are one gzip member or zstd frame; `alone`: each is.
    """
    if _new_packer(name) is None:
        return b"".join(parts)
    members = parts if alone else [b"".join(parts)]
    return b"".join(_pack_member(name, each) for each in members)


def _pack_member(name: str, data: Buffer) -> bytes:
    packer = _new_packer(name)
    assert packer is not None, name
    return packer.compress(bytes(data)) + packer.flush()


class OutputFile:
    """An append-only output. `length` is its length in bytes as stored.

    No existing file is changed before `start`; `open` may create an empty one. Standard output
    cannot be cut: after a kill, lines may come again there, the same bytes.

    `index` is the folder of the index whose output it is; None for a run without one. A small file
    next to the output names it, so that no other run takes the output for its own.
    """

    def __init__(
        self, name: str, file: io.FileIO | StandardOutput, length: int, index: Path | None = None
    ) -> None:
        self.name = name
        self.length = length
        self._file = file
        self._index = index
        self._failure: StoreUnavailable | OutputClosed | None = None
        self._packer: _Packer | None = None  # of a member or frame that was begun

    @property
    def key(self) -> str:
        """Return the name under which the index knows this output."""
        return output_checks.output_key(self.name)

    @classmethod
    def open(
        cls, name: str, known: int | None, *, index: Path | None, overwrite: bool = False
    ) -> Self:
        """Open an output whose first `known` bytes belong to the index's state; None: never seen.

        Raises:
            StoreMismatch: the file is shorter than the index knows it to be.
            SettingsError: it exists and is not this index's, or cannot be opened.
        """
        output_checks.check_output(name, known, index=index, overwrite=overwrite)
        if name == output_checks.STANDARD_OUTPUT:
            return cls(name, StandardOutput(), 0)
        path = Path(name)
        with output_checks.explaining_output(name):
            file = path.open("r+b" if path.exists() else "w+b", buffering=0)
        return cls(name, file, known or 0, index)

    def start(self) -> None:
        """Cut off what is not of the index's state: from here on, lines are appended.

        Raises:
            SettingsError: the file cannot be cut.
        """
        path = Path(self.name)
        with output_checks.explaining_output(self.name):
            if not isinstance(self._file, StandardOutput) and path.is_file():
                if self._index is None and path.stat().st_nlink > 1:  # the other names keep it
                    self._file.close()
                    path.unlink()
                    self._file = path.open("x+b", buffering=0)
                self._file.truncate(self.length)
                self._file.seek(self.length)
                self._name_index(output_checks.owner_file(self.name))

    def _name_index(self, file: Path) -> None:
        """Write the file that names the index of the output."""
        if self._index is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(f"{self._index.resolve()}\n")

    def digest(self) -> str:
        """Return the digest of what was synced; "" of what is no file."""
        return output_checks.content_digest(Path(self.name), self.length)

    def write(self, data: bytes) -> None:
        """Append `data`.

        Raises:
            StoreUnavailable: the disk is full, or the reader of a named pipe is gone.
            OutputClosed: that of standard output is.
        """
        if self._packer is None and data:
            self._packer = _new_packer(self.name)
        self._write(data if self._packer is None else self._packer.compress(data))

    def write_packed(self, data: bytes) -> None:
        """Append what `pack` has made.

        Raises:
            StoreUnavailable, OutputClosed: as for `write`.
        """
        self._end_member()
        self._write(data)

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[self._file.write(left) or 0 :]
        except OSError as error:
            self._failure = self._describe_failure(error)
            raise self._failure from error
        self.length += len(data)

    def _end_member(self) -> None:
        packer, self._packer = self._packer, None
        if packer is not None:
            self._write(packer.flush())

    def sync(self, *, last: bool = False) -> None:
        """Bring everything to the disk, as members or frames that are whole.

        With `last` nothing comes after it: what is packed has a member, if an empty one.

        Raises:
            StoreUnavailable: it cannot be, or a write before has failed. So no flush of the index
                counts lines that are not in the file.
            OutputClosed: as for `write`.
        """
        if self._failure is not None:
            raise self._failure
        is_empty = not self.length and self._packer is None
        if last and is_empty and _PACKED_LINES.search(self.name):
            self._packer = _new_packer(self.name)  # no tool takes an empty file for a packed one
        self._end_member()
        try:
            if not isinstance(self._file, StandardOutput):
                os.fsync(self._file.fileno())
        except OSError as error:
            if error.errno != errno.EINVAL:  # a device or pipe cannot be synced and need not be
                raise self._describe_failure(error) from error

    def close(self) -> None:
        """Close the file; what cannot be written then is lost."""
        if not isinstance(self._file, StandardOutput):
            with contextlib.suppress(OSError, StoreUnavailable):
                self._end_member()  # for a reader: an index knows less, and cuts it
            with contextlib.suppress(OSError):
                self._file.close()

    def _describe_failure(self, error: OSError) -> StoreUnavailable | OutputClosed:
        if error.errno == errno.EPIPE and self.name == output_checks.STANDARD_OUTPUT:
            return OutputClosed()
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            again = "" if self._index is None else "; it continues where the index is"
            remedy = f"Free some and run the same command again{again}."
            return StoreUnavailable(f"No space is left for {self.name}. {remedy}")
        return StoreUnavailable(f"Cannot write {self.name}: {error.strerror}.")


@contextlib.contextmanager
def complete_output(name: str, claim: Claim | None = None) -> Iterator[OutputFile]:
    """Open an output that has another name until it is complete; if something fails, none is left.

    `claim` gets the complete file before it takes its name. Standard output and devices are written
    as they are.

    Raises:
        SettingsError: it cannot be written.
    """
    output_checks.check_place(name)
    target = Path(name)
    if output_checks.is_opened(name):
        with contextlib.closing(OutputFile.open(name, None, index=None)) as file:
            yield file
            file.sync(last=True)
        return
    part = output_checks.part_of(name)
    with output_checks.explaining_output(part):
        part.unlink(missing_ok=True)  # of a killed run; a link is not followed
        raw = part.open("xb", buffering=0)
    try:
        with contextlib.closing(OutputFile(name, raw, 0)) as file:
            yield file
            file.sync(last=True)
        if claim is not None:
            claim(part)
        with output_checks.explaining_output(name):
            part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that an option has named, whole or not at all.

    Raises:
        SettingsError: it cannot be written.
    """
    with complete_output(str(path)) as file:
        file.write_packed(data)


class OutputSink(io.RawIOBase):
    """An output as a file object that can be appended to."""

    def __init__(self, file: OutputFile) -> None:
        self._file = file

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Buffer, /) -> int:  # type: ignore[override]
        """Append `data`; raise as `OutputFile.write_packed`."""
        self._file.write_packed(bytes(data))
        return len(data)

    def tell(self) -> int:
        """Return how much there is."""
        return self._file.length


def read_lines_within(path: Path, length: int) -> Iterator[bytes]:
    """Yield the lines in the first `length` stored bytes of an output, which a flush knows.

    Raises:
        OSError: they cannot be read.
        ValueError: they are damaged.
    """
    if not length:
        return  # which would be no whole zstd frame
    with path.open("rb", buffering=0) as file:
        try:
            yield from unpack(io.BufferedReader(Parts(_first_part(file, length))), path.name)
        except (EOFError, zlib.error, zstd.ZstdError) as error:
            raise ValueError(f"damaged, {error}") from error


def _first_part(file: io.FileIO, length: int) -> Iterator[bytes]:
    """Yield the first `length` bytes of a file."""
    while length and (part := file.read(min(length, io.DEFAULT_BUFFER_SIZE))):
        length -= len(part)
        yield part
