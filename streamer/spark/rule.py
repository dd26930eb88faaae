"""The rule of one stream, by joins: a page is a duplicate if a kept page before it matches.

The rule needs an order of pages, none of work. Pages of equal content and threshold are one node,
which is at the first of them. In each round the nodes are kept that match nothing, and that
have no undecided node before them under a key that has room for postings. What is kept then is
compared with all later pages of its keys: that is what a stream compares, and no more. A node that
matches one of them is a duplicate, whichever will be the most similar in the end. So a round needs
no page of the round before, and there are as many rounds as a chain of pages has links, each kept
because the one before it was not.

A bucket has room for so many postings, and gives these to the earliest kept pages: here too, since
a page is kept only when all before it under its keys are decided.

A round of Spark takes seconds, and similar pages of which none is a duplicate need as many rounds
as a bucket has room. So once few nodes are left, one worker decides them in their order.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamer.errors import needs_extra
from streamer.index.messages import IndexSettings, Leasts
from streamer.index.pairs import find_doubtful, nearest_rows
from streamer.index.rule import IN_DOUBT, UNKNOWN
from streamer.sketch.hash_sets import set_similarity
from streamer.sketch.resemblance import SKETCH_WORDS
from streamer.sketch.scopes import Keys
from streamer.spark.signing import Batches, map_rows, schema_text

with needs_extra("spark", "streamer.spark"):
    from pyspark import StorageLevel
    from pyspark.sql import DataFrame, Window
    from pyspark.sql import functions as F  # noqa: N812 - as all of its documents name it

REST_MAX = 100_000  # nodes that one worker decides: 400 bytes each, and their shingles
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
        postings = _keep(postings.where("shared").drop("shared"))
        state = postings.select("node").distinct().withColumn("state", F.lit(OPEN))
        found = list[DataFrame]()
        while (left := postings.select("node").distinct().count()) > REST_MAX:
            self.count += 1
            seen = self._seen(postings.join(state, "node"))
            kept = seen.where(F.col("state") == OPEN).groupBy("node").agg(F.max("waits").alias("w"))
            kept = _keep(kept.where("not w").select("node"))
            found.append(_keep(self._compared(postings, seen.join(kept, "node"))))
            state = _keep(_decide(state, kept, found[-1]))
            keys = postings.join(state, "node").where(F.col("state") == OPEN).select("key")
            postings = _keep(postings.join(keys.distinct(), "key", "left_semi"))
        if left:
            self.count += 1
            found.append(self._decide_in_order(postings, state))
        nothing = self.nodes.sparkSession.createDataFrame([], schema_text(COMPARED))
        return reduce(DataFrame.unionByName, found, nothing)

    def _decide_in_order(self, postings: DataFrame, state: DataFrame) -> DataFrame:
        """Compare what is left in one worker, as a stream does."""
        rest = postings.groupBy("node", "last").agg(F.collect_list("key").alias("keys"))
        own = self.nodes.select("node", "sketch", "shingles", "least", "content")
        rest = rest.join(state, "node").join(own, "node").repartition(1)
        return _keep(map_rows(rest, partial(_in_order, self.settings), COMPARED))

    def _seen(self, postings: DataFrame) -> DataFrame:
        """Return postings with what is before them: whether they wait, and have room."""
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
        return map_rows(both, partial(_compare, self.settings), COMPARED)


def _keep(frame: DataFrame) -> DataFrame:
    """Return a frame that is worked out now; a lost executor loses nothing of it.

    It is in Spark's folder of checkpoints, or where there is none, on two executors.
    """
    conf = frame.sparkSession.conf
    if conf.get("spark.checkpoint.dir", ""):
        return frame.checkpoint()
    copies = 1 if re.match(r"local(\[|$)", conf.get("spark.master", "") or "") else 2
    return frame.localCheckpoint(storageLevel=StorageLevel(True, True, False, False, copies))


def _decide(state: DataFrame, kept: DataFrame, found: DataFrame) -> DataFrame:
    """Return the states after a round: what is kept, and what matches a kept node before it."""
    matched = found.where("matches and other < node").select("node").distinct()
    now = F.when(F.col("state") != OPEN, F.col("state"))
    now = now.when(F.col("kept"), KEPT).when(F.col("matched"), DUPLICATE).otherwise(OPEN)
    state = state.join(kept.withColumn("kept", F.lit(True)), "node", "left")
    state = state.join(matched.withColumn("matched", F.lit(True)), "node", "left")
    return state.select("node", now.alias("state"))


class _Sketched(NamedTuple):
    """What nodes are compared by: uint64[n, 33], and their shingles where these were signed."""

    sketches: Keys
    shingles: Sequence[bytes | None]

    @classmethod
    def of(cls, batch: Any, prefix: str = "") -> _Sketched:  # noqa: ANN401 - a batch or a table
        """Return those of a batch's columns."""
        sketches = b"".join(batch.column(f"{prefix}sketch").to_pylist())
        sets = batch.column(f"{prefix}shingles").to_pylist()
        return cls(np.frombuffer(sketches, np.uint64).reshape(-1, SKETCH_WORDS), sets)

    def take(self, places: Sequence[int]) -> _Sketched:
        """Return those at these places."""
        return _Sketched(self.sketches[places], [self.shingles[i] for i in places])


