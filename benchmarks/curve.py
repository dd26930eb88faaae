"""Does it hold as the corpus grows? Rate, memory, recall and precision, million by million.

    python -m benchmarks.curve --pages 30000000 --plot docs/benchmarks/curve.svg

Pages with texts come through a pipe (salted_source.py), `streamer replay` judges them, and its
verdicts come back through another. Once its keys have the memory that they want, once 40 bytes a
page. What is true is counted from the texts, by sets of five words in a row, and shares no code
with what is measured:

- recall: of planted copies whose resemblance to their original is at least the threshold, how many
  are called duplicates;
- precision: of pages that are called duplicates, how many resemble the page that is named.

Source, replay and this program share the cores, so the rate is that of the three together.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from contextlib import closing
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec
import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

from benchmarks.corpus import Corpus
from benchmarks.corpus_file import obtain
from benchmarks.figures import empty_table
from benchmarks.machine import ROOT
from benchmarks.plots import OTHERS, OURS, TARGET, WIDTH, save
from benchmarks.resident import resident
from benchmarks.salted_source import base_copies, salts_of_pass, shifted_vowels
from benchmarks.scale import scratch, source_command
from benchmarks.timed_replay import CORES, warm

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt
    from rich.table import Table

PAGES, BASE_PAGES, PARTS = 30_000_000, 1_200_000, 30
BOUND = 40  # bytes of memory for keys, a page of the whole run
UNBOUNDED = 1 << 40
THRESHOLD = 0.8  # of `streamer replay`, unless told otherwise
WORDS = 5  # of a shingle
COPIES_ONE_IN, DUPLICATES_ONE_IN = 16, 400  # that are held against the texts
FOLD_RECALL = (0.94, 0.97)  # at 30 million documents, as published
_NUMBERS = re.compile(r"/pass-(\d+)-(\d+)\.html$")
_READ_BYTES = 1 << 20


class Named(msgspec.Struct):
    """The page that a duplicate is said to be of."""

    url: str


class ReadVerdict(msgspec.Struct):
    """What is needed of a line that `streamer replay` writes."""

    url: str
    representative: Named | None = None


_decoder = msgspec.json.Decoder(ReadVerdict)


class Part(msgspec.Struct, frozen=True):
    """Some pages of a run, and what was kept and in memory behind them."""

    pages: int
    seconds: float
    kept: int
    memory_bytes: int
    recall: float
    precision: float


class Truth:
    """The texts of the source's pages, and which copies are to be found."""

    def __init__(self, base: Path, pages: int) -> None:
        self._file = base.open("rb")
        self._sizes = np.array([len(line) for line in islice(self._file, pages)])
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._copies, self._vowels = base_copies(pages), shifted_vowels()
        origins, _ = Corpus()._origins(np.arange(pages, dtype=np.uint64))  # noqa: SLF001 - only it knows
        self.due = np.zeros(pages, np.bool_)
        for copy in np.flatnonzero(self._copies)[::COPIES_ONE_IN].tolist():
            self.due[copy] = self._resemblance((copy, 0), (int(origins[copy]), 0)) >= THRESHOLD
        self._salts = lru_cache(maxsize=None)(self._salts_of_pass)

    def close(self) -> None:
        """Close the file of the texts."""
        self._file.close()

    def _salts_of_pass(self, number: int) -> npt.NDArray[np.int8]:
        return salts_of_pass(number, self._copies).astype(np.int8)

    def are_alike(self, url: str, other: str) -> bool:
        """Return whether two pages of the source resemble each other."""
        return self._resemblance(self._page(url), self._page(other)) >= THRESHOLD

    def _page(self, url: str) -> tuple[int, int]:
        """Return the number of a page in the base, and its salt."""
        run, page = numbers_in(url)
        return page, int(self._salts(run)[page])

    def _resemblance(self, one: tuple[int, int], other: tuple[int, int]) -> float:
        a, b = self._shingles(*one), self._shingles(*other)
        return len(a & b) / max(1, len(a | b))

    def _shingles(self, page: int, salt: int) -> set[tuple[str, ...]]:
        line = os.pread(self._file.fileno(), int(self._sizes[page]), int(self._starts[page]))
        body = msgspec.json.decode(line)["body"]
        shifted = self._vowels[salt].tobytes().decode()
        words = re.findall(r"\w+", body.translate(str.maketrans("aeiou", shifted)))
        return {*zip(*(words[at:] for at in range(WORDS)), strict=False)}


def numbers_in(url: str) -> tuple[int, int]:
    """Return the pass of a page of the source, and its number in that."""
    found = _NUMBERS.search(url)
    assert found, url
    return int(found[1]), int(found[2])


