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
    made._room, made._held = asyncio.Event(), False  # noqa: SLF001
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


class Scripted(ChunkConsumer):
    """A consumer whose fetches and seeks are told; what it makes of them is real."""

    fetches: list[dict[TP, list[Any]]]
    during_fetch: Any = None

    async def _wait_next_records(self, timeout: float) -> Any:  # noqa: ASYNC109 - Faust's name
        return await self._getmany(None, timeout), None

    async def fetch(self, _active: object, _timeout: float) -> dict[TP, list[Any]]:
        if self.during_fetch:
            await self.during_fetch()
        return self.fetches.pop(0) if self.fetches else {}

    async def position(self, tp: TP) -> int | None:
        return self._next.get(tp)

    def highwater(self, tp: TP) -> int:
        del tp
        return 0

    async def _perform_seek(self) -> None:
        self._next[PLACE] = 100
        self._seeks += 1


def scripted(*fetches: dict[TP, list[Any]]) -> Any:
    made: Any = Scripted.__new__(Scripted)
    made.__dict__.update(consumer().__dict__)
    made._next, made._seeks, made._seeks_at_fetch = {PLACE: 0}, 0, 0  # noqa: SLF001
    made._fetching = asyncio.Lock()  # noqa: SLF001
    made._stopped, made._crashed = asyncio.Event(), asyncio.Event()  # noqa: SLF001
    made.flow_active, made.fetches = True, list(fetches)
    made._thread = SimpleNamespace(getmany=made.fetch)  # noqa: SLF001
    monitor = SimpleNamespace(track_tp_end_offset=lambda *_: None)
    made.app = SimpleNamespace(consumer_generation_id=1, monitor=monitor)
    made.loop = None
    return made


async def chunks_of(made: Any) -> list[tuple[int, int]]:
    made._has_room = lambda _timeout: asyncio.sleep(0, result=True)  # noqa: SLF001
    return [(m.value.start, m.value.end) async for _, m in made.getmany(1.0)]


def test_a_seek_waits_for_the_fetch_that_is_under_way() -> None:
    async def run() -> None:
        made = scripted({PLACE: [Fetched(0), Fetched(1)]})
        fetching = asyncio.Event()

        async def slow() -> None:
            fetching.set()
            for _ in range(20):
                await asyncio.sleep(0)
            assert made._seeks == 0, "the seek came into the fetch"  # noqa: SLF001

        made.during_fetch = slow
        reading = asyncio.create_task(chunks_of(made))
        await fetching.wait()
        await made.perform_seek()
        await reading
        assert made._next[PLACE] == 100  # noqa: SLF001

    asyncio.run(run())


def test_nothing_is_delivered_of_what_was_fetched_before_a_seek() -> None:
    async def run() -> None:
        made = scripted({PLACE: [Fetched(offset) for offset in range(1200)]})
        made._has_room = lambda _timeout: asyncio.sleep(0, result=True)  # noqa: SLF001
        seen: list[tuple[int, int]] = []
        async for _, message in made.getmany(1.0):
            seen.append((message.value.start, message.value.end))
            await made.perform_seek()
        assert seen == [(0, 500)]
        assert made._next[PLACE] == 100, "the next chunk begins where the seek went"  # noqa: SLF001

    asyncio.run(run())


def test_nothing_is_delivered_while_it_is_held_yet_the_group_is_not_left() -> None:
    async def run() -> None:
        made = scripted({PLACE: [Fetched(0), Fetched(1)]})
        made.loop = asyncio.get_running_loop()
        noted: list[bool] = []

        async def note() -> None:
            noted.append(True)

        made._thread.note_alive = note  # noqa: SLF001
        made.hold()
        assert [m async for _, m in made.getmany(0.01)] == []
        assert noted == [True]
        waiting = asyncio.create_task(anext(made.getmany(5.0)))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        made.release()
        _, message = await asyncio.wait_for(waiting, 1)
        assert (message.value.start, message.value.end) == (0, 2)

    asyncio.run(run())
