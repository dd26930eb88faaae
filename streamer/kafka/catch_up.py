"""Folds the part of a shard's log whose outputs are out already: all below the committed offset.

Nothing is published, acknowledged or committed here, so nothing of Faust is needed, whose hop would
take most of the time: a consumer in a thread of its own fetches, another thread applies. (A third
that reads ahead makes it slower: they wait for each other's hold on the interpreter.) A rebuild of
a lost index is this and no more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from streamer.kafka.applying import Applier
from streamer.kafka.chunk import Chunk
from streamer.kafka.reader import open_reader

CHUNKS_AHEAD = 8  # fetched and not yet applied


class CatchUp:
    """Folds ranges of a log; `client_options` are what every client of the library takes."""

    def __init__(self, client_options: Mapping[str, Any], log: str, applier: Applier) -> None:
        self._client_options = client_options
        self._log = log
        self._applier = applier
        self._stopping = False

    def stop(self) -> None:
        """Let `fold` return after the chunks at hand; from any thread."""
        self._stopping = True

    def fold(self, start: int, end: int) -> None:
        """Apply the log at [start, end), silently; flush when it is due. Blocks until it is done.

        Raises:
            StoreMismatch: a record is of a later version, or not of this index.
            StoreUnavailable: the disk refuses.
            StreamerError: the brokers are away, or the log is not there any more.
        """
        asyncio.run(self._fold(start, end))

    async def _fold(self, start: int, end: int) -> None:
        loop = asyncio.get_running_loop()
        applied: deque[asyncio.Future[None]] = deque()
        async with open_reader(self._client_options) as reader:
            with ThreadPoolExecutor(1, "catch-up") as judge:
                async for chunk in reader.read(self._log, 0, start, end):
                    applied.append(loop.run_in_executor(judge, self._apply, chunk, end))
                    while len(applied) >= CHUNKS_AHEAD:
                        await applied.popleft()
                    if self._stopping:
                        break
                await asyncio.gather(*applied)

    def _apply(self, chunk: Chunk, end: int) -> None:
        self._applier.apply(self._applier.read(chunk), end)
        owner = self._applier.owner
        if owner.flush_is_due:
            owner.begin_flush(lambda: None)
