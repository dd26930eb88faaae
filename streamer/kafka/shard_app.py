"""The owner of a shard in Kafka: a Faust agent over the one partition of the shard's log.

One thread reads chunks of records ahead, another applies them in order. checkpoint.py has the order
in which what they emit is published, acknowledged and flushed. Where the store is behind the
group's committed offset, the records between are folded first, outside Faust: what they emit was
published before.
"""

# Folding outside Faust, a rebuild runs at four times the live rate (five to six with a short log),
# and at three times through Faust.

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from faust.types import TP

from streamer.errors import StoreMismatch
from streamer.index.messages import CONFIG, IndexSettings, config_record
from streamer.kafka.checkpoint import Checkpoint, Packed
from streamer.kafka.faust_chunks import ChunkApp, ChunkConsumer, ChunkSchema, Start
from streamer.kafka.gauge import ANSWER, GAUGE, REPEAT_SECONDS, Answer, Gauge, pack
from streamer.kafka.owner import Emitted, Owner, ReadRecord, verdict_messages
from streamer.kafka.publisher import Publisher
from streamer.kafka.reader import Fetched, open_reader
from streamer.kafka.role_metrics import ShardMetrics
from streamer.kafka.tasks import Fail, begin_task, fail_on_error
from streamer.kafka.topics import Names
from streamer.kafka.wire import LogBounds, pack_record
from streamer.metrics import Stage
from streamer.model import split_ref
from streamer.run.stages import Ahead

RECORDS_AHEAD = 8  # of a log that is folded silently, fetched and not yet applied
CHUNKS_AHEAD = 3  # of the log, read and not yet applied
WATCH_SECONDS = 0.1
SHARED_SECONDS = 10.0  # between two looks for hosts whose pages share one text

_log = structlog.get_logger()


@dataclass(slots=True)
class CatchUp:
    """Folds the part of a log whose outputs are out already: all below the committed offset.

    Nothing is published, acknowledged or committed here, so nothing of Faust is needed, whose hop
    would take most of the time: a consumer in a thread of its own fetches, another thread applies.
    (A third that reads ahead makes it slower: they wait for each other's hold on the interpreter.)
    A rebuild of a lost index is this and no more. `client_options` are what every client takes.
    """

    client_options: Mapping[str, Any]
    log: str
    owner: Owner
    metrics: ShardMetrics
    _stopping: bool = False

    def stop(self) -> None:
        """Let `fold` return after the chunks at hand; from any thread."""
        self._stopping = True

    def fold(self, start: int, end: int) -> None:
        """Apply the log at [start, end), silently; flush when it is due. Blocks until it is done.

        Raises:
            StoreMismatch: a record is of another version, or not of this index.
            StoreUnavailable: the disk refuses.
            StreamerError: the brokers are away, or the log is not there any more.
        """
        asyncio.run(self._fold(start, end))

    async def _fold(self, start: int, end: int) -> None:
        async with open_reader(self.client_options) as reader:
            with ThreadPoolExecutor(1, "catch-up") as judge:
                ahead: Ahead[Fetched, None] = Ahead(
                    lambda each: judge.submit(self._apply, each), RECORDS_AHEAD
                )
                async for chunk in reader.read(self.log, 0, start, end):
                    if ahead.is_full:
                        await ahead.pop()
                    await ahead.put(chunk)
                    if self._stopping:
                        break
                while not ahead.is_empty:
                    await ahead.pop()

    def _apply(self, chunk: Fetched) -> None:
        owner = self.owner
        read = owner.read(chunk)
        with self.metrics.stage(Stage.APPLY):
            owner.fold(chunk, read)
        self.metrics.observe_state()
        if owner.flush_is_due:
            state = owner.state()
            owner.begin_flush(lambda: state)


