"""The signers: a Faust agent over the pages' partitions, shared by all workers of the group.

Several threads sign chunks ahead in native code. Results are published in the order of the chunks:
dead letters first, so that a verdict beats one, then the log record, then the acknowledgement.
Each shard has a lane: what of its pages is signed ahead and published. While too much is open in
it, no chunk of its partitions is taken.
"""

# If a shard's log was lost or recreated, pages below the committed offset would never be judged. So
# after each assignment a signer waits until the shard has applied that log up to its end. A lower
# position wins, and is committed.

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog
from aiokafka.errors import KafkaTimeoutError
from faust.types import TP

from streamer.config import Settings
from streamer.errors import StoreMismatch, StreamerError
from streamer.index.messages import source_name
from streamer.kafka.dead_letters import dead_letter_message
from streamer.kafka.faust_chunks import ChunkApp, ChunkSchema, Start
from streamer.kafka.gauge import SILENT_SECONDS, FlowControl
from streamer.kafka.prepare import PreparedIndex
from streamer.kafka.publisher import BATCH_BYTES, Message, Publisher
from streamer.kafka.reader import Fetched
from streamer.kafka.role_metrics import SignMetrics
from streamer.kafka.signing import ChunkSigner, Signed
from streamer.kafka.sites_topic import PartitionSites
from streamer.kafka.tasks import Fail, begin_task, fail_on_error
from streamer.kafka.topics import Names
from streamer.metrics import Stage
from streamer.run.stages import CHUNKS_AHEAD, Ahead, signing_pool
from streamer.sketch.site_memory import SiteMemory

WATCH_SECONDS = 0.5
MISSING_AFTER_PAGES = 1000  # a carried field that none of so many pages has is warned of

PUBLISH_SECONDS_MAX = 5.0  # of what is known of sites, at a stop
KEYS_PAGES = 100  # after which is looked whether they share keys

_log = structlog.get_logger()


@dataclass(slots=True)
class _Lane:
    """The way of a shard's pages.

    Attributes:
        ahead: chunks that are being signed.
        comparing: waits for what the shard has of its log, and learns of sites what was signed
            before; None: nothing has to be waited for.
        overruled: partitions that were committed above what the shard has.
        is_silent: whether the shard holds up pages, and nothing is heard of it.
    """

    shard: int
    flow: FlowControl
    waiting: asyncio.Queue[Any]
    ahead: Ahead[Any, Signed]
    comparing: asyncio.Task[None] | None = None
    overruled: set[TP] = field(default_factory=set)
    is_silent: bool = False

    def position(self, tp: TP) -> int:
        """Return how far the shard is in a partition, as far as it has said so."""
        return self.flow.positions.get(source_name(tp.partition), 0)


