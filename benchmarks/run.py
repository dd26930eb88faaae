"""All benchmarks: `make bench`. Print tables, and write the same figures as JSON.

Each benchmark lies in a module of its own, listed in subjects.py. The exit code is 0 unless
something failed; how fast it was is for the reader to judge, beside targets and the machine's load.
Ratios are taken within one run only.

    python benchmarks/run.py --pages 50000 --only throughput
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console

# A script has its own folder on the path, but its modules are imported from the root.
sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from benchmarks import machine, results, tables
from benchmarks.corpus_file import DiskTooSmall
from benchmarks.subjects import SUBJECTS, Options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.results import Results

FOLDER = machine.ROOT / "build" / "bench"
SIZES = {
    "pages": "pages to replay",
    "head_pages": "as of streamer replay",
    "signing_pages": "pages that each peer signs a round",
    "documents": "documents in each peer's index",
    "library_texts": "texts in the corpus in memory",
    "collision_times": "how many times 1,000 documents the larger corpus of collisions has",
    "keys": "random keys for quality",
    "html_pages": "HTML pages to replay",
    "shard_pages": "pages to replay with each number of shards",
    "scale_pages": "pages of the long run",
    "growth_pages": "pages to keep in an index beyond its memory",
    "flushes": "flushes of one index",
    "lifetime_pages": "pages of each lifetime",
    "beside_pages": "pages of another index that pages are compared with",
}


def run(subjects: Sequence[str], asked: Options, console: Console) -> Results:
    """Measure the subjects, printing and writing each when it is done; return all results."""
    asked.folder.mkdir(parents=True, exist_ok=True)
    described = machine.describe()
    console.print(f"{tables.machine_line(described)}; load {described.load}", highlight=False)
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
    for name, what in SIZES.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=_count, default=_default(name), help=what
        )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where corpus and results lie")
    parsed = vars(parser.parse_args(arguments))
    return parsed.pop("only") or names, Options(**parsed)


def _default(name: str) -> Any:  # noqa: ANN401 - a number, or none
    """Return an option's default."""
    return next(field.default for field in msgspec.structs.fields(Options) if field.name == name)


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
