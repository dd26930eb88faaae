"""The signers: a Faust agent over the pages' partitions, shared by all workers of the group.

Several threads sign chunks ahead in native code. Results are published in the order of the chunks:
dead letters first, so that a verdict beats one, then the log record, then the acknowledgement.
While too much is open in the index, no chunk is taken.
"""

# If shard 0's log was lost or recreated, pages below the committed offset would never be judged. So
# after each assignment a signer waits until shard 0 has applied that log up to its end. A lower
# position wins, and is committed.

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import structlog
from faust.types import TP

from streamer.errors import StoreMismatch
from streamer.index.messages import source_name
from streamer.kafka.dead_letters import dead_letter_message
from streamer.kafka.faust_chunks import ChunkApp, ChunkSchema, Start, ending_by
from streamer.kafka.gauge import FlowControl
from streamer.kafka.monitoring import SignMetrics
from streamer.kafka.publisher import BATCH_BYTES, Message, Publisher
from streamer.kafka.signing import ChunkSigner, Signed
from streamer.kafka.sites_topic import SharedSites
from streamer.kafka.topics import Names
from streamer.metrics import Stage
from streamer.run.stages import CHUNKS_AHEAD, Ahead, signing_pool

WATCH_SECONDS = 0.5
MISSING_AFTER_PAGES = 1000  # a carried field that none of so many pages has is warned of

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SignOptions:
    """What signers need to know of the dead letters' topic and of this process.

    `accept_loss` is as the setting of that name, `sites` what is known of sites, if anything is.
    """

    dead_letter_partitions: int
    dead_letter_bytes_max: int
    threads: int
    accept_loss: bool = False
    sites: SharedSites | None = None


