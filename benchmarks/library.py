"""The corpus in memory: texts a second to build it, queries a second, and bytes a text.

The texts are those of corpus.py, about 4 kB each, of which a fifth are copies; they are made before
the clock starts. Rounds are over new corpora, and CPU time of the process counts, so that the rate
is that of one core. Memory is what the process has more of after the first round's building.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import msgspec

from benchmarks.figures import Figure, figures_table
from benchmarks.resident import resident
from benchmarks.signing import raw_texts
from streamer.lab.corpus import Corpus

if TYPE_CHECKING:
    from rich.table import Table

TEXTS = 20_000
ROUNDS = 3
WARM_TEXTS = 300
MIN_JACCARD = 0.8


class Library(msgspec.Struct, frozen=True):
    """The measurement; rates are of the median round.

    Attributes:
        mean_bytes: of a text in UTF-8.
        build_rate: texts added a second of CPU time; query_rate: labels asked for.
        text_bytes: memory a text.
        edges: pairs at resemblance 0.8 or more.
    """

    texts: int
    mean_bytes: float
    build_rate: float
    query_rate: float
    text_bytes: float
    edges: int
    build_target: float = 10_000


def measure(texts: int = TEXTS, rounds: int = ROUNDS) -> Library:
    """Build and ask a corpus of so many texts in each round."""
    raw = raw_texts(texts)
    documents = [(number, text.decode()) for number, text in enumerate(raw)]
    _ask(Corpus(documents[:WARM_TEXTS]))  # compiles
    built, asked, sizes = [], [], []
    edges = 0
    for _ in range(rounds):
        before = resident().total_bytes
        begin = time.process_time()
        corpus = Corpus(documents)
        between = time.process_time()
        sizes.append(resident().total_bytes - before)
        edges = _ask(corpus)
        built.append(between - begin)
        asked.append(time.process_time() - between)
    return Library(
        texts=texts,
        mean_bytes=statistics.mean(map(len, raw)),
        build_rate=texts / statistics.median(built),
        query_rate=texts / statistics.median(asked),
        text_bytes=sizes[0] / texts,
        edges=edges,
    )


def _ask(corpus: Corpus[int]) -> int:
    """Ask for the neighbours of each text; return the number of pairs."""
    return sum(len(corpus.query(label, min_jaccard=MIN_JACCARD)) for label in corpus) // 2


def table(result: Library) -> Table:
    """Return the figures beside their target."""
    return figures_table(
        "the corpus in memory, one core",
        [
            Figure("texts", f"{result.texts:,}"),
            Figure("bytes a text", f"{result.mean_bytes:,.0f}"),
            Figure("texts/s to build", f"{result.build_rate:,.0f}", f"{result.build_target:,.0f}"),
            Figure("queries/s", f"{result.query_rate:,.0f}"),
            Figure("bytes of memory a text", f"{result.text_bytes:,.0f}"),
            Figure(f"pairs at {MIN_JACCARD:g} or more", f"{result.edges:,}"),
        ],
    )
