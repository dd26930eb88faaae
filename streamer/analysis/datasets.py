"""What can be evaluated on: page files, and labels next to them.

    pages.jsonl and truth.tsv        the sample crawl: how each page was made
    pages.jsonl and truth_pairs.tsv  pairs of pages with a label: url_a, url_b, label
    any other JSON-lines page files  without labels

True duplicates are in all of them those of exact resemblance, by the plain reference; labels are
counted in addition.

A partition is a label for each page. The true one is that of a detector without error: each page
goes to the kept page of the greatest exact resemblance, the earliest of several, or is kept.
"""

import csv
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import comb
from pathlib import Path, PurePath

from streamer.analysis.documents import page_texts
from streamer.analysis.evaluation import ConfusionCounts
from streamer.analysis.sample.crawl import PAGES_FILE, TRUTH_FILE, read_kinds
from streamer.analysis.sample.reference import MIN_SHINGLES, ReferencePages, pages_of
from streamer.analysis.sample.score import KeptSoFar
from streamer.errors import InputError
from streamer.pages.files import Source
from streamer.pages.remote import is_remote, name_of
from streamer.run.reading import DEFAULT_READER, PageReader
from streamer.sketch.collection import count_words
from streamer.text.words import CanonicalOptions

PAIRS_FILE = "truth_pairs.tsv"


@dataclass(frozen=True)
class Dataset:
    """Pages in the order of their files, with what is known about them.

    Attributes:
        reader: how its files are read.
        kinds: how a page was made, by its ordinal in the first file.
        labelled: pairs of pages that have a label, each with the lower index first.
    """

    name: str
    sources: Sequence[Source]
    reader: PageReader
    pages: ReferencePages
    kinds: dict[int, str] = field(default_factory=dict)
    labelled: frozenset[tuple[int, int]] = frozenset()


def open_dataset(given: Path | str, reader: PageReader = DEFAULT_READER) -> Dataset:
    """Return the dataset in a folder or file, or at a URL, where it has no labels.

    Raises:
        StreamerError: it holds no pages, a file of it cannot be read, or as `PageReader.read`.
    """
    if is_remote(str(given)):
        sources, name = reader.open([str(given)]), name_of(str(given))
        return Dataset(PurePath(name).stem, sources, reader, _pages_of(name, sources, reader))
    path = Path(given)
    folder = path if path.is_dir() else path.parent
    sources = reader.open([str(path)])
    pages = _pages_of(str(path), sources, reader)
    truth, pairs = folder / TRUTH_FILE, folder / PAIRS_FILE
    return Dataset(
        path.stem if path.is_file() and path.name != PAGES_FILE else folder.resolve().name,
        sources,
        reader,
        pages,
        read_kinds(truth) if truth.is_file() else {},
        frozenset(_read_labels(pairs, pages)) if pairs.is_file() else frozenset(),
    )


def _pages_of(name: str, sources: Sequence[Source], reader: PageReader) -> ReferencePages:
    pages = pages_of(sources, reader)
    if not len(pages):
        raise InputError(f"{name}: holds no page that can be judged; give page files")
    return pages


def write_collection(dataset: Dataset, folder: Path) -> Path:
    """Write the document frequencies of a dataset's own pages into `folder`; return their file."""
    options = CanonicalOptions()
    texts = page_texts(dataset.reader, dataset.sources, options)
    path = folder / f"{dataset.name}.words.json"
    path.write_bytes(count_words((page.words for page in texts), options).to_bytes())
    return path


def _read_labels(path: Path, pages: ReferencePages) -> Iterator[tuple[int, int]]:
    """Yield the pairs of a file that have a label and whose pages are both known."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, dialect="excel-tab"):
                one, other = (pages.find(None, row[name]) for name in ("url_a", "url_b"))
                if row["label"] and one is not None and other is not None:
                    yield min(one, other), max(one, other)
    except (OSError, KeyError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"{path}: not a file of labelled pairs ({error}); its columns are url_a, url_b, label"
        ) from error


Pair = tuple[int, int]


def true_pairs(pages: ReferencePages, threshold: float) -> frozenset[Pair]:
    """Return all pairs of exact resemblance >= threshold, the earlier page first."""
    index = KeptSoFar(pages.exact, threshold, MIN_SHINGLES)
    found: list[Pair] = []
    for page in range(len(pages)):
        found += ((other, page) for other, _ in index.matches(page))
        index.keep(page)
    return frozenset(found)


def true_labels(pages: ReferencePages, threshold: float) -> list[int]:
    """Return each page's representative, itself where it is kept, by a detector without error."""
    index = KeptSoFar(pages.exact, threshold, MIN_SHINGLES)
    labels: list[int] = []
    for page in range(len(pages)):
        best = min(index.matches(page), key=lambda one: (-one[1], one[0]), default=None)
        if best is None:
            index.keep(page)
        labels.append(page if best is None else best[0])
    return labels


def pair_outcomes(labels: Sequence[int], true: Collection[Pair]) -> ConfusionCounts:
    """Count the pairs of pages under one label against the true pairs."""
    said = _pairs(Counter(labels).values())
    right = count_shared_pairs(labels, true)
    wrong, missed = said - right, len(true) - right
    return ConfusionCounts(right, wrong, missed, comb(len(labels), 2) - right - wrong - missed)


def count_shared_pairs(labels: Sequence[int], pairs: Iterable[Pair]) -> int:
    """Return how many of the pairs are under one label."""
    return sum(labels[one] == labels[other] for one, other in pairs)


def adjusted_rand_index(one: Sequence[int], other: Sequence[int]) -> float:
    """Return the adjusted Rand index of two partitions: 1 for equal ones, about 0 for chance.

    Source: Hubert and Arabie 1985, Comparing partitions, equation 5. Two partitions that both put
    every page, or no two pages, together are equal.
    """
    both = _pairs(Counter(zip(one, other, strict=True)).values())
    first, second = _pairs(Counter(one).values()), _pairs(Counter(other).values())
    expected = first * second / max(1, comb(len(one), 2))
    greatest = (first + second) / 2
    return 1.0 if greatest == expected else (both - expected) / (greatest - expected)


def _pairs(sizes: Iterable[int]) -> int:
    return sum(comb(size, 2) for size in sizes)
