"""All benchmarks: `make bench`. Print tables, and write the same figures as JSON.

Each benchmark is in a module of its own; a line of SUBJECTS makes it one for the report and the
results too. The exit code is 0 unless something failed; how fast it was is for the reader to judge,
next to targets and the machine's load.
Ratios are taken within one run only.

    python benchmarks/run.py --pages 50000 --only throughput
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from rich.console import Console

# A script has its own folder on the path, but its modules are imported from the root.
sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from benchmarks import (
    growth,
    html_pages,
    library,
    lsh,
    machine,
    quality,
    results,
    scale,
    signing,
    throughput,
)
from benchmarks.corpus_file import DiskTooSmall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.table import Table

    from benchmarks.results import Results

FOLDER = machine.ROOT / "build" / "bench"
SIZES = {
    "pages": "pages to replay",
    "head_pages": "as of streamer replay",
    "signing_pages": "pages that each peer signs a round",
    "documents": "documents in each peer's index",
    "library_pages": "pages that a program adds",
    "keys": "random keys for quality",
    "html_pages": "HTML pages to replay",
    "scale_pages": "pages of the long run",
    "growth_pages": "pages to keep in an index beyond its memory",
}


class Options(msgspec.Struct, frozen=True):
    """How large the measurements are; `folder` is where they work."""

    folder: Path
    pages: int = throughput.PAGES
    head_pages: int | None = None
    signing_pages: int = signing.PAGES
    documents: int = lsh.DOCUMENTS
    library_pages: int = library.PAGES
    keys: int = quality.KEYS
    html_pages: int = html_pages.PAGES
    scale_pages: int = scale.PAGES
    growth_pages: int = growth.PAGES


class Subject(NamedTuple):
    """A benchmark: its name, the type of its result, what measures it, and how that is shown."""

    name: str
    result: Any
    measure: Callable[[Options], object]
    shown: Callable[[Any], Iterator[Table | str]]


def _as_tables(*tables: Callable[[Any], Table]) -> Callable[[Any], Iterator[Table | str]]:
    """Return what shows a result as these tables."""
    return lambda result: (table(result) for table in tables)


SUBJECTS = (
    Subject(
        "throughput",
        throughput.Throughput,
        lambda asked: throughput.measure(asked.folder, asked.pages, head_pages=asked.head_pages),
        throughput.tables,
    ),
    Subject(
        "signing",
        signing.Signing,
        lambda asked: signing.measure(asked.signing_pages),
        signing.tables,
    ),
    Subject("lsh", lsh.Lsh, lambda asked: lsh.measure(asked.folder, asked.documents), lsh.tables),
    Subject(
        "library",
        library.Library,
        lambda asked: library.measure(asked.library_pages),
        _as_tables(library.table),
    ),
    Subject(
        "quality",
        list[quality.Quality],
        lambda asked: quality.measure(asked.folder / "data", asked.keys),
        quality.tables,
    ),
    Subject(
        "html",
        html_pages.HtmlPages,
        lambda asked: html_pages.measure(asked.folder, asked.html_pages),
        _as_tables(html_pages.table),
    ),
    Subject(
        "scale",
        scale.Scale,
        lambda asked: scale.measure(asked.folder, asked.scale_pages, head_pages=asked.head_pages),
        scale.tables,
    ),
    Subject(
        "growth",
        growth.Growth,
        lambda asked: growth.measure(asked.folder, asked.growth_pages),
        _as_tables(growth.table, growth.samples_table),
    ),
)


def run(subjects: Sequence[str], asked: Options, console: Console) -> Results:
    """Measure the subjects, printing and writing each when it is done; return all results."""
    asked.folder.mkdir(parents=True, exist_ok=True)
    described = machine.describe()
    console.print(f"{described.line()}; load {described.load}", highlight=False)
    if described.is_busy:
        console.print("The machine is busy: these figures are not to be quoted.")
    today = datetime.now(UTC).date().isoformat()
    done = results.Results(described, today)
    for subject in SUBJECTS:
        if subject.name in subjects:
            try:
                result = subject.measure(asked)
            except DiskTooSmall as error:
                console.print(f"{subject.name} is not measured: {error}")
                continue
            done.subjects[subject.name] = results.encoded(result, described.load, described.commit)
            done = results.write(asked.folder / results.RESULTS_FILE, done)
            for part in subject.shown(result):
                console.print(part)
    return done


def parse(arguments: Sequence[str] | None = None) -> tuple[list[str], Options]:
    """Return the subjects and the options of the command line."""
    names = [subject.name for subject in SUBJECTS]
    parser = argparse.ArgumentParser(description="Measure speed and quality, ours and the peers'.")
    parser.add_argument(
        "--only", action="append", choices=names, help="run this one; may be given several times"
    )
    for field in msgspec.structs.fields(Options):
        if field.name in SIZES:
            name, what = f"--{field.name.replace('_', '-')}", SIZES[field.name]
            parser.add_argument(name, type=_count, default=field.default, help=what)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where corpus and results lie")
    parsed = vars(parser.parse_args(arguments))
    return parsed.pop("only") or names, Options(**parsed)


def _count(text: str) -> int:
    """Return a positive whole number of the command line."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def main() -> None:
    """Run what the command line asks for, and write the results."""
    subjects, asked = parse()
    console = Console()
    try:
        run(subjects, asked, console)
    except subprocess.CalledProcessError as error:
        console.print(f"A process failed with exit code {error.returncode}; it says why above.")
        sys.exit(1)
    path = asked.folder / results.RESULTS_FILE
    console.print(f"The figures are in {path} too.", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
