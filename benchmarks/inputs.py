"""How fast each format of input is judged, beside JSON lines: `python -m benchmarks.inputs`.

The same pages of 4 kB lie in a file of each format. Each is judged by `streamer replay` in a
process of its own, in turns; the best of the rounds counts, and its share of JSON lines' rate.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyarrow import parquet
from rich.console import Console
from rich.table import Table

from benchmarks.corpus_file import obtain
from streamer.cli.main import app

if TYPE_CHECKING:
    from collections.abc import Callable

PAGES = 100_000
ROUNDS = 3
PARQUET_SHARE = 0.6  # of JSON lines' rate


class FormatRate(msgspec.Struct, frozen=True):
    """Pages a second, the best of the rounds, and the share of JSON lines'."""

    suffix: str
    rate: float
    share: float


def _write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def _write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=20_000)


def _write_arrow(path: Path, rows: list[dict[str, Any]]) -> None:
    whole = pa.Table.from_pylist(rows)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, whole.schema) as stream:
        stream.write_table(whole, max_chunksize=5_000)


WRITERS: dict[str, Callable[[Path, list[dict[str, Any]]], None]] = {
    ".parquet": _write_parquet,
    ".arrow": _write_arrow,
    ".csv": _write_rows,
}


def measure(folder: Path, pages: int = PAGES, rounds: int = ROUNDS) -> list[FormatRate]:
    """Judge files of `pages` pages in turns; return the rates, that of JSON lines first."""
    lines = obtain(folder, pages).path
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        files = {".jsonl": lines}
        with lines.open("rb") as file:
            rows = [msgspec.json.decode(line) for line in file]
        for suffix, write in WRITERS.items():
            files[suffix] = Path(scratch, f"pages{suffix}")
            write(files[suffix], rows)
        del rows
        rates = dict.fromkeys(files, 0.0)
        for _ in range(rounds):
            for suffix, path in files.items():
                rates[suffix] = max(rates[suffix], _rate(path, Path(scratch)))
    return [FormatRate(suffix, rate, rate / rates[".jsonl"]) for suffix, rate in rates.items()]


def _rate(path: Path, scratch: Path) -> float:
    """Return the pages a second of a replay, as its summary has them."""
    summary = scratch / "summary.json"
    outs = ("--verdicts", scratch / "verdicts.jsonl", "--summary", summary, "--overwrite")
    arguments = ["replay", path, *outs]
    app([*map(str, arguments)], standalone_mode=False)
    rate: float = json.loads(summary.read_text(encoding="utf-8"))["pages_per_second"]
    return rate


def table(found: list[FormatRate]) -> Table:
    """Return what was measured."""
    shown = Table("format", "pages a second", "of JSON lines'")
    for each in found:
        shown.add_row(each.suffix, f"{each.rate:,.0f}", f"{each.share:.0%}")
    return shown


def main() -> int:
    """Measure all formats; return 1 if Parquet is slower than it may be."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("build/benchmarks"))
    parser.add_argument("--pages", type=int, default=PAGES)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    found = measure(given.folder, given.pages)
    Console().print(table(found))
    shares = {each.suffix: each.share for each in found}
    return int(shares[".parquet"] < PARQUET_SHARE)


if __name__ == "__main__":
    sys.exit(main())
