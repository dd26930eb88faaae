"""Files that are one page each: HTML, plain text, Markdown.

Such a file is read as a WARC record of the type `resource` would be, which has a body and a type
and no HTTP headers: so its charset and its text are found in the same way, and a dead letter holds
the file's own bytes.
"""

from collections.abc import Iterator
from pathlib import PurePath

from streamer.errors import InputError
from streamer.pages.body import is_binary
from streamer.pages.bytestream import Trail
from streamer.pages.chunk import PAGE_FILE, Chunk, Ending, WarcPage, over_limit
from streamer.pages.members import GZIP_MAGIC, ZSTD_MAGIC
from streamer.pages.records import COMPRESSIONS, InputFile, Records

_READ_BYTES = 1 << 20
TYPES = {
    ".html": "text/html",
    ".htm": "text/html",
    ".xhtml": "application/xhtml+xml",
    ".txt": "text/plain",
    ".md": "text/markdown",
    ".markdown": "text/markdown",
}


class PageFileRecords(Records):
    """The one page of a file; one without a byte has none."""

    def chunks(self, start: int, ending: Ending, *, complete: bool = True) -> Iterator[Chunk]:
        """As in `Records`; the file is whole.

        Raises:
            InputError: the page was judged, and the file has grown since.
        """
        del complete
        limit, parts, size = self._file.page_bytes_max, [], 0
        while part := self._stream.read(_READ_BYTES):
            if start:
                raise InputError(
                    f"{self._file.name}: is longer than the page that was judged; give the new "
                    "page under another name"
                )
            self._trail.take(part)
            if size <= limit:
                parts.append(part)
            size += len(part)
        ending.damage = self._stream.damage or ""
        if ending.damage or not size:
            return
        chunk = one_page(self._file, b"".join(parts), size)
        chunk.amount, chunk.mark = self._stream.bytes_read, self._trail.mark()
        yield chunk


def one_page(file: InputFile, data: bytes, size: int) -> Chunk:
    """Return the chunk of a file of `size` bytes, of which `data` are the first, or all.

    What is binary has no type, and is skipped as such a message is.
    """
    if size > file.page_bytes_max:
        return Chunk(0, 1, dead=[over_limit(0, data, size)])
    name = PurePath(file.name)
    suffix = name.suffix if name.suffix.lower() not in COMPRESSIONS else name.with_suffix("").suffix
    kind = "" if is_binary(data) else TYPES.get(suffix.lower(), "")
    headers = {"warc-target-uri": file.url, "content-type": kind}
    return Chunk(0, 1, pages=[WarcPage(0, PAGE_FILE, headers, data)])


def small_page(file: InputFile, data: bytes, _complete: bool) -> Chunk | None:  # noqa: FBT001 - as others
    """Return the chunk of a whole file that is not compressed; None: it takes more care."""
    if data.startswith((GZIP_MAGIC, ZSTD_MAGIC)) or len(data) > file.page_bytes_max:
        return None
    if not data:
        return Chunk(0, 0)
    chunk, trail = one_page(file, data, len(data)), Trail()
    trail.take(data)
    chunk.amount, chunk.mark = len(data), trail.mark()
    return chunk
