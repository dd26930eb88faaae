"""WACZ: a ZIP archive with WARC files, read in place as if these followed each other."""

from __future__ import annotations

import gzip
import lzma
import zipfile
import zlib
from collections.abc import Iterator

from streamer.errors import InputError
from streamer.pages.bytestream import ByteStream, Parts
from streamer.pages.records import InputFile
from streamer.pages.warc import WarcRecords

_READ_BYTES = 1 << 16
_FOLDER, _PACKED = "archive/", ".gz"  # where WACZ has its WARC files
_DAMAGED = (  # ValueError: also of a name that is no UTF-8
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, NotImplementedError,
    RuntimeError, ValueError,
)  # fmt: skip


def open_wacz(file: InputFile, stream: ByteStream) -> WarcRecords:
    """Return the records of all WARC files of an archive, these sorted by name.

    Raises:
        InputError: it is a pipe, no whole archive, or has no WARC file.
    """
    if not file.is_regular:
        raise InputError(f"{file.name}: a WACZ file cannot be read from a pipe; name the file")
    try:
        opened = zipfile.ZipFile(stream.place)
    except _DAMAGED as error:
        raise InputError(f"{file.name}: is no whole WACZ file ({error}); copy it again") from error
    names = (name for name in opened.namelist() if name.startswith(_FOLDER))
    own = sorted(name for name in names if name.removesuffix(_PACKED).endswith(".warc"))
    if not own:
        opened.close()
        raise InputError(f"{file.name}: has no WARC file in {_FOLDER}; is it a WACZ file?")
    archives = _Archives(opened, own)
    stream.convert(Parts(archives.expanded()), lambda: archives.damage)
    return WarcRecords(file, stream, "WARC")


class _Archives:
    """The WARC files of an archive, one after the other; `damage` says what cannot be read."""

    def __init__(self, opened: zipfile.ZipFile, names: list[str]) -> None:
        self._zip, self._names = opened, names
        self.damage = ""

    def expanded(self) -> Iterator[bytes]:
        """Yield the bytes of all files, expanded; close the archive."""
        with self._zip:
            for name in self._names:
                try:
                    with self._zip.open(name) as stored:
                        opened = gzip.GzipFile(fileobj=stored) if name.endswith(_PACKED) else stored
                        while part := opened.read(_READ_BYTES):
                            yield part
                except _DAMAGED as error:
                    self.damage = f"{name}: {error}"
                    return
