"""Kill replays at random moments, go on, and compare with one that was left in peace.

Each replay is a forked child that runs the real command; `kill -9` ends it after a random time.
Once an index has got through, its outputs are compared byte for byte with those of the quiet run.

    PYTHONPATH=. python tests/integration/killed_replays.py FOLDER lines --kills 200

The quiet run has one thread and the others have three. Each page is in exactly one of the files of
kept pages and of the others, as its verdict says.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np

from streamer.analysis.sample.crawl import write_crawl
from streamer.cli.main import app
from streamer.compression import zstd
from streamer.index.messages import CONFIG, Record, source_name
from streamer.index.postings import sort_postings
from streamer.index.settings import IndexSettings
from streamer.index.shard import Shard
from streamer.pages.chunk import PageBatch
from streamer.pages.files import open_sources
from streamer.pages.members import ZSTD_MAGIC
from streamer.run.stages import sign
from streamer.run.verdict_files import open_verdicts
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import NativeSigner
from streamer.text.visible import ESCAPED, HTML
from tests.helpers.memory_index import MemoryLookup

PAGES = 3000
QUIET = "quiet"
CHUNK_RECORDS = 100  # small ones, so that there are many moments between two flushes


class Form(NamedTuple):
    """What the files of a replay are, by their suffixes, and its options.

    With more options, sets of shingles decide as well (--exact), and changes are told.
    """

    pages: str
    verdicts: str
    kept: str
    others: str
    options: tuple[str, ...]

    def outputs(self, folder: Path, name: str) -> list[Path]:
        """Return the files of verdicts, of kept pages and of the others, of the replay `name`."""
        parts = f"verdicts.{self.verdicts}", f"kept.{self.kept}", f"others.{self.others}"
        return [folder / f"{name}.{part}" for part in parts]


NEAR = ("--near-misses", "0.3")
MORE = ("--exact", "--track-changes", *NEAR)
FORMS = {
    "lines": Form("jsonl", "jsonl", "jsonl", "jsonl.zst", NEAR),
    "tables": Form("parquet", "parquet", "parquet", "parquet", MORE),
    "arrow": Form("arrow", "jsonl", "arrow", "jsonl.zst", MORE),
}


def start_replay(folder: Path, name: str, form: Form, memory: str) -> int:
    """Fork a child that replays the sample into index `name`; return its process id."""
    child = os.fork()
    if child:
        return child
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    inputs = [str(folder / part / f"pages.{form.pages}") for part in ("a", "b")]
    verdicts, kept, others = map(str, form.outputs(folder, name))
    sys.argv = ["streamer", "replay", *inputs, "--verdicts", verdicts]
    sys.argv += ["--index", str(folder / name), "--key-file", str(folder / "key")]
    sys.argv += ["--kept", kept, "--duplicates", others, "--head-pages", "64"]
    sys.argv += ["--threads", "1" if name == QUIET else "3", "--index-memory", memory]
    sys.argv += form.options
    code = 1
    try:
        with (
            mock.patch("streamer.pages.lines.CHUNK_RECORDS_MAX", CHUNK_RECORDS),
            mock.patch("streamer.pages.tables.CHUNK_RECORDS_MAX", CHUNK_RECORDS),
        ):
            app(standalone_mode=False)
        code = 0
    finally:
        os._exit(code)


def load_kernels() -> None:
    """Load the dearer kernels here, for all children.

    Not by a store: its threads would not be there in a child, which would wait for them for ever.
    """
    body = b"<p>a b c d e f g"
    batch = PageBatch(0, 1, [0], [None], [b"u"], [body], [ESCAPED | HTML], [b""], [0])
    pages = sign(NativeSigner(SignatureSettings(), bytes(32)), 0, batch)
    shard = Shard(SignatureSettings().bands, MemoryLookup())
    shard.apply(Record(CONFIG, 0, 1, np.array([0]), IndexSettings()))
    shard.apply(Record(source_name(0), 0, 1, np.array([0]), pages))
    flushed = shard.begin_flush()
    sort_postings(flushed.keys, flushed.masks, flushed.rows)


def wait(child: int) -> int:
    """Return a child's exit code; negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def write_tables(folder: Path) -> None:
    """Write the pages of both parts of the sample as Parquet and Arrow too."""
    import pyarrow as pa  # noqa: PLC0415 - its threads would not be there in a child
    from pyarrow import feather, parquet  # noqa: PLC0415

    for part in ("a", "b"):
        rows = []
        for line in (folder / part / "pages.jsonl").read_bytes().splitlines():
            with contextlib.suppress(ValueError):
                rows.append({key: str(json.loads(line).get(key)) for key in ("url", "body")})
        table = pa.Table.from_pylist(rows)
        parquet.write_table(table, folder / part / "pages.parquet", row_group_size=400)
        feather.write_feather(table, str(folder / part / "pages.arrow"), chunksize=400)


