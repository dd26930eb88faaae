"""Cases for a shard: a page is written as its keys in three bands and its content key.

`apart(k)` differs from `SAME` in k of 1,024 symbols: 136 of them are resemblance 0.8007, 137 are
0.7993. No two of `FAR` resemble each other.
"""

import itertools

from streamer.index.messages import IndexSettings, Pages
from tests.helpers.memory_index import MemoryIndex
from tests.helpers.serial_index import Judged
from tests.helpers.signed_pages import Sketch, sketch_with, unlike

BANDS = 3
SAME = sketch_with(0)
FAR = [unlike(number) for number in range(6)]


def apart(changed: int, first: int = 0) -> Sketch:
    """Return a sketch that differs from SAME in `changed` symbols, from bin `first` on."""
    return sketch_with(changed, first)


def index(**rules: float) -> MemoryIndex:
    """Return an index of these rules."""
    return MemoryIndex(IndexSettings.model_validate(rules), BANDS)


def judge(own: MemoryIndex, pages: Pages, *, flush: bool = False) -> list[Judged]:
    """Give the pages one by one; flush after each if asked to."""
    verdicts: list[Judged] = []
    for place in range(len(pages)):
        verdicts += own.give(pages, place, place + 1)
        if flush:
            own.flush()
    return verdicts


def representatives(verdicts: list[Judged]) -> list[int | None]:
    """Return each page's representative, by ref; None for unique pages."""
    ordered = sorted(verdicts, key=lambda verdict: verdict.ref)
    return [v.representative if v.similarity >= 0 else None for v in ordered]


_unused = itertools.count(1_000)


def shares(*keys: int) -> list[int]:
    """Return three band keys and a content key; 0 stands for one that no other page has."""
    return [key or next(_unused) for key in keys]
