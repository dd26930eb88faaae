"""The judge: the shard of an open index, driven in one thread, with its look-ups and flushes.

A flush begins with a copy of the shard's state, which takes a moment; it is written in a thread of
its own while the shard goes on, and what it has stays in the memtable until look-ups done ahead
have it, or the next one begins. So a flush is the state between two records. There is one at a
time: where pages come faster than they are written, the next flush waits for the last, and whoever
began it waits too.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.errors import StoreUnavailable, StreamerError
from streamer.index import messages
from streamer.index.codec import Entry
from streamer.index.memtable import HEAD_PAGES, KEPT
from streamer.index.messages import IndexSettings
from streamer.index.ports import FlushedRows, Found
from streamer.index.shard import Shard
from streamer.metrics import Stage
from streamer.model import SOURCES_MAX
from streamer.pages.chunk import Chunk, PageBatch
from streamer.run.index_folder import Identity, IndexFolder
from streamer.run.reference_indexes import ReferenceIndexes
from streamer.stored.forget import sweep
from streamer.stored.lookup import StoredLookup
from streamer.stored.store import Store

Numbers = npt.NDArray[np.int64]
Timed = Callable[[Stage], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class FlushRule:
    """When a flush is due though the memtable is not full: after so many records, or seconds.

    What is a record, the callers of `Judge.apply` say: one of the input, or one of the log.
    No moment of a flush shows in a verdict.
    """

    records: int
    seconds: float


REPLAY_FLUSHES = FlushRule(
    records=1 << 20,  # bounds what a restart repeats where hardly a page is kept
    seconds=600.0,  # what a killed run repeats of a slow input
)
LOG_FLUSHES = FlushRule(
    records=4096,  # of the log, each with the pages of a chunk: as above
    seconds=3600.0,  # a restart folds what came since; a flush's entries stay
)
SWEEP_TERMS = 100_000  # to be forgotten, which make a sweep due that no command waits for
SWEEP_SECONDS = 3600.0  # or so long after the first, if any is to be gone from the disk
SWEEP_SHARE = 3  # times as long as a sweep, until the next: a rebuild meets all commands at once
_COMMANDS = "commands"  # the source of what they want, by its place in a log that is replayed
FILES = SOURCES_MAX  # the source of the pages of all files: these are numbered on and on in the log
_SPARE_ENTRIES = 1024  # of a memtable, beyond those that make a flush due: a record's pages


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """How a judge works; apart from `references`, nothing of it shows in a verdict.

    Attributes:
        flushes: when one is due.
        head_pages: kept pages in a memtable that make one due, too.
        index_memory: bytes that the key tables take; None bounds nothing.
        references: indexes that pages are compared with, too.
        clock: returns seconds.
    """

    flushes: FlushRule = REPLAY_FLUSHES
    head_pages: int = HEAD_PAGES
    index_memory: int | None = None
    references: ReferenceIndexes | None = None
    clock: Callable[[], float] = time.monotonic


_OF_REPLAY = JudgeOptions()


class Judge:
    """Drive the shard of an index.

    `identity` is the index's: bands are taken from it. `secret` is what URLs are hashed with.

    Attributes:
        failure: what has kept a record or a flush from being applied as a whole; `None` as long as
            nothing has. From then on the state is no fold of the log: it is not to be used.

    Raises:
        StoreMismatch: the state was written by another version of the machine.
    """

    def __init__(
        self, store: Store, identity: Identity, options: JudgeOptions, secret: bytes = b""
    ) -> None:
        self.store = store
        self._identity = identity
        self._rule, self._head_pages = options.flushes, options.head_pages
        self._clock = options.clock
        self.lookup = StoredLookup(store, options.index_memory, secret)
        self.shard = Shard(
            int(identity["bands"]), self.lookup, state=store.known.state,
            memtable_capacity=options.head_pages + _SPARE_ENTRIES, references=options.references,
        )  # fmt: skip
        self._applied = 0  # records since the last flush
        self._flushed_at = self._clock()
        self._is_sweeping = False
        self._next_sweep = self._clock()
        self._swept: Counter[str] = Counter()  # by the newest sweep
        self._swept_by_half = self.shard.forgetting.pending > 0
        self._named_at: float | None = None  # when the first was named that is still to be swept
        self._timed: Timed = lambda _stage: nullcontext()
        self._written: Callable[[], None] = lambda: None
        self._flush_thread = ThreadPoolExecutor(1, "flush")
        self._flushing: Future[None] | None = None
        self.failure: BaseException | None = None

    def position(self, source: int) -> int:
        """Return the first sequence number of a page source that is not applied yet."""
        return self.shard.positions.get(messages.source_name(source), 0)

    def next_numbers(self, chunk: Chunk, batch: PageBatch) -> tuple[int, int, Numbers]:
        """Return the interval that a chunk of files has in the log, and the numbers of its pages.

        Those of all files are numbered on and on, as the source FILES.
        """
        start = self.position(FILES)
        numbers = np.array(batch.sequences, np.int64) + (start - chunk.start)
        return start, start + chunk.end - chunk.start, numbers

    # ---- records ---------------------------------------------------------------------------------

    def configure(self, settings: IndexSettings) -> None:
        """Put a CONFIG record into the log unless these settings are in force."""
        if self.shard.settings != settings:
            number = self.shard.positions.get(messages.CONFIG, 0)
            self.shard.apply(messages.config_record(settings, number))

    def apply(
        self, record: messages.Record, found: Found | None = None, records: int = 1
    ) -> messages.Output | None:
        """Apply a record; return the verdicts on its pages, if it has new ones.

        `found` is what `look_up` gave for the record's pages, however long ago; `records` is what
        it counts for, where a flush is due after so many.

        Raises:
            StoreMismatch: a CONFIG record of another version.
        """
        self.raise_failure()
        if found is not None:
            self._release_flushed(found.hits.flushes)
        with self.whole_step():
            output = self.shard.apply(record, found)
            self._applied += records
        if self._named_at is None and self.shard.forgetting.pending:
            self._named_at = self._clock()
        return output

    @contextmanager
    def whole_step(self) -> Iterator[None]:
        """Note what keeps a step from being taken as a whole, an interrupt included.

        Without the rest of it, what has changed by then fits no place of the log.
        """
        try:
            yield
        except BaseException as error:
            self.failure = error
            raise

    def raise_failure(self) -> None:
        """Raise StreamerError where a step before was not taken as a whole."""
        if isinstance(self.failure, StreamerError):
            raise self.failure
        if self.failure is not None:
            what = f"{type(self.failure).__name__}: {self.failure}".removesuffix(": ")
            raise StoreUnavailable(
                f"Judging by the index {self.store.path.parent} was cut off by {what}. What was "
                "flushed is sound: open the index again."
            ) from self.failure

    def judge(
        self,
        source: int,
        start: int,
        end: int,
        pages: messages.Pages,
        found: Found | None = None,
        numbers: Numbers | None = None,
        tombstones: Sequence[messages.Tombstone] = (),
    ) -> list[messages.Verdicts]:
        """Apply the pages read in [start, end) of a source; return their verdicts.

        `found` is as for `apply`, `numbers` as for `page_record`; without `numbers` where there
        are `tombstones`.
        """
        if tombstones:
            records = messages.source_records(source, start, end, pages, tombstones)
            outputs = [self.apply(record, None, record.end - record.start) for record in records]
        else:
            record = messages.page_record(source, start, end, pages, numbers)
            outputs = [self.apply(record, found, end - start)]
        return [output.verdicts for output in outputs if output is not None]

    @property
    def kept_pages(self) -> int:
        """Return how many pages are kept, once the flush that was begun is done."""
        self.finish()
        meta, memtable = self.store.meta, self.shard.memtable
        in_memtable = np.count_nonzero(memtable.states[: memtable.count] == KEPT)
        return (meta.rows if meta else 0) + int(in_memtable)

    def forget_next(self, forget: messages.Forget) -> None:
        """Forget what a command wants that comes next."""
        self.forget(forget, self.shard.positions.get(_COMMANDS, 0))

    def forget(self, forget: messages.Forget, number: int) -> None:
        """Forget, once, what a command wanted at `number` of a log that is replayed here."""
        numbers = np.full(len(forget), number)
        self.apply(messages.Record(_COMMANDS, 0, number + 1, numbers, forget))

    # ---- flushes ---------------------------------------------------------------------------------

    def observe(self, timed: Timed, written: Callable[[], None]) -> None:
        """Have `timed` wrap each flush, and `written` called after it; in a thread."""
        self._timed, self._written = timed, written

    @property
    def changed(self) -> bool:
        """Return whether anything was applied since the last flush began."""
        return self._applied > 0

    @property
    def flush_is_due(self) -> bool:
        """Return whether a memtable is full, a sweep is due, or enough records or time passed."""
        return (
            self.shard.unflushed >= self._head_pages
            or self._applied >= self._rule.records
            or self._sweep_is_due
            or (self.changed and self._clock() - self._flushed_at >= self._rule.seconds)
        )

    @property
    def _sweep_is_due(self) -> bool:
        """Return whether a command waits for it, or there is enough to do, or for long enough."""
        if self._clock() < self._next_sweep:
            return False
        forgetting = self.shard.forgetting
        late = self._named_at is not None and self._clock() - self._named_at >= SWEEP_SECONDS
        return forgetting.is_asked or forgetting.pending >= SWEEP_TERMS or late

    def begin_flush(
        self, owner_state: Callable[[], bytes], notes: Sequence[Entry] = (), *, sweep: bool = False
    ) -> None:
        """Begin to write all state in one atomic step, after the flush before.

        `owner_state` is called in the flush thread. When it returns, the outputs whose lengths it
        holds must be on the disk. `notes` are the owner's, too. With `sweep`, or where that is due,
        what is forgotten is gone from the disk at the end of it.

        Raises:
            StoreUnavailable: the flush before failed, or the work after it; the message says which.
        """
        self.finish()
        with self.whole_step():
            flushed, forgetting = self.shard.begin_flush(), self.shard.forgetting
            self._is_sweeping = self._sweep_is_due or (sweep and forgetting.pending > 0)
            if self._is_sweeping:
                self._named_at = None
                forgetting.begin_sweep()
            self._flushing = self._flush_thread.submit(self._flush, flushed, owner_state, notes)
        self._applied = 0
        self._flushed_at = self._clock()

    def finish(self) -> None:
        """Wait until the flush that was begun is written, and release what it has.

        Raises:
            StoreUnavailable: it failed, and the index is unchanged; or only the work after it
                did, as the message says.
        """
        self.raise_failure()
        if self._flushing is None:
            return
        wait([self._flushing])  # an interrupt here changes nothing
        flushing, self._flushing = self._flushing, None
        with self.whole_step():
            flushing.result()
            self.shard.end_flush()
            if self._is_sweeping:
                self.shard.forgetting.end_sweep(self._swept)
                self._is_sweeping = self._swept_by_half = False

    @property
    def sweep_has_ended(self) -> bool:
        """Return whether `finish` would find the end of a sweep."""
        return self._is_sweeping and self._flushing is not None and self._flushing.done()

    def flush(self, owner_state: bytes) -> None:
        """Write all state, and see the end of it.

        Raises:
            StoreUnavailable: as `finish`.
        """
        self.begin_flush(lambda: owner_state)
        self.finish()

    def flush_last(self, owner_state: bytes, notes: Sequence[Entry]) -> None:
        """Write all state in this thread, where no other can be started any more.

        Nothing can be looked up afterwards.
        """
        self.finish()
        self.store.flush(self._identity, self.shard.begin_flush(), owner_state, notes)

    def _release_flushed(self, seen: int) -> None:
        """Release what is written, once a look-up done ahead has seen so many flushes.

        Most that come after it have seen as many; what has not is looked up again.
        """
        flushing = self._flushing
        written = flushing and flushing.done() and not flushing.exception()  # `finish` raises that
        if written and seen >= self.lookup.flushes:
            self.finish()

    def _flush(
        self, flushed: FlushedRows, owner_state: Callable[[], bytes], notes: Sequence[Entry] = ()
    ) -> None:
        state = owner_state()
        with self._timed(Stage.FLUSH):
            new = self.store.flush(self._identity, flushed, state, notes)
            if self._is_sweeping:
                began = self._clock()
                with _explaining_after_flush("removal of forgotten pages"):
                    self._sweep()
                ended = self._clock()
                self._next_sweep = ended + SWEEP_SHARE * (ended - began)
            with _explaining_after_flush("preparation of look-ups"):
                self.lookup.refresh(new, swept=self._is_sweeping)
                self.store.delete_dropped()
        self._written()

    def _sweep(self) -> None:
        try:
            self._swept = sweep(self.store, again=self._swept_by_half)
        except StreamerError:
            self.store.failed("sweep")
            raise

    # ---- the end ---------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the thread that flushes, when it is done with what was begun, and what freezes."""
        self._flush_thread.shutdown()
        self.lookup.close()

    def close(self) -> None:
        """Release the index; what was not flushed is repeated by the next run."""
        self.stop()
        self.store.close()


@contextmanager
def _explaining_after_flush(what: str) -> Iterator[None]:
    """Have an error say that the flush is on the disk, and that `what` after it failed."""
    try:
        yield
    except StoreUnavailable as error:
        why = f"A flush was written, but the {what} after it failed. {error}"
        raise StoreUnavailable(why) from error


def replay_judge(
    folder: IndexFolder, settings: IndexSettings, options: JudgeOptions = _OF_REPLAY
) -> Judge:
    """Return the judge of an open index, with these settings in force from the next page on."""
    judge = Judge(folder.store, folder.identity, options, folder.secret)
    judge.shard.ask_for(settings)
    return judge
