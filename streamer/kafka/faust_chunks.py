"""Faust's transport, a chunk at a time: one event holds all that was fetched from a partition.

Faust spends 60 to 80 us on each event, more than a page may cost. Its agents, acknowledgements,
commits and rebalances are kept; only the event is another one, a `Chunk`.

Four rules of the stock consumer are replaced. Offsets are committed strictly in the order in which
chunks were delivered; the stock rule can skip an unacknowledged message. A commit that a rebalance
refused, or that the group turns out not to have, is repeated; the stock rule waits for the next
message, which may be days away, and until then the group seems to lag. A partition starts where its
agent says, which need not be the committed offset. A position that is not there any more ends the
process: it is never reset to another one.

A rebalance is completed however long the brokers take. Stock Faust takes a seek that outlasts a
request's timeout for the end of the process, and completes no rebalance after it.
"""

# Faust's back-pressure looks once a second whether it may go on; unacknowledged chunks are bounded
# instead (21,000 pages/s, not 10,000). Faust gives up after 90 seconds of a rebalance and then
# completes no further one, and a connection that is cut for a minute takes that long; so a worker
# waits, and exits if a rebalance has not ended after five minutes.

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import faust
from aiokafka import AIOKafkaConsumer
from aiokafka import errors as kafka_errors
from faust.tables import TableManager
from faust.tables.recovery import Recovery
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, Message
from faust.types.tuples import ConsumerMessage

from streamer.errors import StoreMismatch, StreamerError
from streamer.kafka.reader import cut, raise_permission_error, undecodable
from streamer.kafka.topics import TopicWatch

CHUNKS_MAX = 16  # delivered and not yet acknowledged, of all partitions
LANE_CHUNKS = 4  # of one partition, where each is worked on by itself
LANE_SECONDS = 0.05  # in which a partition is looked at again that had no room
FETCH_BYTES_MAX = 16 << 20  # of one answer, of all partitions: it is copied as a whole
REBALANCE_SECONDS_MAX = 300.0  # it takes seconds, or as long as the brokers are away
WATCH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Start:
    """Where a partition is read from; its first chunk covers what is from `covered` on.

    All before `done` is done already: it is committed, where the group has not come as far; and so
    is what was done here before `offset`.
    """

    offset: int
    covered: int
    done: int = 0


