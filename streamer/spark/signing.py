"""Pages to signatures, in Spark's workers: records are read and signed as a replay does it.

A signed page is a row. Its `ref` is its place in the order of all pages: the number of its source
and its ordinal there, as in an index. A record that cannot be judged is a row with a dead letter.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import cloudpickle

from streamer.assembly import page_parser, reader_of
from streamer.config import Settings
from streamer.index.batch import key_masks
from streamer.index.messages import Pages
from streamer.kernel import ship_with_kernels
from streamer.model import Location, page_ref, split_ref
from streamer.pages.chunk import Chunk, PageBatch, RejectedRecord, over_limit
from streamer.pages.table_lines import batch_lines
from streamer.run.site_store import make_index_signer
from streamer.run.stages import dead_letter, dead_letter_lines, sign
from streamer.text.slices import Slices

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Batches = Iterator[Any]  # of pyarrow.RecordBatch: pyarrow has no types
Refs = npt.NDArray[np.int64]

# What a page is compared by, and what its verdict says of it. `posted` are the keys that it has;
# `content` is that of its whole text, `least` its threshold in ten-thousandths. Other rows have a
# dead letter, or why so many records were skipped.
SIGNED = pa.schema({
    "ref": pa.int64(), "url": pa.binary(), "posted": pa.list_(pa.int64()), "content": pa.int64(),
    "sketch": pa.binary(), "shingles": pa.binary(), "least": pa.int32(), "short": pa.bool_(),
    "main": pa.bool_(), "text_bytes": pa.int64(), "carried": pa.binary(), "letter": pa.binary(),
    "skipped": pa.string(), "records": pa.int64(),
})  # fmt: skip
SPARK_TYPES = {
    "int64": "long",
    "int32": "int",
    "bool": "boolean",
    "list<item: int64>": "array<long>",
}


def schema_text(schema: pa.Schema) -> str:
    """Return an Arrow schema as Spark takes it."""
    return ", ".join(f"{each.name} {SPARK_TYPES.get(str(each.type), each.type)}" for each in schema)


@dataclass(frozen=True)
class Job:
    """What all workers have: the settings, the key, and the names of the sources by number.

    Names of files may be relative to `folder`.
    """

    settings: Settings
    secret: bytes
    names: Sequence[str]
    folder: str = field(default_factory=os.getcwd)

    def locate(self, ref: int) -> Location:
        """Return where the page with this ref was read."""
        source, ordinal = split_ref(ref)
        return Location(self.names[source], 0, ordinal)


class Desk:
    """What one worker signs with."""

    def __init__(self, job: Job) -> None:
        settings = job.settings
        self.job, self.parser, self.index = job, page_parser(settings), settings.index
        self.signer = make_index_signer(None, settings.signature, job.secret)

    def rows(self, batch: PageBatch, refs: Refs, first: int = 0) -> Iterator[Any]:
        """Yield the rows of a batch; its ordinals from `first` on have these refs."""
        if len(batch):
            pages = sign(self.signer, 0, batch)
            pages.refs = refs[pages.refs.astype(np.int64) - first].astype(np.uint64)
            yield self._sign_chunk(pages)
        if batch.dead:
            yield self._letters(batch.dead, refs, first)
        if batch.skipped:
            rows = [{"skipped": why, "records": n} for why, n in batch.skipped.items()]
            yield pa.RecordBatch.from_pylist(rows, SIGNED)

    def _sign_chunk(self, pages: Pages) -> Any:  # noqa: ANN401 - a pyarrow.RecordBatch
        least, shingles_min = self.index.least_of(pages.urls, pages.main)
        keys, (masks, short) = np.ascontiguousarray(pages.keys), key_masks(pages, shingles_min)
        bits = masks[:, None] >> np.arange(keys.shape[1], dtype=np.uint64)
        has = (bits & np.uint64(1)).astype(np.bool_)
        starts = np.concatenate([[0], np.cumsum(has.sum(axis=1))]).astype(np.int32)
        content = keys[:, -1].view(np.int64)
        width = pages.sketches.shape[1] * pages.sketches.itemsize
        sketches = np.ascontiguousarray(pages.sketches).view(f"V{width}").ravel().tolist()
        nothing = [None] * len(pages)
        main = nothing if pages.main is None else pages.main
        return pa.record_batch([
            pa.array(pages.refs.astype(np.int64)), pa.array(pages.urls, pa.binary()),
            pa.ListArray.from_arrays(pa.array(starts), pa.array(keys[has].view(np.int64))),
            pa.array(content, mask=~has[:, -1]), pa.array(sketches, pa.binary()),
            pa.array(pages.shingles or nothing, pa.binary()), pa.array(least),
            pa.array(short), pa.array(main, pa.bool_()),
            pa.array(pages.text_bytes), pa.array(pages.carried, pa.binary()),
            pa.array(nothing, pa.binary()), pa.array(nothing, pa.string()),
            pa.array(nothing, pa.int64()),
        ], SIGNED)  # fmt: skip

    def _letters(self, dead: Iterable[RejectedRecord], refs: Refs, first: int) -> Any:  # noqa: ANN401 - a pyarrow.RecordBatch
        rows = []
        for each in dead:
            ref = int(refs[each.sequence - first])
            letter = dead_letter(each, self.job.locate(ref))
            rows.append({"ref": ref, "letter": dead_letter_lines([letter]).rstrip(b"\n")})
        return pa.RecordBatch.from_pylist(rows, SIGNED)


def rows_signed(job: Job, batches: Batches) -> Batches:
    """Yield the signed rows of a frame, of which the first column is `ref`."""
    desk, limit = Desk(job), job.settings.page_bytes_max
    for batch in batches:
        refs = batch.column(0).to_numpy(zero_copy_only=False)
        lines = batch_lines(batch.drop_columns(batch.schema.names[:1]))
        large = np.flatnonzero(lines.lengths > limit).tolist()
        dead = [over_limit(i, lines[i], len(lines[i])) for i in large]
        small = np.setdiff1d(np.arange(len(lines)), large)
        rest = Slices(lines.data, lines.starts[small], lines.ends[small])
        yield from desk.rows(desk.parser.parse(Chunk(0, len(small), lines=rest)), refs[small])
        yield from desk.rows(PageBatch(0, 0, dead=dead), refs)


def files_signed(job: Job, batches: Batches) -> Batches:
    """Yield the signed rows of files, of which a batch has the numbers."""
    with suppress(OSError):  # a machine that has all from an object store has no such folder
        os.chdir(job.folder)
    desk = Desk(job)
    reader = reader_of(job.settings, desk.parser)
    for number in (each for batch in batches for each in batch.column(0).to_pylist()):
        for _, chunk, parsed in reader.read(reader.open([job.names[number]])):
            refs = np.arange(chunk.start, chunk.end) + page_ref(number, 0)
            yield from desk.rows(parsed, refs, chunk.start)


def map_rows(frame: DataFrame, work: Callable[[Batches], Batches], schema: pa.Schema) -> DataFrame:
    """Return what workers make of a frame: rows of this schema."""
    return frame.mapInArrow(ship_with_kernels(cloudpickle.dumps(work)), schema_text(schema))
