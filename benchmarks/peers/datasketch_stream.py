"""datasketch as a stream of verdicts: MinHashLSH over the kept pages, verified by its own estimate.

A page is a duplicate of the kept page with the highest estimated Jaccard similarity at or above the
threshold, the earliest of equals; otherwise it is kept. That is our own rule with the library's
parts and its default of 128 permutations. Text and tokens are those of the exact reference, so no
difference of texts counts against it; taking the text out of HTML is therefore not in its time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from datasketch import MinHash, MinHashLSH

from benchmarks.peers.shingles import shingles
from streamer.lab.sample.reference import page_text, read_page, tokens
from streamer.model import Decision, Location, Representative

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

PERMUTATIONS = 128


class _Page(NamedTuple):
    place: Location
    url: str
    text: str


class DatasketchStream:
    """Judge pages by min-hashes and their locality-sensitive index."""

    def judge(self, pages: Path, verdicts: Path, threshold: float, seed: int) -> float:
        """Write the verdicts of a file of pages; return the seconds from text to verdicts."""
        listed = list(_read(pages))
        begin = time.perf_counter()
        said = list(_stream(listed, threshold, seed))
        seconds = time.perf_counter() - begin
        verdicts.write_bytes(msgspec.json.Encoder().encode_lines(said))
        return seconds


def _read(path: Path) -> Iterator[_Page]:
    """Yield the pages of a file that have a text."""
    with path.open("rb") as file:
        for ordinal, line in enumerate(file):
            page = read_page(line)
            text = page and page_text(page)
            if page is not None and isinstance(text, str):
                yield _Page(Location(str(path), 0, ordinal), page.url, text)


def _stream(pages: Sequence[_Page], threshold: float, seed: int) -> Iterator[dict[str, object]]:
    """Yield a verdict a page, with the fields that scoring needs."""
    index = MinHashLSH(threshold=threshold, num_perm=PERMUTATIONS)
    kept: dict[int, MinHash] = {}
    encoded = ([s.encode() for s in shingles(tokens(page.text))] for page in pages)
    sketches = MinHash.generator(encoded, num_perm=PERMUTATIONS, seed=seed)
    for number, (page, sketch) in enumerate(zip(pages, sketches, strict=True)):
        # Of equal estimates the earliest page is the greatest: its number is negated.
        found = ((sketch.jaccard(kept[other]), -other) for other in index.query(sketch))
        estimate, negated = max(found, default=(0.0, 0))
        verdict, representative = Decision.UNIQUE, None
        if estimate >= threshold:
            original = pages[-negated]
            verdict, representative = (
                Decision.DUPLICATE,
                Representative(original.place, original.url),
            )
        else:
            index.insert(number, sketch)
            kept[number] = sketch
        yield {
            "url": page.url,
            "page": page.place,
            "verdict": verdict,
            "representative": representative,
        }
