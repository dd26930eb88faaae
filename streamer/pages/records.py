"""What an input file is to its reader: records in order, from any place that was reached before.

A format (`Format`) says how its files are known, by their names or by their first bytes, and opens
one as `Records`. formats.py has the table of formats; docs/extending.md shows how one is added.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from streamer.pages.bytestream import ByteStream, Mark, Trail
from streamer.pages.chunk import PAGE_BYTES_MAX, Chunk, Ending
from streamer.pages.members import Gap
from streamer.pages.remote import RemoteObject

SMALL_BYTES_MAX = 64 << 10  # of a file that is read at once
COMPRESSIONS = (".gz", ".zst")
_STEP_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file or pipe to be read.

    Attributes:
        name: as given, or the directory as given and the way down from it.
        is_regular: a file that can be read again and whose size is known.
        page_bytes_max: the largest page.
        url: of a file that is one page.
        columns: the columns of a table that are wanted; None: all.
        remote: where it is, if it is not on this machine.
        cdx_base: the folder or URL of the archives that a CDX file names; "": as a list has it.
    """

    name: str
    is_regular: bool
    page_bytes_max: int = PAGE_BYTES_MAX
    url: str = ""
    columns: frozenset[str] | None = None
    remote: RemoteObject | None = None
    cdx_base: str = ""


class Records(AbstractContextManager["Records"]):
    """The records of an open file, read once, in order; a context manager that closes it.

    The records of this class are read from decompressed bytes. A subclass gives the chunks, and
    replaces what differs in its format.

    Attributes:
        look: returns the first bytes of a pipe, as `ByteStream.look`; nothing is taken.
        status: the file's as it was opened, as in `ByteStream`.
    """

    def __init__(self, file: InputFile, stream: ByteStream) -> None:
        self._file = file
        self._stream = stream
        self._trail = Trail()
        self.look = stream.look
        self.status = stream.status

    def __exit__(self, *_error: object) -> None:
        self._stream.close()

    @property
    def damage(self) -> str | None:
        """Why the file could not be read further, and where; None as long as it could."""
        return self._stream.damage

    @property
    def is_converted(self) -> bool:
        """Whether the same records may be in a file that begins with other bytes."""
        return self._stream.is_compressed or self._stream.is_converted

    def mark(self) -> Mark:
        """Return the place that was reached."""
        return self._trail.mark()

    def follow(self, mark: Mark) -> Iterator[int]:
        """Go from the beginning to a mark; yield the stored bytes read so far.

        `mark()` is another one afterwards where the file is not the same up to there. At the end a
        newline is taken as read where it alone is missing: a last line counts without.
        """
        while left := mark.offset - self._trail.offset:
            part = self._stream.read(min(left, _STEP_BYTES))
            if part != b"":
                self._trail.take(part or b"")
                yield self._stream.bytes_read
            elif not self._recover():
                break
        if mark.offset - self._trail.offset == 1 and not self._stream.damage:
            self._trail.take(b"\n")

    def chunks(self, start: int, ending: Ending, *, complete: bool = True) -> Iterator[Chunk]:
        """Yield the records from here on, as the ordinals from `start` on, in chunks without gaps.

        `ending` notes how the reading ended. Without `complete` a record that has no end yet is
        left, for a run that finds more.
        """
        raise NotImplementedError

    def _recover(self) -> Gap | None:
        """Go on after damage, where the format can; return what it takes, None where all."""
        return None


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of files with pages.

    Attributes:
        name: as in messages.
        suffixes: of the names of its files, in lower case.
        open: returns the records of a file; they close the stream, which has the file's bytes.
        begins: returns whether a file of this format begins so, whatever its name is.
        packed: the suffixes that may follow those: of a compression. None where the reader seeks,
            which neither a compressed file nor a pipe allows.
        rank: of the formats in a folder only those of the lowest rank are read.
        is_message: its dead letters are JSON messages, which can be judged again.
        is_utf8: its files are text that names no charset.
        small: returns the records of a small file, of which it gets all bytes, as one chunk; the
            flag is as in `Records.chunks`. None: the file takes more care, as all files of the
            format do if there is no function.
        small_bytes_max: of a file that is small.
        check: raises SettingsError where what reads the format is not installed.
    """

    name: str
    suffixes: tuple[str, ...]
    open: Callable[[InputFile, ByteStream], Records]
    begins: Callable[[bytes], object] = lambda _head: False
    packed: tuple[str, ...] = COMPRESSIONS
    rank: int = 0
    is_message: bool = True
    is_utf8: bool = False
    small: Callable[[InputFile, bytes, bool], Chunk | None] | None = None
    small_bytes_max: int = SMALL_BYTES_MAX
    check: Callable[[], None] = lambda: None
