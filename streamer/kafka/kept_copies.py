"""Kept pages as messages: a copy of each page that was judged unique, in a topic of its own.

A group of consumers follows the verdicts (`--kept-topic`). For each `unique` one, a member fetches
the page's message and publishes it with the same key, value, headers and timestamp, in the order of
the verdicts. One transaction holds the copies of a batch of verdicts and the offset after it. So a
reader with isolation level read_committed gets each page once, whatever is killed.

**Fencing.** Each partition of verdicts has a transactional id of its own. Whoever is assigned the
partition starts a producer with that id, which ends or fences the one before, and only then asks
for the committed offset. A member that lost the partition cannot commit any more. (Fencing by the
group's generation, KIP-447, would save producers; aiokafka cannot send it.)

**Repeated verdicts.** An owner that was restarted repeats verdicts with their numbers. By shard,
the number of the next verdict is committed with the offset (kept_topic.py).

**Failures.** What another member or an outage has caused ends the session: the next one asks again
where it is. What lasts ends the worker. It all runs in a thread with an event loop of its own,
since compressing and copying would delay verdicts.
"""

# Owners never see messages, so a consumer of verdicts copies. Offsets are requested with
# `require_stable`, or a transaction that has just ended might not show. A copy of a 4 kB page takes
# 60 us of CPU, so it runs in a thread of its own. Without offsets, a start refuses if there are
# copies: they have no other place to stand.

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka import errors as kafka_errors
from aiokafka.structs import OffsetAndMetadata

from streamer.errors import StoreMismatch, StreamerError
from streamer.kafka import kept_topic
from streamer.kafka.dead_letters import INDEX
from streamer.kafka.page_fetcher import PageFetcher
from streamer.kafka.publisher import Message, send_batches
from streamer.kafka.reader import Options, Reader, fetch_all, open_reader, share_of, stop_consumer
from streamer.kafka.tasks import Fail, fail_on_error
from streamer.metrics import CopyMetrics
from streamer.model import Decision, Location

PAGE = "streamer.page"  # header of a copy: TOPIC/PARTITION@OFFSET of the page
ROUND_SECONDS = 0.5  # from one transaction of a partition to the next: each costs requests
VERDICTS_MAX = 4000  # of a round
TRANSACTION_BYTES = 16 << 20  # of copies, after which a transaction ends,
TRANSACTION_SECONDS = 10.0  # or so much time: the brokers end it after a minute
FETCHED_BYTES_MAX = 16 << 20  # of pages, of all partitions
RESTART_SECONDS = 1.0

_PASSING = (  # what the next session need not meet
    kafka_errors.IllegalStateError,
    kafka_errors.InvalidProducerIdMapping,
    kafka_errors.InvalidTxnState,
    kafka_errors.KafkaTimeoutError,
    kafka_errors.OffsetOutOfRangeError,
    kafka_errors.OutOfOrderSequenceNumber,
    kafka_errors.ProducerFenced,
)
_log = structlog.get_logger()


class _KeptOrNot(msgspec.Struct):
    """What counts of a verdict here."""

    page: Location
    verdict: Decision


_decode = msgspec.json.Decoder(_KeptOrNot).decode


