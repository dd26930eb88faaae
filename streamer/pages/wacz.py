"""WACZ: a ZIP archive with WARC files, read in place as if these followed each other."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator

from streamer.errors import InputError
from streamer.pages.bytestream import ByteStream
from streamer.pages.records import InputFile
from streamer.pages.warc import WarcRecords

_READ_BYTES = 1 << 16
_FOLDER, _PACKED = "archive/", ".gz"  # where WACZ has its WARC files
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError)


def open_wacz(file: InputFile, stream: ByteStream) -> WarcRecords:
    """Return the records of all WARC files of an archive, these sorted by name.

    Raises:
        InputError: it is a pipe, no whole archive, or has no WARC file.
    """
    if not file.is_regular:
        raise InputError(f"{file.name}: a WACZ file cannot be read from a pipe; name the file")
    try:
        opened = zipfile.ZipFile(file.name)
    except _DAMAGED as error:
        raise InputError(f"{file.name}: is no whole WACZ file ({error}); copy it again") from error
    names = (name for name in opened.namelist() if name.startswith(_FOLDER))
    own = sorted(name for name in names if name.removesuffix(_PACKED).endswith(".warc"))
    if not own:
        opened.close()
        raise InputError(f"{file.name}: has no WARC file in {_FOLDER}; is it a WACZ file?")
    archives = _Archives(opened, own)
    stream.convert(archives, lambda: archives.damage)
    return WarcRecords(file, stream, "WARC")


class _Archives(io.RawIOBase):
    """The expanded bytes of the WARC files of an archive, one file after the other."""

    def __init__(self, opened: zipfile.ZipFile, names: list[str]) -> None:
        self.damage = ""
        self._zip = opened
        self._parts = self._read(names)
        self._ready = b""  # expanded, and not yet taken

    def _read(self, names: list[str]) -> Iterator[bytes]:
        for name in names:
            try:
                with self._zip.open(name) as stored:
                    opened = gzip.GzipFile(fileobj=stored) if name.endswith(_PACKED) else stored
                    while part := opened.read(_READ_BYTES):
                        yield part
            except _DAMAGED as error:
                self.damage = f"{name}: {error}"
                return

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        """Fill `buffer` with the next bytes; return how many, 0 at the end."""
        if not self._ready:
            self._ready = next(self._parts, b"")
        taken = min(len(buffer), len(self._ready))
        buffer[:taken], self._ready = self._ready[:taken], self._ready[taken:]
        return taken

    def close(self) -> None:
        """Close the archive."""
        self._zip.close()
        super().close()
