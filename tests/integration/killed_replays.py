"""Kill replays at random moments, go on, and compare with one that was left in peace.

Each replay is a forked child that runs the real command; `kill -9` ends it after a random time.
Once an index has got through, its outputs are compared byte for byte with those of the quiet run.

    PYTHONPATH=. python tests/integration/killed_replays.py FOLDER --kills 200 [--shards 3]

With several shards, pages are held, sets of shingles decide as well (--exact), and the input, the
verdicts and the pages are Parquet files.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
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
from streamer.run.stages import sign
from streamer.run.verdict_files import open_verdicts
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import NativeSigner
from streamer.text.visible import ESCAPED, HTML
from tests.helpers.shard_network import MemoryLookup

PAGES = 3000
CHUNK_RECORDS = 100  # small ones, so that there are many moments between two flushes


def start_replay(folder: Path, name: str, shards: int, memory: str) -> int:
    """Fork a child that replays the sample into index `name`; return its process id."""
    child = os.fork()
    if child:
        return child
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    form = "parquet" if shards > 1 else "jsonl"
    inputs = [str(folder / part / f"pages.{form}") for part in ("a", "b")]
    verdicts = str(folder / verdict_file(name, shards))
    sys.argv = ["streamer", "replay", *inputs, "--verdicts", verdicts]
    sys.argv += ["--index", str(folder / name), "--key-file", str(folder / "key")]
    kept, others = page_files(folder, name, shards)
    sys.argv += ["--kept", str(kept), "--duplicates", str(others), "--threads", "3"]
    sys.argv += ["--head-pages", "64", "--shards", str(shards), "--index-memory", memory]
    sys.argv += ["--exact", "--track-changes"] if shards > 1 else []
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
    shard = Shard(0, 1, SignatureSettings().bands, MemoryLookup())
    shard.apply(Record(CONFIG, 0, 1, np.array([0]), IndexSettings()))
    shard.apply(Record(source_name(0), 0, 1, np.array([0]), pages))
    flushed = shard.begin_flush()
    sort_postings(flushed.keys, flushed.masks, flushed.rows)


def wait(child: int) -> int:
    """Return a child's exit code; negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def verdict_file(name: str, shards: int) -> str:
    """Return the name of the verdicts of a replay."""
    return f"{name}.parquet" if shards > 1 else f"{name}.jsonl"


def page_files(folder: Path, name: str, shards: int) -> tuple[Path, Path]:
    """Return the files of kept pages and of the others of a replay."""
    kept, others = ("kept.parquet", "others.parquet") if shards > 1 else ("kept", "others.zst")
    return folder / f"{name}.{kept}", folder / f"{name}.{others}"


def write_tables(folder: Path) -> None:
    """Write the pages of both parts of the sample as Parquet too."""
    import pyarrow as pa  # noqa: PLC0415 - its threads would not be there in a child
    from pyarrow import parquet  # noqa: PLC0415

    for part in ("a", "b"):
        rows = []
        for line in (folder / part / "pages.jsonl").read_bytes().splitlines():
            with contextlib.suppress(ValueError):
                rows.append({key: str(json.loads(line).get(key)) for key in ("url", "body")})
        table = pa.Table.from_pylist(rows)
        parquet.write_table(table, folder / part / "pages.parquet", row_group_size=400)


def outputs(folder: Path, name: str, shards: int) -> tuple[bytes, ...]:
    """Return the verdicts, the dead letters and the pages of both kinds of a finished replay."""
    verdicts = verdict_file(name, shards)
    with open_verdicts(folder / verdicts) as file:
        lines = file.read()
    kept, others = (path.read_bytes() for path in page_files(folder, name, shards))
    dead = (folder / f"{verdicts}.dead.jsonl").read_bytes()
    return lines, dead, kept, others if shards > 1 else zstd.decompress(others)


def main() -> None:
    """Run until so many kills have hit a running replay; print what came of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder, draw = options.folder, random.Random(options.seed)
    for part, seed in (("a", 1), ("b", 2)):
        write_crawl(folder / part, PAGES // 2, seed)
    (folder / "key").write_text("ab" * 32 + "\n")
    if options.shards > 1:
        child = os.fork()
        if not child:
            write_tables(folder)
            os._exit(0)
        assert wait(child) == 0, "no Parquet files"
    load_kernels()
    began = time.monotonic()
    assert wait(start_replay(folder, "quiet", options.shards, "1GiB")) == 0, (
        "the quiet replay failed"
    )
    duration = time.monotonic() - began
    wanted = outputs(folder, "quiet", options.shards)
    kills = rounds = 0
    while kills < options.kills:
        rounds += 1
        code = -1
        memory = "1" if rounds % 2 else "1GiB"  # with one byte, each flush freezes what it brings
        while code:
            child = start_replay(folder, f"killed-{rounds}", options.shards, memory)
            time.sleep(draw.uniform(0, duration))
            os.kill(child, signal.SIGKILL)
            code = wait(child)
            assert code in {0, -signal.SIGKILL}, f"replay {rounds} ended with {code}"
            kills += code != 0
        assert outputs(folder, f"killed-{rounds}", options.shards) == wanted, (
            f"replay {rounds} differs"
        )
    print(f"{kills} kills, {rounds} replays got through, all equal to the quiet one")  # noqa: T201 - the result


if __name__ == "__main__":
    main()
