"""What a replay reads, step by step, and in which order: the one thing that inputs differ in.

A replay takes steps as they come: a chunk of a source, the end of a source, other settings.
Verdicts depend on the order of the steps, so an input gives the same ones in every run over the
same records; and a run that is taken up again gives those that a quiet one would have given from
there on. Files are read here, one after the other; streamer/kafka/topic_replay.py reads topics.

Dead letters of earlier runs are records to judge once more, under their own page refs. Their bytes
are those of the dead-letter file. A record that is a page now gets the verdict that it lacked, and
the catalogue notes that (`SourceEntry.rescue`): it is never judged again. One that fails again
stays the dead letter that it is, and no second one is written. What is judged here is a source of
its own in the log, numbered on and on, whose pages have the refs of the records' sources. Chunks of
them are cut by lines of the file, whatever is left out: so a run that is taken up cuts as one that
was left in peace. WARC records cannot be judged again: their letters lack their headers.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from streamer.errors import InputError, StoreMismatch
from streamer.index.messages import Forget
from streamer.index.settings import IndexSettings
from streamer.model import DeadLetter, page_ref
from streamer.pages.bytestream import Mark
from streamer.pages.chunk import Chunk, Ending, Message, PageBatch
from streamer.pages.files import Source, format_by_name, status_of
from streamer.pages.parse import PageParser
from streamer.run.catalogue import Catalogue, SourceEntry, changed
from streamer.run.outputs import lines_within

_LINES_MAX = 1_000
_BYTES_MAX = 8 << 20

_DECODE = msgspec.json.Decoder(DeadLetter).decode


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """The end of a source, as far as there is anything now; `status` as the catalogue keeps it."""

    source: int
    amount: int
    status: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """Settings that are in force from here on."""

    settings: IndexSettings


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What a command wanted to be forgotten here, at the offset `number` of an index's log."""

    forget: Forget
    number: int


@dataclass(frozen=True, slots=True)
class Pause:
    """A moment in which what was read before can be judged; `all`: the next read may take long."""

    all: bool = False


@dataclass(frozen=True, slots=True)
class Checked:
    """So much of all sources was judged before, and is read again to see that it is the same."""

    amount: int


Step = Chunk | SourceEnd | SettingsChange | Forgotten | Checked | Pause


@dataclass(slots=True)
class InputReport:
    """What is to be told of sources, by name.

    Attributes:
        done_before: how many had nothing new.
        empty: those without a single byte.
        unended: those whose last line has no end yet, and was left.
        incomplete: those that cannot be read to their end, with what is wrong and where.
        passed_over: files that lay in directories and are no page files.
    """

    done_before: int = 0
    empty: list[str] = field(default_factory=list)
    unended: list[str] = field(default_factory=list)
    incomplete: dict[str, str] = field(default_factory=dict)
    passed_over: list[str] = field(default_factory=list)


class Input(Protocol):
    """What a replay is given; `report` is whole once all steps are taken."""

    report: InputReport

    def enter(self, catalogue: Catalogue) -> None:
        """Enter all sources in the catalogue; called once, before `steps`.

        Raises:
            StoreMismatch: a source is another one than the index has read under its name.
        """

    def steps(self) -> Iterator[Step]:
        """Yield what has not been judged.

        Raises:
            StreamerError: the input cannot be read, or has changed.
        """


def parsed(parser: PageParser, chunk: Chunk) -> PageBatch:
    """Return a chunk's batch; called in any thread.

    Raises:
        StoreMismatch: other records are pages than is told.
    """
    batch = parser.parse(chunk)
    if chunk.told_pages is not None and batch.sequences != chunk.told_pages:
        raise StoreMismatch(
            f"The log has {len(chunk.told_pages)} pages at the offsets {chunk.start} to "
            f"{chunk.end}, here {len(batch)} messages are pages. Give the worker's --preset or "
            "--fields, and its page_bytes_max."
        )
    return batch


