"""Quality: how right the verdicts are on collections of real pages, under several random keys.

A collection is judged in file order, and each verdict by the exact resemblance of the pages
(streamer/analysis/sample/reference.py). Every key draws other hash functions, so one run says
little: the minimum and the median over the keys are reported. A library that is compared judges the
same pages, its seed in the key's place. The collections are next to the checkout; where they are
not, the report says so.
"""

from __future__ import annotations

import tarfile
import tempfile
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from benchmarks.figures import empty_table
from benchmarks.machine import ROOT
from benchmarks.peers.peer import STREAM_PEERS, Entry, StreamPeer
from streamer.analysis.sample.reference import pages_of, score_pages
from streamer.run.reading import DEFAULT_READER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

DATA = ROOT / "../shared/data"
THRESHOLD = 0.8
KEYS = 5


class Collection(NamedTuple):
    """Pages in an archive, and what we mean to reach on them: an F1, or all planted pairs."""

    name: str
    target: str


COLLECTIONS = (
    Collection("set3_llvm_docs", "F1 at least 0.985"),
    Collection("set7_mccormick", "20 right, 0 wrong"),
)


class Trial(msgspec.Struct, frozen=True):
    """The score under one key; `seconds` is the time of judging alone.

    `right` and `wrong` count the pages said to be duplicates, `missed` those that were not and are.
    """

    right: int
    wrong: int
    missed: int
    precision: float
    recall: float
    f1: float
    seconds: float


class Quality(msgspec.Struct, frozen=True):
    """A detector's trials on one collection; or, with a `sentence`, why there are none."""

    collection: str
    detector: str
    target: str
    trials: list[Trial] = []
    sentence: str | None = None

    def values(self, figure: str) -> list[float]:
        """Return one of the trials' figures over the keys, ascending."""
        return sorted(getattr(trial, figure) for trial in self.trials)

    def median(self, figure: str) -> float:
        """Return the median of one of the trials' figures."""
        return median(self.values(figure))


def measure(folder: Path, keys: int = KEYS, data: Path = DATA) -> list[Quality]:
    """Judge every collection in `data` by every detector; `folder` takes the unpacked pages."""
    results: list[Quality] = []
    for collection in COLLECTIONS:
        pages = unpacked(folder, data, collection.name)
        if pages is None:
            reason = f"{collection.name} is not measured: its archive is not in ../shared/data."
            results.append(Quality(collection.name, "", collection.target, sentence=reason))
            continue
        results += [_judged(collection, entry, pages, keys) for entry in STREAM_PEERS]
    return results


def unpacked(folder: Path, data: Path, name: str) -> Path | None:
    """Return the pages of a collection, unpacked into `folder` once; None where it is absent."""
    pages, archive = folder / name / "pages.jsonl", data / f"{name}.tar.xz"
    if not pages.exists() and archive.exists():
        with tarfile.open(archive) as file:
            # An argument of extractall from Python 3.11.4 on.
            file.extraction_filter = getattr(tarfile, "data_filter", None)
            file.extractall(folder)  # noqa: S202 - filtered, and our own archive
    return pages if pages.exists() else None


def _judged(collection: Collection, entry: Entry[StreamPeer], pages: Path, keys: int) -> Quality:
    """Return a detector's trials under the keys 0 .. keys - 1."""
    peer = entry.load()
    if peer is None:
        reason = f"{entry.name} is not compared: it is not installed."
        return Quality(collection.name, entry.name, collection.target, sentence=reason)
    trials = [trial(peer, pages, key) for key in range(keys)]
    return Quality(collection.name, entry.name, collection.target, trials)


def trial(peer: StreamPeer, pages: Path, key: int) -> Trial:
    """Judge the pages under one key and score the verdicts."""
    with tempfile.TemporaryDirectory() as scratch:
        verdicts = Path(scratch) / "verdicts.jsonl"
        seconds = peer.judge(pages, verdicts, THRESHOLD, key)
        table = pages_of(DEFAULT_READER.open([str(pages)]))
        outcomes = score_pages(table, verdicts, THRESHOLD).outcomes
    return Trial(
        right=outcomes.true_positive,
        wrong=outcomes.false_positive,
        missed=outcomes.false_negative,
        precision=outcomes.precision or 0.0,
        recall=outcomes.recall or 0.0,
        f1=outcomes.f1 or 0.0,
        seconds=seconds,
    )


def tables(results: Sequence[Quality]) -> Iterator[Table | str]:
    """Yield a table for each collection, a line for each detector."""
    for collection, group in groupby(results, lambda one: one.collection):
        judged = list(group)
        table = empty_table(
            f"{collection}, target {judged[0].target}; least and median over the keys",
            "detector", "precision", "recall", "F1", "right", "wrong", "missed", "s",
        )  # fmt: skip
        for result in judged:
            if result.trials:
                table.add_row(result.detector, *_quality_cells(result))
        if table.row_count:
            yield table
        yield from (result.sentence for result in judged if result.sentence)


def _quality_cells(result: Quality) -> Iterator[str]:
    """Yield the cells of a detector's line; of counts the least and the greatest."""
    for figure in ("precision", "recall", "f1"):
        yield f"{result.values(figure)[0]:.4f} {result.median(figure):.4f}"
    for figure in ("right", "wrong", "missed"):
        yield _range(result.values(figure))
    yield f"{result.median('seconds'):.2f}"


def _range(values: Sequence[float]) -> str:
    """Return the least and the greatest of ascending counts."""
    first, last = round(values[0]), round(values[-1])
    return f"{first}" if first == last else f"{first}-{last}"
