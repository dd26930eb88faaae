"""`streamer spark`: a whole corpus at once, on any number of machines."""

from __future__ import annotations

import os
import re
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from streamer.assembly import page_parser
from streamer.cli.options import Overwrite, command
from streamer.cli.terminal import Terminal, compile_with_bar, figures
from streamer.config import Settings
from streamer.errors import InputError, SettingsError, needs_extra
from streamer.panels import FIELDS, SIGNATURE, TEXT, VERDICTS
from streamer.run.reading import PageReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamer.spark import JudgedCorpus

LETTERS_SUFFIX = ".dead"
_OURS = re.compile(r"streamer\.errors\.\w+: (.+)")


@command
def spark(
    pages: list[str],
    *,
    verdicts: str,
    master: str = "local[*]",
    overwrite: Overwrite = False,
    reader: PageReader,
    settings: Annotated[
        Settings, VERDICTS, TEXT, SIGNATURE, FIELDS, "key_file", "page_bytes_max", "url_prefix",
        "cdx_base", "include", "exclude",
    ],
) -> None:  # fmt: skip
    """Judge a whole corpus on Spark, with the verdicts that one replay gives.

    A file is read by one worker, so give many. All machines need this package, and the files under
    the same names. What depends on the order of arrival is refused: --site-memory, --expire-after,
    --keep-pages, --track-changes, --also.

    Example: streamer spark crawl/ --verdicts verdicts --key-file key

    Example: spark-submit $(which streamer) spark /mnt/crawl --verdicts s3a://out --key-file key

    Args:
        pages (PAGES): Files of pages or folders, as for replay.
        verdicts: Folder for the verdicts as Parquet; dead letters: FOLDER.dead.
        master: Where Spark runs, unless spark-submit says so.
    """
    with needs_extra("spark", "streamer spark"):
        from pyspark.errors import PySparkException  # noqa: PLC0415 - an extra

        from streamer.spark import judge_files  # noqa: PLC0415 - an extra

    compile_with_bar(main_text=settings.text == "main")
    sources = reader.open(pages)
    if any(not source.is_regular for source in sources):
        raise SettingsError("A pipe has no workers who could read it. Name files.")
    page_parser(settings)  # what is wrong with the fields shows here, not in a worker
    started, session = time.monotonic(), _session(master)
    for folder in () if overwrite else (verdicts, f"{verdicts}{LETTERS_SUFFIX}"):
        with suppress(PySparkException):  # it is not there
            session.read.text([folder, folder])  # of one alone Spark logs that it is not there
            raise SettingsError(f"The folder {folder} is there already. Give --overwrite.")
    try:
        counts = _write(judge_files(sources, settings, session), verdicts, overwrite=overwrite)
    except PySparkException as error:
        raise _explain(error) from error
    seconds = f"{time.monotonic() - started:,.1f}"
    Terminal(stderr=True).print(figures([*counts.items(), ("seconds", seconds)]))
    if counts["dead letters"] and not counts["unique"]:
        raise typer.Exit(1)  # nothing is judged


def _write(corpus: JudgedCorpus, folder: str, *, overwrite: bool) -> dict[str, int]:
    """Write verdicts and dead letters; return the counts to print."""
    mode = "overwrite" if overwrite else "error"
    corpus.verdicts.orderBy("ref").drop("ref").write.parquet(folder, mode=mode)
    letters = corpus.letters.orderBy("ref").select("letter")
    letters.write.mode(mode).text(f"{folder}{LETTERS_SUFFIX}")
    written = corpus.verdicts.sparkSession.read.parquet(folder).groupBy("verdict").count()
    found = {row["verdict"]: row["count"] for row in written.collect()}
    return {
        "unique": found.get("unique", 0), "duplicates": found.get("duplicate", 0),
        "dead letters": letters.count(),
        "skipped": sum(row["records"] for row in corpus.skipped.collect()),
        "rounds": corpus.rounds,
    }  # fmt: skip


def _session(master: str) -> SparkSession:
    """Return the session that spark-submit has made, or a new one."""
    from pyspark import SparkConf  # noqa: PLC0415 - an extra
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    where = SparkConf().get("spark.master", master) or master
    if where.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return SparkSession.builder.appName("streamer").master(where).getOrCreate()


def _explain(error: Exception) -> Exception:
    """Return what a worker has raised as itself, and Spark's own words in one line."""
    said = str(error)
    if ours := _OURS.findall(said):
        return InputError(ours[-1])
    return InputError(f"Spark has failed: {said.strip().splitlines()[0]}")
