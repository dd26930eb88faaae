"""Flushes and merges beside the judgement: what shards hand out goes to the store in threads.

A flush begins with a snapshot, which takes a moment; it is written while the shards go on, and what
it has stays in their heads until the next one begins. Runs are merged in another thread, so that a
long merge holds up no flush. Of each there is one at a time: where pages come faster than they are
written, the next flush waits for the last, and whoever began it waits too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext

from streamer.index.lookup import FlushedRows
from streamer.index.run_lookup import RunLookup
from streamer.index.runs import Store
from streamer.index.shard import Shard
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
        lookups: Sequence[RunLookup],
    ) -> None:
        self._store = store
        self._identity = identity
        self._shards = shards
        self._lookups = lookups
        self._timed: Timed = lambda _stage: nullcontext()
        self._written: Callable[[], None] = lambda: None
        self._flush_thread = ThreadPoolExecutor(1, "flush")
        self._merge_thread = ThreadPoolExecutor(1, "merge")
        self._flushing: Future[None] | None = None
        self._merging: Future[None] | None = None

    def observe(self, timed: Timed, written: Callable[[], None]) -> None:
        """Have `timed` wrap flushes and merges, and `written` called after either; in threads."""
        self._timed, self._written = timed, written

    def begin(self, owner_state: Callable[[], bytes]) -> None:
        """Begin a flush, after the one before.

        `owner_state` is called in another thread; when it returns, the outputs that its bytes tell
        of must be safe.

        Raises:
            StoreUnavailable: the flush before or a merge failed; the index is what it was.
        """
        self._await_flush()
        if self._merging and self._merging.done():
            self._merging.result()
        snapshots = [shard.snapshot() for shard in self._shards]
        self._flushing = self._flush_thread.submit(self._flush, snapshots, owner_state)

    def finish(self) -> None:
        """Wait for all that was begun, merges too.

        Raises:
            StoreUnavailable: as `begin`.
        """
        self._await_flush()
        if self._merging:
            self._merging.result()

    def _await_flush(self) -> None:
        """Wait until the flush that was begun is written, and let go of what it has."""
        flushing, self._flushing = self._flushing, None
        if flushing is not None:
            flushing.result()
            for shard in self._shards:
                shard.flushed()

    def _flush(self, snapshots: list[FlushedRows], owner_state: Callable[[], bytes]) -> None:
        state = owner_state()
        with self._timed(Stage.FLUSH):
            self._store.flush(self._identity, snapshots, state)
            self._refresh()
        self._written()
        self._merging = self._merge_thread.submit(self._merge)

    def _merge(self) -> None:
        merged = False
        with self._timed(Stage.MERGE):
            while self._store.merge():
                merged = True
                self._refresh()
                self._store.drop_garbage()
        if merged:
            self._written()

    def _refresh(self) -> None:
        for lookup in self._lookups:
            lookup.refresh()

    def close(self) -> None:
        """End the threads, when they are done."""
        self._flush_thread.shutdown()
        self._merge_thread.shutdown()
