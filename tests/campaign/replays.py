"""Replays that are killed at random moments and run again until they end.

Once an index has got through, its outputs are compared byte for byte with those of a run that was
left in peace. That one has a thread and the others have three. Each page is in exactly one of the
files of kept pages and of the others, as its verdict says.
"""

import contextlib
import json
import random
import shutil
import signal
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyarrow import feather, parquet

from streamer.analysis.sample.crawl import write_crawl
from streamer.compression import zstd
from streamer.pages.files import open_sources
from streamer.pages.members import ZSTD_MAGIC
from streamer.run.verdict_files import open_verdicts
from tests.helpers.chunks import all_chunks
from tests.helpers.fleet import KEY
from tests.helpers.forked import Running
from tests.helpers.kills import started

PAGES = 3000
QUIET = "quiet"
# In small chunks, so that there are many moments between two flushes; a merge has many steps.
PROGRAM = """
import sys
from streamer.cli.main import app
from streamer.pages import chunk
from streamer.stored import generations

chunk.CHUNK_RECORDS_MAX = 100
generations.STEP_BYTES = 1 << 13
sys.argv = ["streamer", "replay", *sys.argv[1:]]
app(standalone_mode=False)
"""


class Form(NamedTuple):
    """What the files of a replay are, by their suffixes, and its options.

    With more options, sets of shingles decide as well (--exact), and changes are reported.
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


def run(rounds: int, seed: int, folder: Path) -> list[str]:
    """Kill replays of each form of pages, `rounds` kills together."""
    violations = []
    for name, form in FORMS.items():
        (folder / name).mkdir()
        try:
            _kill(folder / name, form, -(-rounds // len(FORMS)), random.Random(seed))
        except AssertionError as error:
            violations.append(f"{name}, seed {seed}: {str(error)[:500]}")
    return violations


def _kill(folder: Path, form: Form, kills_min: int, draw: random.Random) -> None:
    """Replay until so many kills have hit a running replay.

    Raises:
        AssertionError: a replay fails, or has other outputs than the quiet one.
    """
    for part, seed in (("a", 1), ("b", 2)):
        write_crawl(folder / part, PAGES // 2, seed)
        _write_tables(folder / part)
    (folder / "key").write_text(KEY)
    began = time.monotonic()
    assert _start(folder, QUIET, form, "1GiB").wait() == 0, "the quiet replay failed"
    duration = time.monotonic() - began
    _check_pages(folder, form)
    wanted = _outputs(folder, QUIET, form)
    kills = number = 0
    while kills < kills_min:
        number += 1
        code, longest = -1, duration
        memory = "1" if number % 2 else "1GiB"  # with one byte, each flush freezes what it brings
        while code:
            child = _start(folder, f"killed-{number}", form, memory)
            time.sleep(draw.uniform(0, longest))
            child.kill()
            code = child.wait()
            longest *= 1.1  # the tables at the end are made again each time
            said = (folder / "stderr").read_text()[-400:]
            assert code in {0, -signal.SIGKILL}, f"replay {number} ended with {code}: {said}"
            kills += code != 0
        assert _outputs(folder, f"killed-{number}", form) == wanted, f"replay {number} differs"
        shutil.rmtree(folder / f"killed-{number}")


def _start(folder: Path, name: str, form: Form, memory: str) -> Running:
    """Start a replay of the sample into index `name`."""
    inputs = [folder / part / f"pages.{form.pages}" for part in ("a", "b")]
    verdicts, kept, others = form.outputs(folder, name)
    stderr = folder / "stderr"
    stderr.touch()
    return started(
        PROGRAM, *inputs, "--verdicts", verdicts, "--kept", kept, "--duplicates", others,
        "--index", folder / name, "--key-file", folder / "key", "--head-pages", 64,
        "--threads", 1 if name == QUIET else 3, "--index-memory", memory, *form.options,
        stderr=stderr,
    )  # fmt: skip


def _write_tables(folder: Path) -> None:
    """Write the pages of a part of the sample as Parquet and Arrow too."""
    rows = []
    for line in (folder / "pages.jsonl").read_bytes().splitlines():
        with contextlib.suppress(ValueError):
            rows.append({key: str(json.loads(line).get(key)) for key in ("url", "body")})
    table = pa.Table.from_pylist(rows)
    parquet.write_table(table, folder / "pages.parquet", row_group_size=400)
    feather.write_feather(table, str(folder / "pages.arrow"), chunksize=400)


def _outputs(folder: Path, name: str, form: Form) -> list[bytes]:
    """Return the verdicts, the dead letters and the pages of both kinds of a finished replay."""
    verdicts, kept, others = form.outputs(folder, name)
    with open_verdicts(verdicts) as file:
        lines = file.read()
    found = [lines, verdicts.with_name(f"{verdicts.name}.dead.jsonl").read_bytes()]
    pages = (path.read_bytes() for path in (kept, others))
    return found + [zstd.decompress(each) if each[:4] == ZSTD_MAGIC else each for each in pages]


def _check_pages(folder: Path, form: Form) -> None:
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
    assert wanted == {"unique": _urls(kept), "duplicate": _urls(others)}


def _urls(path: Path) -> Counter[str]:
    """Return how often each URL is in a file of pages."""
    (source,) = open_sources([str(path)]).sources
    lines = [line for chunk in all_chunks(source) for line in chunk.lines]
    return Counter(json.loads(line)["url"] for line in lines)
