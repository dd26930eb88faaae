"""datasketch (numpy): `MinHash` over the encoded shingles, and `MinHashLSH` over these, in memory.

`generator` is the documented way for many sets: `update_batch` on a copy of one prepared min-hash,
which saves setting up the permutations for each page. The shingles' hash is the default, SHA-1.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from datasketch import MinHash, MinHashLSH

from benchmarks.peers.peer import BANDS, HASHES, ROWS, MemoryIndex
from benchmarks.peers.shingles import shingles, shingles_of_text
from streamer.analysis.sample.reference import page_text, read_page, tokens
from streamer.model import Decision, Location, Representative

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

STREAM_PERMUTATIONS = 128  # the library's default


def _sketches(sets: Iterable[list[str]], permutations: int, seed: int = 1) -> Iterator[MinHash]:
    encoded = ([shingle.encode() for shingle in each] for each in sets)
    return iter(MinHash.generator(encoded, num_perm=permutations, seed=seed))


class MinHashPeer:
    """MinHash with 84 permutations."""

    def sign(self, texts: Sequence[bytes]) -> list[MinHash]:
        """Return a min-hash a text."""
        return list(_sketches(map(shingles_of_text, texts), HASHES))


class DatasketchIndex(MemoryIndex):
    """An empty index of 14 bands of 6 (`params`) over these; it needs no folder.

    What shares a band counts as a duplicate: no candidate is verified.
    """

    def __init__(self, _folder: Path) -> None:
        super().__init__(MinHashLSH(num_perm=HASHES, params=(BANDS, ROWS)))
        self.sign = MinHashPeer().sign


class _Page(NamedTuple):
    place: Location
    url: str
    text: str


class DatasketchStream:
    """Judge pages by the index over the kept pages, verified by the library's own estimate.

    A page is a duplicate of the kept page with the highest estimated Jaccard similarity at or above
    the threshold, the earliest of equals; otherwise it is kept. That is our own rule with the
    library's parts. Text and tokens are those of the exact reference, so no difference of texts
    counts against it; taking the text out of HTML is therefore not in its time.
    """

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
    index = MinHashLSH(threshold=threshold, num_perm=STREAM_PERMUTATIONS)
    kept: dict[int, MinHash] = {}
    sketches = _sketches((shingles(tokens(page.text)) for page in pages), STREAM_PERMUTATIONS, seed)
    for number, (page, sketch) in enumerate(zip(pages, sketches, strict=True)):
        # Of equal estimates the earliest page is the greatest: its number is negated.
        found = ((sketch.jaccard(kept[other]), -other) for other in index.query(sketch))
        estimate, negated = max(found, default=(0.0, 0))
        verdict, representative = Decision.UNIQUE, None
        if estimate >= threshold:
            original = pages[-negated]
            verdict = Decision.DUPLICATE
            representative = Representative(original.place, original.url)
        else:
            index.insert(number, sketch)
            kept[number] = sketch
        said = {"url": page.url, "page": page.place}
        yield said | {"verdict": verdict, "representative": representative}
