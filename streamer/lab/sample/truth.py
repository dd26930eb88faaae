"""The files of a sample crawl: `pages.jsonl`, and beside it `truth.tsv` with what was planted.

The truth file has one line for each line of the pages file, after a line of column names. It says
how a page was made and from which one, and their exact resemblance by the plain reference. It does
not say what a detector must answer: that depends on what the detector kept (score.py).

The exact nearest kept page: a similarity join that grows in the order of the stream.

The idea is prefix filtering (Chaudhuri, Ganti and Kaushik 2006; Bayardo, Ma and Srikant 2007): with
all shingles in one order, the rarest first, two sets of resemblance >= t share one of their first
n - ceil(t * n) + 1 shingles, n their own size. Only those are looked up and indexed, so what all
pages of a site share costs nothing. No pair at or above `floor` is missed; none below it is seen.
"""

from __future__ import annotations

import csv
import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from streamer.errors import InputError
from streamer.lab.sample.crawl import SEED, Crawl, Planted
from streamer.lab.sample.pages import Shingler, page_text, read_page, resemblance, visible_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from streamer.lab.sample.crawl import Kind
    from streamer.lab.sample.pages import Exact, Shingles


Ranks = npt.NDArray[np.int64]


class KeptPages:
    """The kept pages so far, and the greatest resemblance of any page to one of them.

    Pages are named by their index in `pages`. `floor` in (0, 1] is the least resemblance asked for.
    """

    def __init__(self, pages: Sequence[Exact], floor: float, min_shingles: int) -> None:
        assert 0 < floor <= 1, floor
        self._pages = pages
        self._floor = floor
        self._min_shingles = max(1, min_shingles)
        self._ranks = _ranks([page.shingles for page in pages])
        self._by_shingle: dict[int, list[int]] = defaultdict(list)
        self._sequences: dict[bytes, list[int]] = defaultdict(list)

    def keep(self, page: int) -> None:
        """Add a page to those kept."""
        self._sequences[self._pages[page].sequence].append(page)
        for shingle in self._prefix(page):
            self._by_shingle[shingle].append(page)

    def best(self, page: int) -> float:
        """Return the greatest resemblance to a kept page where it is >= floor, else 0."""
        if self._pages[page].sequence in self._sequences:
            return 1.0
        return max((value for _, value in self.matches(page)), default=0.0)

    def matches(self, page: int) -> Iterator[tuple[int, float]]:
        """Yield all kept pages with a resemblance >= floor, and that; equal texts first, with 1."""
        equal = self._sequences.get(self._pages[page].sequence, [])
        yield from ((kept, 1.0) for kept in equal)
        prefix = self._prefix(page)
        candidates = {kept for shingle in prefix for kept in self._by_shingle.get(shingle, ())}
        for kept in candidates.difference(equal):
            value = self._resemblance(page, kept)
            if value >= self._floor:
                yield kept, value

    def _prefix(self, page: int) -> list[int]:
        """Return the page's rarest shingles, one of which any match shares; none if it is short."""
        ranks = self._ranks[page]
        if len(ranks) < self._min_shingles:
            return []
        # A product a hair above a whole number must not round up: one shingle more does no harm.
        least = math.ceil(self._floor * len(ranks) - 1e-9)
        prefix: list[int] = ranks[: len(ranks) - least + 1].tolist()
        return prefix

    def _resemblance(self, page: int, kept: int) -> float:
        left, right = self._ranks[page], self._ranks[kept]
        smaller, larger = sorted((len(left), len(right)))
        if smaller < self._floor * larger:
            return 0.0
        common = len(np.intersect1d(left, right, assume_unique=True))
        return common / (smaller + larger - common)


def _ranks(sets: list[Shingles]) -> list[Ranks]:
    """Number all shingles by rising frequency; return each set as ascending numbers."""
    if not sets:
        return []
    joined = np.concatenate(sets)
    _, inverse, counts = np.unique(joined, return_inverse=True, return_counts=True)
    rank = np.empty(len(counts), np.int64)
    rank[np.argsort(counts, kind="stable")] = np.arange(len(counts))
    parts = np.split(rank[inverse], np.cumsum([len(one) for one in sets])[:-1])
    return [np.sort(part) for part in parts]


PAGES_FILE = "pages.jsonl"
TRUTH_FILE = "truth.tsv"
COLUMNS = ("ordinal", "url", "kind", "origin", "origin_url", "resemblance")


def write_crawl(
    folder: Path,
    pages: int,
    seed: int = SEED,
    progress: Callable[[int], None] = lambda _count: None,
) -> Counter[Kind]:
    """Write a crawl of `pages` records into `folder`; return how many there are of each kind.

    `progress` is called with 1 after each record.

    Raises:
        InputError: the folder or a file in it cannot be written.
    """
    counts: Counter[Kind] = Counter()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            (folder / PAGES_FILE).open("wb") as lines,
            (folder / TRUTH_FILE).open("w", encoding="utf-8", newline="") as truth,
        ):
            table = csv.writer(truth, "excel-tab", lineterminator="\n")
            table.writerow(COLUMNS)
            for planted in Crawl(seed).records(pages):
                lines.write(planted.line + b"\n")
                table.writerow(_row(planted))
                counts[planted.kind] += 1
                progress(1)
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror or error}; choose another folder") from error
    return counts


def _row(planted: Planted) -> tuple[object, ...]:
    """Return one line of the truth file; the last three columns are empty without an origin."""
    first = (planted.ordinal, planted.url, planted.kind.value)
    origin = planted.origin
    if origin is None:
        return (*first, "", "", "")
    return (*first, origin.ordinal, origin.url, f"{_resemblance(planted.line, origin.html()):.6f}")


def _resemblance(line: bytes, origin_html: str) -> float:
    """Return the exact resemblance of a copy to its origin."""
    page = read_page(line)
    text = page and page_text(page)
    assert isinstance(text, str), line[:200]  # copies are readable pages
    shingler = Shingler()
    return resemblance(shingler.exact(text), shingler.exact(visible_text(origin_html)))


def read_kinds(path: Path) -> dict[int, str]:
    """Return the kind of each ordinal in a truth file.

    Raises:
        InputError: the file cannot be read as a truth file.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return {
                int(row["ordinal"]): row["kind"]
                for row in csv.DictReader(file, dialect="excel-tab")
            }
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; check the path") from error
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise InputError(f"{path}: not a truth file ({error}); write the crawl again") from error
