"""The files of a sample crawl: `pages.jsonl`, and beside it `truth.tsv` with what was planted.

The truth file has one line for each line of the pages file, after a line of column names. It says
how a page was made and from which one, and their exact resemblance by the plain reference. It does
not say what a detector must answer: that depends on what the detector kept (score.py).
"""

from __future__ import annotations

import csv
from collections import Counter
from typing import TYPE_CHECKING

from streamer.errors import InputError
from streamer.sample.crawl import SEED, Crawl, Planted
from streamer.sample.reference import Shingler, page_text, read_page, resemblance, visible_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streamer.sample.kinds import Kind

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
