"""A whole corpus on Spark, with the verdicts of one stream over the same pages.

    from streamer.spark import deduplicate

    verdicts = deduplicate(spark.read.parquet("s3a://crawl/"), key_file="key")

Only this package knows Spark. It uses the API of data frames alone, so Spark Connect takes it.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Unpack
from urllib.parse import unquote, urlsplit

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of its documents name it

from streamer.assembly import page_parser
from streamer.config import Settings, load_settings
from streamer.errors import SettingsError
from streamer.model import SEQUENCE_BITS, SEQUENCE_MASK
from streamer.options import Options
from streamer.pages.files import Source
from streamer.pages.rows import check_columns
from streamer.pages.tables import columns_read
from streamer.run.warm import compile_kernels
from streamer.sketch.settings import read_secret
from streamer.spark.answers import answer_schema, answers
from streamer.spark.rule import Rounds, nodes_of
from streamer.spark.signing import SIGNED, Job, files_signed, map_rows, rows_signed

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
    verdicts = answers(pages, rounds.matches(), job)
    letters = rows.where("letter is not null")
    letters = letters.select("ref", F.decode("letter", "UTF-8").alias("letter"))
    skipped = rows.where("skipped is not null").groupBy("skipped")
    skipped = skipped.agg(F.sum("records").alias("records"))
    return JudgedCorpus(verdicts, letters, skipped, rounds.count)


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