@dataclass
class KeptThread:
    """Copies kept pages in a thread of its own; `fail` ends the process."""

    _client: Options
    _topic: kept_topic.KeptTopic
    _metrics: CopyMetrics
    _fail: Fail

    def __post_init__(self) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kept-topic", daemon=True)
        self._thread.start()

    async def leave(self) -> None:
        """Commit what was begun, and leave the group."""
        self._stopping.set()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        with fail_on_error(self._fail):
            asyncio.run(self._copy())

    async def _copy(self) -> None:
        while not self._stopping.is_set():
            if (error := await self._session()) is None:
                continue
            _raise_if_it_lasts(self._topic, error)
            _log.warning("kept_topic_restarting", topic=self._topic.name, reason=repr(error))
            await asyncio.to_thread(self._stopping.wait, RESTART_SECONDS)

    async def _session(self) -> kafka_errors.KafkaError | None:
        """Copy as a member of the group until it is time to stop; return what has ended it else."""
        async with AsyncExitStack() as stack:
            member = _Member(self._client, self._topic, self._metrics)
            try:
                await member.connect(stack)
            except StreamerError as error:
                if not isinstance(error.__cause__, kafka_errors.KafkaError):
                    raise
                return error.__cause__  # maybe of an outage: this worker has reached the brokers
            try:
                await member.join(stack)
                while not self._stopping.is_set():
                    await member.copy_round(self._stopping)
            except kafka_errors.KafkaError as error:
                return error
        return None


def _raise_if_it_lasts(topic: kept_topic.KeptTopic, error: kafka_errors.KafkaError) -> None:
    """Raise what the next session would meet, too, with what to do."""
    found = next((each for each in (error, error.__cause__) if isinstance(each, _PASSING)), error)
    if isinstance(found, _PASSING) or found.retriable:
        return
    remedy = "Check the rights of this user (docs/kafka.md) and the settings of the topic."
    if isinstance(found, kafka_errors.MessageSizeTooLargeError):
        remedy = f"Raise max.message.bytes of {topic.name}."
    raise StreamerError(f"Cannot copy kept pages to {topic.name}: {found!r}. {remedy}") from error


