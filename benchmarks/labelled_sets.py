"""The labelled sets: which of their pages are the same, and what verdicts on them come to.

They are the project's own sample crawl, and sets of real pages next to the checkout, if any.
"""

import csv
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks import quality
from streamer.analysis.evaluation import PageVerdict, evaluate
from streamer.analysis.sample.crawl import PAGES_FILE, TRUTH_FILE, Kind, write_crawl

RECORDS = 3_000
KEY = "5a" * 32
SAMPLE = "sample crawl"


class Set(NamedTuple):
    """Pages in a folder, with the label of each by its URL: pages of one label are the same.

    `kinds` says how each was made.
    """

    name: str
    what: str
    pages: Path
    labels: Mapping[str, str]
    kinds: Mapping[str, str] = {}


class Score(msgspec.Struct):
    """What the verdicts on a set came to.

    Attributes:
        new, false: pages of which none was kept before, and those of them said to be duplicates.
        seen, found: pages of which one was kept before, and those of them said to be duplicates of
            one of these.
        wrong: pages said to be duplicates of another page, new or not.
        kinds: by kind, (seen, found).
    """

    new: int = 0
    false: int = 0
    seen: int = 0
    found: int = 0
    wrong: int = 0
    kinds: dict[str, tuple[int, int]] = {}

    def count(self, *, is_duplicate: bool, found: bool, was_seen: bool) -> None:
        """Count a page that is said to be a duplicate, or one of a kept page of its label."""
        self.seen += was_seen
        self.new += not was_seen
        self.found += found
        self.wrong += is_duplicate and not found
        self.false += is_duplicate and not was_seen

    @property
    def precision(self) -> float:
        """Return of the pages said to be duplicates the share that are."""
        return self.found / max(1, self.found + self.wrong)

    @property
    def recall(self) -> float:
        """Return of the pages that were there before the share that was found."""
        return self.found / max(1, self.seen)

    @property
    def f1(self) -> float:
        """Return the harmonic mean of both."""
        return 2 * self.found / max(1, self.found + self.wrong + self.seen)


class LabelTruth:
    """Pages are the same where their labels are."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels
        self._kept: set[str] = set()

    def resemblance(self, page: str, other: str) -> float:
        """Return 1 where two pages have one label, else 0."""
        return float(self._labels[page] == self._labels[other])

    def best(self, page: str) -> float:
        """Return 1 where a page of the same label was kept, else 0."""
        return float(self._labels[page] in self._kept)

    def keep(self, page: str) -> None:
        """Add a page to those kept."""
        self._kept.add(self._labels[page])


def score(labelled: Set, verdicts: Path) -> Score:
    """Hold verdicts against the labels, in the order of the stream."""
    result, truth = Score(), LabelTruth(labelled.labels)
    kinds: defaultdict[str, list[bool]] = defaultdict(list)
    for (url, is_duplicate, _), value, _ in evaluate(truth, _said(verdicts)):
        found, was_seen = is_duplicate and value == 1, truth.best(url) == 1
        result.count(is_duplicate=is_duplicate, found=found, was_seen=was_seen)
        if was_seen:
            kinds[labelled.kinds.get(url, "")].append(found)
    result.kinds = {kind: (len(each), sum(each)) for kind, each in sorted(kinds.items())}
    return result


def _said(verdicts: Path) -> Iterator[PageVerdict[str]]:
    for line in verdicts.read_bytes().splitlines():
        verdict = msgspec.json.decode(line)
        of = verdict["representative"]
        yield PageVerdict(verdict["url"], of is not None, of and of["url"])


def sets(folder: Path) -> list[Set]:
    """Return the sample crawl, made in `folder`, and the labelled sets that are there."""
    return [sample(folder), *others(folder)]


def sample(folder: Path) -> Set:
    """Return the sample crawl: copies have the label of the page that they were made from."""
    crawl = folder / "sample-crawl"
    write_crawl(crawl, RECORDS)
    with (crawl / TRUTH_FILE).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, dialect="excel-tab"))
    labels: dict[str, str] = {}
    for row in rows:
        url = row["url"]
        if row["kind"] == Kind.BOILERPLATE:  # a site's furniture alone is the same on each page
            labels[url] = url.split("/")[2]
        else:
            labels[url] = labels.get(row["origin_url"] or url, url)
    kinds = {row["url"]: row["kind"] for row in rows}
    what = "the project's own crawl in seven languages, planted copies and edits"
    return Set(SAMPLE, what, crawl / PAGES_FILE, labels, kinds)


def others(folder: Path) -> Iterator[Set]:
    """Yield the labelled sets of real pages next to the checkout."""
    if pages := quality.unpacked(folder, quality.DATA, "set3_llvm_docs"):
        labels = dict(_rows(pages.parent / "truth_clusters.tsv")[1:])
        what = "four releases of a documentation: the same page of another release"
        yield Set("releases", what, pages, labels)
    if pages := quality.unpacked(folder, quality.DATA, "set7_mccormick"):
        labels = {url: url for url in _urls(pages)}
        for one, other, *_ in _rows(pages.parent / "truth_pairs.tsv")[1:]:
            labels[other] = labels[one]
        yield Set("plagiarised news", "2,500 articles, 20 of them copied", pages, labels)
    if pages := quality.unpacked(folder, quality.DATA, "set10b_templates_dev"):
        rows = _rows(pages.parent / "truth_articles.tsv")
        labels = {url: article for url, article, _ in rows}
        what = "real articles in the furniture of other sites: the same article"
        yield Set("articles in templates", what, pages, labels)


def _rows(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


def _urls(pages: Path) -> Iterator[str]:
    with pages.open("rb") as lines:
        yield from (msgspec.json.decode(line)["url"] for line in lines)


def judged(labelled: Set, *options: str) -> Score:
    """Return what the verdicts of a replay with these options, under a fixed key, come to."""
    with tempfile.TemporaryDirectory(prefix="streamer-") as scratch:
        verdicts, key = Path(scratch, "verdicts.jsonl"), Path(scratch, "key")
        key.write_text(KEY)
        key.chmod(0o600)
        command = [sys.executable, "-m", "streamer", "replay", str(labelled.pages), "--keep-going"]
        command += ["--verdicts", str(verdicts), "--key-file", str(key), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return score(labelled, verdicts)