def outputs(folder: Path, name: str, form: Form) -> list[bytes]:
    """Return the verdicts, the dead letters and the pages of both kinds of a finished replay."""
    verdicts, kept, others = form.outputs(folder, name)
    with open_verdicts(verdicts) as file:
        lines = file.read()
    found = [lines, verdicts.with_name(f"{verdicts.name}.dead.jsonl").read_bytes()]
    pages = (path.read_bytes() for path in (kept, others))
    return found + [zstd.decompress(each) if each[:4] == ZSTD_MAGIC else each for each in pages]


def check_pages(folder: Path, form: Form) -> None:
    """Check that the pages of the quiet run are each where its verdict says, once.

    Raises:
        AssertionError: one is not.
    """
    verdicts, kept, others = form.outputs(folder, QUIET)
    wanted: dict[str, Counter[str]] = {"unique": Counter(), "duplicate": Counter()}
    with open_verdicts(verdicts) as file:
        for line in file:
            verdict = json.loads(line)
            wanted[verdict["verdict"]][verdict["url"]] += 1
    assert wanted == {"unique": urls(kept), "duplicate": urls(others)}


def urls(path: Path) -> Counter[str]:
    """Return how often each URL is in a file of pages."""
    (source,) = open_sources([str(path)]).sources
    lines = [line for chunk in source.read() for line in chunk.lines]
    return Counter(json.loads(line)["url"] for line in lines)


def in_a_child(work: Callable[..., None], *arguments: object) -> None:
    """Do what loads pyarrow in a child: its threads would not be there in later children.

    Raises:
        AssertionError: the child has failed.
    """
    child = os.fork()
    if not child:
        code = 1
        try:
            work(*arguments)
            code = 0
        except Exception:  # noqa: BLE001 - whatever it is, its parent fails
            traceback.print_exc()
        finally:
            os._exit(code)
    assert wait(child) == 0, work.__name__


def main() -> None:
    """Run until so many kills have hit a running replay; print what came of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("form", choices=FORMS)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    folder, form, draw = asked.folder, FORMS[asked.form], random.Random(asked.seed)
    for part, seed in (("a", 1), ("b", 2)):
        write_crawl(folder / part, PAGES // 2, seed)
    (folder / "key").write_text("ab" * 32 + "\n")
    in_a_child(write_tables, folder)
    load_kernels()
    began = time.monotonic()
    assert wait(start_replay(folder, QUIET, form, "1GiB")) == 0, "the quiet replay failed"
    duration = time.monotonic() - began
    in_a_child(check_pages, folder, form)
    wanted = outputs(folder, QUIET, form)
    kills = rounds = 0
    while kills < asked.kills:
        rounds += 1
        code, longest = -1, duration
        memory = "1" if rounds % 2 else "1GiB"  # with one byte, each flush freezes what it brings
        while code:
            child = start_replay(folder, f"killed-{rounds}", form, memory)
            time.sleep(draw.uniform(0, longest))
            os.kill(child, signal.SIGKILL)
            code = wait(child)
            longest *= 1.1  # the tables at the end are made anew each time
            assert code in {0, -signal.SIGKILL}, f"replay {rounds} ended with {code}"
            kills += code != 0
        found = outputs(folder, f"killed-{rounds}", form)
        assert found == wanted, f"replay {rounds} differs"
        shutil.rmtree(folder / f"killed-{rounds}")
    print(f"{kills} kills, {rounds} replays got through, all equal to the quiet one")  # noqa: T201 - the result


if __name__ == "__main__":
    main()
