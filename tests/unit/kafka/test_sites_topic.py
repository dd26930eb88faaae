"""What is known of the sites of a partition is a fold of its pages, and its topic has it whole."""

from collections.abc import Mapping
from random import Random

import msgspec
import pytest
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError

from streamer.errors import StreamerError
from streamer.kafka import sites_topic
from streamer.kafka.publisher import Message
from streamer.kafka.sites_topic import CopyNote, StoredTable, message_key, restore_table
from streamer.kafka.topics import Names
from streamer.sketch.site_memory import PART_BYTES, SiteMemory
from tests.unit.sketch.test_site_memory import SIZE, chunks, known, page

NOTE = (1 << 32) - 1
ASKED = page(99, 1, 2, 3)


def empty() -> StoredTable:
    return restore_table({}, "f", SIZE, 0)


def restored(topic: Mapping[bytes, bytes], most: int = 100, index: str = "f") -> StoredTable:
    return restore_table(topic, index, SIZE, most)


def learn(table: StoredTable, *numbers: int) -> None:
    """Learn a page at each offset, of which the record arrives at once."""
    for number in numbers:
        table.memory.learn(number + 1, page(number, 1, 2))
        assert table.memory.settle(number + 1, number + 1)


def published(topic: dict[bytes, bytes], table: StoredTable) -> list[Message]:
    """Publish what changed."""
    messages = table.take_changes("f")
    topic |= {key or b"": value or b"" for key, value, _, _ in messages}
    return messages


@pytest.mark.parametrize("seed", range(20))
def test_whoever_goes_on_has_the_table_of_one_who_never_stopped(seed: int) -> None:
    """A signer is killed between any two messages, or behind what is committed."""
    rng, crawl = Random(seed), chunks(seed, 30)
    alone = SiteMemory(SIZE)
    wanted = [alone.learn_judged(own).tolist() for own in crawl]
    topic, table, at = dict[bytes, bytes](), empty(), 0
    found: dict[int, list[int]] = {}
    while at < len(crawl):
        action = rng.randrange(4)
        if action < 2:
            found[at] = table.memory.learn(turn := rng.randrange(1 << 40), crawl[at]).tolist()
            at += 1
            assert table.memory.settle(turn, at)
        elif action == 2:
            published(topic, table)
        else:
            messages = table.take_changes("f")
            for key, value, _, _ in messages[: rng.randrange(len(messages) + 1)]:
                topic[key or b""] = value or b""
            at = max(0, at - rng.randrange(4))  # what is committed
            table = restored(topic, at)
            assert table.memory.position <= at
            for own in crawl[table.memory.position : at]:
                table.memory.learn_judged(own)
            table.memory.position = at
    assert [found[number] for number in range(len(crawl))] == wanted


def test_two_copies_are_written_in_turns_and_only_where_pages_came() -> None:
    topic, table = dict[bytes, bytes](), empty()
    learn(table, 0, 1)
    first, second = published(topic, table), published(topic, table)
    assert [key for key, *_ in second] == [b"\1" + (key or b"")[1:] for key, *_ in first]
    assert published(topic, table) == [], "both are up to date"
    assert known(restored(topic).memory, ASKED) == [1, 1, 0, 0]
    late = restored(topic)
    assert published(topic, late) == [], "it has learned nothing itself"
    learn(late, 2)
    assert {key[0] for key, *_ in published(topic, late) if key} == {0}
    assert (restored(topic).memory.position, restored(topic, 2).memory.position) == (3, 2)


def test_what_is_ahead_of_the_log_is_not_published() -> None:
    topic, table = dict[bytes, bytes](), empty()
    learn(table, 0)
    table.memory.learn(2, page(1, 1, 2))
    published(topic, table)
    assert restored(topic).memory.to_flush().pages == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (message_key(0, 0), bytes(PART_BYTES)),
        (message_key(0, 3), b"short"),
        (message_key(0, NOTE), b"junk"),
        (message_key(0, NOTE), b""),
        (message_key(0, NOTE), msgspec.msgpack.encode(CopyNote("f", -1, 1, b""))),
        (message_key(0, NOTE), msgspec.msgpack.encode(CopyNote("another", 2, 1, b""))),
    ],
    ids=["part", "short", "junk", "deleted", "negative", "another"],
)
def test_a_copy_that_another_process_wrote_to_does_not_count(key: bytes, value: bytes) -> None:
    topic, table = dict[bytes, bytes](), empty()
    learn(table, *range(9))
    published(topic, table)
    learn(table, 9)
    published(topic, table)
    older, newer = restored({k: v for k, v in topic.items() if k[0] == 0}), restored(topic)
    assert (older.memory.position, newer.memory.position) == (9, 10)
    assert known(older.memory, ASKED) == [8, 8, 0, 0]
    topic |= {key: value, b"": b"", b"\7": b"x", message_key(0, 1000): bytes(PART_BYTES)}
    found = restored(topic)
    assert found.memory.position == 10
    assert restored(topic, 9).memory.to_flush().pages == 0, "no copy covers so little"
    learn(found, 10)
    published(topic, found)
    again = restored(topic)
    assert (again.memory.position, known(again.memory, ASKED)[0]) == (11, 10)
    assert min(again.offsets) == 10, "the copy that did not count is whole again"


async def test_away_brokers_are_retried_a_refusal_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = list[object]()

    def refuse(client: object) -> None:
        tries.append(client)
        if len(tries) < 3:
            raise StreamerError("away") from KafkaConnectionError()
        raise StreamerError("not allowed") from TopicAuthorizationFailedError()

    monkeypatch.setattr(sites_topic, "RETRY_SECONDS", 0)
    monkeypatch.setattr(sites_topic, "open_reader", refuse)
    sites = sites_topic.PartitionSites({}, Names("index", "pages"), "f", SIZE, 1, print)
    with pytest.raises(StreamerError, match="not allowed"):
        await sites.restore(0, 5, lambda: True)
    await sites.restore(0, 5, lambda: False)
    assert len(tries) == 3