class _Member(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """A member of the group: it has partitions of verdicts, and copies their pages."""

    def __init__(self, client: Options, topic: kept_topic.KeptTopic, metrics: CopyMetrics) -> None:
        self._client, self._topic, self._metrics = client, topic, metrics
        self._round_lock = asyncio.Lock()  # held during a round: a rebalance waits for its end
        self._assigned: set[int] | None = None  # assigned, and not begun
        self._generation = 0
        self._copiers: dict[int, _Copier] = {}
        self._verdicts = AIOKafkaConsumer(
            **client,
            group_id=topic.names.kept_group,
            group_instance_id=topic.instance_id,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )

    async def connect(self, stack: AsyncExitStack) -> None:
        """Connect for reading pages; `stack` disconnects.

        Raises:
            StreamerError: the brokers cannot be reached, or refuse.
        """
        share = share_of(FETCHED_BYTES_MAX, self._topic.partitions)
        self._reader = await stack.enter_async_context(open_reader(self._client, share))
        self._fetcher = PageFetcher(self._reader.consumer, self._topic.names.pages)

    async def join(self, stack: AsyncExitStack) -> None:
        """Join the group; `stack` leaves it.

        Raises:
            KafkaError: the brokers refuse.
        """
        self._pages = await self._reader.partitions(self._topic.names.pages)
        stack.push_async_callback(self._stop_producers)
        stack.push_async_callback(stop_consumer, self._verdicts)
        await self._verdicts.start()
        self._verdicts.subscribe([self._topic.names.verdicts], listener=self)

    async def on_partitions_revoked(self, _revoked: object) -> None:
        """Let the transactions at hand end; begin no others."""
        async with self._round_lock:
            self._generation += 1
            self._assigned = None
            await self._stop_producers()

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Have the next round begin with these partitions."""
        self._generation += 1
        self._assigned = {place.partition for place in assigned}

    async def copy_round(self, stopping: threading.Event) -> None:
        """Copy the pages of the verdicts that have arrived.

        Raises:
            KafkaError: this session is over.
            StreamerError: the copying cannot continue.
        """
        began, generation, verdicts = time.monotonic(), self._generation, self._topic.names.verdicts
        starts = {TopicPartition(verdicts, n): each.position for n, each in self._copiers.items()}
        found = await fetch_all(self._verdicts, starts, VERDICTS_MAX)
        async with self._round_lock:
            if self._assigned is not None:
                await self._begin()
            elif found and generation == self._generation:
                await _gather(
                    self._copiers[place.partition].copy(records, self._reader)
                    for place, records in found.items()
                )
                self._fetcher.pause()
            for partition, copier in self._copiers.items():
                end = self._verdicts.highwater(TopicPartition(verdicts, partition))
                if end is not None:
                    self._metrics.lag.labels(partition).set(max(0, end - copier.position))
        if 0 < sum(map(len, found.values())) < VERDICTS_MAX:
            await asyncio.to_thread(stopping.wait, began + ROUND_SECONDS - time.monotonic())

    async def _begin(self) -> None:
        """Fence whoever had these partitions, and find out where to continue."""
        assigned, self._assigned = self._assigned or set(), None
        topic = self._topic
        await self._stop_producers()
        own = self._fetcher, self._metrics
        self._copiers = {n: _Copier(self._client, topic, n, *own) for n in sorted(assigned)}
        await _gather(copier.producer.start() for copier in self._copiers.values())
        verdicts, committed = topic.names.verdicts, await self._read_committed()
        index = topic.names.index
        if not committed and await kept_topic.has_copies(self._reader, topic.name, index):
            committed = await self._read_committed()  # another member may have begun meanwhile
            if not committed:
                group = topic.names.kept_group
                raise StoreMismatch(
                    f"The topic {topic.name} has copies of this index, and the group {group} has "
                    "no offsets any more: brokers forget them a week after the last member left "
                    "(offsets.retention.minutes). Name a new --kept-topic to copy from the first "
                    f"verdict on, or set the group's offsets in {verdicts} (kafka-consumer-groups "
                    "--reset-offsets)."
                )
        self._fetcher.assign(self._pages)
        for partition, copier in self._copiers.items():
            bounds = await self._reader.bounds(verdicts, partition)
            offset = copier.begin(committed.get(partition), bounds)
            self._verdicts.seek(TopicPartition(verdicts, partition), offset)
            async with copier.producer.transaction():  # else what is left out would seem to lag
                await copier.send_position()
            _log.info("kept_topic_assigned", topic=topic.name, partition=partition, position=offset)

    async def _read_committed(self) -> dict[int, tuple[int, str]]:
        """Return where the group is in all partitions of verdicts."""
        names = self._topic.names
        return await kept_topic.stable_offsets(self._reader, names.kept_group, names.verdicts)

    async def _stop_producers(self) -> None:
        copiers, self._copiers = self._copiers, {}
        for partition in copiers:
            with suppress(KeyError):
                self._metrics.lag.remove(partition)
        stops = (copier.producer.stop() for copier in copiers.values())
        await asyncio.gather(*stops, return_exceptions=True)


@dataclass
class _Copier:
    """Copies the pages that the verdicts of one partition name; `progress` is how far it is."""

    _client: Options
    _topic: kept_topic.KeptTopic
    _partition: int
    _fetcher: PageFetcher
    _metrics: CopyMetrics
    position: int = 0

    def __post_init__(self) -> None:
        names = self._topic.names
        self._place = TopicPartition(names.verdicts, self._partition)
        self._progress = kept_topic.CopyProgress(*self._topic.ids)
        own = f"{names.kept_group}.{self._partition}"
        self.producer = AIOKafkaProducer(**self._client, transactional_id=own)

    def begin(self, committed: tuple[int, str] | None, bounds: tuple[int, int]) -> int:
        """Return the offset to continue from: the committed one, or the first of `bounds`.

        Raises:
            StoreMismatch: the verdicts after it are others, or not there any more.
        """
        start, end = bounds
        self.position = start
        if committed is None:
            return start
        self.position, text = committed
        if (found := kept_topic.decode_progress(text)) is not None:
            self._progress = found
            if (found.verdicts, found.log) != self._topic.ids or self.position > end:
                names = self._topic.names
                raise StoreMismatch(
                    f"The group {names.kept_group} has copied from other verdicts than "
                    f"{names.verdicts} has: that topic, or the log {names.log(0)}, was deleted and "
                    "made again. Use another --index-name; or delete the group and name a new "
                    "--kept-topic."
                )
        self._go_on_at(start)
        return self.position

    async def copy(self, records: Sequence[Any], reader: Reader) -> None:
        """Copy what is new in messages with verdicts, a transaction after the other.

        Raises:
            StoreMismatch: a page or a verdict is there no longer, and may not be left out.
            KafkaError: the brokers refuse; what was not committed is copied again.
        """
        first = records[0].offset
        if first > self.position:  # the client skips expired messages, as over other gaps
            start, _ = await reader.bounds(*self._place)
            self._go_on_at(min(start, first))
        rest = deque(records)
        while rest:
            copies, size = defaultdict[int, list[Message]](list), 0
            async with self.producer.transaction():
                end = time.monotonic() + TRANSACTION_SECONDS
                while rest and size < TRANSACTION_BYTES and time.monotonic() < end:
                    self.position = rest[0].offset + 1
                    if page := await self._kept_page(rest.popleft()):
                        copies[page.partition % self._topic.partitions].append(self._copy_of(page))
                        size += len(page.value or b"")
                limit, name = self._topic.bytes_max, self._topic.name
                sends = send_batches(self.producer, name, copies, limit, transactional=True)
                await _gather(await sends)
                await self.send_position()
            self._metrics.copied.inc(sum(map(len, copies.values())))

    async def send_position(self) -> None:
        """Have the transaction commit where this partition is."""
        offsets = {self._place: OffsetAndMetadata(self.position, self._progress.encode())}
        group = self._topic.names.kept_group
        await self.producer.send_offsets_to_transaction(offsets, group)

    async def _kept_page(self, record: Any) -> Any | None:  # noqa: ANN401 - the client's
        """Return the page that a message with a verdict says to copy, if it does."""
        is_new = self._progress.advance(record.headers)
        try:
            judged = _decode(record.value or b"")
        except msgspec.DecodeError:
            is_new = None
        if is_new is None:
            _log.warning(
                "not_a_verdict", topic=record.topic, partition=record.partition,
                offset=record.offset, reason="Another program wrote it.",
            )  # fmt: skip
        if not is_new or judged.verdict is not Decision.UNIQUE:
            return None
        page = judged.page
        original = await self._fetcher.at(page.partition, page.offset)
        if original is None:
            self._note_expired("pages", page.partition, page.offset, page.offset + 1)
        return original

    def _copy_of(self, page: Any) -> Message:  # noqa: ANN401 - as above
        place = f"{page.topic}/{page.partition}@{page.offset}"
        ours = (INDEX, self._topic.names.index.encode()), (PAGE, place.encode())
        return page.key, page.value, [*page.headers, *ours], page.timestamp

    def _go_on_at(self, start: int) -> None:
        """Skip the verdicts before `start`, if any are left: they have expired."""
        if self.position < start:
            self._note_expired("verdicts", self._partition, self.position, start)
            self.position = start

    def _note_expired(self, what: str, partition: int, start: int, end: int) -> None:
        """Count what has expired uncopied; raise StoreMismatch unless it may be left out."""
        where = self._topic.names.pages if what == "pages" else self._topic.names.verdicts
        if not self._topic.skips_expired:
            raise StoreMismatch(
                f"The topic {where} has lost {what} that were not copied to {self._topic.name} "
                f"yet: partition {partition}, offsets {start} to {end - 1}. Raise its retention; "
                "--kept-expired skip continues without what is lost."
            )
        if what == "pages":
            self._metrics.expired.inc()
        _log.warning(f"kept_{what}_expired", topic=where, partition=partition, start=start, end=end)


async def _gather(work: Iterable[Awaitable[Any]]) -> None:
    """Wait until all of it has ended; raise the first error."""
    for ended in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(ended, BaseException):
            raise ended
