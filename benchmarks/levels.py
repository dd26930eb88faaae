"""Frozen keys of many levels: what a page costs as an index grows far beyond its memory.

    python -m benchmarks.levels --pages 30000000

A table has room for some 20,000 pages instead of some ten million, so an index of thirty million
pages has the levels of one of fifteen thousand million.
Pages are those of growth.py: two of five are copies of any earlier one.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unittest import mock

import numpy as np
from rich.console import Console

from benchmarks import growth
from benchmarks.figures import empty_table
from benchmarks.machine import ROOT
from streamer.index.postings import KEYS_END
from streamer.stored import generations
from streamer.stored.frozen import FrozenKeys
from streamer.stored.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.table import Table

    from streamer.index.codec import Entry
    from streamer.index.postings import Keys, Places, Probed

PAGES, MEMORY, STEP_BYTES = 30_000_000, 24 << 20, 16 << 20  # smaller steps cost by their number


class Counted(NamedTuple):
    """Sums until some moment: filters looked into, blocks read, bytes of frozen keys written."""

    filters: float
    blocks: int
    written: int


class Counter:
    """Counts what frozen keys do."""

    def __init__(self) -> None:
        self.now = Counted(0, 0, 0)
        self._probe, self._read = FrozenKeys._probe, FrozenKeys._read  # noqa: SLF001 - nobody else counts
        self._write = Store.write_bands

    def probe(self, keys_of: FrozenKeys, keys: Keys) -> Probed:
        """Count the filters that each key is looked for in."""
        share = sum(each.high - each.low for each in keys_of.note.generations) / KEYS_END
        self.now = self.now._replace(filters=self.now.filters + share * len(keys))
        return self._probe(keys_of, keys)

    def read(
        self, keys_of: FrozenKeys, keys: Keys, probed: Probed
    ) -> tuple[Places, Places, Places]:
        """Count the blocks that are read."""
        blocks = self.now.blocks + len(np.unique(probed.blocks))
        self.now = self.now._replace(blocks=blocks)
        return self._read(keys_of, keys, probed)

    def write(self, store: Store, files: Iterable[Iterable[Entry]]) -> None:
        """Count the bytes that are written."""

        def counted(entries: Iterable[Entry]) -> Iterable[Entry]:
            for key, value in entries:
                self.now = self.now._replace(written=self.now.written + len(value))
                yield key, value

        self._write(store, map(counted, files))


def measure(folder: Path, pages: int, memory: int, step_bytes: int) -> Table:
    """Let an index grow to so many kept pages; return what it took, ten times on the way."""
    counter = Counter()
    shown = empty_table(
        "", "kept pages", "us a page", "CPU us a page", "filters a key", "blocks read a page",
        "generations", "disk, bytes a kept page", "written, bytes a kept page",
    )  # fmt: skip
    before, kept = counter.now, 0
    with (
        tempfile.TemporaryDirectory(dir=folder) as scratch,
        mock.patch.object(generations, "STEP_BYTES", step_bytes),
        # A method of another class would not be given the object.
        mock.patch.object(FrozenKeys, "_probe", lambda *given: counter.probe(*given)),  # noqa: PLW0108
        mock.patch.object(FrozenKeys, "_read", lambda *given: counter.read(*given)),  # noqa: PLW0108
        mock.patch.object(Store, "write_bands", lambda *given: counter.write(*given)),  # noqa: PLW0108
    ):
        for sample in growth.grow(Path(scratch, "index"), pages, memory):
            now, new = counter.now, sample.kept - kept
            judged = new * (growth.NEW + growth.KNOWN) / growth.NEW
            shown.add_row(
                f"{sample.kept:,}", f"{sample.wall_us:.1f}", f"{sample.cpu_us:.1f}",
                f"{(now.filters - before.filters) / judged / growth.KEYS:.1f}",
                f"{(now.blocks - before.blocks) / judged:.2f}", f"{sample.generations}",
                f"{sample.disk_bytes:.0f}", f"{(now.written - before.written) / new:.0f}",
            )  # fmt: skip
            before, kept = now, sample.kept
    return shown


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--memory", type=int, default=MEMORY, help="bytes of tables and filters")
    parser.add_argument("--step-bytes", type=int, default=STEP_BYTES, help="of a merge")
    asked = parser.parse_args()
    folder = ROOT / "build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    Console().print(measure(folder, asked.pages, asked.memory, asked.step_bytes))


if __name__ == "__main__":
    main()
