"""What a replay reads, step by step, and in which order: the one thing that inputs differ in.

A replay takes steps as they come: a chunk of a source, the end of a source, other settings.
Verdicts depend on the order of the steps, so an input gives the same ones in every run over the
same records; and a run that is taken up again gives those that a quiet one would have given from
there on. Files are read here, one after the other; streamer/kafka/topic_replay.py reads topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from streamer.errors import StoreMismatch
from streamer.index.settings import IndexSettings
from streamer.stream.batch import PageBatch
from streamer.stream.catalogue import Catalogue, SourceEntry, changed, record_digest
from streamer.stream.chunk import RawChunk
from streamer.stream.files import Source
from streamer.stream.parse import PageParser
from streamer.stream.second_judgement import SecondChunk


class Chunk(Protocol):
    """Consecutive records [start, end) of one source."""

    @property
    def start(self) -> int:
        """Return the ordinal of the first record."""

    @property
    def end(self) -> int:
        """Return the ordinal after the last record's."""

    def parse(self, parser: PageParser) -> PageBatch:
        """Return the chunk's batch; called in any thread."""

    def last_digest(self) -> str:
        """Return what the catalogue keeps of the last record; "" for nothing."""


@dataclass(frozen=True, slots=True)
class ChunkRead:
    """A chunk of the source with this number; `amount` is how much was read of all sources."""

    source: int
    chunk: Chunk
    amount: int


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """The end of a source, as far as there is anything now."""

    source: int
    amount: int


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """Settings that are in force from here on."""

    settings: IndexSettings


@dataclass(frozen=True, slots=True)
class SecondRead:
    """Dead letters of the source with this number, to judge once more."""

    source: int
    chunk: SecondChunk


Step = ChunkRead | SecondRead | SourceEnd | SettingsChange


class Input(Protocol):
    """What a replay is given; `sources_done_before` is known once all steps are taken."""

    sources_done_before: int

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


@dataclass(frozen=True, slots=True)
class FileChunk:
    """A chunk of a file."""

    raw: RawChunk

    @property
    def start(self) -> int:
        """Return the ordinal of the first record."""
        return self.raw.start

    @property
    def end(self) -> int:
        """Return the ordinal after the last record's."""
        return self.raw.end

    def parse(self, parser: PageParser) -> PageBatch:
        """Return the chunk's batch."""
        return parser.parse(self.raw)

    def last_digest(self) -> str:
        """Return the digest of the last line; "" where there are no lines."""
        return record_digest(self.raw.lines[-1]) if self.raw.lines else ""


class FileInput:
    """Files, one after the other; amounts are bytes as stored."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self._numbered: list[tuple[int, SourceEntry, Source]] = []
        self.sources_done_before = 0

    def enter(self, catalogue: Catalogue) -> None:
        """Enter all files in the catalogue.

        Raises:
            StoreMismatch: one of them has changed since the index read it.
            InputError: one of them cannot be read.
        """
        for source in self._sources:
            number = catalogue.enter(source)
            self._numbered.append((number, catalogue.entries[number], source))

    def steps(self) -> Iterator[Step]:
        """Yield the chunks after each file's position, and its end.

        Raises:
            StoreMismatch: the record before the position is another one.
            InputError: a file cannot be read.
        """
        before = 0
        for number, entry, source in self._numbered:
            if entry.finished:
                self.sources_done_before += 1
            else:
                for chunk in _new_chunks(entry, source):
                    yield ChunkRead(number, FileChunk(chunk), before + chunk.bytes_read)
                yield SourceEnd(number, before + (source.total_bytes or 0))
            before += source.total_bytes or 0


def _new_chunks(entry: SourceEntry, source: Source) -> Iterator[RawChunk]:
    """Yield the chunks after the entry's position, once its last record is found unchanged.

    That record is read apart from the others: with several shards verdicts depend on where chunks
    are cut, so a resumed run must cut where an uninterrupted one does.
    """
    start = entry.position
    if not (start and entry.last_digest and entry.identity):
        yield from source.read(start)
        return
    chunks = source.read(start - 1, first_alone=True)
    last = next(chunks, None)
    if last is None:
        raise StoreMismatch(changed(source.name, f"record {start - 1} is missing"))
    if not last.lines or record_digest(last.lines[0]) != entry.last_digest:
        raise StoreMismatch(changed(source.name, f"record {start - 1} is another one"))
    yield from chunks
