"""What can be evaluated on: page files, whatever labels lie beside them, and Reuters-21578.

    pages.jsonl and truth.tsv        the sample crawl: how each page was made
    pages.jsonl and truth_pairs.tsv  pairs of URLs with a label, such as `plagiarised`
    *.sgm                            Reuters-21578, which becomes page messages here
    any other JSON-lines page files  without labels

True duplicates are in all of them those of exact resemblance, by the plain reference; labels are
counted beside that.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from streamer.errors import InputError
from streamer.sample.pages import Pages, page_files, read_pages
from streamer.sample.reuters import reuters_pages
from streamer.sample.truth import PAGES_FILE, TRUTH_FILE, read_kinds
from streamer.sketch.collection import count_words
from streamer.stream.files import open_sources
from streamer.stream.page_texts import page_texts
from streamer.stream.parse import PageParser
from streamer.text.words import CanonicalOptions

PAIRS_FILE = "truth_pairs.tsv"


@dataclass(frozen=True)
class Dataset:
    """Pages in the order of their files, with what is known about them.

    Attributes:
        kinds: how a page was made, by its ordinal in the first file.
        labelled: pairs of pages that carry a label, each with the lower index first.
    """

    name: str
    files: Sequence[Path]
    pages: Pages
    kinds: dict[int, str] = field(default_factory=dict)
    labelled: frozenset[tuple[int, int]] = frozenset()


def open_dataset(path: Path, scratch: Path) -> Dataset:
    """Return the dataset in a folder or file; `scratch` takes what is converted.

    Raises:
        InputError: it holds no pages, or a file of it cannot be read.
    """
    folder = path if path.is_dir() else path.parent
    articles = sorted(path.glob("*.sgm")) if path.is_dir() else [path]
    if not articles or articles[0].suffix != ".sgm":
        files = page_files([path])
    else:
        files = [_converted(articles, scratch / path.stem)]
    pages = read_pages(files)
    if not len(pages):
        raise InputError(f"{path}: holds no page that can be judged; give page files")
    truth, pairs = folder / TRUTH_FILE, folder / PAIRS_FILE
    return Dataset(
        path.stem if path.is_file() and path.name != PAGES_FILE else folder.resolve().name,
        files,
        pages,
        read_kinds(truth) if truth.is_file() else {},
        frozenset(_labelled(pairs, pages)) if pairs.is_file() else frozenset(),
    )


def write_collection(dataset: Dataset, folder: Path) -> Path:
    """Write the document frequencies of a dataset's own pages into `folder`; return their file."""
    options = CanonicalOptions()
    sources = open_sources([str(path) for path in dataset.files]).sources
    texts = page_texts(sources, PageParser(), options)
    path = folder / f"{dataset.name}.words.json"
    path.write_bytes(count_words((page.words for page in texts), options).to_bytes())
    return path


def _converted(articles: Sequence[Path], folder: Path) -> Path:
    """Write Reuters' articles as page messages; return their file."""
    folder.mkdir(parents=True, exist_ok=True)
    encoder = msgspec.json.Encoder()
    out = folder / PAGES_FILE
    with out.open("wb") as file:
        file.writelines(encoder.encode(page) + b"\n" for page in reuters_pages(articles))
    return out


def _labelled(path: Path, pages: Pages) -> Iterator[tuple[int, int]]:
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
