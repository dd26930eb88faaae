"""Chunks and their offsets, over a consumer without any broker."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import defaultdict, deque
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from faust.types import TP

from streamer.kafka.chunk import BYTES_MAX, RECORDS_MAX, cut
from streamer.kafka.transport import ChunkConsumer

PLACE = TP("pages", 0)


@dataclass
class Fetched:
    offset: int
    serialized_value_size: int = 100


def test_chunks_cover_all_that_was_read_gaps_included() -> None:
    draw = random.Random(1)
    for _ in range(50):
        offsets = sorted(draw.sample(range(100, 4000), draw.randint(1, 1500)))
        records = [Fetched(offset, draw.choice((10, 10_000))) for offset in offsets]
        chunks = list(cut("pages", 0, 90, 4010, records))
        assert chunks[0].start == 90
        assert chunks[-1].end == 4010
        assert all(a.end == b.start for a, b in itertools.pairwise(chunks))
        assert [record for chunk in chunks for record in chunk.records] == records
        for chunk in chunks:
            assert all(chunk.start <= record.offset < chunk.end for record in chunk.records)
            assert len(chunk.records) <= RECORDS_MAX
            assert sum(r.serialized_value_size for r in chunk.records[:-1]) < BYTES_MAX


def test_a_range_without_messages_is_one_empty_chunk() -> None:
    (chunk,) = cut("pages", 3, 5, 9, [])
    assert (chunk.partition, chunk.start, chunk.end, len(chunk.records)) == (3, 5, 9, 0)


def consumer() -> Any:
    """Return a consumer with nothing but its bookkeeping: the rest of it needs a whole app."""
    made: Any = ChunkConsumer.__new__(ChunkConsumer)
    made._delivered = defaultdict(deque)  # noqa: SLF001 - see above
    made._done = defaultdict(set)  # noqa: SLF001
    made._acked = defaultdict(list)  # noqa: SLF001
    made._acked_index = defaultdict(set)  # noqa: SLF001
    made._committed_offset = defaultdict(lambda: None)  # noqa: SLF001
    made._unacked_messages = set()  # noqa: SLF001
    made._waiting_for_ack = None  # noqa: SLF001
    made._n_acked = 0  # noqa: SLF001
    made._room = asyncio.Event()  # noqa: SLF001
    made.app = SimpleNamespace(topics=SimpleNamespace(acks_enabled_for=lambda _topic: True))
    return made


@dataclass(eq=False)
class Delivered:
    offset: int
    tp: TP = PLACE
    topic: str = "pages"
    acked: bool = False


def test_offsets_are_committed_in_the_order_of_delivery_only() -> None:
    draw = random.Random(2)
    for _ in range(100):
        made = consumer()
        ends = sorted(draw.sample(range(1, 1000), 20))
        made._delivered[PLACE].extend(ends)  # noqa: SLF001
        waiting = ends.copy()
        committed = 0
        while waiting:
            done = waiting.pop(draw.randrange(len(waiting)))
            made.ack(Delivered(done))
            if draw.random() < 0.5:
                offset = made._new_offset(PLACE)  # noqa: SLF001
                committed = offset or committed
                below = [end for end in ends if end < (waiting[0] if waiting else 1001)]
                assert committed == (below[-1] + 1 if below else 0)
        committed = made._new_offset(PLACE) or committed  # noqa: SLF001
        assert committed == ends[-1] + 1
        assert not made._done[PLACE]  # noqa: SLF001


def test_a_chunk_that_is_not_acknowledged_holds_back_all_after_it() -> None:
    made = consumer()
    made._delivered[PLACE].extend([9, 19, 29])  # noqa: SLF001
    made.ack(Delivered(19))
    made.ack(Delivered(29))
    assert made._new_offset(PLACE) is None  # noqa: SLF001
    made.ack(Delivered(9))
    assert made._new_offset(PLACE) == 30  # noqa: SLF001