class Tally:
    """Counts of a part's verdicts."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._due = self._found = self._alike = self._told = 0
        self.pages = self.duplicates = 0

    def add(self, line: ReadVerdict) -> None:
        """Count a verdict, and hold some against the texts."""
        self.pages += 1
        if self._truth.due[numbers_in(line.url)[1]]:
            self._due += 1
            self._found += line.representative is not None
        if line.representative:
            self.duplicates += 1
            if self.duplicates % DUPLICATES_ONE_IN == 0:
                self._told += 1
                self._alike += self._truth.are_alike(line.url, line.representative.url)

    def shares(self) -> tuple[float, float]:
        """Return recall and precision."""
        return self._found / max(1, self._due), self._alike / max(1, self._told)


def replayed(
    folder: Path, base: Path, truth: Truth, sizes: tuple[int, int], bound: int
) -> Iterator[Part]:
    """Replay `sizes` (pages, pages a part) with a bound of memory; yield its parts."""
    pages, step = sizes
    command = [sys.executable, "-m", "streamer", "replay", "-", "--verdicts", "-"]
    command += ["--index-memory", str(bound)]
    with (
        scratch(folder / "curve") as work,
        subprocess.Popen(
            source_command(base, len(truth.due), pages), cwd=ROOT, stdout=subprocess.PIPE
        ) as feed,
        subprocess.Popen(
            [*command, "--index", str(work / "index")],
            cwd=ROOT, stdin=feed.stdout, stdout=subprocess.PIPE,
        ) as replay,
    ):  # fmt: skip
        assert feed.stdout
        assert replay.stdout
        feed.stdout.close()  # the replay has it
        yield from _parts(replay.stdout, truth, step, replay.pid)
    if replay.returncode or feed.returncode:
        raise SystemExit(f"Replay ended with {replay.returncode}, source {feed.returncode}.")


def _parts(lines: IO[bytes], truth: Truth, step: int, process: int) -> Iterator[Part]:
    tally, kept, began = Tally(truth), 0, time.perf_counter()
    for line in _verdicts(lines):
        tally.add(line)
        if tally.pages == step:
            now = time.perf_counter()
            kept += step - tally.duplicates
            memory = resident(process).anonymous_bytes
            yield Part(step, now - began, kept, memory, *tally.shares())
            tally, began = Tally(truth), now


def _verdicts(lines: IO[bytes]) -> Iterator[ReadVerdict]:
    rest = b""
    while part := os.read(lines.fileno(), _READ_BYTES):
        whole, newline, rest = (rest + part).rpartition(b"\n")
        yield from _decoder.decode_lines(whole + newline)


def table(name: str, parts: Sequence[Part]) -> Table:
    """Return the parts of a run."""
    shown = empty_table(
        name, "million pages", "pages/s", "kept", "memory, bytes a kept page", "recall", "precision"
    )
    judged = 0
    for part in parts:
        judged += part.pages
        shown.add_row(
            f"{judged / 1e6:.1f}", f"{part.pages / part.seconds:,.0f}", f"{part.kept:,}",
            f"{part.memory_bytes / part.kept:.0f}", f"{part.recall:.4f}", f"{part.precision:.4f}",
        )  # fmt: skip
    return shown


def curve(runs: dict[str, list[Part]]) -> Figure:
    """Draw rate, recall and precision of runs over the pages judged, with FOLD's recall."""
    figure = Figure(figsize=(WIDTH, 6), layout="constrained")
    rate, recall, precision = figure.subplots(3, sharex=True)
    for (name, parts), color in zip(runs.items(), (OURS, OTHERS), strict=False):
        judged = np.cumsum([part.pages for part in parts]) / 1e6
        rate.plot(judged, [p.pages / p.seconds for p in parts], ".-", color=color, label=name)
        recall.plot(judged, [p.recall for p in parts], ".-", color=color, label=name)
        precision.plot(judged, [p.precision for p in parts], ".-", color=color, label=name)
    recall.axhspan(*FOLD_RECALL, color=TARGET, alpha=0.2, label="FOLD at 30 million, published")
    rate.set(ylabel="pages/s", ylim=(0, None))
    recall.set(ylabel="recall", ylim=(0.9, 1.005))
    precision.set(ylabel="precision", ylim=(0.9, 1.005), xlabel="million pages judged")
    figure.legend(*recall.get_legend_handles_labels(), loc="outside upper left", frameon=False)
    return figure


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description="Measure a corpus that grows.")
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--base-pages", type=int, default=BASE_PAGES)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench")
    parser.add_argument("--plot", type=Path, help="where the chart goes, as SVG")
    asked = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    warm(asked.folder)
    base = obtain(asked.folder, asked.base_pages).path
    bounds = {
        "all keys in memory": UNBOUNDED,
        f"{BOUND} bytes of memory a page for keys": BOUND * asked.pages,
    }
    runs: dict[str, list[Part]] = {}
    sizes = (asked.pages, asked.pages // PARTS)
    with closing(Truth(base, asked.base_pages)) as truth:
        for name, bound in bounds.items():
            runs[name] = [*replayed(asked.folder, base, truth, sizes, bound)]
            Console().print(table(name, runs[name]))
    if asked.plot:
        save(curve(runs), asked.plot)


if __name__ == "__main__":
    main()
