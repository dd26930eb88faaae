"""WACZ: a ZIP archive with WARC files, read in place as if these followed each other."""

import lzma
import zipfile
import zlib
from collections.abc import Iterator
from itertools import pairwise

from streamer.compression import unpack, zstd
from streamer.errors import InputError
from streamer.pages.bytestream import ByteStream
from streamer.pages.made_bytes import Parts
from streamer.pages.records import InputFile
from streamer.pages.warc import WarcRecords

_READ_BYTES = 1 << 16
_FOLDER, _NAMES = "archive/", (".warc", ".warc.gz", ".warc.zst")  # of its WARC files
_HEADER_BYTES = 30  # before a member's name, at least
_DAMAGED = (  # ValueError: also of a name that is no UTF-8
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, NotImplementedError,
    RuntimeError, ValueError, zstd.ZstdError,
)  # fmt: skip


def open_wacz(file: InputFile, stream: ByteStream) -> WarcRecords:
    """Return the records of all WARC files of an archive, these sorted by name.

    Raises:
        InputError: it is no whole archive, has no WARC file, or members that overlap.
    """
    try:
        opened = zipfile.ZipFile(stream.place)
    except _DAMAGED as error:
        raise InputError(f"{file.name}: is no whole WACZ file ({error}); copy it again") from error
    names = (name for name in opened.namelist() if name.startswith(_FOLDER))
    own = sorted(name for name in names if name.endswith(_NAMES))
    if fault := _fault_of(opened, own):
        opened.close()
        raise InputError(f"{file.name}: {fault}")
    damage: list[str] = []
    stream.convert(Parts(_expand(opened, own, damage)), lambda: "".join(damage))
    return WarcRecords(file, stream, "WARC")


def _fault_of(opened: zipfile.ZipFile, own: list[str]) -> str:
    """Return why an archive with the WARC files `own` is refused; "" if it is not.

    Members that share bytes would have a small file expand to any size.
    """
    if not own:
        return f"has no WARC file in {_FOLDER}; is it a WACZ file?"
    if twice := next((a for a, b in pairwise(own) if a == b), ""):
        return f"lists {twice} more than once; make the WACZ file again"
    members = sorted(opened.infolist(), key=lambda each: each.header_offset)
    starts = [*(each.header_offset for each in members), opened.start_dir]
    for member, following in zip(members, starts[1:], strict=True):
        if member.header_offset + _HEADER_BYTES + member.compress_size > following:
            return f"its member {member.filename} overlaps what follows; make the WACZ file again"
    return ""


def _expand(opened: zipfile.ZipFile, names: list[str], damage: list[str]) -> Iterator[bytes]:
    """Yield the bytes of files of an archive, expanded; say in `damage` what cannot be read."""
    with opened:
        for name in names:
            try:
                with opened.open(name) as stored:
                    content = unpack(stored, name)
                    while part := content.read(_READ_BYTES):
                        yield part
            except _DAMAGED as error:
                damage.append(f"{name}: {error}")
                return
