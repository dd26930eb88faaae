"""The order in which what a chunk of the log leads to becomes lasting, and what a crash leaves.

The judge has applied a chunk in memory. From there on:

1. `commit` sends its verdicts, in the order of the log. After a crash here the next owner applies
   the chunk again, from where the store is, and sends the same verdicts with the same numbers.
2. Once the brokers have all of them, the chunk is acknowledged, and Faust commits the offset after
   it. After a crash here the chunk is applied again, and nothing of it is sent: all below the
   committed offset is out.
3. `flush` takes the state as it is now. It is written once all that was sent before it has arrived:
   a store that knew more than was sent would hide the difference for ever. After a crash here the
   store is as of the flush before.
4. The store's offset is at the flush. What comes after it in the log is applied again by the next
   start; a snapshot of the flush is taken meanwhile, and a crash leaves an older one.

So a store is never ahead of what is published, and a committed offset never ahead of it either.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamer.errors import StreamerError
from streamer.index.messages import Verdicts
from streamer.kafka.owner import Owner
from streamer.kafka.publisher import Publisher
from streamer.kafka.role_metrics import ShardMetrics
from streamer.kafka.tasks import Fail, fail_on_error
from streamer.metrics import Stage
from streamer.run.totals import SharedTexts

CHUNKS_BEHIND = 4  # applied, and not all of it published yet


@dataclass(slots=True)
class Packed:
    """What a chunk has led to: batches by partition, and what to count once they are out.

    `timestamps` are those of the oldest page of each block of verdicts, in milliseconds.
    """

    batches: dict[int, list[Any]]
    verdicts: list[Verdicts]
    timestamps: list[int]


@dataclass
class Checkpoint:
    """Publishes what an owner's chunks lead to, to `topic`, and flushes; `fail` ends the process.

    Attributes:
        shared: the texts that many of the published verdicts share.
    """

    _owner: Owner
    _publisher: Publisher
    _topic: str
    _judge: Executor
    _metrics: ShardMetrics
    _fail: Fail
    _sent: deque[asyncio.Task[bool]] = field(default_factory=deque)
    shared: SharedTexts = field(default_factory=SharedTexts)

    async def commit(self, packed: Packed, acknowledge: Callable[[], Any]) -> None:
        """Send what a chunk has led to; `acknowledge` it once that has arrived. Steps 1 and 2."""
        # Each takes its place in the queue of its partition now, in this order.
        sends = [
            asyncio.ensure_future(self._publisher.publish(self._topic, partition, batches))
            for partition, batches in packed.batches.items()
        ]
        self._sent.append(asyncio.create_task(self._acknowledge(sends, packed, acknowledge)))
        while len(self._sent) > CHUNKS_BEHIND:
            await self._sent.popleft()

    async def _acknowledge(
        self, sends: Sequence[asyncio.Future[None]], packed: Packed, acknowledge: Callable[[], Any]
    ) -> bool:
        with fail_on_error(self._fail):
            with self._metrics.stage(Stage.PUBLISH_VERDICTS):
                await asyncio.gather(*sends)
            acknowledge()
            for block in packed.verdicts:
                self._metrics.count_verdicts(block)
                self.shared.add(block)
            stamps, pages = np.array(packed.timestamps), np.array(list(map(len, packed.verdicts)))
            self._metrics.count_latency(stamps, pages, time.time_ns() // 1_000_000)
            return True
        return False

    async def has_arrived(self) -> bool:
        """Wait until nothing is on its way; return whether all of it has arrived."""
        sent = [*self._sent]
        found = all([await each for each in sent])
        for each in sent:
            self._sent.remove(each)
        return found

    async def flush(self) -> None:
        """Have the state written as it is now, once all that was sent has arrived. Step 3."""
        loop, sent = asyncio.get_running_loop(), [*self._sent]

        async def arrived() -> None:
            if not all(await asyncio.gather(*sent)):
                raise StreamerError("Not all that a flush covers could be published.")

        def begin() -> None:
            state = self._owner.state()

            def owner_state() -> bytes:
                asyncio.run_coroutine_threadsafe(arrived(), loop).result()
                return state

            self._owner.begin_flush(owner_state)

        await loop.run_in_executor(self._judge, begin)
