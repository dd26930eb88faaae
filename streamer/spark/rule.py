"""The rule of one stream, by joins: a page is a duplicate if a kept page before it matches.

The rule needs an order of pages, none of work. Pages of equal content and threshold are one node,
which stands at the first of them. In each round the nodes are kept that match nothing, and that
have no undecided node before them under a key that has room for postings. What is kept then is
compared with all later pages of its keys: that is what a stream compares, and no more. A node that
matches one of them is a duplicate, whichever will be the most similar in the end. So a round needs
no page of the round before, and there are as many rounds as a chain of pages has links, each kept
because the one before it was not.

A bucket has room for so many postings, and gives these to the earliest kept pages: here too, since
a page is kept only when all before it under its keys are decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamer.errors import needs_extra
from streamer.index.rule import IN_DOUBT, UNKNOWN, mark_doubtful, nearest_rows
from streamer.index.settings import IndexSettings
from streamer.sketch.hash_sets import set_similarity
from streamer.sketch.resemblance import SKETCH_WORDS
from streamer.sketch.scopes import Keys
from streamer.spark.signing import Batches, schema_text

with needs_extra("spark", "streamer.spark"):
    from pyspark.sql import DataFrame, Window
    from pyspark.sql import functions as F  # noqa: N812 - as all of its documents name it

OPEN, KEPT, DUPLICATE = range(3)
COMPARED = pa.schema({
    "node": pa.int64(), "other": pa.int64(), "similarity": pa.int32(), "exact": pa.bool_(),
    "matches": pa.bool_(), "same_content": pa.bool_(),
})  # fmt: skip


def nodes_of(pages: DataFrame) -> DataFrame:
    """Return signed pages with their `node`: the first page of equal content and threshold."""
    # Keys of the whole text have 64 bits: of ten thousand million texts a few have the same.
    one = F.coalesce("content", "ref"), F.col("least"), F.xxhash64("sketch", "posted")
    same = Window.partitionBy(*one)
    return pages.withColumns({"node": F.min("ref").over(same), "last": F.max("ref").over(same)})


@dataclass
class Rounds:
    """The rounds over `nodes`, the first pages, until all are decided.

    Attributes:
        count: how many there were.
    """

    nodes: DataFrame
    settings: IndexSettings
    count: int = 0

    def matches(self) -> DataFrame:
        """Return the kept nodes that each node was compared with, where they are similar enough.

        Those count that are as similar as its threshold asks, less the margin of near misses. A
        node's own row is there for its later copies.
        """
        postings = self.nodes.select("node", "last", F.explode("posted").alias("key"))
        shared = F.count("*").over(Window.partitionBy("key")) > 1
        postings = postings.withColumn("shared", shared | (F.col("last") > F.col("node")))
        postings = postings.where("shared").drop("shared").localCheckpoint()
        state = postings.select("node").distinct().withColumn("state", F.lit(OPEN))
        found = list[DataFrame]()
        while not postings.isEmpty():
            self.count += 1
            seen = self._seen(postings.join(state, "node"))
            kept = seen.where(F.col("state") == OPEN).groupBy("node").agg(F.max("waits").alias("w"))
            kept = kept.where("not w").select("node").localCheckpoint()
            found.append(self._compared(postings, seen.join(kept, "node")).localCheckpoint())
            state = _decided(state, kept, found[-1]).localCheckpoint()
            left = postings.join(state, "node").where(F.col("state") == OPEN).select("key")
            postings = postings.join(left.distinct(), "key", "left_semi").localCheckpoint()
        nothing = self.nodes.sparkSession.createDataFrame([], schema_text(COMPARED))
        return reduce(DataFrame.unionByName, found, nothing)

    def _seen(self, postings: DataFrame) -> DataFrame:
        """Return postings with what stands before them: whether they wait, and have room."""
        before = Window.partitionBy("key").orderBy("node")
        before = before.rowsBetween(Window.unboundedPreceding, -1)
        is_open, is_kept = ((F.col("state") == each).cast("int") for each in (OPEN, KEPT))
        has_room = F.coalesce(F.sum(is_kept).over(before), F.lit(0)) < self.settings.bucket_max
        waits = F.coalesce(F.max(is_open).over(before), F.lit(0)) == 1
        return postings.withColumns({"has_room": has_room, "waits": waits & has_room})

    def _compared(self, postings: DataFrame, kept: DataFrame) -> DataFrame:
        """Compare nodes with what is kept now under one of their keys, before their last page."""
        kept = kept.where("has_room").select("key", F.col("node").alias("other"))
        pairs = postings.join(kept, "key").where("other < last or other = node")
        pairs = pairs.select("node", "other").distinct()
        own = self.nodes.select("node", "sketch", "shingles", "least", "content")
        theirs = self.nodes.select(
            F.col("node").alias("other"), F.col("sketch").alias("other_sketch"),
            F.col("shingles").alias("other_shingles"), F.col("content").alias("other_content"),
        )  # fmt: skip
        both = pairs.join(own, "node").join(theirs, "other")
        work = partial(_compare, int(self.settings.measure), self.settings.margin)
        return both.mapInArrow(work, schema_text(COMPARED))


def _decided(state: DataFrame, kept: DataFrame, found: DataFrame) -> DataFrame:
    """Return the states after a round: what is kept, and what matches a kept node before it."""
    matched = found.where("matches and other < node").select("node").distinct()
    now = F.when(F.col("state") != OPEN, F.col("state"))
    now = now.when(F.col("kept"), KEPT).when(F.col("matched"), DUPLICATE).otherwise(OPEN)
    state = state.join(kept.withColumn("kept", F.lit(True)), "node", "left")
    state = state.join(matched.withColumn("matched", F.lit(True)), "node", "left")
    return state.select("node", now.alias("state"))


def _compare(measure: int, margin: int, batches: Batches) -> Batches:
    """Yield pairs of nodes that are similar enough."""
    for batch in batches:
        one, other = (_sketches(batch.column(name)) for name in ("sketch", "other_sketch"))
        least = batch.column("least").to_numpy().astype(np.int32)
        places = np.arange(len(batch))
        pairs, known = np.stack((places, places), axis=1), np.full(len(batch), UNKNOWN)
        best, scores = np.full(len(batch), -1), np.full(len(batch), -1, np.int32)
        if batch.column("shingles").null_count < len(batch):
            mark_doubtful(pairs, one, other, least, known)
        for i in np.flatnonzero(known == IN_DOUBT).tolist():
            sets = batch.column("shingles")[i].as_py(), batch.column("other_shingles")[i].as_py()
            known[i] = UNKNOWN if None in sets else set_similarity(*sets)
        nearest_rows(pairs, one, other, measure, least - np.int32(margin), known, best, scores)
        near = np.flatnonzero(best >= 0)
        of = batch.select(["node", "other", "content", "other_content"]).take(pa.array(near))
        same = pc.equal(of.column("content"), of.column("other_content")).fill_null(False)
        yield pa.record_batch([
            of.column("node"), of.column("other"), pa.array(scores[near]),
            pa.array(known[near] >= 0), pa.array(scores[near] >= least[near]), same,
        ], COMPARED)  # fmt: skip


def _sketches(column: pa.Array) -> Keys:
    """Return uint64[n, 33], the sketches of a column."""
    return np.frombuffer(b"".join(column.to_pylist()), np.uint64).reshape(-1, SKETCH_WORDS)
