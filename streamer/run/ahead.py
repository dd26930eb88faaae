"""Work in threads ahead of whoever takes it, in the order in which it was given.

There are two forms, since a replay pulls and a stream pushes. A replay has one thread that reads
and takes by turns: a generator. In a worker chunks come when they come, and what is done of them
must be taken though no other comes: a queue between two tasks, which also holds back the stream.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar

CHUNKS_AHEAD = 6  # of up to 8 MiB, signed: as many as come while a flush keeps the judging thread
SIGNING_NICENESS = 5

Item = TypeVar("Item")
Result = TypeVar("Result")


def signing_pool(threads: int) -> ThreadPoolExecutor:
    """Return threads that come after those for which all wait, where a core is short."""
    return ThreadPoolExecutor(threads, "sign", initializer=partial(os.nice, SIGNING_NICENESS))


class OneAThread(Generic[Item]):
    """Something of which each thread has its own, made when it is first asked for."""

    def __init__(self, make: Callable[[], Item]) -> None:
        self._make = make
        self._local = threading.local()

    def get(self) -> Item:
        """Return this thread's own."""
        if not hasattr(self._local, "own"):
            self._local.own = self._make()
        own: Item = self._local.own
        return own


def in_order(
    items: Iterable[Item], begin: Callable[[Item], Future[Result] | None], ahead: int
) -> Generator[tuple[Item, Future[Result] | None], None, None]:
    """Yield items, each with what `begin` returned for it when it was `ahead` items away.

    Where no more is asked for, what has not begun is cancelled.
    """
    waiting: deque[tuple[Item, Future[Result] | None]] = deque()
    try:
        for item in items:
            waiting.append((item, begin(item)))
            if len(waiting) > ahead:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        for _, future in waiting:
            if future:
                future.cancel()


class Ahead(Generic[Item, Result]):
    """Items on their way through `work` in the threads of `pool`; so many wait to be taken."""

    def __init__(self, work: Callable[[Item], Result], pool: Executor, ahead: int) -> None:
        self._work = work
        self._pool = pool
        self._waiting: asyncio.Queue[tuple[Item, asyncio.Future[Result]]] = asyncio.Queue(ahead)

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing waits to be taken."""
        return self._waiting.empty()

    @property
    def is_full(self) -> bool:
        """Tell whether `put` would wait."""
        return self._waiting.full()

    async def put(self, item: Item) -> None:
        """Have the work on an item begun, and wait until there is room for it."""
        future = asyncio.get_running_loop().run_in_executor(self._pool, self._work, item)
        await self._waiting.put((item, future))

    async def take(self) -> tuple[Item, Result]:
        """Return the oldest item and what has become of it, once that is done; or raise."""
        item, future = await self._waiting.get()
        return item, await future
