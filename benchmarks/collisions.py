"""Collisions of string hashes over the IDF strings of a corpus, beyond its true duplicates.

A published table counts collisions over 1,000 files of which 419 are duplicates. The same counts
are taken here over documents of the project's own (corpus.py): 581 with distinct IDF strings, exact
copies of 419 of them, and the same proportions with more. A document collides if its hash is that
of an earlier one; what lies beyond the equal strings are errors. Chance alone gives d * (d - 1) /
2**33 over d strings and a hash of 32 bits.
"""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

import msgspec

from benchmarks import corpus
from benchmarks.figures import empty_table
from streamer.sketch.collection import count_words
from streamer.sketch.method import PageText
from streamer.sketch.methods.hashes import HASHES
from streamer.sketch.methods.lexical import IdfString, IdfStringParameters
from streamer.sketch.settings import SECRET_BYTES
from streamer.text.words import CanonicalOptions

if TYPE_CHECKING:
    from rich.table import Table

DOCUMENTS, DUPLICATES = 1_000, 419  # of the published experiment
TIMES = 10  # the larger corpus
NAMES = ("elf", "rs", "js", "pjw", "bkdr", "sdbm", "djb", "ap", "crc32", "md5", "mmh3")
# Collisions in the published table, the 419 duplicates among them; as the literature notes recall.
PUBLISHED = {
    "elf": 594, "rs": 584, "js": 546, "pjw": 594, "bkdr": 601, "sdbm": 546, "djb": 595, "ap": 543,
}  # fmt: skip
BITS = {"elf": 28, "pjw": 28, "md5": 128, "mmh3": 64}  # of the others 32


class Hash(msgspec.Struct, frozen=True):
    """A hash function's collisions in each corpus; `published` counts them all."""

    name: str
    bits: int
    beyond: list[int]
    published: int | None


class Collisions(msgspec.Struct, frozen=True):
    """The measurement over corpora of so many documents, with so many copies of equal strings."""

    documents: list[int]
    duplicates: list[int]
    hashes: list[Hash]

    def expected(self, one: Hash) -> list[float]:
        """Return how many collisions chance gives a perfect hash of as many bits."""
        pairs = (comb(n - d, 2) for n, d in zip(self.documents, self.duplicates, strict=True))
        return [count / 2**one.bits for count in pairs]


def measure(times: int = TIMES) -> Collisions:
    """Count collisions over 1,000 documents and over `times` as many."""
    sizes = [DOCUMENTS, DOCUMENTS * times]
    corpora = [idf_strings(size) for size in sizes]
    return Collisions(
        sizes,
        [size - len(set(strings)) for size, strings in zip(sizes, corpora, strict=True)],
        [
            Hash(
                name,
                BITS.get(name, 32),
                [beyond_duplicates(name, strings) for strings in corpora],
                PUBLISHED.get(name),
            )
            for name in NAMES
        ],
    )


def beyond_duplicates(name: str, strings: list[str]) -> int:
    """Return how many documents have the hash of an earlier one with another string."""
    distinct = set(strings)
    return len(distinct) - len({HASHES[name](string.encode(), 0) for string in distinct})


def idf_strings(documents: int) -> list[str]:
    """Return the IDF strings of documents, of which the published share are copies."""
    copies = documents * DUPLICATES // DOCUMENTS
    wanted = documents - copies
    decode = msgspec.json.Decoder(dict[str, str]).decode
    pages = [PageText(decode(line)["body"]) for line in corpus.generate(2 * wanted)]
    collection = count_words((page.words for page in pages), CanonicalOptions())
    method = IdfString(IdfStringParameters(collection=collection), bytes(SECRET_BYTES))
    strings = list(dict.fromkeys(method.string(page) for page in pages))[:wanted]
    assert len(strings) == wanted, (len(strings), wanted)  # a fifth of the pages are copies
    return strings + [strings[copy % wanted] for copy in range(copies)]


def table(result: Collisions) -> Table:
    """Return the collisions of each hash, with those of chance and those that were published."""
    columns = [name for size in result.documents for name in (f"of {size:,}", "by chance")]
    shown = empty_table(
        f"documents that collide, beyond {' and '.join(f'{d:,}' for d in result.duplicates)}"
        " duplicates",
        "hash", "bits", *columns, "published, of 1,000",
    )  # fmt: skip
    for one in result.hashes:
        cells = []
        for beyond, chance in zip(one.beyond, result.expected(one), strict=True):
            cells += [f"{beyond:,}", f"{chance:.2g}"]
        published = "" if one.published is None else f"{one.published - DUPLICATES:,}"
        shown.add_row(one.name, str(one.bits), *cells, published)
    return shown