class FileInput:
    """Files and pipes, one after the other; amounts are bytes as stored.

    Without `complete`, more may come: the last line of a file that has no end is no record yet.
    A chunk of a pipe ends `chunk_seconds` after its first record at the latest; None: no limit.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        complete: bool = True,
        chunk_seconds: float | None = None,
    ) -> None:
        self.sources = sources
        self._complete = complete
        self._chunk_seconds = chunk_seconds
        self._catalogue = Catalogue()
        self._numbers: dict[str, int] = {}
        self.report = InputReport()

    def enter(self, catalogue: Catalogue) -> None:
        """Enter all files in the catalogue; pipes are known once they are read.

        Raises:
            StoreMismatch: one of them has changed since the index read it.
            InputError: one of them cannot be read.
        """
        self._catalogue = catalogue
        for source in self.sources:
            if source.is_regular:
                self._numbers[source.name] = catalogue.enter(source)

    def steps(self) -> Iterator[Step]:
        """Yield the chunks after each file's position, and its end.

        Raises:
            StoreMismatch: the records before the position are others.
            InputError: a file cannot be read.
        """
        before = 0
        for source in self.sources:
            size = source.total_bytes or 0
            number = self._numbers.get(source.name, -1)
            if number >= 0 and self._catalogue.entries[number].finished:
                self._tell_nothing_new(self._catalogue.entries[number])
            else:
                after = before + size
                yield from self._small_steps(source, number, after) or self._steps_of(
                    source, number, before, after
                )
            before += size

    def _small_steps(self, source: Source, number: int, after: int) -> list[Step]:
        """Return all that `_steps_of` would yield of a small file; nothing of others."""
        if number < 0 or self._catalogue.entries[number].position:
            return []
        small = source.read_small(complete=self._complete)
        if small is None:
            return []
        chunk, status = small
        end = SourceEnd(number, after, status)
        if not chunk.end:
            self._tell_nothing_new(self._catalogue.entries[number])
            return [end]
        chunk.source, chunk.amount = number, after
        return [chunk, end]

    def _steps_of(self, source: Source, number: int, before: int, after: int) -> Iterator[Step]:
        """Yield what is new of one source, once what was judged is found unchanged."""
        if number < 0:
            yield Pause(all=True)
        with source.open(self._chunk_seconds) as records:
            if number < 0:
                number = self._catalogue.enter_stream(source.name, records.look)
            entry = self._catalogue.entries[number]
            for read in records.follow(entry.mark):
                yield Checked(before + read)
            if records.mark() != entry.mark and entry.position:
                if not records.damage:
                    raise StoreMismatch(_other_records(entry, source, records.mark()))
                self.report.incomplete[source.name] = records.damage
                return
            ending = Ending()
            at = before_all = entry.position  # which changes while the chunks are judged
            for chunk in records.chunks(at, ending, complete=self._complete):
                if chunk.end == chunk.start:
                    yield Pause(all=bool(records.damage))
                    continue
                at = chunk.end
                chunk.source, chunk.amount = number, before + chunk.amount
                yield chunk
            self._tell_end(source, ending, at)
            if ending.damage or ending.unended_bytes:
                return
            if at == before_all:
                self._tell_nothing_new(entry)
            yield SourceEnd(number, after, status_of(records.status))

    def _tell_end(self, source: Source, ending: Ending, records: int) -> None:
        if ending.unended_bytes and not source.is_regular:
            ending.damage = ending.damage or "it ends within a line"
        if ending.damage:
            self.report.incomplete[source.name] = f"{ending.damage}, after {records:,} records"
        elif ending.unended_bytes:
            self.report.unended.append(source.name)

    def _tell_nothing_new(self, entry: SourceEntry) -> None:
        if entry.position:
            self.report.done_before += 1
        else:
            self.report.empty.append(entry.name)


def _other_records(entry: SourceEntry, source: Source, reached: Mark) -> str:
    """Return the message about a source that begins otherwise than what was judged of it."""
    short = reached.offset < entry.mark.offset
    if source.is_regular:
        return changed(
            source.name, "it is shorter" if short else "records that were judged are others now"
        )
    what = "ends" if short else "goes on with others"
    return (
        f"{source.name} begins with records that the index has read from a pipe, and {what} within "
        f"the {entry.position:,} that were judged of it. Nothing of it was judged. Give the same "
        "pipe again, or put these pages into a file and give that."
    )


def read_dead_letters(path: str, length: int, catalogue: Catalogue) -> Iterator[Chunk]:
    """Yield what can be judged again of the first `length` bytes of a dead-letter file, as stored.

    Raises:
        InputError: the file cannot be read, or a line of it is no dead letter.
    """
    numbers = {
        (entry.name, entry.partition): number for number, entry in enumerate(catalogue.entries)
    }
    found: dict[int, DeadLetter] = {}  # by page ref
    lines = bytes_in_chunk = 0
    for letter in letters_in(Path(path), length):
        number = numbers.get((letter.page.topic, letter.page.partition))
        lines += 1
        bytes_in_chunk += len(letter.value_base64)
        if number is not None and is_message(letter) and not letter.truncated:
            found[page_ref(number, letter.page.offset)] = letter
        if lines >= _LINES_MAX or bytes_in_chunk >= _BYTES_MAX:
            yield from _chunks(found, numbers, catalogue)
            found, lines, bytes_in_chunk = {}, 0, 0
    yield from _chunks(found, numbers, catalogue)


def _chunks(
    found: dict[int, DeadLetter], numbers: dict[tuple[str, int], int], catalogue: Catalogue
) -> Iterator[Chunk]:
    """Yield a chunk a source of what has no verdict yet."""
    by_source: dict[int, list[DeadLetter]] = {}
    for _, letter in sorted(found.items()):
        number = numbers[letter.page.topic, letter.page.partition]
        entry = catalogue.entries[number]
        if letter.page.offset < entry.position and not entry.is_rescued(letter.page.offset):
            by_source.setdefault(number, []).append(letter)
    for number, letters in by_source.items():
        first, last = letters[0].page.offset, letters[-1].page.offset
        yield Chunk(
            first, last + 1, messages=[_message(letter) for letter in letters], source=number,
            codes={letter.page.offset: letter.code for letter in letters},
        )  # fmt: skip


def letters_in(path: Path, length: int = sys.maxsize) -> Iterator[DeadLetter]:
    """Yield the dead letters in the first `length` bytes of a file, as stored.

    Raises:
        InputError: the file cannot be read, or a line of it is no dead letter.
    """
    try:
        number = 0
        for line in lines_within(path, length):
            number += 1
            yield _DECODE(line)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; check the path") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise InputError(f"{path}:{number}: not a dead letter ({error})") from error


def is_message(letter: DeadLetter) -> bool:
    """Tell whether a dead letter's record is a message, by its source's name: no WARC record."""
    name = letter.page.topic.lower().removesuffix(".zst")  # as a pipe may be called
    kind = format_by_name(name)
    return kind is None or kind.is_message


def _message(letter: DeadLetter) -> Message:
    key = None if letter.key_base64 is None else base64.b64decode(letter.key_base64)
    return letter.page.offset, key, base64.b64decode(letter.value_base64)