class _ChunkThread(driver.AIOKafkaConsumerThread):
    """The thread that fetches, with settings that Faust has no names for."""

    def _create_worker_consumer(self, transport: Any) -> AIOKafkaConsumer:
        consumer = super()._create_worker_consumer(transport)
        # Both are read at its start; Faust has no setting for them.
        consumer._isolation_level = "read_committed"  # noqa: SLF001
        consumer._fetch_max_bytes = FETCH_BYTES_MAX  # noqa: SLF001
        return consumer

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Do without Faust's guess at what is slow: it errs after each rebalance."""

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Return what is committed (None: nothing), and seek nowhere: `perform_seek` does that.

        A seek that is given up for another rebalance goes on in this thread until the brokers
        answer. It may not move a position that is being read from by then.
        """
        asked = await self.call_thread(self._read_committed, self._ensure_consumer())
        return cast(Mapping[TP, int], asked)

    async def _read_committed(self, consumer: AIOKafkaConsumer) -> dict[TP, int | None]:
        return {TP(*tp): await consumer.committed(tp) for tp in consumer.assignment()}

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        """Refuse what is not assigned any more: the library leaves it out, and reports success."""
        return offsets.keys() <= self.assignment() and bool(await super()._commit(offsets))

    async def note_alive(self) -> None:
        """Let the consumer take itself for one that fetches, else it leaves its group in time."""

        async def note(consumer: AIOKafkaConsumer) -> None:
            with consumer._subscription.fetch_context():  # noqa: SLF001 - there is no public way
                pass

        await self.call_thread(note, self._ensure_consumer())


class ChunkConsumer(driver.Consumer):
    """A consumer that delivers chunks."""

    app: Any  # a ChunkApp; Faust's own type does not know what is ours

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._delivered: dict[TP, deque[int]] = defaultdict(deque)  # last offsets, in order
        self._done: dict[TP, set[int]] = defaultdict(set)
        self._next: dict[TP, int] = {}
        self._reached: dict[TP, int] = {}  # where all before is done, and not committed yet
        self._finished: dict[TP, int] = {}  # where all before was done here, whatever is committed
        self._room = asyncio.Event()
        self._held: set[TP] = set()
        self._fetching = asyncio.Lock()
        self._seeks = self._seeks_at_fetch = 0
        super().__init__(*arguments, **options)

    def _new_consumer_thread(self) -> _ChunkThread:
        return _ChunkThread(self, loop=self.loop, beacon=self.beacon)

    async def perform_seek(self) -> None:
        """Go to where the agent wants to start, for all assigned partitions.

        No fetch may be under way: it would go on after the seek, and what it took would be missing.
        The brokers are asked until they answer, or another rebalance gives this up.
        """
        async with self._fetching:
            while True:
                with suppress(kafka_errors.KafkaTimeoutError):
                    return await self._perform_seek()

    async def _perform_seek(self) -> None:
        await super().perform_seek()
        committed = {tp: self._committed_offset[tp] or 0 for tp in self.assignment()}
        for tp, start in (await self.app.where_to_begin(committed)).items():
            self._delivered[tp].clear()
            self._done[tp].clear()
            if start.offset < committed[tp]:  # what is between them is done again
                self._committed_offset[tp] = None  # the library would refuse a lower one
                self._finished.pop(tp, None)
                self._reached[tp] = start.offset
            self._note_reached(tp, max(start.done, min(start.offset, self._finished.get(tp, 0))))
            try:
                await self.seek_wait({tp: start.offset})  # in the thread that fetches
            except kafka_errors.IllegalStateError:
                self._next.pop(tp, None)
                continue  # the partition is gone again; the next rebalance comes here
            self._read_offset[tp] = start.offset or None
            self._next[tp] = start.covered
        self._seeks += 1

    async def _getmany(self, active_partitions: set[TP] | None, timeout: float) -> Any:
        async with self._fetching:
            self._seeks_at_fetch = self._seeks
            ready = self._ready(active_partitions or set())
            if ready != active_partitions:
                timeout = min(timeout, LANE_SECONDS)
            return await super()._getmany(ready, timeout) if ready else {}

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, ConsumerMessage]]:
        """Yield a message for each chunk, unless too many are being worked on, or all are held."""
        if not await self._has_room(timeout):
            await cast(_ChunkThread, self._thread).note_alive()
            return
        fetched = await self._take_fetched(timeout)
        generation, seeks = self.app.consumer_generation_id, self._seeks_at_fetch
        for tp, records in fetched.items():
            if self._is_stale(generation, seeks):
                return
            self.app.monitor.track_tp_end_offset(tp, self.highwater(tp))
            end = records[-1].offset + 1 if records else await self.position(tp)
            if end is None or end <= self._next.get(tp, end):
                continue
            for chunk in cut(tp.topic, tp.partition, self._next[tp], end, records):
                if self._is_stale(generation, seeks):
                    return  # positions are others by now; what is left will be read again
                self._next[tp] = chunk.end
                self._delivered[tp].append(chunk.end - 1)
                yield (
                    tp,
                    ConsumerMessage(
                        *tp,
                        chunk.end - 1,
                        time.time(),
                        0,
                        None,
                        None,
                        cast(Any, chunk),
                        None,
                        tp=tp,
                        generation_id=generation,
                    ),
                )

    def _is_stale(self, generation: int, seeks: int) -> bool:
        return (
            not self.flow_active
            or self.app.consumer_generation_id != generation
            or self._seeks != seeks
        )

    async def _take_fetched(self, timeout: float) -> dict[TP, list[Any]]:
        """Return what has been fetched of the partitions that are read now."""
        try:
            records, _ = await self._wait_next_records(timeout)
        except kafka_errors.NoOffsetForPartitionError:
            return {}  # the library looked for a committed offset; ours is given by perform_seek
        except kafka_errors.OffsetOutOfRangeError as error:
            self.app.fail(
                StoreMismatch(
                    f"A position is not in the topic any more: {error}. Messages have expired, or "
                    "the topic was made again. Set the group's offsets with kafka-consumer-groups "
                    "to go on after the loss, or use another --index-name."
                )
            )
            return {}
        except kafka_errors.ConsumerStoppedError:
            raise
        except Exception as error:  # what damaged bytes lead to may be anything
            raise_permission_error(error)
            raise undecodable(self._next, error) from error
        if records is None or self.should_stop or not self.flow_active:
            return {}
        if self._seeks != self._seeks_at_fetch:
            return {}  # fetched where we do not read any more: a seek came between
        # Nothing else may be left out: what follows would seem to cover it. Where nothing came,
        # markers of transactions may have been read all the same.
        return {tp: records.get(tp, []) for tp in (records or self._next) if tp in self._next}

    async def _has_room(self, timeout: float) -> bool:
        """Wait until chunks may be delivered; return whether they may in time.

        Faust's own back-pressure looks once a second only whether it may go on.
        """
        deadline = self.loop.time() + timeout
        while (assigned := self.assignment()) and not self._ready(assigned):
            self._room.clear()
            try:
                await asyncio.wait_for(self._room.wait(), max(0, deadline - self.loop.time()))
            except TimeoutError:
                return False
        return True

    def _ready(self, tps: set[TP]) -> set[TP]:
        """Return those of the partitions of which chunks may be delivered."""
        working = {tp: len(each) - len(self._done[tp]) for tp, each in self._delivered.items()}
        if not self.app.has_lanes:
            is_full = bool(self._held) or sum(working.values()) >= CHUNKS_MAX
            return set() if is_full else tps
        return {tp for tp in tps - self._held if working.get(tp, 0) < LANE_CHUNKS}

    def hold(self, tps: Iterable[TP]) -> None:
        """Deliver no chunk of these partitions until `release`, and stay in the group.

        Without lanes, none of any partition.
        """
        self._held.update(tps)

    def release(self, tps: Iterable[TP]) -> None:
        """Deliver chunks again."""
        self._held.difference_update(tps)
        self._room.set()

    def committed(self, tp: TP) -> int | None:
        """Return the offset that was committed last; None: none that we know."""
        return self._committed_offset[tp]

    def ack(self, message: Message) -> bool:
        """Mark a chunk as done."""
        self._done[message.tp].add(message.offset)
        self._room.set()
        return bool(super().ack(message))

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Ignore gaps: a chunk covers its own."""

    def _filter_tps_with_pending_acks(self, topics: Any = None) -> Iterator[TP]:
        """Return the partitions where there may be something to commit."""
        return (
            tp
            for tp in {*self._delivered, *self._reached}
            if tp in self.assignment() and (topics is None or tp in topics or tp.topic in topics)
        )

    def _new_offset(self, tp: TP) -> int | None:
        """Return what to commit: the end of the last chunk before which all are done."""
        self._settle(tp)
        self._acked[tp].clear()
        self._acked_index[tp].clear()
        return self._reached.pop(tp, None)

    def _settle(self, tp: TP) -> None:
        """Note how far all is done, and forget these chunks."""
        delivered, done = self._delivered[tp], self._done[tp]
        while delivered and delivered[0] in done:
            last = delivered.popleft()
            done.discard(last)
            self._finished[tp] = last + 1
            self._note_reached(tp, last + 1)

    async def _commit_offsets(self, offsets: Mapping[TP, int], *how: Any, **more: Any) -> bool:
        """Commit offsets; keep those that are refused for the next time."""
        committed = {tp: self._committed_offset[tp] for tp in offsets}
        if await super()._commit_offsets(offsets, *how, **more):
            return True
        self._committed_offset.update(committed)  # the library takes them for committed
        for tp, offset in offsets.items():
            self._note_reached(tp, offset)
        return False

    def _note_reached(self, tp: TP, offset: int) -> None:
        if offset > self._reached.get(tp, 0):
            self._reached[tp] = offset

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Forget partitions that are not assigned any more, once all is acknowledged.

        What is done stays so, and is committed should they come back before another has done more.
        """
        await super().on_partitions_revoked(revoked)
        self.release(revoked)
        for tp in revoked:
            self._settle(tp)
            for kept in (self._delivered, self._done, self._next):
                kept.pop(tp, None)


class ChunkTransport(driver.Transport):
    """The transport of chunks."""

    Consumer = ChunkConsumer


class ChunkSchema(faust.Schema[Any, Any]):
    """Hands the chunk through: there is nothing to decode yet."""

    def compile(self, app: Any, **_options: Any) -> Any:
        """Return the function that makes an event of a message."""

        async def decode(message: ConsumerMessage, **_options: Any) -> Any:
            return app.create_event(None, message.value, {}, message)

        return decode


class _Rebalances(Recovery):
    """What Faust does after an assignment: it asks where to begin, and lets chunks flow."""

    async def _wait(self, coro: Any, timeout: Any = None) -> None:
        """Wait without a timeout, which would end this service; another rebalance ends it too."""
        del timeout
        await super()._wait(coro)


class _Tables(TableManager):
    """No tables: they are what Faust hangs its rebalances on."""

    @property
    def recovery(self) -> Recovery:
        if self._recovery is None:
            self._recovery = _Rebalances(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery


class ChunkApp(faust.App):
    """A Faust app over chunks.

    `starts` is asked where each partition begins, given the committed offsets (0: none); `fail`
    ends the process. `topics` are checked at each assignment. With `has_lanes` each partition is
    worked on by itself: one that is held or full holds up no other.
    """

    def __init__(
        self,
        group: str,
        starts: Callable[[Mapping[TP, int]], Awaitable[Mapping[TP, Start]]],
        fail: Callable[[BaseException], None],
        topics: TopicWatch | None = None,
        *,
        has_lanes: bool = False,
        **options: Any,
    ) -> None:
        self.has_lanes, self.starts, self.fail = has_lanes, starts, fail
        self._watch = topics
        super().__init__(
            group,
            TableManager=_Tables,
            web_enabled=False,
            topic_disable_leader=True,
            topic_allow_declare=False,
            table_standby_replicas=1,
            stream_buffer_maxsize=4096,  # never full: see _has_room
            consumer_max_fetch_size=8 << 20,
            consumer_auto_offset_reset="none",
            broker_max_poll_records=None,
            broker_commit_interval=0.5,
            broker_session_timeout=10.0,
            broker_heartbeat_interval=3.0,
            consumer_metadata_max_age_ms=5_000,
            **options,
        )

    @property
    def chunks(self) -> ChunkConsumer:
        """Return the consumer, by its own type."""
        return cast(ChunkConsumer, self.consumer)

    async def where_to_begin(self, committed: Mapping[TP, int]) -> Mapping[TP, Start]:
        """Return where each partition begins, in topics that are still the ones of the start."""
        try:
            if self._watch:
                await self._watch.check()
        except StreamerError as error:
            self.fail(error)
            return {}
        return await self.starts(committed)

    def _new_transport(self) -> ChunkTransport:
        return ChunkTransport(self.conf.broker_consumer, self)

    @faust.Service.task
    async def _watch_rebalances(self) -> None:
        """End the process when a rebalance does not end: nothing is read, and nothing says why."""
        since = time.monotonic()  # when it was seen last that chunks flow
        while not self.should_stop:
            await self.sleep(WATCH_SECONDS)
            since = since if self.rebalancing else time.monotonic()
            if time.monotonic() - since > REBALANCE_SECONDS_MAX:
                self.fail(
                    StreamerError(
                        f"A rebalance of the group {self.conf.id} has not ended within "
                        f"{REBALANCE_SECONDS_MAX:.0f} seconds: nothing is read meanwhile. See that "
                        "the brokers can be reached, and start this worker again: it repeats what "
                        "it has not committed."
                    )
                )
                return

    def _crash(self, reason: BaseException) -> None:
        """End the process when a part of Faust has crashed: without it nothing would be read."""
        super()._crash(reason)
        self.fail(reason)

    def _create_directories(self) -> None:
        """Make none: there are no tables."""
