"""Dead letters of an earlier run as an input: the records that they hold are judged again.

A line is read as the message that it was, with its key. What cannot be judged again stays a dead
letter with its code: one that was cut, or a record of a WARC or ARC file, whose headers a dead
letter lacks. A line that is no dead letter is a message itself.
"""

# A record that is judged again gets the place of its dead letter. Keeping its old place took a
# source of its own in the log, intervals in the catalogue, and 500 lines.

import base64
from collections.abc import Callable, Iterator
from dataclasses import replace

import msgspec

from streamer.model import DeadLetter
from streamer.pages.bytestream import ByteStream
from streamer.pages.chunk import Chunk, Ending, Message, RejectedRecord
from streamer.pages.lines import LineRecords
from streamer.pages.records import InputFile
from streamer.text.slices import Slices

_SHARE_OF_A_PAGE = 2  # base64 makes four bytes of three, and there is a key

_decode = msgspec.json.Decoder(DeadLetter).decode


class LetterRecords(LineRecords):
    """The records of the dead letters of a file; `is_message` says so of a source by its name."""

    def __init__(
        self, file: InputFile, stream: ByteStream, is_message: Callable[[str], bool]
    ) -> None:
        longer = replace(file, page_bytes_max=_SHARE_OF_A_PAGE * file.page_bytes_max)
        super().__init__(longer, stream)
        self._is_message = is_message

    def chunks(self, start: int, ending: Ending, *, complete: bool = True) -> Iterator[Chunk]:
        """As in `Records`."""
        for chunk in super().chunks(start, ending, complete=complete):
            yield self._opened(chunk) if chunk.lines else chunk

    def _opened(self, chunk: Chunk) -> Chunk:
        """Return the chunk with what the dead letters hold."""
        opened = replace(chunk, lines=Slices.joined())
        for ordinal, line in enumerate(chunk.lines, chunk.start):
            found = self._record(ordinal, bytes(line))
            if isinstance(found, RejectedRecord):
                opened.dead.append(found)
            else:
                opened.messages.append(found)
        return opened

    def _record(self, ordinal: int, line: bytes) -> Message | RejectedRecord:
        try:
            letter = _decode(line)
            key = None if letter.key_base64 is None else base64.b64decode(letter.key_base64)
            value = base64.b64decode(letter.value_base64)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return ordinal, None, line.strip()
        if letter.truncated or not self._is_message(letter.page.topic):
            size = letter.value_bytes
            return RejectedRecord(ordinal, letter.code, letter.detail, key, value, size)
        return ordinal, key, value
