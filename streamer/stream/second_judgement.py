"""Dead letters of earlier runs as records to judge once more, under their own page refs.

Their bytes are those of the dead-letter file. A record that is a page now gets the verdict that it
lacked, and the catalogue notes that (`SourceEntry.rescue`): it is never judged again. One that
fails again stays the dead letter that it is, and no second one is written. What is judged here is a
source of its own in the log, numbered on and on, whose pages have the refs of the records' sources.

Chunks are cut by lines of the file, whatever is left out of them: so a run that is taken up cuts as
one that was left in peace. WARC records cannot be judged again: their letters lack their headers.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from streamer.errors import InputError
from streamer.model import DeadLetter, page_ref
from streamer.stream.batch import PageBatch
from streamer.stream.catalogue import Catalogue
from streamer.stream.files import kind_by_name
from streamer.stream.parse import Message, PageParser

_LINES_MAX = 1_000
_BYTES_MAX = 8 << 20

_DECODE = msgspec.json.Decoder(DeadLetter).decode


@dataclass(frozen=True, slots=True)
class SecondChunk:
    """Dead letters of one source, one a record, ascending; `codes` are theirs by ordinal."""

    source: int
    messages: list[Message]
    codes: dict[int, str]

    def parse(self, parser: PageParser) -> PageBatch:
        """Return the batch of what they are now."""
        sequences = [sequence for sequence, _, _ in self.messages]
        return parser.parse_messages(sequences[0], sequences[-1] + 1, self.messages)


def read_dead_letters(path: str, length: int, catalogue: Catalogue) -> Iterator[SecondChunk]:
    """Yield what can be judged again of the first `length` bytes of a dead-letter file.

    Raises:
        InputError: the file cannot be read, or a line of it is no dead letter.
    """
    numbers = {
        (entry.name, entry.partition): number for number, entry in enumerate(catalogue.entries)
    }
    found: dict[int, DeadLetter] = {}  # by page ref
    lines = bytes_in_chunk = 0
    for letter in _letters(Path(path), length):
        number = numbers.get((letter.page.topic, letter.page.partition))
        lines += 1
        bytes_in_chunk += len(letter.value_base64)
        if number is not None and _can_be_judged(letter):
            found[page_ref(number, letter.page.offset)] = letter
        if lines >= _LINES_MAX or bytes_in_chunk >= _BYTES_MAX:
            yield from _chunks(found, numbers, catalogue)
            found, lines, bytes_in_chunk = {}, 0, 0
    yield from _chunks(found, numbers, catalogue)


def _chunks(
    found: dict[int, DeadLetter], numbers: dict[tuple[str, int], int], catalogue: Catalogue
) -> Iterator[SecondChunk]:
    """Yield a chunk a source of what has no verdict yet."""
    by_source: dict[int, list[DeadLetter]] = {}
    for _, letter in sorted(found.items()):
        number = numbers[letter.page.topic, letter.page.partition]
        entry = catalogue.entries[number]
        if letter.page.offset < entry.position and not entry.is_rescued(letter.page.offset):
            by_source.setdefault(number, []).append(letter)
    for number, letters in by_source.items():
        codes = {letter.page.offset: letter.code for letter in letters}
        yield SecondChunk(number, [_message(letter) for letter in letters], codes)


def _letters(path: Path, length: int) -> Iterator[DeadLetter]:
    try:
        with path.open("rb") as file:
            number = 0
            while file.tell() < length:
                number += 1
                yield _DECODE(file.readline())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; check the path") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise InputError(f"{path}:{number}: not a dead letter ({error})") from error


def _can_be_judged(letter: DeadLetter) -> bool:
    name = letter.page.topic.lower().removesuffix(".zst")  # as a pipe may be called
    return not letter.truncated and not kind_by_name(name)


def _message(letter: DeadLetter) -> Message:
    key = None if letter.key_base64 is None else base64.b64decode(letter.key_base64)
    return letter.page.offset, key, base64.b64decode(letter.value_base64)
