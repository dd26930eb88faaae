"""Peers of signing: they do the same work, by turns, and the fastest sets the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from benchmarks import signing
from benchmarks.peers.peer import SIGNING_PEERS, Entry, SigningPeer
from benchmarks.peers.shingles import shingles


@pytest.mark.parametrize(
    "entry", [entry for entry in SIGNING_PEERS if entry.signs], ids=lambda entry: entry.name
)
def test_a_peer_tells_texts_apart_and_signs_one_text_alike(entry: Entry[SigningPeer]) -> None:
    peer = entry.load()
    if peer is None:
        # A benchmark does without it too, and says so; CI has the lock with all of them.
        pytest.skip(f"{entry.name} is not installed; it comes with requirements/bench.lock")
    texts = signing.raw_texts(2)
    ended = [texts[0], texts[0].rsplit(b" ", 60)[0]]  # so the end of a text is signed too
    assert signature(peer, texts[:1]) == signature(peer, texts[:1])
    assert signature(peer, texts[:1]) != signature(peer, texts[1:])
    assert signature(peer, ended[:1]) != signature(peer, ended[1:])


def signature(peer: SigningPeer, texts: Sequence[bytes]) -> str:
    signed: Any = peer.sign(texts)
    first = signed[0]
    for name in ("digest", "to_rows"):  # of rensa
        if hasattr(first, name):
            return str(getattr(first, name)())
    for name in ("keys", "value", "hashvalues"):  # of streamer, simhash, datasketch
        if hasattr(first, name):
            return str(getattr(first, name))
    return str(first)


class Counted:
    """A peer that writes down its turns."""

    turns: list[str] = []  # noqa: RUF012 - shared by all peers of one test

    def __init__(self, name: str) -> None:
        self.name = name

    def sign(self, _texts: object) -> None:
        self.turns.append(self.name)


class Loaded(NamedTuple):
    """A table's entry for such a peer."""

    name: str
    signs: bool = True

    def load(self) -> Counted:
        return Counted(self.name)


def test_the_peers_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing, "SIGNING_PEERS", (Loaded("a"), Loaded("b"), Loaded("c")))
    monkeypatch.setattr(Counted, "turns", [])
    monkeypatch.setattr("time.process_time", iter(range(100)).__next__)
    signing.measure(pages=1, rounds=3)
    assert "".join(Counted.turns) == "abc" + "abc" + "bca" + "cab"  # the first is the warm-up


def test_the_target_is_set_against_the_fastest_peer_that_signs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entries = (Loaded("us"), Loaded("slow"), Loaded("quick"), Loaded("shingles", signs=False))
    monkeypatch.setattr(signing, "SIGNING_PEERS", entries)
    monkeypatch.setattr(Counted, "turns", [])
    seconds = {"us": 1, "slow": 9, "quick": 6, "shingles": 3}
    monkeypatch.setattr("time.process_time", lambda: sum(seconds[name] for name in Counted.turns))
    result = signing.measure(pages=1, rounds=2)
    assert (result.fastest, result.ratio) == ("quick", 6.0)
    assert [peer.ratio for peer in result.peers] == [1, 9, 6, 3]


def test_shingles_are_runs_of_five_tokens() -> None:
    assert shingles(list("abcdefg")) == ["a b c d e", "b c d e f", "c d e f g"]
    assert shingles(list("abc")) == ["a b c"]
