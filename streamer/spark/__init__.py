"""A whole corpus on Spark, with the verdicts of one stream over the same pages.

    from streamer.spark import deduplicate

    verdicts = deduplicate(spark.read.parquet("s3a://crawl/"), key_file="key")

Only this package knows Spark. It uses the API of data frames alone, so Spark Connect takes it.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, Unpack
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of its documents name it

from streamer.assembly import page_parser
from streamer.config import Settings, load_settings
from streamer.errors import SettingsError
from streamer.index.messages import NearMiss, Pages, Verdicts
from streamer.index.rule import CONTENT, SIGNATURE, TOO_SHORT
from streamer.model import SEQUENCE_BITS, SEQUENCE_MASK
from streamer.options import Options
from streamer.pages.files import Source
from streamer.pages.rows import check_columns
from streamer.pages.tables import columns_read
from streamer.run.index_folder import identity_of
from streamer.run.stages import verdicts
from streamer.run.verdict_files import batch_of, cells, verdict_schema
from streamer.run.warm import compile_kernels
from streamer.sketch.settings import read_secret
from streamer.spark.rule import Rounds, nodes_of
from streamer.spark.signing import SIGNED, Batches, Job, files_signed, map_rows, rows_signed

__all__ = ["JudgedCorpus", "deduplicate", "judge_files", "judge_rows"]

# What depends on the order of arrival, or on what this machine has.
_IN_ORDER = ("also", "expire_after", "keep_pages", "site_memory", "track_changes")


class JudgedCorpus(NamedTuple):
    """What has become of a corpus: frames of its records.

    Attributes:
        verdicts: one a page, with its `ref`.
        letters: the dead letters as JSON, each with its `ref`.
        skipped: `records` that are no pages, by why.
        rounds: how many it took until all were decided.
    """

    verdicts: DataFrame
    letters: DataFrame
    skipped: DataFrame
    rounds: int


def deduplicate(
    pages: DataFrame, *, order: str | None = None, prefix: str = "", **options: Unpack[Options]
) -> DataFrame:
    """Return a frame of pages with the columns of a verdict on each.

    Each verdict is what `streamer replay` gives over the same pages in the same order: that of the
    column `order`, of whole numbers, or of the files that a frame of Parquet files reads, by name,
    and their rows. Columns of a record that cannot be judged are null, except `letter`: why.

    Arguments:
        pages: its columns are the fields of a page, found as those of a Parquet file are.
        order: the name of a column of whole numbers, each once.
        prefix: begins the names of the verdict's columns.
        options: as for `Deduplicator`; `key_file` is needed.

    Raises:
        SettingsError: an option cannot be used on Spark, or the order is none.
    """
    settings = load_settings(**options)
    numbered, sources = _number_by_column(pages, order) if order else _number_by_file(pages)
    job = job_of(settings, sources)
    columns = columns_read(pages.columns, page_parser(settings).columns)
    check_columns("The frame:", pages.columns)
    names = [*answer_schema(job).names, "letter"]
    new = {each: f"{prefix}{each}" for each in names if each not in {"ref", "url"}}
    if taken := [each for each in ("ref", *new.values()) if each in pages.columns]:
        said = f"The frame has a column {taken[0]}. Rename it, or give prefix='verdict_'."
        raise SettingsError(said)
    signed = map_rows(numbered.select("ref", *columns), partial(rows_signed, job), SIGNED)
    corpus = judge_rows(signed, job)
    found = corpus.verdicts.unionByName(corpus.letters, allowMissingColumns=True)
    found = found.select("ref", *(F.col(name).alias(own) for name, own in new.items()))
    return numbered.join(found, "ref", "left").drop("ref")


def judge_files(sources: Sequence[Source], settings: Settings, spark: SparkSession) -> JudgedCorpus:
    """Judge the pages of files, each of which is read by one worker, in this order.

    Raises:
        SettingsError: as `deduplicate`.
    """
    job = job_of(settings, [source.name for source in sources])
    numbers = spark.range(len(sources)).repartition(len(sources))
    return judge_rows(map_rows(numbers, partial(files_signed, job), SIGNED), job)


def judge_rows(rows: DataFrame, job: Job) -> JudgedCorpus:
    """Return the verdicts on signed pages."""
    rows = rows.persist()
    pages = nodes_of(rows.where("url is not null")).persist()
    rounds = Rounds(pages.where("node = ref"), job.settings.index)
    found = answers(pages, rounds.matches(), job)
    letters = rows.where("letter is not null")
    letters = letters.select("ref", F.decode("letter", "UTF-8").alias("letter"))
    skipped = rows.where("skipped is not null").groupBy("skipped")
    skipped = skipped.agg(F.sum("records").alias("records"))
    return JudgedCorpus(found, letters, skipped, rounds.count)


def job_of(settings: Settings, names: Sequence[str]) -> Job:
    """Return what workers do with sources of these names.

    Raises:
        SettingsError: a setting cannot be used on Spark.
    """
    settings = settings.without_sites("Spark")
    for name in _IN_ORDER:
        if getattr(settings, name) != Settings.model_fields[name].default:
            option = name.replace("_", "-")
            raise SettingsError(
                f"--{option} depends on the order in which pages arrive, or on one machine, so a "
                "corpus on Spark cannot have it. Leave it out."
            )
    if settings.key_file is None:
        raise SettingsError("Give --key-file: all workers hash with one key.")
    compile_kernels(main_text=settings.text == "main")  # for the workers
    return Job(settings, read_secret(settings.key_file), names)


def _number_by_column(pages: DataFrame, order: str) -> tuple[DataFrame, list[str]]:
    """Return pages with `ref` by a column, and the name of their one source."""
    if order not in pages.columns:
        raise SettingsError(f"The frame has no column {order}. Name one in order=.")
    number = F.col(order).cast("long")
    bad = pages.groupBy(number.alias("number")).count()
    bad = bad.where(f"number is null or number < 0 or number > {SEQUENCE_MASK} or count > 1")
    if (row := bad.first()) is not None:
        raise SettingsError(
            f"The column {order} is no order: {row['count']:,} rows have {row['number']}. Each "
            "needs a whole number of its own, of 0 to 2**40 - 1."
        )
    return pages.withColumn("ref", number), [order]


def _number_by_file(pages: DataFrame) -> tuple[DataFrame, list[str]]:
    """Return pages with `ref` by their files and rows, and the names of the files."""
    place = F.col("_metadata.file_path"), F.col("_metadata.row_index")
    try:
        placed = pages.select("*", place[0].alias("ref_file"), place[1].alias("ref_row"))
        files = sorted(row[0] for row in placed.select("ref_file").distinct().collect())
    except AnalysisException as error:
        raise SettingsError(
            "Only a frame of Parquet files has an order. Name a column of whole numbers in order=."
        ) from error
    schema = "source long, ref_file string"
    numbers = pages.sparkSession.createDataFrame([*enumerate(files)], schema)
    placed = placed.join(F.broadcast(numbers), "ref_file")
    ref = F.shiftleft("source", SEQUENCE_BITS).bitwiseOR(F.col("ref_row"))
    names = [unquote(urlsplit(each).path) if each.startswith("file:") else each for each in files]
    return placed.withColumn("ref", ref).drop("ref_file", "ref_row", "source"), names


# ---- verdicts of what the rule has found: the columns that a replay writes to Parquet ------------


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
