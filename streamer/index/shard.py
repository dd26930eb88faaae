"""The index as a state machine over its log. apply(record) -> verdicts.

It does no I/O of its own. It asks `Lookup` for what has left the memtable, which may read the disk.
A flush hands out what to write, and `end_flush` ends it. The simulator, the in-process replay and
the Kafka agent drive this same class.

The state after a record depends on the records before it and on nothing else: not on the moments of
flushes, nor on where a posting is stored. docs/architecture.md has the rules and the reasons.
"""

import itertools
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from streamer.errors import StoreMismatch
from streamer.hosts import same_url_key
from streamer.index import codec, messages, ports
from streamer.index.batch import Batch, fetch_candidates, key_masks
from streamer.index.forgetting import Forgetting, Terms
from streamer.index.log_time import LogTime
from streamer.index.memtable import FLUSHED, KEPT, Memtable
from streamer.index.messages import Forget, IndexSettings, Items, Keys, Pages, Record, Verdicts
from streamer.index.ports import Found, Hits, Horizon, KeptRows, Lookup, Nearest, References
from streamer.index.postings import ROWS_MAX
from streamer.index.rule import Arrivals, Limits, StoredHits
from streamer.index.url_versions import Compared, Tracking, UrlVersions

Places = npt.NDArray[np.int64]
ROWS_AHEAD_MAX = 4096  # of one batch, about a MiB; crowded buckets can lead to many more
_NO_LIMIT = 1 << 61  # of ages, and of rows: a time less this is after BEFORE_ALL


def missing_reference(corpus: messages.Corpus) -> str:
    """Return the sentence about another index that the log names and this process does not have."""
    return (
        f"The pages from here on are compared with the index {corpus.name}, as it was with the "
        f"state {corpus.digest}, which was not given. Give --also {corpus.name}=FOLDER with it: "
        "restored of a snapshot, if it has changed since."
    )


