"""The face for Python: pages a second from dicts to verdicts, next to other libraries in that run.

Ours is `Deduplicator.add` over dicts of the pages of corpus.py, about 4 kB each, of which a fifth
are copies; with a lasting index, its threads, and every verdict read. A peer signs each text, asks
its index in memory, and inserts what is new, as its documentation shows. All have two cores, and
their rounds in turns; the clock on the wall counts. Peers that are slow get fewer pages.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchmarks.figures import Figure, figures_table
from benchmarks.peers.peer import INDEX_PEERS
from benchmarks.signing import raw_texts
from streamer import Deduplicator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

PAGES = 100_000
PEER_PAGES = 4_000
ROUNDS = 3
WARM_PAGES = 1_200


class Library(msgspec.Struct, frozen=True):
    """The measurement; rates are of the median round.

    Attributes:
        rate: pages a second; duplicates: of these pages.
        peers: pages a second of each other library, over `peer_pages` pages.
    """

    pages: int
    peer_pages: int
    mean_bytes: float
    rate: float
    duplicates: int
    peers: dict[str, float]
    target: float = 30_000

    @property
    def ratios(self) -> dict[str, float]:
        """Return how many times as fast as each peer ours is."""
        return {name: self.rate / rate for name, rate in self.peers.items()}


def measure(pages: int = PAGES, rounds: int = ROUNDS) -> Library:
    """Judge so many pages in each round, and a part of them by each peer that is installed."""
    texts = raw_texts(pages)
    few = texts[:PEER_PAGES]
    _judge(_dicts_of(texts[:WARM_PAGES]))  # compiles
    seconds, peers = [], dict[str, list[float]]()
    duplicates = 0
    for _ in range(rounds):
        took, duplicates = _judge(_dicts_of(texts))  # a string that was read before is quicker
        seconds.append(took)
        for name, each in _judge_by_peers(few).items():
            peers.setdefault(name, []).append(each)
    return Library(
        pages=pages,
        peer_pages=len(few),
        mean_bytes=statistics.mean(map(len, texts)),
        rate=pages / statistics.median(seconds),
        duplicates=duplicates,
        peers={name: len(few) / statistics.median(each) for name, each in peers.items()},
    )


def _dicts_of(texts: Sequence[bytes]) -> list[dict[str, str]]:
    return [
        {"url": f"https://example.com/{i}", "body": text.decode()} for i, text in enumerate(texts)
    ]


def _judge(pages: Sequence[dict[str, str]]) -> tuple[float, int]:
    """Return the seconds from opening an index to closing it, and the duplicates."""
    with tempfile.TemporaryDirectory(prefix="library-") as folder:
        began = time.perf_counter()
        with Deduplicator(Path(folder) / "index") as dedup:
            duplicates = sum(verdict.is_duplicate for verdict in dedup.add(pages))
        return time.perf_counter() - began, duplicates


def _judge_by_peers(texts: Sequence[bytes]) -> dict[str, float]:
    """Return the seconds that each peer takes, one document after the other."""
    taken = {}
    for entry in itertools.islice(INDEX_PEERS, 1, None):  # the first is ours
        peer = entry.load(Path())
        if peer is None:
            continue
        began = time.perf_counter()
        peer.judge([peer.sign(texts)])
        taken[entry.name] = time.perf_counter() - began
    return taken


def table(result: Library) -> Table:
    """Return the figures next to their target."""
    return figures_table(
        "the face for Python, two cores",
        [
            Figure("pages", f"{result.pages:,}"),
            Figure("bytes a text", f"{result.mean_bytes:,.0f}"),
            Figure("pages/s, Deduplicator.add", f"{result.rate:,.0f}", f"{result.target:,.0f}"),
            Figure("duplicates", f"{result.duplicates:,}"),
            *(
                Figure(f"pages/s, {name}", f"{rate:,.0f}; ours {result.ratios[name]:.1f} times")
                for name, rate in result.peers.items()
            ),
        ],
    )
