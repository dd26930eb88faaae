"""What a replay reads, step by step, and in which order: the one thing that inputs differ in.

A replay takes steps as they come: a chunk of a source, the end of a source, other settings.
Verdicts depend on the order of the steps, so an input gives the same ones in every run over the
same records; and a run that is taken up again gives those that a quiet one would have given from
there on. Files are read here, one after the other; streamer/kafka/topic_replay.py reads topics.

Commands that judge nothing read pages of files (`PageReader`). They read the same kinds of files,
and they refuse what a replay refuses: a source whose first records all fail in one way, and a file
that is damaged.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from streamer.errors import InputError, StoreMismatch
from streamer.index.messages import Forget, IndexSettings
from streamer.pages.bytestream import Mark
from streamer.pages.chunk import PAGE_BYTES_MAX, Chunk, Ending, PageBatch
from streamer.pages.files import Source, open_sources
from streamer.pages.folders import ANY, FolderChoice
from streamer.pages.parse import PageParser
from streamer.pages.remote import ReadAhead
from streamer.run.catalogue import Catalogue, SourceEntry, describe_change
from streamer.run.first_records import FirstRecords


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """The end of a source, as far as there is anything now; `status` as the catalogue keeps it."""

    source: int
    amount: int
    status: tuple[int, ...] = ()


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


Step = Chunk | SourceEnd | IndexSettings | Forgotten | Checked | Pause
"""Settings are in force from their step on."""


@dataclass(slots=True)
class InputReport:
    """What is to be said of sources, by name.

    Attributes:
        done_before: how many had nothing new.
        empty: those without a single byte.
        unended: those whose last line has no end yet, and was left.
        incomplete: those that cannot be read to their end, with what is wrong and where.
        skipped_files: files of folders that are passed over, with their kinds.
        lost_text: of those with much text that a wrong charset has lost, the share.
    """

    done_before: int = 0
    empty: list[str] = field(default_factory=list)
    unended: list[str] = field(default_factory=list)
    incomplete: dict[str, str] = field(default_factory=dict)
    skipped_files: dict[str, str] = field(default_factory=dict)
    lost_text: dict[str, float] = field(default_factory=dict)


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


@dataclass
class FileInput:
    """Files and pipes, one after the other; amounts are bytes as stored.

    Without `complete`, more may come: a file's last line is no record until it has its newline.
    A chunk of a pipe ends `chunk_seconds` after its first record at the latest; None: no limit.
    """

    sources: Sequence[Source]
    complete: bool = True
    chunk_seconds: float | None = None
    report: InputReport = field(default_factory=InputReport)
    _catalogue: Catalogue = field(default_factory=Catalogue)
    _numbers: dict[str, int] = field(default_factory=dict)

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
        remote = (each.remote for each in filter(self._has_more, self.sources) if each.remote)
        with ReadAhead(remote) as ahead:
            for source in self.sources:
                size, number = source.total_bytes or 0, self._numbers.get(source.name, -1)
                if not self._has_more(source):
                    self._tell_nothing_new(self._catalogue.entries[number])
                else:
                    if source.remote:
                        ahead.come_to(source.remote)
                    after = before + size
                    small = self._small_steps(source, number, after)
                    yield from small or self._steps_of(source, number, before, after)
                before += size

    def _has_more(self, source: Source) -> bool:
        """Return whether a source may have what was not judged."""
        number = self._numbers.get(source.name, -1)
        return number < 0 or not self._catalogue.entries[number].finished

    def _small_steps(self, source: Source, number: int, after: int) -> list[Step]:
        """Return all that `_steps_of` would yield of a small file; nothing of others."""
        if number < 0 or self._catalogue.entries[number].position:
            return []
        small = source.read_small(complete=self.complete)
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
        with source.open(self.chunk_seconds) as records:
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
            for chunk in records.chunks(at, ending, complete=self.complete):
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
            yield SourceEnd(number, after, records.status)

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
        what = "it is shorter" if short else "records that were judged are others now"
        return describe_change(source.name, what)
    what = "ends" if short else "goes on with others"
    return (
        f"{source.name} begins with records that the index has read from a pipe, and {what} within "
        f"the {entry.position:,} that were judged of it. Nothing of it was judged. Give the same "
        "pipe again, or put these pages into a file and give that."
    )


# ---- for commands that judge nothing -------------------------------------------------------------


Progress = Callable[[int, int], None]  # bytes read of all sources, pages found


class ReadPages(NamedTuple):
    """A chunk of the source of this name, and the pages in it."""

    source: str
    chunk: Chunk
    batch: PageBatch


@dataclass(frozen=True, slots=True)
class PageReader:
    """How a command reads pages.

    Attributes:
        url_prefix, cdx_base: as for `open_sources`.
        keep_going: take a source although its first records all fail.
        note_skipped: gets the files of folders that are passed over, if there are any, with kinds.
        choice: which files of folders are wanted.
    """

    parser: PageParser = field(default_factory=PageParser)
    page_bytes_max: int = PAGE_BYTES_MAX
    url_prefix: str = ""
    keep_going: bool = False
    note_skipped: Callable[[Mapping[str, str]], None] = lambda _files: None
    cdx_base: str = ""
    choice: FolderChoice = ANY

    def open(self, paths: Sequence[str], *, whole_rows: bool = False) -> list[Source]:
        """Return the sources that `paths` name, as `open_sources` does.

        `whole_rows`: of tables all columns are read, to be written again.

        Raises:
            InputError: a path is missing, unreadable or of no known kind.
        """
        columns = None if whole_rows else self.parser.columns
        places = self.url_prefix, self.cdx_base
        opened = open_sources(paths, self.page_bytes_max, columns, *places, self.choice)
        if opened.skipped:
            self.note_skipped(opened.skipped)
        return opened.sources

    def read(
        self, sources: Sequence[Source], progress: Progress = lambda _bytes, _pages: None
    ) -> Iterator[ReadPages]:
        """Yield the pages of `sources` in order.

        Raises:
            SettingsError: the first records of a source all fail in one way.
            InputError: a source cannot be read, or, once all else has been yielded, the rest of it
                cannot.
        """
        catalogue, files, pages = Catalogue(), FileInput(sources), 0
        files.enter(catalogue)
        first = FirstRecords(self.parser.mapping, keep_going=self.keep_going)
        for step in files.steps():
            if isinstance(step, Chunk):
                name, batch = catalogue.entries[step.source].name, self.parser.parse(step)
                first.check(name, len(batch) + len(batch.by_rule), batch.dead)
                pages += len(batch)
                progress(step.amount, pages)
                yield ReadPages(name, step, batch)
        for name, damage in files.report.incomplete.items():
            raise InputError(f"{name}: {damage}; copy the file again")


DEFAULT_READER = PageReader()

NAMES_SHOWN = 5  # of files, in a sentence


def name_first(names: Sequence[str]) -> str:
    """Return the first names, and how many there are if that is not all."""
    more = len(names) - NAMES_SHOWN
    shown = ", ".join(names[:NAMES_SHOWN])
    return f"{shown} and {more:,} more ({len(names):,} in all)" if more > 0 else shown


def describe_skipped(files: Mapping[str, str]) -> str:
    """Return the sentence about files in folders that were not read, by their kinds."""
    firsts: dict[str, str] = {}
    for name, kind in files.items():
        firsts.setdefault(kind, name)
    kinds = Counter(files.values()).most_common()
    parts = [f"{count:,} {kind.replace('_', ' ')} (as {firsts[kind]})" for kind, count in kinds]
    said = f"Files of folders that are not read: {', '.join(parts)}."
    for table in ("iceberg", "hudi"):
        if f"{table}_metadata" in firsts:
            said += (
                f" The log of an {table.title()} table is not read, so rows that it has deleted or "
                "replaced are judged too. Export its current rows to avoid that."
            )
            break
    return said
