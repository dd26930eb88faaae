"""Which parts of longer texts `--contained` finds, by how much longer the whole is.

Wholes of generated text are judged first, then a part of each: words from its midst. What banding
can find depends on resemblance alone, so the same parts are judged under several bands. Pages that
quote a half of another text, and those that quote nothing, must not be named.

    python benchmarks/containment.py --pairs 200 --words 300
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console

# A script has its own folder on the path, but its modules are imported from the root.
sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from benchmarks.figures import empty_table
from streamer.analysis.sample.prose import ENGLISH, draw_topic, draw_words
from streamer.deduplicator import Deduplicator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamer.model import Verdict

BANDS = ((14, 6), (40, 3), (48, 2))  # the default, those of --preset broad, and the most
RATIOS = (1.2, 1.5, 2.0, 3.0, 5.0, 10.0)
SHARE = 0.9
HALF, NONE = "half of it", "nothing"
WHOLE, PART = "https://site.example/whole", "https://site.example/part"


class Pair(NamedTuple):
    """A page that has been kept, and one that quotes it; `kind`: how much longer the first is."""

    kind: str
    whole: str
    part: str


class Found(NamedTuple):
    """What became of the parts of one kind, under some bands.

    Attributes:
        duplicates: parts that are duplicates of their wholes.
        told: of the others, those that name their wholes; wrong: those that name another page.
        shares: the containment of each that is named.
    """

    duplicates: int
    told: int
    wrong: int
    shares: list[float]


def pairs_of(count: int, length: int) -> list[Pair]:
    """Return so many pairs of each kind; a part has `length` words."""
    draw = Random(8)

    def text(wanted: int) -> list[str]:
        return draw_words(draw, ENGLISH, draw_topic(draw, ENGLISH), wanted)

    pairs = []
    for ratio in RATIOS:
        for _ in range(count):
            whole = text(round(length * ratio))
            first = draw.randrange(len(whole) - length + 1)
            part = whole[first : first + length]
            pairs.append(Pair(f"{ratio:g}", " ".join(whole), " ".join(part)))
    for kind, quoted in ((HALF, length // 2), (NONE, 0)):
        for _ in range(count):
            whole = text(2 * length)
            part = whole[:quoted] + text(length - quoted)
            pairs.append(Pair(kind, " ".join(whole), " ".join(part)))
    return pairs


def judge(pairs: Sequence[Pair], bands: int, rows: int) -> dict[str, Found]:
    """Judge all wholes, then all parts; return by kind what became of the parts."""
    with Deduplicator(bands=bands, rows=rows, contained=SHARE) as dedup:
        list(dedup.add((f"{WHOLE}{i}", pair.whole) for i, pair in enumerate(pairs)))
        verdicts = list(dedup.add((f"{PART}{i}", pair.part) for i, pair in enumerate(pairs)))
    by_kind: dict[str, list[tuple[int, Verdict]]] = {}
    for number, (pair, verdict) in enumerate(zip(pairs, verdicts, strict=True)):
        by_kind.setdefault(pair.kind, []).append((number, verdict))
    return {kind: _found(own) for kind, own in by_kind.items()}


def _found(verdicts: Sequence[tuple[int, Verdict]]) -> Found:
    inside = [(number, one.contained_in) for number, one in verdicts if one.contained_in]
    right = [each.containment for number, each in inside if each.url == f"{WHOLE}{number}"]
    duplicates = sum(one.is_duplicate for _, one in verdicts)
    return Found(duplicates, len(right), len(inside) - len(right), right)


def main() -> None:
    """Print of each kind how many parts are duplicates, told, and told wrongly."""
    parser = argparse.ArgumentParser(description="Measure what --contained finds.")
    parser.add_argument("--pairs", type=int, default=200, help="pairs of a kind")
    parser.add_argument("--words", type=int, default=300, help="words of a part")
    asked = parser.parse_args()
    pairs = pairs_of(asked.pairs, asked.words)
    columns = [f"{bands} x {rows}" for bands, rows in BANDS]
    table = empty_table(
        f"{asked.pairs} parts of {asked.words} words: duplicates + told (wrong); mean share",
        "whole / part", *columns,
    )  # fmt: skip
    results = [judge(pairs, *each) for each in BANDS]
    for kind in dict.fromkeys(pair.kind for pair in pairs):
        cells = []
        for found in (result[kind] for result in results):
            mean = f"; {statistics.mean(found.shares):.3f}" if found.shares else ""
            cells.append(f"{found.duplicates} + {found.told} ({found.wrong}){mean}")
        table.add_row(kind, *cells)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
