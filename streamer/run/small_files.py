"""Small files, many to a chunk: so that a file costs little more than its pages.

A chunk costs about a millisecond, however few records it has: futures, kernels, a record of the
log, a write. So the records of small files that follow each other are put into one chunk, with the
ends of the files. A chunk ends after so many files, records or bytes, counted from the end of the
chunk before, and at whatever is no small file; it has lines, or files that are one page each. A run
that is taken up starts at the end of a chunk, so it cuts as one that was left in peace.

A file of ten records or more has chunks of its own: from ten pages on its clusters are counted.
"""

# 100,000 files of one page take 15 s of CPU; before, 20,000 took 26 s. In the log, all files are
# one source; otherwise the state would have a position for each file.

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from streamer.pages import chunk as chunks
from streamer.pages.bytestream import Mark
from streamer.pages.chunk import Chunk, PageBatch, Part, RejectedRecord, WarcPage
from streamer.pages.lines import SMALL_RECORDS_MAX
from streamer.pages.records import SMALL_BYTES_MAX
from streamer.run.reading import Checked, SourceEnd, Step
from streamer.text.slices import Slices

FILES_MAX = 1_000  # in a chunk


def gather_small_files(steps: Iterator[Step], is_new_file: Callable[[int], bool]) -> Iterator[Step]:
    """Yield steps with the small files among them, chunk and end, many to a chunk.

    `is_new_file` tells of a source whether it is a file of which nothing has been judged. So what a
    killed run has left of a larger one is not counted here, as it was not in that run.
    """
    files = _SmallFiles()
    chunk: Chunk | None = None  # of a file that may end with it
    apart = -1  # the source that had chunks of its own last
    for step in steps:
        if isinstance(step, Checked):
            yield step
            continue
        source = step.source if isinstance(step, Chunk | SourceEnd) else -1
        if chunk is not None and not (isinstance(step, SourceEnd) and source == chunk.source):
            yield from files.take()
            yield chunk
            apart, chunk = chunk.source, None
        may_join = source not in {-1, apart} and is_new_file(source)
        if isinstance(step, Chunk) and may_join and not files.takes(step):
            yield from files.take()
        if isinstance(step, SourceEnd) and may_join:
            files.add(chunk, step)
            chunk = None
            if files.is_full:
                yield from files.take()
        elif isinstance(step, Chunk) and may_join and _is_small(step):
            chunk = step
        else:
            yield from files.take()
            yield step
            apart = source if isinstance(step, Chunk) else apart
    yield from files.take()
    if chunk is not None:
        yield chunk


def _is_small(chunk: Chunk) -> bool:
    """Return whether a chunk is a page file, or has a few lines from the beginning of a source."""
    lines = chunk.lines
    if chunk.pages and chunk.pages[0].kind == chunks.PAGE_FILE:
        return len(chunk.pages[0].block) <= chunks.CHUNK_BYTES_MAX
    return (
        chunk.start == 0
        and 0 < len(lines) == chunk.end <= SMALL_RECORDS_MAX
        and int(lines.ends[-1] - lines.starts[0]) <= SMALL_BYTES_MAX
    )


@dataclass(slots=True)
class _SmallFiles:
    """The small files that the next chunk is made of."""

    parts: list[Part] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    pages: list[WarcPage] = field(default_factory=list)
    bytes: int = 0

    def takes(self, chunk: Chunk) -> bool:
        """Return whether a chunk is of the same sort as those that were added."""
        return not (self.lines if chunk.pages else self.pages)

    def add(self, chunk: Chunk | None, end: SourceEnd) -> None:
        """Add a file: the chunk with its records, if it has any, and its end."""
        first, mark = len(self.lines) + len(self.pages), Mark()
        if chunk is not None:
            mark = chunk.mark
            self.lines += chunk.lines
            self.pages += [replace(page, sequence=first) for page in chunk.pages]
            self.bytes += int(chunk.lines.lengths.sum())
            self.bytes += sum(len(page.block) for page in chunk.pages)
        records = len(self.lines) + len(self.pages)
        self.parts.append(Part(end.source, first, records, end.amount, mark, end.status))

    @property
    def is_full(self) -> bool:
        """Return whether the chunk is to end."""
        return len(self.parts) >= FILES_MAX or self.bytes >= chunks.CHUNK_BYTES_MAX

    def take(self) -> Iterator[Chunk]:
        """Yield the chunk, if there is any file for it, and begin the next one."""
        if not self.parts:
            return
        lines, pages, parts = self.lines, self.pages, self.parts
        self.parts, self.lines, self.pages, self.bytes = [], [], [], 0
        joined, records = Slices.joined(lines), len(lines) + len(pages)
        yield Chunk(0, records, parts[-1].amount, joined, pages=pages, parts=parts)


def file_alone(chunk: Chunk, number: int) -> Chunk:
    """Return the records of one small file of a chunk as a chunk."""
    part = chunk.parts[number]
    own = slice(part.first, part.end)
    pages = [replace(page, sequence=0) for page in chunk.pages[own]]
    return Chunk(0, part.end - part.first, lines=chunk.lines[own], pages=pages)


class Parsed(NamedTuple):
    """The part of a parsed chunk that comes from one source; its pages are elsewhere.

    Attributes:
        position, mark: the place after it in its source, as the catalogue keeps it.
        pages: how many there are, with those that a rule leaves out.
        dead: with their ordinals in the source.
        skips: whether there are other records.
        status: of the file that ends with it; None where more may come.
    """

    source: int
    position: int
    mark: Mark
    pages: int
    dead: list[RejectedRecord]
    skips: bool
    status: tuple[int, ...] | None = None


def split_by_source(chunk: Chunk, batch: PageBatch) -> list[Parsed]:
    """Return what a chunk has of each of its sources, in order; `batch` is what it is parsed to."""
    if not chunk.parts:
        pages, skips = len(batch) + len(batch.by_rule), batch.skipped.total() > 0
        places = chunk.source, chunk.end, chunk.mark
        return [Parsed(*places, pages, batch.dead, skips)]
    ends = [part.end for part in chunk.parts]
    dead: dict[int, list[RejectedRecord]] = {}
    for each in batch.dead:
        at = bisect_right(ends, each.sequence)
        ordinal = each.sequence - chunk.parts[at].first
        dead.setdefault(at, []).append(replace(each, sequence=ordinal))
    judged = _counts(batch.sequences, ends)
    left_out = _counts(batch.by_rule, ends)
    found = []
    for at, part in enumerate(chunk.parts):
        letters, count = dead.get(at, []), judged[at] + left_out[at]
        records = part.end - part.first
        skips = judged[at] + len(letters) < records
        found.append(Parsed(part.source, records, part.mark, count, letters, skips, part.status))
    return found


def _counts(ordinals: Sequence[int], ends: Sequence[int]) -> list[int]:
    """Return how many ascending ordinals lie before each end, and not before the one before it."""
    before = np.searchsorted(np.array(ordinals, np.int64), ends)
    counts: list[int] = np.diff(before, prepend=0).tolist()
    return counts