class Shard:
    """The state machine, for signatures of so many `bands`.

    `lookup` answers for what has been flushed, `references` for other indexes; `state` is the state
    of the last flush, or b"".

    Raises:
        StoreMismatch: the state was written by another version of the machine.
    """

    def __init__(
        self,
        bands: int,
        lookup: Lookup,
        *,
        state: bytes = b"",
        memtable_capacity: int = 1024,
        references: References | None = None,
    ) -> None:
        self._keys = bands + 1
        self.lookup = lookup
        self._references = references
        self.memtable = Memtable(self._keys, memtable_capacity)
        self.settings: IndexSettings | None = None
        self.positions: dict[str, int] = {}
        self.missing: dict[str, int] = {}  # source -> where what was skipped after a hole ends
        self.verdicts = 0  # that were given
        self.applied = 0
        self.skipped_records = 0
        self.next_row = 0
        self.refused = 0
        self.time = LogTime(codec.TimeState())
        self._horizon = ports.NO_HORIZON  # what settings before have let expire
        self._before: tuple[IndexSettings | None, Horizon] | None = None  # those that are asked for
        self.flushes_begun = lookup.flushes  # in the look-ups' count
        self.released_flushes = self.flushes_begun  # of which the entries have left the memtable
        self._flushed_entries = 0  # that are still in the memtable
        self._urls = UrlVersions()
        self.forgetting = Forgetting(codec.PendingForget())
        if state:
            self._restore(codec.unpack_state(state))

    # ---- records ------------------------------------------------------------------------------

    def apply(self, record: Record, found: Found | None = None) -> messages.Output | None:
        """Take one record of the log; return the verdicts on its pages, if it has new ones.

        `found` is what `look_up` gave for its pages, however long ago.

        Raises:
            StoreMismatch: a CONFIG record of another version.
        """
        self.applied += 1
        first = self._accept(record)
        return None if first is None else self._apply_items(record.items, first, found)

    def _accept(self, record: Record) -> int | None:
        """Apply the rule of intervals; return the first new item's place, None to skip."""
        if record.source == messages.FORGET:
            return 0
        source, position = record.source, self.positions.get(record.source, 0)
        if not record.start <= position < record.end:
            self.skipped_records += 1
            if record.start > position:
                self.missing[source] = max(record.end, self.missing.get(source, 0))
            return None
        self.positions[source] = record.end
        if record.end >= self.missing.get(source, 0):
            self.missing.pop(source, None)
        return int(np.searchsorted(record.numbers, position))

    def _apply_items(self, items: Items, first: int, found: Found | None) -> messages.Output | None:
        if isinstance(items, IndexSettings):
            self._configure(items)
        elif isinstance(items, Forget):
            self._forget(items.take(range(first, len(items))))
        elif first < len(items):
            new = items.take(range(first, len(items))) if first else items
            block = self._judge_pages(new, found)
            start, self.verdicts = self.verdicts, self.verdicts + len(block)
            return messages.Output(start, block)
        return None

    def _configure(self, settings: IndexSettings) -> None:
        if self._before is not None:
            (self.settings, self._horizon), self._before = self._before, None
        if settings.version != messages.MACHINE_VERSION:
            raise StoreMismatch(
                f"The log asks for version {settings.version} of the state machine, this one is "
                f"{messages.MACHINE_VERSION}. Run the version of streamer that wrote it, or begin "
                "a new index."
            )
        self._horizon = self.horizon
        self.settings = settings

    def ask_for(self, settings: IndexSettings) -> None:
        """Judge by settings from the next page on; until then no state that is flushed has them."""
        if self.settings != settings:
            before = self.settings, self._horizon
            self._configure(settings)
            self._before = before

    def _take_up(self) -> None:
        """Put the settings that are asked for into the log, before the first page under them."""
        if self._before is not None:
            self._before = None
            self.positions[messages.CONFIG] = self.positions.get(messages.CONFIG, 0) + 1
            self.applied += 1

    @property
    def horizon(self) -> Horizon:
        """Return what answers no page any more: by the settings in force, and those before."""
        time, row = self._horizon
        if self.settings is not None and self.settings.expire_after_ms:
            time = max(time, self.time.by_rows(self.time.now - self.settings.expire_after_ms))
        if self.settings is not None and self.settings.keep_pages:
            row = max(row, self.next_row - self.settings.keep_pages)
        return Horizon(time, row)

    # ---- pages --------------------------------------------------------------------------------

    def _judge_pages(self, pages: Pages, found: Found | None) -> Verdicts:
        """Return the verdicts on pages, in order, and insert those that are new."""
        self._take_up()
        batch, compared = self.batch_of(pages, self.time, found)
        self.next_row, refused = batch.judge(self.memtable, self.next_row, self.lookup)
        self.refused += refused
        changes = None
        if compared is not None:
            changes = self._urls.insert(compared, batch.rows)
        return batch.verdicts(self.memtable, changes)

    def look_up(self, pages: Pages) -> Found:
        """Find what pages will be judged by, before they come; in any thread."""
        settings = self.settings
        hits = self.lookup.find(pages.keys, 0)
        numbers = np.unique(hits.rows)
        rows = self.lookup.rows(numbers) if len(numbers) <= ROWS_AHEAD_MAX else None
        urls = None
        if settings is not None and settings.track_changes:
            urls = self.lookup.urls([*map(same_url_key, pages.urls)], 0)
        nearest = None
        if settings is not None and settings.also and self._references is not None:
            _, shingles_min = settings.least_of(pages.urls, pages.main)
            masks, _ = key_masks(pages, shingles_min)
            nearest = self._references.nearest(pages, masks, settings)
        return Found(pages.refs, pages.keys, hits, numbers, rows, urls, nearest, settings)

    def batch_of(
        self, pages: Pages, time: LogTime, found: Found | None = None
    ) -> tuple[Batch, Compared | None]:
        """Advance `time` by the pages' dates, and put pages next to what the store has for them.

        `found` is used if it has seen every flush that was released; else all is looked up again.
        The rule finds the candidates in the memtable. Return the batch, and how its pages compare
        with the last versions of their URLs, where these are tracked.
        """
        settings = self.settings
        assert settings is not None, "pages before the first CONFIG record"
        first_row = self.lookup.first_row
        if first_row is not None and self.next_row + len(pages) - first_row > ROWS_MAX:
            raise StoreMismatch(
                f"The index has {ROWS_MAX:,} kept pages, as many as it can have at a time. Begin a "
                "new index, with --expire-after or --keep-pages; --also compares it with this one."
            )
        age = settings.expire_after_ms or _NO_LIMIT
        times, oldest_times = time.advance(pages.times, pages.refs, age)
        oldest_times = np.maximum(oldest_times, self._horizon.time)
        pages = replace(pages, times=times)
        similarity_min, shingles_min = settings.least_of(pages.urls, pages.main)
        keys, (masks, short) = np.ascontiguousarray(pages.keys), key_masks(pages, shingles_min)
        nearest = self._nearest(pages, masks, found)
        if found is not None and not found.is_for(keys, self.released_flushes):
            found = None
        hits = found.hits if found else self.lookup.find(keys, self.released_flushes)
        fetch = found.take if found and found.rows is not None else self.lookup.rows
        most = self._count_most_rows(settings)
        fetched, places = fetch_candidates(fetch, hits, masks, self._keys, most)
        if self.forgetting.hides:
            fetched = self._hide(fetched, places, hits)
        limits = self._limits(hits, settings)
        arrivals = Arrivals(
            keys,
            masks,
            np.ascontiguousarray(pages.sketches),
            similarity_min,
            times,
            oldest_times,
            nearest.similarities,
        )
        stored = StoredHits(
            hits.key_places, hits.starts, hits.rows, places, fetched.sketches, fetched.times
        )
        batch = Batch(pages, arrivals, limits, stored, fetched, nearest, short)
        if not settings.track_changes:
            return batch, None
        urls = found.urls if found else None
        own = Tracking(
            limits.measure, similarity_min, shingles_min, oldest_times, limits.keep_pages,
            limits.oldest_row,
        )  # fmt: skip
        return batch, self._compare(pages, own, urls)

    def _count_most_rows(self, settings: IndexSettings) -> int:
        """Return how many stored rows may be candidates of a page."""
        # What is hidden leaves room for others.
        expires = settings.expire_after_ms or settings.keep_pages or self.forgetting.hides
        has_expired = self._horizon != ports.NO_HORIZON
        return _NO_LIMIT if expires or has_expired else settings.candidates_max

    def _hide(self, fetched: KeptRows, places: Places, hits: Hits) -> KeptRows:
        """Return the rows fetched for pages, without what is forgotten."""
        rows = np.empty(len(fetched.refs), np.int64)
        rows[places[places >= 0]] = hits.rows[places >= 0]
        return self.forgetting.hide(fetched, rows)

    def _limits(self, hits: Hits, settings: IndexSettings) -> Limits:
        return Limits(
            bucket_max=settings.bucket_max,
            candidates_max=settings.candidates_max,
            measure=int(settings.measure),
            newest_state=KEPT if hits.flushes >= self.flushes_begun else FLUSHED,
            keep_pages=settings.keep_pages or _NO_LIMIT,
            oldest_row=self._horizon.row,
            exact=int(settings.exact),
            margin=settings.margin,
        )

    def _nearest(self, pages: Pages, masks: Keys, found: Found | None = None) -> Nearest:
        """Return what other indexes have nearest to the pages, where the settings name any."""
        settings = self.settings
        if settings is None or not settings.also:
            return ports.nothing_near(len(pages))
        if found and found.nearest and found.has_nearest(pages.refs, settings):
            return found.nearest
        if self._references is None:
            raise StoreMismatch(missing_reference(settings.also[0]))
        return self._references.nearest(pages, masks, settings)

    def _compare(self, pages: Pages, by: Tracking, found: ports.FoundUrls | None) -> Compared:
        """Compare pages with the last versions of their URLs, which may be `found`."""
        urls = [*map(same_url_key, pages.urls)]
        if found is None or found.urls != urls:
            found = self.lookup.urls(urls, self.released_flushes)
        return self._urls.compare(pages, found, by, self.forgetting)

    # ---- forgetting -----------------------------------------------------------------------------

    def _forget(self, forget: Forget) -> None:
        """Forget what a record names, of all that came before it."""
        own, memtable = self.forgetting, self.memtable
        own.records += 1
        terms = Terms.of(self.time.terms_by_rows(forget), self.next_row, own.records)
        own.accept(forget, terms)
        count = memtable.count
        named = terms.find(
            memtable.rows[:count], memtable.refs[:count], memtable.urls, memtable.times[:count]
        )
        if named:
            is_kept = memtable.states[[*named]] == KEPT  # a flushed one is counted in the store
            own.count(itertools.compress(named.values(), is_kept.tolist()))
            memtable.forget([*named])

    # ---- state ----------------------------------------------------------------------------------

    @property
    def unflushed(self) -> int:
        """Return how much the next flush would move: kept pages, or versions of URLs if more."""
        return max(self.unflushed_rows, len(self._urls))

    @property
    def unflushed_rows(self) -> int:
        """Return the memtable's entries that the next flush would move to the store, at most."""
        return self.memtable.count - self._flushed_entries

    def begin_flush(self) -> ports.FlushedRows:
        """Return what the next flush must write, the whole state included.

        Its entries stay in the memtable, for look-ups that do not have the flush yet, until
        `end_flush` is called; that must be before the next flush. Until then the arrays may be
        the memtable's own: nothing changes in an entry's row, keys or sketch.
        """
        assert self.released_flushes == self.flushes_begun, "the flush before is not done"
        versions = self._urls.begin_flush(Horizon(self.time.now, self.next_row), self.settings)
        flushed = self.memtable.take_kept(self.state(), self.horizon)
        flushed.versions = versions
        self._flushed_entries = len(flushed.rows)
        self.flushes_begun += 1
        return flushed

    def end_flush(self) -> None:
        """Release what the last flush holds: from here on, look-ups must have that flush."""
        is_kept = self.memtable.states[: self.memtable.count] == KEPT
        self.memtable.retain(np.flatnonzero(is_kept))
        self._urls.end_flush()
        self._flushed_entries = 0
        self.released_flushes = self.flushes_begun

    def state(self) -> bytes:
        """Return all state that is neither a row nor a posting in the store, as bytes."""
        settings, horizon = self._before or (self.settings, self._horizon)
        return codec.pack_state(
            codec.ShardState(
                settings=settings.model_dump() if settings else None,
                positions=self.positions,
                verdicts=self.verdicts,
                applied=self.applied,
                next_row=self.next_row,
                refused=self.refused,
                horizon=horizon,
                generation=self._urls.generation,
                forgotten=self.forgetting.pack(),
                missing=self.missing,
                time=self.time.state(),
            )
        )

    def _restore(self, state: codec.ShardState) -> None:
        if settings := codec.unpack_settings(state.settings):
            self._configure(settings)
        self.positions, self.missing = state.positions, state.missing
        self.verdicts, self.applied = state.verdicts, state.applied
        self.next_row, self.refused = state.next_row, state.refused
        self.time, self._horizon = LogTime(state.time), state.horizon
        self._urls.generation = state.generation
        self.forgetting = Forgetting(state.forgotten)
