"""What a peer is here: it signs texts, keeps an index, or judges a file of pages.

Each is in its own file, and its docstring tells the calls. All signing peers get the same UTF-8
bytes, as they come from a file or a socket, and must do themselves whatever is before the
signature. A library that is not installed makes its peer absent, which is reported and is no error
of the run.
"""

from __future__ import annotations

import importlib
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, cast

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BANDS = 14
ROWS = 6
HASHES = BANDS * ROWS
SHINGLE_WIDTH = 5
NOT_INSTALLED = "it is not installed"


class SigningPeer(Protocol):
    """One way to sign."""

    def sign(self, texts: Sequence[bytes]) -> object:
        """Return the signatures of `texts`, with one thread."""


class IndexPeer(Protocol):
    """One index: a document is looked up, and put in where nothing like it is there.

    `sign` comes first and is not timed; documents are numbered in the order of signing.
    """

    def sign(self, texts: Sequence[bytes]) -> Any:  # noqa: ANN401 - a peer's own
        """Return the signatures of `texts`, as `judge` takes them."""

    def judge(self, batches: Sequence[Any]) -> int:
        """Look up and insert signed batches, in order; return how many were called duplicates."""

    def settle(self) -> None:
        """Bring to the disk what belongs there."""


class MemoryIndex:
    """A library's index in memory: `query`, and `insert` where that finds nothing."""

    def __init__(self, index: Any) -> None:  # noqa: ANN401 - a peer's own
        self._index = index
        self._documents = 0

    def judge(self, batches: Sequence[list[Any]]) -> int:
        """Look up and insert, one document after the other; return the duplicates."""
        index, duplicates = self._index, 0
        for number, sketch in enumerate(chain.from_iterable(batches), self._documents):
            if index.query(sketch):
                duplicates += 1
            else:
                index.insert(number, sketch)
        self._documents += sum(map(len, batches))
        return duplicates

    def settle(self) -> None:
        """Do nothing: there is no disk."""


class StreamPeer(Protocol):
    """One way to judge a stream of pages."""

    def judge(self, pages: Path, verdicts: Path, threshold: float, seed: int) -> float:
        """Write a verdict file for a file of pages; return the seconds that this took."""


class Absent(msgspec.Struct, frozen=True):
    """A peer that is not compared, and why."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name} is not compared: {self.reason}."


Kind = TypeVar("Kind", SigningPeer, IndexPeer, StreamPeer)


class Entry(NamedTuple, Generic[Kind]):
    """A peer by its name, module and class."""

    name: str
    module: str
    class_name: str
    signs: bool = True  # whole documents; if not, it is shown and not compared with

    def load(self, *arguments: object) -> Kind | None:
        """Return the peer; None where its library, or what that needs, is not installed."""
        try:
            module = importlib.import_module(f"benchmarks.peers.{self.module}")
        except ModuleNotFoundError:
            return None
        return cast("Kind", getattr(module, self.class_name)(*arguments))


SIGNING_PEERS: tuple[Entry[SigningPeer], ...] = (
    Entry("streamer", "streamer_peers", "StreamerPeer"),
    Entry("gaoya MinHash", "gaoya_minhash", "GaoyaPeer"),
    Entry("rensa RMinHash", "rensa_peers", "RMinHashPeer"),
    Entry("rensa CMinHash", "rensa_peers", "CMinHashPeer"),
    Entry("simhash", "simhash_fingerprint", "SimhashPeer"),
    Entry("datatrove MinHash", "datatrove_minhash", "DatatrovePeer"),
    Entry("datasketch MinHash", "datasketch_peers", "MinHashPeer"),
    Entry("shingles alone, in Python", "shingles", "ShinglesPeer", signs=False),
)
LEFT_OUT = (Absent("text-dedup", "it depends on PySpark, PyArrow and ONNX, 0.6 GB to download"),)
INDEXES_LEFT_OUT = (
    Absent("LSHBloom", "its one package, spark-lshbloom, runs in a Spark session over data frames"),
)
INDEX_PEERS: tuple[Entry[IndexPeer], ...] = (
    Entry("streamer, on disk", "streamer_peers", "StreamerIndex"),
    Entry("rensa RMinHashLSH", "rensa_peers", "RensaIndex"),
    Entry("Lance MINHASHLSH, on disk", "lance_index", "LanceIndex"),
    Entry("incrededup, on disk", "incrededup_index", "IncrededupIndex"),
    Entry("datasketch MinHashLSH", "datasketch_peers", "DatasketchIndex"),
)
STREAM_PEERS: tuple[Entry[StreamPeer], ...] = (
    Entry("streamer", "streamer_peers", "StreamerStream"),
    Entry("datasketch (128)", "datasketch_peers", "DatasketchStream"),
)