class ShardProgress:
    """How far a shard is in its log, the partition `log`: what is out, and what is left.

    It has caught up when the log is folded up to the end that it had at the assignment.

    Attributes:
        committed: below it all that the log's records lead to is out.
    """

    def __init__(self, owner: Owner, log: TP, metrics: ShardMetrics) -> None:
        self._owner, self._partition, self._metrics = owner, log, metrics
        self.committed = 0
        self._end = 0  # of the log, as last heard
        self._target: int | None = None  # the log's end when the shard was assigned
        self._assigned_at: tuple[int, float] | None = None  # the position then, and when
        self._holes: set[str] = set()  # that were warned of
        self._wrong_dates = owner.shard.time.wrong  # as above

    @property
    def is_assigned(self) -> bool:
        """Return whether the shard has been assigned here since the start."""
        return self._target is not None

    @property
    def caught_up(self) -> bool:
        """Return whether the log is folded up to the end that it had at the assignment."""
        return self._target is not None and self._owner.offset >= self._target

    def note_assigned(self, position: int, committed: int, end: int) -> None:
        """Take an assignment: the index is at `position`, the log ends at `end`."""
        self.committed = max(self.committed, committed)
        self._target = end
        self._assigned_at = position, time.monotonic()
        _log.info(
            "shard_assigned", shard=self._owner.number, position=position, committed=committed,
            end=end,
        )  # fmt: skip

    def observe(self, chunks: ChunkConsumer) -> None:
        """Set the metrics of the log; log once that the shard has caught up, and what is wrong."""
        if self._partition in chunks.assignment():
            self._end = chunks.highwater(self._partition) or self._end
        self._metrics.observe_log(self._owner.offset, self._end, chunks.committed(self._partition))
        log, dates = _log.bind(shard=self._owner.number), self._owner.shard.time
        if self._assigned_at is not None and self.caught_up:
            (position, began), self._assigned_at = self._assigned_at, None
            log.info(
                "shard_caught_up",
                position=self._owner.offset,
                records=self._owner.offset - position,
                seconds=round(time.monotonic() - began, 3),
            )
        holes = {*self._owner.holes()}
        for hole in sorted(holes - self._holes):
            log.warning("records_missing", reason=hole)
        self._holes = holes
        if more := dates.wrong - self._wrong_dates:
            self._wrong_dates = dates.wrong
            partition, offset = split_ref(dates.last_wrong)
            log.warning("wrong_dates", pages=more, partition=partition, offset=offset)


