"""Chunks and their offsets, over a consumer without any broker."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import defaultdict, deque
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from aiokafka.errors import KafkaTimeoutError
from faust.types import TP

from streamer.kafka.faust_chunks import ChunkConsumer, Start, _ChunkThread
from streamer.kafka.reader import BYTES_MAX, RECORDS_MAX, cut

PLACE = TP("pages", 0)


@dataclass
class Fetched:
    offset: int
    serialized_value_size: int = 100


def test_chunks_cover_all_that_was_read_gaps_included() -> None:
    draw = random.Random(1)
    for _ in range(50):
        offsets = sorted(draw.sample(range(100, 10_000), draw.randint(1, 6000)))
        records = [Fetched(offset, draw.choice((10, 10_000))) for offset in offsets]
        chunks = list(cut("pages", 0, 90, 10_010, records))
        assert chunks[0].start == 90
        assert chunks[-1].end == 10_010
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
    made._reached = {}  # noqa: SLF001
    made._finished = {}  # noqa: SLF001
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


def committing(*answers: bool) -> tuple[Any, list[int]]:
    """Return a consumer whose commits are answered so, and the list of what it commits."""
    made, asked = consumer(), []
    answered = iter(answers)

    async def commit(offsets: dict[TP, int]) -> bool:
        asked.append(offsets[PLACE])
        return next(answered)

    async def nothing(*_arguments: object, **_options: object) -> None: ...

    made.log = SimpleNamespace(dev=lambda *_: None)
    made.in_transaction = False
    made._thread = SimpleNamespace(commit=commit, assignment=lambda: {PLACE})  # noqa: SLF001
    made._handle_attached = nothing  # noqa: SLF001
    made.app.producer = SimpleNamespace(flush=nothing)
    made.app.tables = SimpleNamespace(on_commit=lambda _: None)
    made.app.monitor = SimpleNamespace(on_tp_commit=lambda _: None)
    return made, asked


async def commit_once(made: Any) -> bool:
    places = list(made._filter_tps_with_pending_acks())  # noqa: SLF001 - as force_commit does
    return bool(await made._commit_tps(places, start_new_transaction=True))  # noqa: SLF001


def test_a_commit_that_a_rebalance_refuses_is_made_again() -> None:
    made, asked = committing(False, True)
    made._delivered[PLACE].extend([9, 19])  # noqa: SLF001
    made.ack(Delivered(9))
    assert not asyncio.run(commit_once(made))
    assert asyncio.run(commit_once(made))
    made.ack(Delivered(19))
    assert asked == [10, 10]


def test_a_later_offset_takes_the_place_of_a_refused_one() -> None:
    made, asked = committing(False, True)
    made._delivered[PLACE].extend([9, 19])  # noqa: SLF001
    made.ack(Delivered(9))
    asyncio.run(commit_once(made))
    made.ack(Delivered(19))
    asyncio.run(commit_once(made))
    asyncio.run(commit_once(made))
    assert asked == [10, 20]


async def assigned(made: Any, committed: int, start: Start) -> None:
    """Have the partition assigned, of which so much is committed; the agent begins at `start`."""
    made._read_offset, made._next, made._seeks = {}, {}, 0  # noqa: SLF001
    sought: list[dict[TP, int]] = []

    async def seek_to_committed() -> dict[TP, int]:
        return {PLACE: committed}

    async def seek_wait(offsets: dict[TP, int]) -> None:
        sought.append(offsets)

    async def starts(_committed: dict[TP, int]) -> dict[TP, Start]:
        return {PLACE: start}

    made._thread.seek_to_committed = seek_to_committed  # noqa: SLF001
    made._thread.seek_wait = seek_wait  # noqa: SLF001
    made.app.starts = starts
    await made._perform_seek()  # noqa: SLF001 - perform_seek without its lock
    assert sought == [{PLACE: start.offset}]


def test_what_is_done_before_the_start_is_committed_where_the_group_is_behind() -> None:
    async def run(committed: int) -> list[int]:
        made, asked = committing(True)
        await assigned(made, committed, Start(50, 50, 40))
        await commit_once(made)
        return asked

    assert asyncio.run(run(0)) == [40]
    assert asyncio.run(run(30)) == [40]
    assert asyncio.run(run(45)) == []


def test_a_commit_that_the_group_has_not_got_is_made_again_at_the_next_assignment() -> None:
    """The library took it for made; or an older one came to the brokers after it, over a line that
    was cut."""

    async def run(committed: int, start: int) -> list[int]:
        made, asked = committing(True, True)
        made._delivered[PLACE].extend([9, 19])  # noqa: SLF001
        made.ack(Delivered(9))
        made.ack(Delivered(19))
        await commit_once(made)
        await assigned(made, committed, Start(start, start))
        await commit_once(made)
        return asked

    assert asyncio.run(run(10, 20)) == [20, 20]
    assert asyncio.run(run(20, 20)) == [20]
    assert asyncio.run(run(10, 10)) == [20], "what is read again is committed when it is done"


def test_a_commit_for_a_partition_that_is_gone_meanwhile_is_not_taken_for_made() -> None:
    class Library:
        async def commit(self, _offsets: object) -> None: ...

        def assignment(self) -> set[TP]:
            return {TP("pages", 1)}

    thread: Any = _ChunkThread.__new__(_ChunkThread)
    thread._consumer, thread.tp_last_committed_at = Library(), {}  # noqa: SLF001
    assert not asyncio.run(thread._commit({PLACE: 10}))  # noqa: SLF001
    assert asyncio.run(thread._commit({TP("pages", 1): 10}))  # noqa: SLF001


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


def test_asking_what_is_committed_moves_no_position() -> None:
    """The answer may come when the seek was given up, and others are reading."""

    class Library:
        def assignment(self) -> set[TP]:
            return {PLACE, TP("pages", 1)}

        async def committed(self, tp: TP) -> int | None:
            return 7 if tp == PLACE else None

    async def run() -> None:
        thread: Any = _ChunkThread.__new__(_ChunkThread)
        thread._consumer = Library()  # noqa: SLF001 - which cannot seek

        async def call(fun: Any, *arguments: Any) -> Any:
            return await fun(*arguments)

        thread.call_thread = call
        assert await thread.seek_to_committed() == {PLACE: 7, TP("pages", 1): None}

    asyncio.run(run())


def test_brokers_that_do_not_answer_are_asked_again_where_to_begin() -> None:
    async def run() -> None:
        made = scripted()
        answers = iter([KafkaTimeoutError(), KafkaTimeoutError(), None])

        async def seek() -> None:
            if (error := next(answers)) is not None:
                raise error

        made._perform_seek = seek  # noqa: SLF001
        await made.perform_seek()
        assert next(answers, "all were taken") == "all were taken"

    asyncio.run(run())


def test_nothing_is_delivered_of_what_was_fetched_before_a_seek() -> None:
    async def run() -> None:
        made = scripted({PLACE: [Fetched(offset) for offset in range(2 * RECORDS_MAX + 200)]})
        made._has_room = lambda _timeout: asyncio.sleep(0, result=True)  # noqa: SLF001
        seen: list[tuple[int, int]] = []
        async for _, message in made.getmany(1.0):
            seen.append((message.value.start, message.value.end))
            await made.perform_seek()
        assert seen == [(0, RECORDS_MAX)]
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
