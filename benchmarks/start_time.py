"""How long a start takes: from the command to its first verdict, over an index that is there.

The command is `streamer replay` as a process of its own, kernels compiled before. After a clean
stop it is given a file of new pages. After a kill it is the killed command again: it goes on at the
last flush and gives what came after that once more, so two times are told: to the first verdict,
and to the first that the killed run had not given. The index is changed by this.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec

from benchmarks.corpus_file import obtain
from benchmarks.figures import Figure, figures_table
from benchmarks.machine import ROOT
from streamer.run.index_folder import read_meta

if TYPE_CHECKING:
    from rich.table import Table

SMALL_PAGES = 500  # less than a chunk: the first verdict waits for nothing else
KILLED_PAGES = 200_000
ROUNDS = 3
# As it is installed without benchmarks: a peer brings SciPy, which numba imports if it is there.
COMMAND = "import sys; sys.modules['scipy'] = None; from streamer.cli.main import run; run()"
SEED = 2  # of a corpus that no other benchmark has put into the index


class StartTime(msgspec.Struct, frozen=True):
    """Seconds from the command to a verdict: each round's, and their medians.

    Attributes:
        clean: after a clean stop, to the first verdict.
        killed: after a kill in the middle of a run, to the first verdict.
        caught_up: after the same kill, to the first verdict that the killed run had not given.
    """

    index_pages: int
    index_bytes: int
    clean: list[float]
    killed: list[float]
    caught_up: list[float]
    clean_s: float
    killed_s: float
    caught_up_s: float
    clean_target_s: float = 3
    killed_target_s: float = 10


class _At(msgspec.Struct):
    offset: int


class _Verdict(msgspec.Struct):
    """Where the page of a verdict lies."""

    page: _At


class Start(NamedTuple):
    """Seconds to the first verdict, and to the first new one; the ordinal after the last judged."""

    first_s: float
    new_s: float
    judged: int


def measure(
    folder: Path, index: Path, *, rounds: int = ROUNDS, killed_pages: int = KILLED_PAGES
) -> StartTime:
    """Start over the index that a finished run left in `index`, working in `folder`.

    Raises:
        DiskTooSmall: the new pages and their part of the index do not fit.
        subprocess.CalledProcessError: the command ended without a verdict, or failed.
        StoreUnavailable: there is no index.
    """
    small = obtain(folder, SMALL_PAGES, SEED).path
    large = obtain(folder, killed_pages, SEED).path
    store, meta = read_meta(index)
    index_bytes = store.size_bytes()
    store.close()
    with tempfile.TemporaryDirectory(prefix="start-", dir=folder.absolute()) as scratch:
        work = Path(scratch)
        _clean_start(index, small, work / "warm.jsonl")
        clean = [_clean_start(index, small, work / f"{n}.jsonl") for n in range(rounds)]
        killed, caught_up = _killed_starts(index, large, work / "killed.jsonl", rounds)
    return StartTime(
        index_pages=meta.rows,
        index_bytes=index_bytes,
        clean=clean,
        killed=killed,
        caught_up=caught_up,
        clean_s=statistics.median(clean),
        killed_s=statistics.median(killed),
        caught_up_s=statistics.median(caught_up),
    )


def _clean_start(index: Path, pages: Path, name: Path) -> float:
    """Judge a file under a new name, to its end; return the seconds to the first verdict."""
    os.link(pages, name)
    with _Command(index, name) as command:
        start = command.follow(new_from=0, count=1)
        command.finish()
    return start.first_s


def _killed_starts(
    index: Path, pages: Path, name: Path, rounds: int
) -> tuple[list[float], list[float]]:
    """Start, kill and start again over one file; return seconds to first and new verdicts.

    Each run is killed when it has given its part of the file's verdicts. It cannot have ended by
    then, if what is left is more than a pipe holds: nobody reads that, and it waits.
    """
    os.link(pages, name)
    with pages.open("rb") as file:
        part = sum(1 for _ in file) // (rounds + 1)
    starts: list[Start] = []
    judged = 0
    for _ in range(rounds + 1):
        with _Command(index, name) as command:
            starts.append(command.follow(new_from=judged, count=part))
        judged = starts[-1].judged
    return [start.first_s for start in starts[1:]], [start.new_s for start in starts[1:]]


class _Command:
    """A run of the command, its verdicts read as they come; killed where a `with` block ends."""

    def __init__(self, index: Path, pages: Path) -> None:
        self._log = pages.with_suffix(".log")
        self._decode = msgspec.json.Decoder(_Verdict).decode
        command = [sys.executable, "-c", COMMAND, "replay", str(pages), "--verdicts", "-"]
        self._begin = time.perf_counter()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "--index", str(index.absolute())],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        self._output = self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.kill()
        self._output.close()
        self._process.wait()

    def follow(self, *, new_from: int, count: int) -> Start:
        """Read until `count` verdicts on records from `new_from` on have come."""
        first_s = new_s = 0.0
        judged = new_from
        for line in self._output:
            now = time.perf_counter() - self._begin
            first_s = first_s or now
            offset = self._decode(line).page.offset
            if offset >= new_from:
                new_s = new_s or now
                judged, count = max(judged, offset + 1), count - 1
            if not count:
                return Start(first_s, new_s, judged)
        self._process.wait()
        raise self._failed()

    def finish(self) -> None:
        """Let the run come to its end, which must be a good one."""
        self._output.read()
        if self._process.wait():
            raise self._failed()

    def _failed(self) -> subprocess.CalledProcessError:
        process, said = self._process, self._log.read_text(encoding="utf-8")
        print(said, file=sys.stderr)
        return subprocess.CalledProcessError(process.returncode, process.args, stderr=said)


def table(result: StartTime) -> Table:
    """Return the seconds next to their targets."""
    return figures_table(
        f"start over an index of {result.index_pages:,} pages,"
        f" {result.index_bytes / 1e9:.2f} GB; seconds from the command on",
        [
            Figure("after a clean stop, first verdict", _median(result.clean_s, result.clean),
                   f"{result.clean_target_s:g}"),
            Figure("after a kill, first verdict", _median(result.killed_s, result.killed),
                   f"{result.killed_target_s:g}"),
            Figure("  first new verdict", _median(result.caught_up_s, result.caught_up)),
        ],
    )  # fmt: skip


def _median(median: float, rounds: list[float]) -> str:
    return f"{median:.2f} ({', '.join(f'{seconds:.2f}' for seconds in rounds)})"