@dataclass(eq=False)  # Faust hashes what it calls
class ShardApp:
    """Consumes the log of one shard; `fail` ends the process."""

    owner: Owner
    _names: Names
    _publisher: Publisher
    _verdict_partitions: int
    _catch_up: CatchUp
    _settings: IndexSettings
    _metrics: ShardMetrics
    _fail: Fail
    _options: Mapping[str, Any]

    def __post_init__(self) -> None:
        owner, names, metrics, fail = self.owner, self._names, self._metrics, self._fail
        self._judge = ThreadPoolExecutor(1, f"shard-{owner.number}")
        self._readers = ThreadPoolExecutor(1, f"read-{owner.number}")
        self._ahead: Ahead[Any, list[ReadRecord]] = Ahead(
            lambda each: self._readers.submit(owner.read, each.value), CHUNKS_AHEAD
        )
        publishing = owner, self._publisher, names.verdicts
        self._checkpoint = Checkpoint(*publishing, self._judge, metrics, fail)
        self._applying = asyncio.Lock()
        self._log = TP(names.log(owner.number), 0)
        self.progress = ShardProgress(owner, self._log, metrics)
        self._configured = False
        self._shared_logged, self._shared_looked_at = set[str](), 0.0
        self._gauge = self._new_gauge()
        self._gauge_sent: Gauge | None = None
        self._gauge_sent_at = 0.0
        self._tasks: list[asyncio.Task[None]] = []
        self._catching_up: asyncio.Task[None] | None = None
        self._stopping = self._all_published = False
        self.app = ChunkApp(names.shard_group(owner.number), self._starts, fail, **self._options)
        topic = self.app.topic(names.log(owner.number), schema=ChunkSchema())
        self.app.agent(topic, concurrency=1)(self.index)

    async def start(self) -> None:
        """Join the group."""
        work = self._apply(), self._watch(), self._tell_gauge()
        self._tasks = [begin_task(each, self._fail) for each in work]
        self.app.finalize()
        await self.app.start()

    async def leave(self) -> None:
        """Finish what was taken, commit, and leave the group."""
        self._stopping = True
        self._catch_up.stop()
        if self._catching_up:
            await self._catching_up
        await self.app.stop()
        async with self._applying:  # no chunk is being applied, and none will be
            for task in self._tasks:
                task.cancel()
            self._all_published = await self._checkpoint.has_arrived()

    async def close(self) -> None:
        """Flush, and release the index, once `leave` has ended; all of it in the judge's thread.

        What was not published is not flushed: its verdicts would be missing for ever.
        """
        # Also a flush that has begun waits for what is published by this loop.
        await asyncio.get_running_loop().run_in_executor(self._judge, self._close)
        self._judge.shutdown()

    def _close(self) -> None:
        self._readers.shutdown()
        if self.owner.changed and self._all_published:
            self.owner.flush(self.owner.state())
        else:
            self.owner.finish()
        self.owner.close()

    # ---- the log ---------------------------------------------------------------------------------

    async def _starts(self, committed: Mapping[TP, int]) -> Mapping[TP, Start]:
        """Begin where the store is, or at the committed offset once all before it is folded.

        The store must fit the log.
        """
        starts: dict[TP, Start] = {}
        for tp, offset in committed.items():
            first = (await self.app.chunks.earliest_offsets(tp))[tp]
            end = (await self.app.chunks.highwaters(tp))[tp]
            if offset > end:
                self._fail(
                    StoreMismatch(
                        f"The log {tp.topic} ends at {end}, its group has committed more: it has "
                        "lost records or was made again. Restore it, or use another --index-name."
                    )
                )
                continue
            try:
                self.owner.check(LogBounds(first, end, None))
            except StoreMismatch as error:
                self._fail(error)
                continue
            position = self.owner.offset
            self.progress.note_assigned(position, offset, end)
            begin = max(position, offset)
            starts[tp] = Start(begin, begin, self.owner.stored_offset)
            if position < offset:
                self.app.chunks.hold([self._log])
                if self._catching_up is None or self._catching_up.done():
                    self._catching_up = begin_task(self._fold_what_is_out(), self._fail)
        return starts

    async def _fold_what_is_out(self) -> None:
        """Bring the index to the committed offset; nothing is delivered before."""
        async with self._applying:
            await self._checkpoint.has_arrived()
            # The committed offset may grow meanwhile: another owner for a time, then us again.
            while (start := self.owner.offset) < self.progress.committed:
                if self._stopping:
                    break
                await asyncio.to_thread(self._catch_up.fold, start, self.progress.committed)
            self._gauge = self._new_gauge()
        if not self._stopping:
            self.app.chunks.release([self._log])

    async def index(self, stream: Any) -> None:  # noqa: ANN401 - Faust's stream
        """Take chunks as they come, and have them read ahead."""
        with fail_on_error(self._fail):
            async for event in stream.noack().events():
                await self._ahead.put(event)

    async def _apply(self) -> None:
        """Apply chunks in order; publish and acknowledge them; flush when it is due."""
        loop = asyncio.get_running_loop()
        while True:
            event, read = await self._ahead.pop()
            async with self._applying:
                packed = await loop.run_in_executor(
                    self._judge, self._fold, event.value, read, self.progress.committed
                )
                self._gauge = self._new_gauge()
                await self._checkpoint.commit(packed, partial(self.app.chunks.ack, event.message))
                if self.owner.flush_is_due:
                    await self._checkpoint.flush()

    def _fold(self, chunk: Fetched, read: Sequence[ReadRecord], committed: int) -> Packed:
        """Apply a chunk; pack what it emits, except for records below `committed`: that is out."""
        with self._metrics.stage(Stage.APPLY):
            new = [each for each in self.owner.fold(chunk, read) if each[0].offset >= committed]
            packed = self._pack(new)
        self._metrics.observe_state()
        return packed

    def _pack(self, emitted: Iterable[Emitted]) -> Packed:
        messages, owner = defaultdict[int, list[Any]](list), self.owner
        packed = Packed({}, [], [])
        for message, output in emitted:
            if output is None:
                continue
            packed.verdicts.append(output.verdicts)
            packed.timestamps.append(message.timestamp)
            by_partition = verdict_messages(
                output.verdicts, owner.number, output.start, self._names.pages, owner.fingerprint,
                self._verdict_partitions,
            )  # fmt: skip
            for partition, found in by_partition.items():
                messages[partition] += found
        packed.batches = {n: self._publisher.batches(found) for n, found in messages.items()}
        return packed

    def _new_gauge(self) -> Gauge:
        return Gauge(self.owner.offset, dict(self.owner.shard.positions), self.owner.log_id)

    # ---- beyond the log --------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Put settings into the log, and flush an idle shard when it is due."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if not self.progress.is_assigned:
                continue  # not assigned yet: nothing to publish, and no consumer to ask
            self.progress.observe(self.app.chunks)
            if self.progress.caught_up and not self._configured:
                await self._configure()
            if self.owner.flush_is_due and not self._applying.locked():
                async with self._applying:
                    await self._checkpoint.flush()
            self._warn_of_shared_texts()
            await self._answer()

    def _warn_of_shared_texts(self) -> None:
        """Name each host of which many pages share one text of a few words, once."""
        if time.monotonic() < self._shared_looked_at + SHARED_SECONDS:
            return
        self._shared_looked_at = time.monotonic()
        for each in self._checkpoint.shared.found():
            if each.host not in self._shared_logged:
                self._shared_logged.add(each.host)
                _log.warning("texts_shared", shard=self.owner.number, reason=str(each))

    async def _answer(self) -> None:
        """Answer the commands that have asked what is forgotten, until that has arrived."""
        if self.owner.sweep_has_ended and not self._applying.locked():
            async with self._applying:
                await asyncio.get_running_loop().run_in_executor(self._judge, self.owner.finish)
        done, number = self.owner.shard.forgetting.done, self.owner.number
        for ask, pages in done.copy().items():
            answer = pack(Answer(ask, number, pages))
            if await self._publisher.notify(self._names.gauge, answer, b"%s%d" % (ANSWER, number)):
                done.pop(ask)
                _log.info("forgotten", shard=number, pages=pages, command=ask)

    async def _tell_gauge(self) -> None:
        """Publish the gauge as the owner: when it has changed, and again before it is forgotten."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            due = time.monotonic() - self._gauge_sent_at >= REPEAT_SECONDS
            # What one says that has lost the shard is out of date.
            is_own = self.progress.is_assigned and self._log in self.app.chunks.assignment()
            if not is_own or (self._gauge == self._gauge_sent and not due):
                continue
            gauge, key = self._gauge, b"%s%d" % (GAUGE, self.owner.number)
            if await self._publisher.notify(self._names.gauge, pack(gauge), key):
                self._gauge_sent, self._gauge_sent_at = gauge, time.monotonic()

    async def _configure(self) -> None:
        """Put a CONFIG record into the log if these settings are not in force."""
        self._configured = True
        shard = self.owner.shard
        if shard.settings == self._settings:
            return
        if shard.settings is not None:
            before, now = shard.settings.model_dump(), self._settings.model_dump()
            changes = {n: f"{before[n]} -> {now[n]}" for n in now if before[n] != now[n]}
            _log.info("settings_changed", shard=self.owner.number, **changes)
        record = config_record(self._settings, shard.positions.get(CONFIG, 0))
        packed = pack_record(record, self.owner.identity)
        await self._publisher.publish_one(self._names.log(self.owner.number), packed)