class SignApp:
    """Consumes pages; `fail` ends the process."""

    def __init__(
        self,
        names: Names,
        signer: ChunkSigner,
        publisher: Publisher,
        flow: FlowControl,
        how: SignOptions,
        fail: Callable[[BaseException], None],
        options: Mapping[str, Any],
        metrics: SignMetrics,
    ) -> None:
        self._names = names
        self._signer = signer
        self._publisher = publisher
        self._flow = flow
        self._how = how
        self._fail = fail
        self._metrics = metrics
        self._pool = signing_pool(how.threads)
        self._ahead: Ahead[Any, Signed] = Ahead(self._begin, CHUNKS_AHEAD)
        self._tasks: list[asyncio.Task[None]] = []
        self._partitions: set[int] = set()
        self._pages = 0
        self._comparing: asyncio.Task[None] | None = None
        self._overruled: set[TP] = set()  # committed above what shard 0 has
        self.joined = False
        self.app = ChunkApp(names.sign_group, self._starts, fail, **options)
        self.app.on_rebalance_complete.connect(self._note_joined)
        self.app.agent(self.app.topic(names.pages, schema=ChunkSchema()), concurrency=1)(self.sign)

    async def start(self) -> None:
        """Join the group."""
        self._tasks = [asyncio.create_task(self._publish()), asyncio.create_task(self._watch())]
        self.app.finalize()
        await self.app.start()

    async def stop(self) -> None:
        """Finish what was taken, commit, and leave the group."""
        await self.app.stop()
        if self._how.sites:
            await self._how.sites.publish(self._publisher)
        for task in (*self._tasks, *([self._comparing] if self._comparing else [])):
            task.cancel()
        self._pool.shutdown()

    async def _starts(self, committed: Mapping[TP, int]) -> Mapping[TP, Start]:
        """Return where to begin: at what is committed, or what shard 0 has, or the beginning.

        Brokers forget what is committed when a group has been away for days: then shard 0 is heard
        first. To sign all again would change nothing, but the log would hold it for ever.
        """
        if not all(committed.values()):
            await self._flow.wait_for_first_word()
        log = TP(self._names.log(0), 0)
        log_end = (await self.app.chunks.highwaters(log))[log]
        first = await self.app.chunks.earliest_offsets(*committed)
        ends = await self.app.chunks.highwaters(*committed)
        ahead, self._overruled = self._overruled, set()
        starts: dict[TP, Start] = {}
        for tp, offset in committed.items():
            begin = self._position(tp) if tp in ahead else offset or self._position(tp)
            if begin > ends[tp]:
                self._fail(StoreMismatch(_ends_before(tp, begin, ends[tp])))
            if begin < first[tp]:
                if (begin or tp in ahead) and not self._how.accept_loss:
                    self._fail(StoreMismatch(_begins_after(tp, begin, first[tp])))
                _log.warning("pages_expired_unread", partition=tp.partition, offset=first[tp])
            starts[tp] = Start(max(begin, first[tp]), begin, begin)
        self._compare({tp: start.done for tp, start in starts.items()}, log_end)
        return starts

    def _position(self, tp: TP) -> int:
        """Return how far shard 0 is in a partition, as far as it has said so."""
        return self._flow.positions.get(source_name(tp.partition), 0)

    def _compare(self, begins: Mapping[TP, int], log_end: int) -> None:
        """Deliver nothing while a partition may begin above what is in shard 0's log.

        All below a committed offset is in the log, unless that was lost or made again: then pages
        between shard 0's position and the offset would never be judged.
        """
        self._comparing = None
        if all(begin <= self._position(tp) for tp, begin in begins.items()):
            self.app.chunks.release()
            return
        self.app.chunks.hold()
        self._comparing = asyncio.create_task(self._begin_at_shard_0(begins, log_end))

    async def _begin_at_shard_0(self, begins: Mapping[TP, int], log_end: int) -> None:
        """Begin where shard 0 stands, once it has applied its log up to `log_end`, if that is less.

        What was committed before the log ended there is in it.
        """
        with ending_by(self._fail):
            this = asyncio.current_task()
            while self._comparing is this and not self._flow.has_reached(log_end):
                await self._flow.wait_for_change()
            if self._comparing is not this:
                return  # there was another assignment
            self._overruled = {tp for tp, begin in begins.items() if begin > self._position(tp)}
            for tp in sorted(self._overruled):
                _log.warning(
                    "offset_ahead_of_index", partition=tp.partition, offset=begins[tp],
                    position=self._position(tp), reason="The log of shard 0 does not have what was "
                    "signed: it was lost or made again. The pages between are signed again.",
                )  # fmt: skip
            if self._overruled:
                await self.app.chunks.perform_seek()
            else:
                self._comparing = None
                self.app.chunks.release()

    async def _note_joined(self, *_arguments: object, **_options: object) -> None:
        self.joined = True  # also where there are more signers than partitions

    async def sign(self, stream: Any) -> None:  # noqa: ANN401 - Faust's stream
        """Take chunks as they come, while the index keeps up."""
        with ending_by(self._fail):
            async for event in stream.noack().events():
                await self._wait_for_index()
                await self._ahead.put(event)

    def _begin(self, event: Any) -> Future[Signed]:  # noqa: ANN401 - Faust's event
        if sites := self._how.sites:
            return sites.memory.submit(self._pool, self._sign, event)
        return self._pool.submit(self._sign, event)

    def _sign(self, event: Any, turn: int = 0) -> Signed:  # noqa: ANN401 - Faust's event
        with self._metrics.stage(Stage.PARSE_SIGN):
            return self._signer.sign(event.value, turn)

    async def _wait_for_index(self) -> None:
        """Wait while too much is open; not in a rebalance, which waits for this chunk."""
        while self._flow.paused and not (self.app.rebalancing or self.app.should_stop):
            await self._flow.wait_for_change()

    async def _publish(self) -> None:
        """Publish signed chunks in order, as many at once as are ready; acknowledge them."""
        with ending_by(self._fail):
            while True:
                events, signed = await self._next()
                with self._metrics.stage(Stage.PUBLISH_BANDS):
                    for one in signed:
                        await self._publish_dead_letters(one)
                    records: list[Message] = [
                        (None, record, [], one.timestamp)
                        for one in signed
                        for record in one.records
                    ]
                    batches = self._publisher.batches(records)
                    await self._publisher.publish(self._names.log(0), 0, batches)
                for event, one in zip(events, signed, strict=True):
                    if sites := self._how.sites:
                        sites.note_published(one.turn)
                    self._flow.note_published(source_name(one.partition), one.end, one.pages)
                    dead = Counter(rejected.code for rejected, _ in one.dead)
                    self._metrics.count_chunk(one.pages, dead, one.skipped)
                    self._warn_of_missing_fields(one.pages)
                    self._metrics.newest_dead |= {
                        rejected.code: f"{event.message.topic}/{event.message.partition}"
                        f"@{rejected.sequence}"
                        for rejected, _ in one.dead
                    }
                    self.app.chunks.ack(event.message)

    def _warn_of_missing_fields(self, pages: int) -> None:
        """Count published pages; with the first MISSING_AFTER_PAGES, warn of fields none had."""
        before, self._pages = self._pages, self._pages + pages
        if before < MISSING_AFTER_PAGES <= self._pages and (
            fields := self._signer.missing_fields()
        ):
            _log.warning(
                "carried_fields_missing", fields=fields, pages=self._pages,
                reason="No page had them until now, so no verdict carries them. Correct --carry, "
                "or leave them out.",
            )  # fmt: skip

    async def _watch(self) -> None:
        """Keep the metrics of lag and flow control."""
        with ending_by(self._fail):
            while True:
                await asyncio.sleep(WATCH_SECONDS)
                paused = self._flow.paused or self._comparing is not None
                self._metrics.observe_gauge(self._flow.open_pages, paused=paused)
                consumer = self.app.chunks
                assigned = consumer.assignment() if self.joined else set()
                for tp in assigned:
                    read = consumer.committed(tp) or 0
                    lag = max(0, (consumer.highwater(tp) or 0) - read)
                    self._metrics.observe_lag(tp.partition, lag)
                partitions = {tp.partition for tp in assigned}
                self._metrics.forget(self._partitions - partitions)
                self._partitions = partitions

    async def _next(self) -> tuple[list[Any], list[Signed]]:
        """Return the oldest chunk when it is signed, with those after it that are signed too."""
        events: list[Any] = []
        signed: list[Signed] = []
        size = 0
        while not signed or (size < BATCH_BYTES and not self._ahead.is_empty):
            event, one = await self._ahead.take()
            events.append(event)
            signed.append(one)
            size += sum(map(len, one.records))
        return events, signed

    async def _publish_dead_letters(self, signed: Signed) -> None:
        if not signed.dead:
            return
        names, partition = self._names, signed.partition
        bytes_max = self._how.dead_letter_bytes_max

        def pack() -> list[Any]:
            letters = (
                dead_letter_message(rejected, original, names, partition, bytes_max)
                for rejected, original in signed.dead
            )
            return self._publisher.batches(letters, bytes_max)

        batches = await asyncio.to_thread(pack)  # what is large is compressed
        place = partition % self._how.dead_letter_partitions
        await self._publisher.publish(names.dead_letters, place, batches)


def _ends_before(tp: TP, begin: int, end: int) -> str:
    return (
        f"Partition {tp.partition} of {tp.topic} ends at {end}, but {begin} was reached before: "
        "the topic has lost messages or was made again. Use another --index-name."
    )


def _begins_after(tp: TP, begin: int, first: int) -> str:
    return (
        f"Partition {tp.partition} of {tp.topic} begins at {first}, but {begin} was reached only: "
        f"{first - begin} messages have expired unread. Start with --accept-loss to go on without "
        "them, or use another --index-name."
    )
