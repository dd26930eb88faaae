"""Write a large synthetic corpus for throughput runs: JSON lines, about 4 kB of text a page.

The idea: word `position` of page `page` is a hash of both, looked up in a table with a natural
(Zipf) distribution. So numpy makes many pages at once, a page long gone is made again from its
number when a copy of it is wanted, and memory stays flat. Unrelated pages share tokens but
practically no sequence of five. One page in five is a copy of any earlier one: a third of those
exact, the others with words replaced, their resemblance spread over about 0.8 to 1. This corpus is
for speed only; quality is judged on the sample crawl.

    python benchmarks/corpus.py --pages 1000000 --out corpus.jsonl
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterator

SEED = 1
BLOCK = 128  # pages made together: their arrays stay in the cache
WORDS_MIN, WORDS_MAX = 512, 768  # a page
VOCABULARY = 30_000
TABLE_BITS = 20
COPY_ONE_IN = 5
EXACT_ONE_IN = 3  # of the copies
REPLACED_MAX = 0.022  # of the words: resemblance about q / (2 - q), q = (1 - 0.022)^5, is 0.81
# What may follow a word, as JSON text; 61 of 64 words are followed by the plain space.
ENDINGS = ((b"", b" "), (b"", b". "), (b"", b".\\n"), (b'\\"', b'\\" '))
_SYLLABLES = """
ba cor di fen gul ha ist jo kra lem mi nor op pel qui ras sto tun ulm ver wi xan yt zol an ber che
dro el fra gin hol im ka lun mas ne ot pri ron sel tra un vol we
"""
SYLLABLES = _SYLLABLES.split()
SHORT_RANKS = 1_000  # frequent words have one or two syllables, the others two or three
ACCENTED_SHARE = 0.05  # of the words
ACCENTED = ("é", "ü", "ñ", "ø", "ж", "мир", "λ", "ą")
MESSAGE = (
    b'{"url":"https://www.site%04d.example/section-%02d/article-%09d.html",'
    b'"content_type":"text/plain","fetched_at":"2024-06-01T00:00:00Z","body":"%b"}\n'
)

U64 = npt.NDArray[np.uint64]


def mixed(words: U64) -> U64:
    """Return splitmix64's finaliser of each word (Steele, Lea and Flood 2014); works in place."""
    words ^= words >> np.uint64(30)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words


