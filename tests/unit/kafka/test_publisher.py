"""Publishing in order and without holes, over a producer that is told when to answer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Any

import pytest
from aiokafka.errors import KafkaTimeoutError
from aiokafka.record.memory_records import MemoryRecords

from streamer.errors import StreamerError
from streamer.kafka.publisher import BATCH_BYTES, Publisher
from tests.helpers.kafka_doubles import settle


class FakeProducer:
    """Stands for the client: a real broker cannot be told to fail one certain batch."""

    def __init__(self, **_options: Any) -> None:
        self.sent: list[tuple[str, int, Any]] = []
        self.answers: list[asyncio.Future[None]] = []

    async def send_batch(self, batch: Any, topic: str, *, partition: int) -> asyncio.Future[None]:
        self.sent.append((topic, partition, batch))
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> tuple[Publisher, FakeProducer]:
    monkeypatch.setattr("streamer.kafka.publisher.AIOKafkaProducer", FakeProducer)
    made = Publisher({"bootstrap_servers": "nowhere:1"})
    return made, made._producer  # noqa: SLF001 - the one that was put in


def start(*calls: Coroutine[Any, Any, None]) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(call) for call in calls]


async def test_a_partition_gets_one_batch_at_a_time_in_the_order_of_the_calls(
    publisher: tuple[Publisher, FakeProducer],
) -> None:
    made, producer = publisher
    calls = start(
        made.publish("t", 0, ["a", "b"]), made.publish("t", 0, ["c"]),
        made.publish("t", 1, ["d"]),
    )  # fmt: skip
    await settle()
    assert producer.sent == [("t", 0, "a"), ("t", 1, "d")]
    producer.answers[0].set_result(None)
    await settle()
    assert producer.sent[2:] == [("t", 0, "b")]
    producer.answers[2].set_result(None)
    await settle()
    assert producer.sent[3:] == [("t", 0, "c")]
    for answer in (producer.answers[1], producer.answers[3]):
        answer.set_result(None)
    await asyncio.gather(*calls)


async def test_nothing_follows_a_failed_batch(publisher: tuple[Publisher, FakeProducer]) -> None:
    made, producer = publisher
    calls = start(
        made.publish("t", 0, ["a", "b"]), made.publish("t", 0, ["c"]), made.publish("u", 5, ["d"])
    )
    await settle()
    producer.answers[0].set_exception(KafkaTimeoutError())
    await settle()
    later = start(made.publish("v", 0, ["e"]))
    await settle()
    assert [batch for _, _, batch in producer.sent] == ["a", "d"]
    assert all(call.done() for call in [calls[0], calls[1], later[0]])
    with pytest.raises(StreamerError, match="Cannot publish to t, partition 0"):
        await calls[0]
    for call in (calls[1], later[0]):
        with pytest.raises(StreamerError, match="has stopped"):
            await call
    producer.answers[1].set_result(None)
    await calls[2]


async def test_no_batch_is_larger_than_its_topic_takes() -> None:
    made = Publisher({"bootstrap_servers": "localhost:1"})
    packed = made.batches([(b"k", b"x" * (BATCH_BYTES // 3), [], None)] * 7)
    assert [batch.record_count() for batch in packed] == [2, 2, 2, 1]
    small, full = b"s" * 700, os.urandom(3500)
    values = [small, small, full, small, b"c" * 40_000, small]
    packed = made.batches([(b"k", value, [("h", b"v")], 5) for value in values], 4000)
    assert [batch.record_count() for batch in packed] == [2, 1, 1, 1, 1]
    sent = [bytes(batch._build()) for batch in packed]  # noqa: SLF001 - as the client does
    assert max(map(len, sent)) <= 4000
    found = [r for data in sent for r in MemoryRecords(data).next_batch()]
    assert [(r.key, r.value, r.headers) for r in found] == [
        (b"k", value, [("h", b"v")]) for value in values
    ]
    await made.stop()