@dataclass(eq=False)  # Faust hashes what it calls
class SignApp:
    """Consumes pages; `flows` are those of the shards, by number; `fail` ends the process.

    `log_ends` returns where logs end, `sites` are tables of these, if there are any.
    """

    _names: Names
    _signer: ChunkSigner
    _publisher: Publisher
    _flows: Sequence[FlowControl]
    _fail: Fail
    _options: Mapping[str, Any]
    _metrics: SignMetrics
    _prepared: PreparedIndex
    _settings: Settings
    _log_ends: Callable[[Iterable[str]], Awaitable[Mapping[str, int]]]
    _sites: PartitionSites | None = None

    def __post_init__(self) -> None:
        names = self._names
        self._pool = signing_pool(self._settings.signing_threads)
        self._lanes = [
            _Lane(shard, flow, asyncio.Queue(), Ahead(self._begin, CHUNKS_AHEAD))
            for shard, flow in enumerate(self._flows)
        ]
        self._tasks: list[asyncio.Task[None]] = []
        self._partitions: set[int] = set()
        self._pages = self._alone = 0
        self._has_warned = self.joined = False
        self.app = ChunkApp(
            names.sign_group, self._starts, self._fail, has_lanes=names.per_partition,
            **self._options,
        )  # fmt: skip
        self.app.on_rebalance_complete.connect(self._note_joined)
        self.app.agent(self.app.topic(names.pages, schema=ChunkSchema()), concurrency=1)(self.sign)

    async def start(self) -> None:
        """Join the group."""
        work = [part(lane) for lane in self._lanes for part in (self._take, self._publish)]
        self._tasks = [begin_task(each, self._fail) for each in (*work, self._watch())]
        self.app.finalize()
        await self.app.start()

    async def stop(self) -> None:
        """Finish what was taken, commit, and leave the group."""
        if self._sites:
            with suppress(TimeoutError):  # what is not published is learned again
                await asyncio.wait_for(self._sites.publish(self._publisher), PUBLISH_SECONDS_MAX)
        await self.app.stop()
        for task in (*self._tasks, *filter(None, (lane.comparing for lane in self._lanes))):
            task.cancel()
        self._pool.shutdown()

    async def _starts(self, committed: Mapping[TP, int]) -> Mapping[TP, Start]:
        """Return where to begin: at what is committed, or what the shard has, or the beginning.

        Brokers forget what is committed when a group has been away for days, and keep the shard's
        last gauge. To sign all again would change nothing, but the log would hold it for ever.
        """
        if self._sites:
            self._sites.keep({tp.partition for tp in committed})
        starts: dict[TP, Start] = {}
        # Of all at once: each answer waits for that to a fetch, which waits for messages.
        first = await self.app.chunks.earliest_offsets(*committed)
        ends = await self.app.chunks.highwaters(*committed)
        shards = {self._names.shard_of(tp.partition) for tp in committed}
        if max(shards, default=0) >= len(self._lanes):
            await asyncio.sleep(WATCH_SECONDS)  # the watch of topics sees a new partition, or soon
            raise KafkaTimeoutError
        try:
            logs = await self._log_ends(map(self._names.log, shards))
        except StreamerError as error:
            await asyncio.sleep(WATCH_SECONDS)
            raise KafkaTimeoutError from error  # so that they are asked again
        for lane in self._lanes:
            own = {tp: at for tp, at in committed.items() if self._lane_of(tp) is lane}
            begins = self._starts_of(lane, own, first, ends)
            # With none, nothing is waited for of the assignment before.
            log_end = logs.get(self._names.log(lane.shard), 0)
            self._compare(lane, {tp: start.done for tp, start in begins.items()}, log_end)
            starts |= begins
        return starts

    def _lane_of(self, part: TP | Fetched) -> _Lane:
        return self._lanes[self._names.shard_of(part.partition)]

    def _starts_of(
        self, lane: _Lane, committed: Mapping[TP, int], first: Mapping[TP, int],
        ends: Mapping[TP, int],
    ) -> dict[TP, Start]:  # fmt: skip
        """Return where to begin in the partitions of a lane, which have these bounds."""
        ahead, lane.overruled = lane.overruled, set()
        starts: dict[TP, Start] = {}
        for tp, offset in committed.items():
            begin = lane.position(tp) if tp in ahead else offset or lane.position(tp)
            where = f"Partition {tp.partition} of {tp.topic}"
            if begin > ends[tp]:
                self._fail(
                    StoreMismatch(
                        f"{where} ends at {ends[tp]}, but {begin} was reached before: the topic "
                        "has lost messages or was made again. Use another --index-name."
                    )
                )
            if begin < first[tp]:
                if (begin or tp in ahead) and not self._settings.accept_loss:
                    self._fail(
                        StoreMismatch(
                            f"{where} begins at {first[tp]}, but {begin} was reached only: "
                            f"{first[tp] - begin} messages have expired unread. Start with "
                            "--accept-loss to go on without them, or use another --index-name."
                        )
                    )
                _log.warning("pages_expired_unread", partition=tp.partition, offset=first[tp])
            starts[tp] = Start(max(begin, first[tp]), begin, begin)
        return starts

    def _compare(self, lane: _Lane, begins: Mapping[TP, int], log_end: int) -> None:
        """Deliver nothing while a partition may begin above what is in the shard's log.

        All below a committed offset is in the log, unless that was lost or made again: then pages
        between the shard's position and the offset would never be judged. And nothing is delivered
        while what was signed before has to be learned again.
        """
        lane.comparing = None
        is_ahead = any(begin > lane.position(tp) for tp, begin in begins.items())
        if not begins or not (is_ahead or self._sites):
            self.app.chunks.release(begins)
            return
        self.app.chunks.hold(begins)
        lane.comparing = begin_task(self._begin_at_shard(lane, begins, log_end), self._fail)

    async def _begin_at_shard(self, lane: _Lane, begins: Mapping[TP, int], log_end: int) -> None:
        """Begin where the shard is, once it has applied its log up to `log_end`, if it is less.

        What was committed before the log ended there is in it.
        """
        this = asyncio.current_task()

        def is_wanted() -> bool:
            return lane.comparing is this  # else there was another assignment

        while any(begin > lane.position(tp) for tp, begin in begins.items()):
            if not is_wanted() or lane.flow.has_reached(log_end):
                break
            await lane.flow.wait_for_change()
        if not is_wanted():
            return
        lane.overruled = {tp for tp, begin in begins.items() if begin > lane.position(tp)}
        for tp in sorted(lane.overruled):
            _log.warning(
                "offset_ahead_of_index", partition=tp.partition, offset=begins[tp],
                position=lane.position(tp), reason=f"The log of shard {lane.shard} does not "
                "have what was signed: it was lost or made again. Pages between are signed again.",
            )  # fmt: skip
        if lane.overruled:
            await self.app.chunks.perform_seek()
            return
        if sites := self._sites:
            for tp, begin in begins.items():
                await sites.restore(tp.partition, begin, is_wanted)
        if is_wanted():
            lane.comparing = None
            self.app.chunks.release(begins)

    async def _note_joined(self, *_arguments: object, **_options: object) -> None:
        self.joined = True  # also where there are more signers than partitions
        if self._sites and not self.app.chunks.assignment():
            self._sites.keep(set())

    async def sign(self, stream: Any) -> None:  # noqa: ANN401 - Faust's stream
        """Take chunks as they come; their number is bounded where they are delivered."""
        with fail_on_error(self._fail):
            async for event in stream.noack().events():
                self._lane_of(event.value).waiting.put_nowait(event)

    async def _take(self, lane: _Lane) -> None:
        """Have the chunks of a lane signed, in order, while its shard keeps up."""
        while True:
            event = await lane.waiting.get()
            # Not in a rebalance, which waits for this chunk.
            while lane.flow.paused and not (self.app.rebalancing or self.app.should_stop):
                await lane.flow.wait_for_change()
            await lane.ahead.put(event)

    def _begin(self, event: Any) -> Future[Signed]:  # noqa: ANN401 - Faust's event
        if sites := self._sites:
            table = sites.of(event.value.partition)
            return table.submit(self._pool, partial(self._sign, table), event)
        return self._pool.submit(self._sign, None, event)

    def _sign(self, table: SiteMemory | None, event: Any, turn: int = 0) -> Signed:  # noqa: ANN401 - Faust's event
        with self._metrics.stage(Stage.PARSE_SIGN):
            return self._signer.sign(event.value, table, turn)

    async def _publish(self, lane: _Lane) -> None:
        """Publish signed chunks in order, as many at once as are ready; acknowledge them."""
        while True:
            events, signed = await self._next(lane)
            with self._metrics.stage(Stage.PUBLISH_BANDS):
                for one in signed:
                    await self._publish_dead_letters(one)
                records: list[Message] = [
                    (None, record, [], one.timestamp) for one in signed for record in one.records
                ]
                log, batches = self._names.log(lane.shard), self._publisher.batches(records)
                await self._publisher.publish(log, 0, batches)
            for event, one in zip(events, signed, strict=True):
                if one.table is not None and not one.table.settle(one.turn, one.end):
                    raise StoreMismatch(f"The chunk at {one.end} was not learned in its order.")
                lane.flow.note_published(source_name(one.partition), one.end, one.pages)
                dead = Counter(rejected.code for rejected, _ in one.dead)
                self._metrics.count_chunk(one.pages, dead, one.skipped, one.alone)
                self._warn_of_missing_fields(one.pages)
                if self._names.per_partition:
                    self._warn_of_keys(one)
                self._metrics.counts.newest_dead |= {
                    rejected.code: f"{event.message.topic}/{event.message.partition}"
                    f"@{rejected.sequence}"
                    for rejected, _ in one.dead
                }
                self.app.chunks.ack(event.message)

    def _warn_of_missing_fields(self, pages: int) -> None:
        """Count published pages; with the first MISSING_AFTER_PAGES, warn of fields none had."""
        before, self._pages = self._pages, self._pages + pages
        is_time = before < MISSING_AFTER_PAGES <= self._pages
        if is_time and (fields := self._signer.parser.missing_fields()):
            _log.warning(
                "carried_fields_missing", fields=fields, pages=self._pages,
                reason="No page had them until now, so no verdict carries them. Correct --carry, "
                "or leave them out.",
            )  # fmt: skip

    def _warn_of_keys(self, signed: Signed) -> None:
        """Count pages that can meet no other by their keys; warn once they are most."""
        self._alone += signed.alone
        if not self._has_warned and self._pages >= KEYS_PAGES and 2 * self._alone > self._pages:
            self._has_warned = True
            _log.warning(
                "keys_not_shared", pages=self._pages, alone=self._alone,
                reason="Most pages have no key, or their URL for one, so those that are alike come "
                "to different partitions and are not compared. Key them by what they share, as "
                "their host.",
            )  # fmt: skip

    async def _watch(self) -> None:
        """Keep the metrics of lag and flow control."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            paused = any(lane.flow.paused or lane.comparing for lane in self._lanes)
            open_pages = sum(lane.flow.open_pages for lane in self._lanes)
            self._metrics.observe_gauge(open_pages, paused=paused)
            consumer = self.app.chunks
            assigned = consumer.assignment() if self.joined else set()
            self._warn_of_silence({self._names.shard_of(tp.partition) for tp in assigned})
            for tp in assigned:
                lag = (consumer.highwater(tp) or 0) - (consumer.committed(tp) or 0)
                self._metrics.observe_lag(tp.partition, max(0, lag))
            partitions = {tp.partition for tp in assigned}
            self._metrics.forget(self._partitions - partitions)
            self._partitions = partitions

    def _warn_of_silence(self, shards: Collection[int]) -> None:
        """Name each of these shards that holds up pages and is not heard of, once until it is."""
        for lane in self._lanes:
            is_silent = time.monotonic() - lane.flow.heard > SILENT_SECONDS
            waits = lane.shard in shards and (lane.flow.paused or lane.comparing is not None)
            lane.is_silent &= is_silent
            if waits and is_silent and not lane.is_silent:
                lane.is_silent = True
                _log.warning(
                    "shard_silent", shard=lane.shard,
                    reason=f"Pages wait for shard {lane.shard}, of which nothing was heard for "
                    f"{SILENT_SECONDS:.0f} seconds. See that the worker runs that owns it.",
                )  # fmt: skip

    async def _next(self, lane: _Lane) -> tuple[list[Any], list[Signed]]:
        """Return the oldest chunk when it is signed, with those after it that are signed too."""
        events, signed, size = list[Any](), list[Signed](), 0
        while not signed or (size < BATCH_BYTES and not lane.ahead.is_empty):
            event, one = await lane.ahead.pop()
            events.append(event)
            signed.append(one)
            size += sum(map(len, one.records))
        return events, signed

    async def _publish_dead_letters(self, signed: Signed) -> None:
        if not signed.dead:
            return
        names, bytes_max = self._names, self._prepared.dead_letter_bytes_max
        letters = (
            dead_letter_message(rejected, original, names, bytes_max)
            for rejected, original in signed.dead
        )
        # In a thread: what is large is compressed.
        batches = await asyncio.to_thread(self._publisher.batches, letters, bytes_max)
        place = signed.partition % self._prepared.dead_letter_partitions
        await self._publisher.publish(names.dead_letters, place, batches)
