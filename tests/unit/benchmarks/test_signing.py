"""Peers of signing do the same work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


def test_shingles_are_runs_of_five_tokens() -> None:
    assert shingles(list("abcdefg")) == ["a b c d e", "b c d e f", "c d e f g"]
    assert shingles(list("abc")) == ["a b c"]
