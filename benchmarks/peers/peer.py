"""What a peer is here: it signs texts, or it judges a file of pages. Each lies in its own file.

All signing peers get the same UTF-8 bytes, as they come from a file or a socket, and must do
themselves whatever lies before the signature. A library that is not installed makes its peer
absent, which is reported and is no error of the run.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

HASHES = 84
SHINGLE_WIDTH = 5


class SigningPeer(Protocol):
    """One way to sign."""

    def sign(self, texts: Sequence[bytes]) -> object:
        """Return the signatures of `texts`, with one thread."""


class StreamPeer(Protocol):
    """One way to judge a stream of pages."""

    def judge(self, pages: Path, verdicts: Path, threshold: float, seed: int) -> float:
        """Write a verdict file for a file of pages; return the seconds that this took."""


Kind = TypeVar("Kind", SigningPeer, StreamPeer)


class Entry(NamedTuple, Generic[Kind]):
    """A peer by its name, module and class; `target` is how many times faster we mean to be."""

    name: str
    module: str
    class_name: str
    target: float | None = None

    def load(self) -> Kind | None:
        """Return the peer; None where its library is not installed."""
        try:
            module = importlib.import_module(f"benchmarks.peers.{self.module}")
        except ModuleNotFoundError:
            return None
        return cast("Kind", getattr(module, self.class_name)())


SIGNING_PEERS: tuple[Entry[SigningPeer], ...] = (
    Entry("streamer", "streamer_signer", "StreamerPeer"),
    Entry("rensa RMinHash", "rensa_minhash", "RMinHashPeer", 5.0),
    Entry("rensa CMinHash", "rensa_minhash", "CMinHashPeer"),
    Entry("datasketch MinHash", "datasketch_minhash", "MinHashPeer", 25.0),
    Entry("shingles alone, in Python", "shingles", "ShinglesPeer"),
)
STREAM_PEERS: tuple[Entry[StreamPeer], ...] = (
    Entry("streamer", "streamer_stream", "StreamerStream"),
    Entry("datasketch (128)", "datasketch_stream", "DatasketchStream"),
)
