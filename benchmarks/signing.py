"""From raw text to signature, ours next to the peers': the same pages, shingling included for all.

The peers take turns over several rounds, each round begun by another one, so that a machine that
slows down slows all; a fast one signs the pages several times in its turn, and the figure of a peer
is its median round. CPU time of the whole process
counts: a library that starts threads of its own gains nothing by them here. The target is set
against the fastest peer that signs whole documents, whichever that is.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import msgspec

from benchmarks import corpus
from benchmarks.figures import empty_table
from benchmarks.peers.peer import LEFT_OUT, NOT_INSTALLED, SIGNING_PEERS, Absent, Entry, SigningPeer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

PAGES = 5_000
ROUNDS = 5
WARM_PAGES = 50
TURN_SECONDS = 0.4  # of CPU at least: a moment's noise is then not all of a turn
RATIO_TARGET = 10.0


class PeerTime(msgspec.Struct, frozen=True):
    """Microseconds of CPU a page over the rounds, and how many times ours that is."""

    name: str
    median_us: float
    fastest_us: float
    ratio: float
    signs: bool = True


class Signing(msgspec.Struct, frozen=True):
    """The comparison, ours first; `ratio` is that of `fastest`, the fastest peer that signs."""

    pages: int
    mean_bytes: float
    rounds: int
    peers: list[PeerTime]
    absent: list[Absent]
    fastest: str | None = None
    ratio: float = 0.0
    target: float = RATIO_TARGET


def measure(pages: int = PAGES, rounds: int = ROUNDS) -> Signing:
    """Sign `pages` pages in each round by each peer."""
    texts = raw_texts(pages)
    loaded = [(entry, entry.load()) for entry in SIGNING_PEERS]
    present = [(entry, peer) for entry, peer in loaded if peer is not None]
    times = _times(present, texts, rounds)
    ours = statistics.median(times[SIGNING_PEERS[0].name])
    peers = [_peer_time(entry, times[entry.name], ours) for entry, _ in present]
    fastest = min((one for one in peers[1:] if one.signs), key=_ratio, default=None)
    missing = [Absent(entry.name, NOT_INSTALLED) for entry, peer in loaded if peer is None]
    return Signing(
        pages=pages,
        mean_bytes=sum(map(len, texts)) / pages,
        rounds=rounds,
        peers=peers,
        absent=[*missing, *LEFT_OUT],
        fastest=fastest.name if fastest else None,
        ratio=fastest.ratio if fastest else 0.0,
    )


def _ratio(one: PeerTime) -> float:
    return one.ratio


def raw_texts(pages: int) -> list[bytes]:
    """Return the texts of the corpus's first pages in UTF-8."""
    decode = msgspec.json.Decoder(dict[str, str]).decode
    return [decode(line)["body"].encode() for line in corpus.generate(pages)]


def _times(
    present: Sequence[tuple[Entry[SigningPeer], SigningPeer]], texts: Sequence[bytes], rounds: int
) -> dict[str, list[float]]:
    """Return for each peer its microseconds a page in each round."""
    for _, peer in present:
        peer.sign(texts[:WARM_PAGES])  # compiles, imports, fills caches
    times: dict[str, list[float]] = {entry.name: [] for entry, _ in present}
    for number in range(rounds):
        first = number % len(present)
        for entry, peer in (*present[first:], *present[:first]):
            times[entry.name].append(_turn(peer, texts))
    return times


def _turn(peer: SigningPeer, texts: Sequence[bytes]) -> float:
    """Return the microseconds of CPU a page of a peer's turn."""
    begin, signed = time.process_time(), 0
    while not signed or time.process_time() - begin < TURN_SECONDS:
        peer.sign(texts)
        signed += len(texts)
    return 1e6 * (time.process_time() - begin) / signed


def _peer_time(entry: Entry[SigningPeer], times: list[float], ours: float) -> PeerTime:
    median = statistics.median(times)
    return PeerTime(entry.name, median, min(times), median / ours, entry.signs)


def tables(result: Signing) -> Iterator[Table | str]:
    """Yield the peers' times a page, and how many times ours each is."""
    table = empty_table(
        f"raw text to signature: {result.pages:,} pages of {result.mean_bytes:,.0f} bytes,"
        f" {result.rounds} rounds, one thread",
        "signer", "median us", "fastest us", "times ours", "target",
    )  # fmt: skip
    for peer in result.peers:
        table.add_row(
            peer.name,
            f"{peer.median_us:.1f}",
            f"{peer.fastest_us:.1f}",
            f"{peer.ratio:.1f}",
            f"{result.target:g}" if peer.name == result.fastest else "",
        )
    yield table
    yield from map(str, result.absent)
