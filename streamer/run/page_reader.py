"""Pages from files, for the commands that judge nothing but read what a replay reads.

They read the same kinds of files, and they refuse what a replay refuses: a source whose first
records all fail in one way, and a file that is damaged.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from streamer.errors import InputError
from streamer.pages.chunk import PAGE_BYTES_MAX, Chunk, PageBatch
from streamer.pages.files import Source, open_sources
from streamer.pages.folders import ANY, FolderChoice
from streamer.pages.parse import PageParser
from streamer.run.catalogue import Catalogue
from streamer.run.first_records import FirstRecords
from streamer.run.reading import FileInput

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
