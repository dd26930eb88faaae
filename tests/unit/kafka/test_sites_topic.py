"""Signers share what they learn of sites by a topic; of a part the newest message counts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from structlog.testing import capture_logs

from streamer.errors import StoreMismatch
from streamer.kafka import sites_topic
from streamer.kafka.publisher import Message
from streamer.kafka.sites_topic import SharedSites, SitePart
from streamer.kafka.topics import Names
from streamer.sketch.site_memory import PART_BYTES, SiteMemory
from streamer.text.furniture import PageBlocks

SIZE = 64 * PART_BYTES
NAMES = Names("index", "pages")


def page(number: int, *keys: int) -> PageBlocks:
    """Return a page of some blocks, which shares no words with others."""
    own = np.array([key * 0x9E3779B97F4A7C15 % 2**64 for key in (*keys, 1000 + number)], np.uint64)
    words = np.array([1] * len(keys) + [90], np.int32)
    return PageBlocks(own, words, np.array([len(own)]), np.array([number], np.uint64))


class Topic:
    """A stand-in for the brokers: a topic, with messages as the client gives them."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.sent: list[int] = []

    def batches(self, messages: Sequence[Message]) -> list[Any]:
        return [messages] if messages else []

    async def publish(self, topic: str, partition: int, batches: Sequence[Any]) -> None:
        assert (topic, partition) == ("index.sites", 0)
        for batch in batches:
            self.sent.append(len(batch))
            for key, value, _, _ in batch:
                offset = len(self.messages)
                self.messages.append(SimpleNamespace(key=key, value=value, offset=offset))

    def compacted(self) -> list[Any]:
        """Return the newest message of each key."""
        return list({message.key: message for message in self.messages}.values())


def shared(fingerprint: str = "f") -> SharedSites:
    return SharedSites(SiteMemory(SIZE), NAMES.sites, fingerprint)


def learn(sites: SharedSites, *pages: PageBlocks) -> None:
    """Learn chunks of one page, of which the records arrive at once."""
    for own in pages:
        turn = sites.memory._turns = sites.memory._turns + 1  # noqa: SLF001 - as `submit` counts
        sites.memory.learn(turn, own)
        sites.note_published(turn)


def publish(sites: SharedSites, topic: Any) -> None:
    asyncio.run(sites.publish(topic))


ASKED = page(99, 1, 2, 3)


def test_a_signer_that_starts_knows_what_others_have_published() -> None:
    topic, one, other, late = Topic(), shared(), shared(), shared()
    learn(one, *(page(n, 1, 2) for n in range(4)))
    publish(one, topic)
    other.take_over(topic.messages)
    assert other.memory.known(ASKED).tolist() == [3, 3, 0, 0]
    learn(other, *(page(10 + n, 2, 3) for n in range(4)))
    seen = len(topic.messages)
    publish(other, topic)
    one.take_over(topic.messages[seen:])
    late.take_over(topic.compacted())
    for each in (one, other, late):
        assert each.memory.known(ASKED).tolist() == [3, 7, 3, 0]
    publish(late, topic)
    assert len(topic.sent) == 2, "it has learned nothing itself"


def test_what_is_ahead_of_the_log_is_not_published() -> None:
    topic, sites = Topic(), shared()
    sites.memory.learn(1, page(1, 1))
    publish(sites, topic)
    assert topic.messages == []
    sites.note_published(1)
    publish(sites, topic)
    assert topic.messages
    with pytest.raises(StoreMismatch, match="turn 3"):
        sites.note_published(3)


def test_a_signer_passes_over_its_own_messages_and_those_of_another_index() -> None:
    topic, one, other = Topic(), shared(), shared("another key")
    learn(one, *(page(n, 1) for n in range(3)))
    publish(one, topic)
    for sites in (one, other):
        before = sites.memory.figures()
        with capture_logs() as logs:
            sites.take_over(topic.messages)
        assert (sites.memory.figures(), logs) == (before, [])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0", b"junk"),
        (b"\0", None),
        (None, b"\x90"),
        (b"\0\0\1\0", msgspec.msgpack.encode(SitePart("f", "w", 1, bytes(PART_BYTES)))),
        (b"\0\0\0\0", msgspec.msgpack.encode(SitePart("f", "w", 1, b"short"))),
        (b"\0\0\0\0", msgspec.msgpack.encode(SitePart("f", "w", -1, bytes(PART_BYTES)))),
        (b"\0\0\0\0", msgspec.msgpack.encode(SitePart("f", "w", 1 << 63, bytes(PART_BYTES)))),
    ],
    ids=["junk", "deleted", "empty", "part", "short", "negative", "much"],
)
def test_messages_of_others_are_passed_over_and_reported_once(
    key: bytes | None, value: bytes | None
) -> None:
    sites = shared()
    learn(sites, page(1, 1), page(2, 1))
    foreign = SimpleNamespace(key=key, value=value, offset=7)
    with capture_logs() as logs:
        sites.take_over([foreign, foreign])
    assert [each["event"] for each in logs] == ["sites_passed_over"]
    assert sites.memory.known(page(9, 1)).tolist() == [1, 0]


def test_a_large_table_is_published_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sites_topic, "PARTS_AT_ONCE", 5)
    topic, one, late = Topic(), shared(), shared()
    learn(one, *(page(n, *range(1, 31)) for n in range(3)))
    publish(one, topic)
    assert max(topic.sent) == 5
    assert len(topic.compacted()) == len(topic.messages) == sum(topic.sent)
    late.take_over(topic.messages)
    asked = page(99, *range(1, 31))
    assert late.memory.known(asked).tolist() == one.memory.known(asked).tolist()
