"""Flushes beside the judgement: what shards hand out goes to the store in a thread.

A flush begins with a snapshot, which takes a moment; it is written while the shards go on, and what
it has stays in their heads until look-ups done ahead have it, or the next one begins. There is one
at a time: where pages come faster than they are written, the next flush waits for the last, and
whoever began it waits too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext

from streamer.index.shard import Shard
from streamer.index.store import Store
from streamer.index.stored_lookup import StoredLookup
from streamer.index.types import FlushedRows
from streamer.metrics import Stage

Identity = dict[str, str | int | float]
Timed = Callable[[Stage], AbstractContextManager[object]]


class Flusher:
    """Flushes all shards of a store together; its methods are for the judging thread."""

    def __init__(
        self,
        store: Store,
        identity: Identity,
        shards: Sequence[Shard],
        lookups: Sequence[StoredLookup],
    ) -> None:
        self._store = store
        self._identity = identity
        self._shards = shards
        self._lookups = lookups
        self._timed: Timed = lambda _stage: nullcontext()
        self._written: Callable[[], None] = lambda: None
        self._flush_thread = ThreadPoolExecutor(1, "flush")
        self._flushing: Future[None] | None = None

    def observe(self, timed: Timed, written: Callable[[], None]) -> None:
        """Have `timed` wrap each flush, and `written` called after it; in a thread."""
        self._timed, self._written = timed, written

    def begin(self, owner_state: Callable[[], bytes]) -> None:
        """Begin a flush, after the one before.

        `owner_state` is called in another thread; when it returns, the outputs that its bytes tell
        of must be safe.

        Raises:
            StoreUnavailable: the flush before failed; the index is what it was.
        """
        self.finish()
        snapshots = [shard.snapshot() for shard in self._shards]
        self._flushing = self._flush_thread.submit(self._flush, snapshots, owner_state)

    def let_go(self, seen: int) -> None:
        """Let go of what is written, where a look-up done ahead had seen so many flushes.

        Most that come after it have seen as many; what has not is looked up again.
        """
        flushing = self._flushing
        written = flushing and flushing.done() and not flushing.exception()  # `begin` raises that
        if written and seen >= self._lookups[0].flushes:
            self.finish()

    def finish(self) -> None:
        """Wait until the flush that was begun is written, and let go of what it has.

        Raises:
            StoreUnavailable: as `begin`.
        """
        flushing, self._flushing = self._flushing, None
        if flushing is not None:
            flushing.result()
            for shard in self._shards:
                shard.flushed()

    def _flush(self, snapshots: list[FlushedRows], owner_state: Callable[[], bytes]) -> None:
        state = owner_state()
        with self._timed(Stage.FLUSH):
            brought = self._store.flush(self._identity, snapshots, state)
            for lookup, postings in zip(self._lookups, brought, strict=True):
                lookup.refresh(postings)
        self._written()

    def close(self) -> None:
        """End the thread, when it is done."""
        self._flush_thread.shutdown()
