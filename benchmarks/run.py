"""All benchmarks: `make bench`. Print tables, and write the same figures as JSON.

Each benchmark lies in a module of its own: throughput, signing, quality. The exit code is 0 unless
something failed; how fast it was is for the reader to judge, beside targets and the machine's load.
Ratios are taken within one run only.

    python benchmarks/run.py --pages 50000 --only throughput
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console

# A script has its own folder on the path, but its modules are imported from the root.
sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from benchmarks import machine, quality, signing, tables, throughput

if TYPE_CHECKING:
    from collections.abc import Sequence

BENCHMARKS = ("throughput", "signing", "quality")
FOLDER = machine.ROOT / "build" / "bench"
RESULTS_FILE = "results.json"


class Results(msgspec.Struct):
    """What a run measured; a benchmark that was not asked for is null."""

    machine: machine.Machine
    throughput: throughput.Throughput | None = None
    signing: signing.Signing | None = None
    quality: list[quality.Quality] | None = None


def run(arguments: argparse.Namespace, console: Console) -> Results:
    """Run the benchmarks that were asked for, printing each when it is done."""
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    results = Results(machine.describe())
    tables.print_machine(console, results.machine)
    if "throughput" in arguments.only:
        results.throughput = throughput.measure(
            folder, arguments.pages, head_pages=arguments.head_pages
        )
        tables.print_throughput(console, results.throughput)
    if "signing" in arguments.only:
        results.signing = signing.measure(arguments.signing_pages)
        tables.print_signing(console, results.signing)
    if "quality" in arguments.only:
        results.quality = quality.measure(folder / "data", arguments.keys)
        tables.print_quality(console, results.quality)
    return results


def write(results: Results, folder: Path) -> Path:
    """Write the results into `folder` as JSON; return the file."""
    path = folder / RESULTS_FILE
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results, enc_hook=str)) + b"\n")
    return path


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description="Measure speed and quality, ours and the peers'.")
    parser.add_argument(
        "--only",
        action="append",
        choices=BENCHMARKS,
        help="run this one; may be given several times",
    )
    parser.add_argument("--pages", type=_count, default=throughput.PAGES, help="pages to replay")
    parser.add_argument("--head-pages", type=_count, help="as of streamer replay")
    parser.add_argument(
        "--signing-pages",
        type=_count,
        default=signing.PAGES,
        help="pages that each peer signs a round",
    )
    parser.add_argument("--keys", type=_count, default=quality.KEYS, help="random keys for quality")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where corpus and results lie")
    parsed = parser.parse_args(arguments)
    parsed.only = parsed.only or list(BENCHMARKS)
    return parsed


def _count(text: str) -> int:
    """Return a positive whole number of the command line."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def main() -> None:
    """Run what the command line asks for, and write the results."""
    arguments = parse()
    console = Console()
    try:
        path = write(run(arguments, console), arguments.folder)
    except subprocess.CalledProcessError as error:
        console.print(f"A replay failed with exit code {error.returncode}; it says why above.")
        sys.exit(1)
    console.print(f"The figures are in {path} too.", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
