"""Verdicts of what the rule has found: the columns that a replay writes to Parquet."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as all of its documents name it

from streamer.index.messages import NearMiss, Pages, Verdicts
from streamer.index.rule import CONTENT, SIGNATURE, TOO_SHORT
from streamer.run.index_folder import identity_of
from streamer.run.stages import verdicts
from streamer.run.verdict_files import batch_of, cells, verdict_schema
from streamer.spark.signing import Batches, Job, map_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def answers(pages: DataFrame, matches: DataFrame, job: Job) -> DataFrame:
    """Return `ref` and the columns of a verdict, for signed pages with their nodes."""
    order = "similarity", (-F.col("other")).alias("before"), "other", "exact", "matches"
    best = pages.select("ref", "node").join(matches, "node").where("other < ref").groupBy("ref")
    best = best.agg(F.max(F.struct(*order, "same_content")).alias("best")).select("ref", "best.*")
    urls = pages.select(F.col("ref").alias("other"), F.col("url").alias("other_url"))
    best = best.join(urls, "other").drop("before")
    own = pages.select("ref", "url", "least", "short", "main", "text_bytes", "carried")
    return map_rows(own.join(best, "ref", "left"), partial(_answer, job), answer_schema(job))


def answer_schema(job: Job) -> Any:  # noqa: ANN401 - a pyarrow.Schema
    """Return `ref` and the columns of a verdict."""
    columns = verdict_schema(near=job.settings.index.margin > 0)
    return pa.schema([pa.field("ref", pa.int64()), *columns])


def _answer(job: Job, batches: Batches) -> Batches:
    """Yield the verdicts on pages, each of which has the best of what it was compared with."""
    schema, margin = answer_schema(job), job.settings.index.margin
    fingerprint = str(identity_of(job.settings.signature, job.secret)["fingerprint"])
    for batch in batches:
        block = _block(batch.to_pydict(), job)
        refs, found = block.pages.refs.tolist(), verdicts(block, job.locate, fingerprint)
        rows = zip(refs, found, strict=True)
        yield batch_of([[ref, *cells(each, near=margin > 0)] for ref, each in rows], schema)


def _block(rows: dict[str, Any], job: Job) -> Verdicts:
    """Return the verdicts on pages in columns."""
    count, settings = len(rows["ref"]), job.settings.index
    none = np.zeros(count, np.uint64)
    main = np.array(rows["main"], np.bool_) if job.settings.text == "main" else None
    pages = Pages(
        np.array(rows["ref"], np.uint64), none, none, none.astype(np.uint8),
        none.astype(np.uint32), np.array(rows["text_bytes"], np.int64), rows["url"],
        [None] * count, rows["carried"], np.zeros(count, np.int64), main,
    )  # fmt: skip
    matches = np.array([bool(each) for each in rows["matches"]], np.bool_)
    scores = np.array([-1 if each is None else each for each in rows["similarity"]], np.int32)
    basis = np.where(matches & np.array(rows["same_content"], np.bool_), CONTENT, SIGNATURE)
    basis[np.array(rows["short"], np.bool_)] = TOO_SHORT
    others = np.array([each or 0 for each in rows["other"]], np.uint64)
    exact = np.array([bool(each) for each in rows["exact"]], np.bool_)
    near = least = None
    if settings.margin:
        least = np.maximum(np.array(rows["least"], np.int32) - settings.margin, 0)
        near = [
            None if rows["matches"][i] in {True, None} else NearMiss(
                int(scores[i]), int(others[i]), rows["other_url"][i], bool(exact[i])
            )
            for i in range(count)
        ]  # fmt: skip
    return Verdicts(
        pages, np.where(matches, scores, -1).astype(np.int32), basis.astype(np.uint8), others,
        [url or b"" for url in rows["other_url"]], exact & matches if settings.exact else None,
        None, None, near, least,
    )  # fmt: skip