def _similarities(
    settings: IndexSettings, one: _Sketched, other: _Sketched, least: Leasts
) -> tuple[Leasts, npt.NDArray[np.bool_]]:
    """Return the similarity of each pair, -1 where it is too low, and whether it is exact."""
    places = np.arange(len(least))
    pairs, known = np.stack((places, places), axis=1), np.full(len(least), UNKNOWN)
    best, scores = np.full(len(least), -1), np.full(len(least), -1, np.int32)
    if settings.exact:
        find_doubtful(pairs, one.sketches, other.sketches, least, known)
    for i in np.flatnonzero(known == IN_DOUBT).tolist():
        known[i] = set_similarity(one.shingles[i] or b"", other.shingles[i] or b"")
    enough, measure = least - np.int32(settings.margin), int(settings.measure)
    nearest_rows(pairs, one.sketches, other.sketches, measure, enough, known, best, scores)
    return scores, known >= 0


def _compare(settings: IndexSettings, batches: Batches) -> Batches:
    """Yield pairs of nodes that are similar enough."""
    for batch in batches:
        least = batch.column("least").to_numpy()
        rows = _Sketched.of(batch), _Sketched.of(batch, "other_")
        scores, exact = _similarities(settings, *rows, least)
        same = pc.equal(batch.column("content"), batch.column("other_content"))
        columns = batch.column("node"), batch.column("other"), scores, exact, scores >= least, same
        yield pa.record_batch([*map(pa.array, columns)], COMPARED).filter(pa.array(scores >= 0))


def _in_order(settings: IndexSettings, batches: Batches) -> Batches:
    """Decide nodes in their order, and yield pairs of them with those that are kept now."""
    rest = _Rest(pa.Table.from_batches(batches).sort_by("node").combine_chunks(), settings)
    for at, state in enumerate(rest.states.tolist()):
        matched = rest.matches(at, 0)
        if state == KEPT or (state == OPEN and not matched):
            rest.keep(at, new=state == OPEN)
    # A node that is there again was compared with what is kept before its first page only.
    for at in np.flatnonzero(rest.lasts > rest.nodes).tolist():
        rest.matches(at, at)
    yield rest.pairs()


class _Rest:
    """Nodes in their order, with the postings of those that are kept."""

    def __init__(self, table: Any, settings: IndexSettings) -> None:  # noqa: ANN401 - a pyarrow.Table
        numbers = (table.column(name).to_numpy() for name in ("node", "last", "state", "least"))
        self.nodes, self.lasts, self.states, self.least = numbers
        self.keys, self.content = table.column("keys").to_pylist(), table.column("content")
        self.rows, self.settings = _Sketched.of(table), settings
        self.posted = defaultdict[int, list[int]](list)
        self.new = set[int]()
        self.found = [np.empty((4, 0), np.int64)]  # node, other, similarity, whether it is exact

    def keep(self, at: int, *, new: bool) -> None:
        """Post a node under those of its keys that have room."""
        for key in self.keys[at]:
            if len(self.posted[key]) < self.settings.bucket_max:
                self.posted[key].append(at)
        if new:
            self.new.add(at)

    def matches(self, at: int, first: int) -> bool:
        """Compare a node with what is kept now, at `first` or later and before its last page."""
        others = {other for key in self.keys[at] for other in self.posted[key]} & self.new
        before = np.searchsorted(self.nodes, self.lasts[at])
        places = sorted(each for each in others if first <= each < before or each == at)
        if not places:
            return False
        own, least = [at] * len(places), np.full(len(places), self.least[at])
        rows = self.rows.take(own), self.rows.take(places)
        scores, exact = _similarities(self.settings, *rows, least)
        self.found.append(np.array([own, places, scores, exact])[:, scores >= 0])
        return bool((scores >= least).any())

    def pairs(self) -> Any:  # noqa: ANN401 - a pyarrow.RecordBatch
        """Return the pairs that are similar enough."""
        nodes, others, scores, exact = np.concatenate(self.found, axis=1)
        same = pc.equal(self.content.take(pa.array(nodes)), self.content.take(pa.array(others)))
        columns = (
            self.nodes[nodes], self.nodes[others], scores.astype(np.int32), exact > 0,
            scores >= self.least[nodes], same.combine_chunks(),
        )  # fmt: skip
        return pa.record_batch([*map(pa.array, columns)], COMPARED)