class Corpus:
    """The pages of one seed; each is a function of its number and of nothing else."""

    def __init__(self, seed: int = SEED) -> None:
        self._words = _vocabulary(seed)
        weights = 1 / np.arange(1, VOCABULARY + 1)
        edges = np.cumsum(weights) / weights.sum()
        quantiles = (np.arange(1 << TABLE_BITS) + 0.5) / (1 << TABLE_BITS)
        self._table = np.searchsorted(edges, quantiles).astype(np.int32)
        self._seed = np.uint64(seed * 0x9E3779B97F4A7C15 & 0xFFFF_FFFF_FFFF_FFFF)

    def lines(self, pages: int) -> Iterator[bytes]:
        """Yield the JSON lines of the first `pages` pages, in order, each with its newline."""
        word = self._words.__getitem__
        for start in range(0, pages, BLOCK):
            numbers = np.arange(start, min(pages, start + BLOCK), dtype=np.uint64)
            texts, lengths = self._texts(numbers)
            rows = zip(numbers.tolist(), texts.tolist(), lengths.tolist(), strict=True)
            for page, text, length in rows:
                body = b"".join(map(word, text[:length]))
                yield MESSAGE % (page % 9973, page % 97, page, body)

    def _texts(self, pages: U64) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Return each page's words as numbers in `_words`, and how many of them it has."""
        origins, is_copy = self._origins(pages)
        origin_hashes = self._hashes(origins)
        texts = self._pick(origin_hashes)
        copies = np.flatnonzero(is_copy)
        own = self._hashes(pages[copies])
        exact = self._draws(pages[copies], 3) % np.uint64(EXACT_ONE_IN) == 0
        shares = (self._draws(pages[copies], 4) >> np.uint64(40)) / 2.0**24 * REPLACED_MAX
        shares[exact] = 0
        # The upper bits choose the word, the lowest 20 whether it is replaced.
        replaced = (own & np.uint64(0xF_FFFF)) < (shares * 2**20).astype(np.uint64)[:, None]
        texts[copies] = np.where(replaced, self._pick(own), texts[copies])
        lengths = WORDS_MIN + self._draws(origins, 2) % np.uint64(WORDS_MAX - WORDS_MIN)
        return texts, lengths.astype(np.int64)

    def _origins(self, pages: U64) -> tuple[U64, npt.NDArray[np.bool_]]:
        """Return for each page the original whose text it has, and whether it is a copy."""
        is_copy = self._is_copy(pages)
        past = np.maximum(pages, np.uint64(1))
        origins = np.where(is_copy, self._draws(pages, 1) % past, pages)
        while (chained := self._is_copy(origins)).any():
            origins -= chained.astype(np.uint64)  # page 0 is an original: this ends
        return origins, is_copy

    def _is_copy(self, pages: U64) -> npt.NDArray[np.bool_]:
        """Return which pages are copies; page 0 has nothing to copy."""
        drawn = self._draws(pages, 0) % np.uint64(COPY_ONE_IN) == 0
        return np.asarray(drawn & (pages > 0), np.bool_)

    def _draws(self, pages: U64, purpose: int) -> U64:
        """Return one random word a page for a purpose; purposes lie past all positions."""
        return mixed((pages << np.uint64(12)) + np.uint64(4095 - purpose) ^ self._seed)

    def _hashes(self, pages: U64) -> U64:
        """Return one random word for each page and position."""
        positions = np.arange(WORDS_MAX, dtype=np.uint64)
        return mixed((pages << np.uint64(12))[:, None] + positions ^ self._seed)

    def _pick(self, hashes: U64) -> npt.NDArray[np.int32]:
        """Return the word of each hash: a rank by Zipf's law, and its ending."""
        ranks = self._table[(hashes >> np.uint64(64 - TABLE_BITS)).astype(np.intp)]
        ending = (hashes >> np.uint64(30)).astype(np.int32) & 63
        ranks += np.where(ending < len(ENDINGS), ending * VOCABULARY, 0).astype(np.int32)
        return ranks


def _vocabulary(seed: int) -> list[bytes]:
    """Return all words by rank as JSON text, once with each ending; frequent words are short."""
    rng = Random(seed)
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        parts = rng.choices(SYLLABLES, k=rng.randint(1, 2) + (len(words) > SHORT_RANKS))
        if rng.random() < ACCENTED_SHARE:
            parts.append(rng.choice(ACCENTED))
        words["".join(parts)] = None
    return [before + word.encode() + after for before, after in ENDINGS for word in words]


def generate(pages: int, seed: int = SEED) -> Iterator[bytes]:
    """Yield page messages as JSON lines; a shorter corpus is the beginning of a longer one."""
    return Corpus(seed).lines(pages)


def main() -> None:
    """Write a corpus and say how long it took."""
    parser = argparse.ArgumentParser(description="Write a synthetic corpus as JSON lines.")
    parser.add_argument("--pages", type=int, default=100_000, help="how many pages")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    parser.add_argument("--seed", type=int, default=SEED, help="another seed gives another corpus")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    with arguments.out.open("wb", buffering=1 << 20) as file:
        file.writelines(generate(arguments.pages, arguments.seed))
        size_bytes = file.tell()
    seconds = time.perf_counter() - begin
    print(
        f"{arguments.pages:,} pages, {size_bytes / 1e9:.3f} GB in {seconds:.1f} s:"
        f" {arguments.pages / seconds:,.0f} pages/s"
    )


if __name__ == "__main__":
    main()
