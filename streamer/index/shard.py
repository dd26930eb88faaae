"""One shard of the index: a state machine over its log. apply(record) -> outputs.

It does no I/O of its own. It asks `Lookup` for what has left the memtable, which may read the disk.
A flush hands out what to write, and `flushed` ends it. The simulator, the in-process replay and the
Kafka agent drive this same class. With S shards a page travels shard 0, 1, ..., S-1, each comparing
its own bands. It is undecided on the way and kept at the last. A page that matches an undecided one
is held until that one is decided. It waits only for a page further along, so nothing deadlocks.

The state after a record depends on the records before it and on nothing else: not on the moments of
flushes, nor on where a posting is stored. docs/architecture.md has the rules and the reasons.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from streamer.errors import StoreMismatch
from streamer.index.batch import Batch, fetch_candidates, key_masks, verdict_on_held
from streamer.index.codec import (
    PendingForget,
    ShardState,
    pack_pages,
    pack_state,
    unpack_pages,
    unpack_settings,
    unpack_state,
)
from streamer.index.forgetting import REF, REPLACED, RETIRED, SETTLED, Forgetting, Terms
from streamer.index.memtable import FLUSHED, FREE, KEPT, UNDECIDED, Memtable
from streamer.index.memtable import RETIRED as RETIRED_STATE
from streamer.index.messages import (
    FORGET,
    VERDICTS,
    Decisions,
    Forget,
    Items,
    Keys,
    Output,
    Pages,
    Record,
    Superseded,
    Verdicts,
    destination_name,
)
from streamer.index.ports import (
    NO_HORIZON,
    FlushedRows,
    Found,
    FoundUrls,
    Hits,
    Horizon,
    KeptRows,
    Lookup,
    Nearest,
    References,
    nothing_near,
)
from streamer.index.postings import ROWS_MAX
from streamer.index.preferred import (
    BestCopies,
    better_copies,
    matched,
    names_of,
    verdicts_of,
)
from streamer.index.renewal import RenewedPage, again, kept_page, old_row_of, unmatched
from streamer.index.rule import (
    DUPLICATE,
    EMPTY,
    HELD,
    UNIQUE,
    Arrivals,
    Judged,
    Limits,
    StoredHits,
)
from streamer.index.settings import (
    MACHINE_VERSION,
    RETIRES_BY_ARRIVAL,
    Corpus,
    IndexSettings,
    Leasts,
    bands_of,
    key_columns,
)
from streamer.index.url_versions import Compared, Tracking, UrlVersions
from streamer.sketch.preference import ranks_in

Places = npt.NDArray[np.int64]
ROWS_AHEAD_MAX = 4096  # of one batch, about a MiB; crowded buckets can lead to many more
_ROW_0 = np.zeros(1, np.int64)
_NO_LIMIT = 1 << 61  # of ages, and of rows: a time less this is after BEFORE_ALL


def missing_reference(corpus: Corpus) -> str:
    """Return the sentence about another index that the log names and this process does not have."""
    return (
        f"The pages from here on are compared with the index {corpus.name}, as it was with the "
        f"state {corpus.digest}, which was not given. Give --also {corpus.name}=FOLDER with it: "
        "restored of a snapshot, if it has changed since."
    )


def _replacements_before(page: Pages) -> int:
    """Return how many replacements came before a page that was held; -1: all until now."""
    return -1 if page.replacements is None else int(page.replacements[0])


class Shard:
    """Shard `number` of `shards`, for signatures of so many `bands`.

    `lookup` answers for what has been flushed, `references` for other indexes; `state` is the state
    of the last flush, or b"".

    Raises:
        StoreMismatch: the state was written by a later version of the machine.
    """

    def __init__(
        self,
        number: int,
        shards: int,
        bands: int,
        lookup: Lookup,
        *,
        state: bytes = b"",
        memtable_capacity: int = 1024,
        references: References | None = None,
    ) -> None:
        self.number = number
        self.last = number == shards - 1
        self.shards = shards
        self._bands = bands_of(number, shards, bands)
        self._all_keys = bands + 1
        self._content_bit = self._bands[1] - self._bands[0] if number == 0 else -1
        self._own_keys = self._bands[1] - self._bands[0] + (number == 0)
        self.lookup = lookup
        self._references = references
        self.memtable = Memtable(self._own_keys, memtable_capacity)
        self.settings: IndexSettings | None = None
        self.positions: dict[str, int] = {}
        self.sent: dict[str, int] = {}
        self.missing: dict[str, int] = {}  # source -> where what was skipped behind a hole ends
        self.applied = 0
        self.skipped_records = 0
        self.next_row = 0
        self.refused = 0
        self.renewed = 0
        self.watermark = 0  # no page that comes from here on is older
        self._told_watermark = 0  # nor one that is emitted, by this record or a later one
        self._horizon = NO_HORIZON  # what settings before have let expire
        self.flushes_begun = lookup.flushes  # in the look-ups' count
        self.released_flushes = self.flushes_begun  # of which the entries have left the memtable
        self._flushed_entries = 0  # that are still in the memtable
        self._urls = UrlVersions()
        self._undecided: dict[int, int] = {}  # page ref -> entry in the memtable
        self._held: dict[int, list[Pages]] = {}  # row of an undecided page -> who waits for it
        self._held_refs: set[int] = set()
        self._held_times: list[tuple[int, int]] = []  # a heap of (time, ref): some do not wait now
        self.forgetting = Forgetting(PendingForget())
        self._outputs: list[Output] = []
        if state:
            self._restore(unpack_state(state))

    # ---- records ------------------------------------------------------------------------------

    def apply(self, record: Record, found: Found | None = None) -> list[Output]:
        """Take one record of the log; return what it makes the shard emit, in order.

        `found` is what `look_up` gave for its pages, however long ago.

        Raises:
            StoreMismatch: a CONFIG record of a later version, or of another number of shards.
        """
        self._outputs = []
        self._told_watermark = self._oldest_to_come()
        self.applied += 1
        first = self._accept(record)
        if first is not None:
            self._apply_items(record.items, first, found)
        self._settle_replacements()
        if (questions := self.forgetting.pass_on()) and not self.last:
            self._emit(self.number + 1, questions)
        return self._outputs

    def _accept(self, record: Record) -> int | None:
        """Apply the rule of intervals; return the first new item's place, None to skip."""
        if record.source == FORGET:
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

    def _apply_items(self, items: Items, first: int, found: Found | None) -> None:
        if isinstance(items, IndexSettings):
            self._configure(items)
        elif isinstance(items, Pages):
            if first < len(items):
                self._take(items.take(range(first, len(items))) if first else items, found)
        elif isinstance(items, Forget):
            self._forget(items.take(range(first, len(items))))
        else:
            for ref, kept in zip(
                items.refs[first:].tolist(), items.kept[first:].tolist(), strict=True
            ):
                self._decide(ref, kept=kept)

    def _configure(self, settings: IndexSettings) -> None:
        if settings.version > MACHINE_VERSION:
            raise StoreMismatch(
                f"The log asks for version {settings.version} of the state machine, this one is "
                f"{MACHINE_VERSION}. Run the one that wrote it; stop it cleanly before a change."
            )
        if settings.shards != self.shards:
            raise StoreMismatch(
                f"The index has {self.shards} shards, the settings ask for {settings.shards}. "
                f"Use --shards {self.shards}, or build a new index."
            )
        self._horizon = self.horizon
        self.settings = settings

    def _emit(self, destination: int, items: Pages | Decisions | Forget | Verdicts) -> None:
        if len(items):
            name = destination_name(destination)
            start = self.sent.get(name, 0)
            self.sent[name] = start + len(items)
            self._outputs.append(Output(destination, start, items))

    # ---- time ---------------------------------------------------------------------------------

    def _oldest_to_come(self) -> int:
        """Return the watermark of what is judged from here on: no such page is older."""
        times = self._held_times
        while times and times[0][1] not in self._held_refs:
            heapq.heappop(times)
        return min(self.watermark, times[0][0]) if times else self.watermark

    @property
    def horizon(self) -> Horizon:
        """Return what answers no page any more: by the settings in force, and those before."""
        time, row = self._horizon
        if self.settings is not None and self.settings.expire_after_ms:
            time = max(time, self._oldest_to_come() - self.settings.expire_after_ms)
        if self.settings is not None and self.settings.keep_pages:
            row = max(row, self.next_row - self.settings.keep_pages)
        return Horizon(time, row)

    # ---- pages --------------------------------------------------------------------------------

    def _take(self, pages: Pages, found: Found | None) -> None:
        """Judge pages that come for the first time; at shard 0 none may be older than those before.

        A page whose time is not known has that of the page before it.
        """
        if pages.matches is not None:
            self._take_back(pages)
            return
        if self.number == 0:
            times = np.maximum(np.maximum.accumulate(pages.times), self.watermark)
            pages = replace(pages, times=times, watermarks=times)
        oldest = int(pages.times.min())
        assert oldest >= self.watermark, (self.number, oldest, self.watermark)
        if pages.renews is not None:
            self._renew_by(pages)
        elif pages.replacements is None:
            self._judge(pages, found, arrive=True)
        else:  # some were held by a shard before
            for i in range(len(pages)):
                self._judge_late(pages.take([i]))
        self.watermark = max(self.watermark, int(pages.watermarks[-1]))

    def _judge_late(self, page: Pages) -> int:
        """Judge one page that was held, by what answered when it arrived; return its outcome."""
        replacements = _replacements_before(page)
        if replacements < 0:
            return int(self._judge(page)[0])
        with self.memtable.as_after(replacements):
            outcome = int(self._judge(page)[0])
        if outcome == UNIQUE:
            own = self.forgetting.retire_late(page.urls[0], int(page.refs[0]), replacements)
            if own:
                self.memtable.retire([self.memtable.count - 1], own)
        return outcome

    def _judge(
        self, pages: Pages, found: Found | None = None, *, arrive: bool = False
    ) -> npt.NDArray[np.uint8]:
        """Decide, hold, or insert and forward pages, in order; return what became of each.

        They `arrive`, or were held.
        """
        batch = self.batch_of(pages, found, arrive=arrive)
        for place in self.replacing(batch):
            self._apply_rule(batch, place)
            self._retire_before(batch, place)
        self._apply_rule(batch, len(pages))
        self._publish_to(batch, len(pages))
        return batch.judged.outcome

    def look_up(self, pages: Pages) -> Found:
        """Find what pages will be judged by, before they come; in any thread."""
        keys, settings = self.own_keys(pages), self.settings
        hits = self.lookup.find(keys, 0)
        numbers = np.unique(hits.rows)
        rows = self.lookup.rows(numbers) if len(numbers) <= ROWS_AHEAD_MAX else None
        urls = self.lookup.urls(pages.urls, 0) if self.tracks_changes else None
        nearest = None
        if settings is not None and settings.also and self._references is not None:
            _, shingles_min = settings.least_of(pages.urls, pages.main)
            asked = self.posted_keys(pages, pages.distinct >= shingles_min)
            nearest = self._references.nearest(pages, *asked, settings)
        return Found(pages.refs, keys, hits, numbers, rows, urls, nearest, settings)

    def batch_of(self, pages: Pages, found: Found | None = None, *, arrive: bool) -> Batch:
        """Look up all that pages are judged by, except what is `found` and still holds."""
        settings = self.settings
        assert settings is not None, "pages before the first CONFIG record"
        if self.next_row + len(pages) >= ROWS_MAX:
            raise StoreMismatch(
                f"The index has numbered {ROWS_MAX:,} kept pages, those that have expired "
                "included, and has no numbers left. Begin a new index; --also compares it with "
                "this one."
            )
        similarity_min, shingles_min = settings.least_of(pages.urls, pages.main)
        comparable = pages.distinct >= shingles_min
        keys, masks = self.posted_keys(pages, comparable)
        nearest = self._nearest(pages, keys, masks, found)
        if found is not None and not found.is_for(keys, self.released_flushes):
            found = None
        hits = found.hits if found else self.lookup.find(keys, self.released_flushes)
        fetch = found.take if found and found.rows is not None else self.lookup.rows
        fetched, places = fetch_candidates(fetch, hits, masks, self._own_keys, self._most_rows)
        if self.forgetting.hides:
            fetched = self._hide(fetched, places, hits, pages)
        limits = self._limits(hits, settings, renews=arrive and settings.renew_on_match)
        arrivals = Arrivals(
            keys,
            masks,
            np.ascontiguousarray(pages.sketches),
            ~comparable | self.last,
            similarity_min,
            pages.times,
            nearest.similarities,
        )
        stored = StoredHits(
            hits.places, hits.starts, hits.rows, places, fetched.sketches, fetched.times
        )
        nearest_min = None
        if limits.margin and self.shards == 1:
            nearest_min = np.maximum(similarity_min - limits.margin, 0).astype(np.int32)
        batch = Batch(pages, arrivals, limits, stored, fetched, nearest, ~comparable, nearest_min)
        if arrive and self.tracks_changes:
            urls = found.urls if found else None
            batch.compared = self._compare(batch, (similarity_min, shingles_min), urls)
        return batch

    @property
    def _most_rows(self) -> int:
        """Return how many stored rows may be candidates of a page."""
        settings = self.settings
        assert settings is not None, "pages before the first CONFIG record"
        expires = settings.expire_after_ms or settings.keep_pages or self._horizon != NO_HORIZON
        # What is hidden, or will be by a page of this batch, leaves room for others.
        passes = expires or self.forgetting.hides or settings.retire_replaced
        passes = passes or settings.across_scopes
        return _NO_LIMIT if passes else settings.candidates_max

    def _hide(self, fetched: KeptRows, places: Places, hits: Hits, pages: Pages) -> KeptRows:
        """Return the rows fetched for pages, without what is forgotten or replaced for these."""
        rows = np.empty(len(fetched.refs), np.int64)
        rows[places[places >= 0]] = hits.rows[places >= 0]
        replacements = _replacements_before(pages) if len(pages) == 1 else -1
        return self.forgetting.hide(fetched, rows, replacements)

    def _limits(self, hits: Hits, settings: IndexSettings, *, renews: bool) -> Limits:
        return Limits(
            settings.bucket_max,
            settings.candidates_max,
            int(settings.measure),
            self._content_bit,
            KEPT if hits.flushes >= self.flushes_begun else FLUSHED,
            settings.expire_after_ms or _NO_LIMIT,
            settings.keep_pages or _NO_LIMIT,
            *self._horizon,
            int(settings.exact),
            settings.margin,
            int(settings.across_scopes),
            settings.contained_min,
            settings.expire_after_ms // 2 if renews and settings.expire_after_ms else _NO_LIMIT,
            settings.keep_pages // 2 if renews and settings.keep_pages else _NO_LIMIT,
        )

    def _apply_rule(self, batch: Batch, end: int) -> None:
        """Judge pages up to one, insert what is new, and renew what some of them match."""
        before = self.memtable.count
        while batch.judged_to < end:
            self.next_row, refused = batch.judge_to(end, self.memtable, self.next_row, self.lookup)
            self.refused += refused
            if old := batch.old_match(self.memtable, self.next_row):
                self._renew_match(batch, old)
        if not self.last:
            self._undecided |= self.memtable.undecided(before)

    # ---- renewal --------------------------------------------------------------------------------

    def _renew_match(self, batch: Batch, old: tuple[int, int]) -> None:
        """Renew what the page of a batch that was judged last matches, here and further along."""
        end = batch.judged_to
        kept = kept_page(batch, old, self.memtable, self.lookup)
        if not self.last:
            self._publish_to(batch, end)
            page = batch.pages.take([end - 1])
            self._pass_on(replace(page, renews=np.array([kept.ref], np.uint64)))
        self._insert_again(kept, int(batch.arrivals.times[end - 1]))

    def _pass_on(self, page: Pages) -> None:
        """Have the next shard renew what this one renews: the page is judged by now."""
        slim = replace(
            page, message_keys=[None], carried=[b""], shingles=None, changes=None, nearest=None,
            headers=None, containers=None, watermarks=np.array([self._told_watermark]),
        )  # fmt: skip
        self._emit(self.number + 1, slim)

    def _renew_by(self, pages: Pages) -> None:
        """Renew here what shards before have renewed, by the pages that did."""
        assert pages.renews is not None, "pages that are to be judged"
        for i in range(len(pages)):
            page = pages.take([i])
            batch = self.batch_of(page, arrive=True)
            if not self.last:
                self._pass_on(page)
            if old := old_row_of(int(pages.renews[i]), batch, self.memtable, self.next_row):
                kept = kept_page(batch, old, self.memtable, self.lookup)
                self._insert_again(kept, int(page.times[0]))

    def _insert_again(self, kept: RenewedPage, time: int) -> None:
        """Insert a kept page as of this time, unless its buckets are full."""
        columns = key_columns(self.number, self.shards, self._all_keys - 1)
        batch = self.batch_of(again(kept, time, columns, self._all_keys), arrive=False)
        batch, before = unmatched(batch, kept.mask), self.next_row
        self.next_row, refused = batch.judge_to(1, self.memtable, before, self.lookup)
        self.refused += refused
        if self.memtable.masks[self.memtable.count - 1]:
            self.renewed += 1
        else:
            self.memtable.remove_last()
            self.next_row = before

    def posted_keys(self, pages: Pages, comparable: npt.NDArray[np.bool_]) -> tuple[Keys, Keys]:
        """Return the pages' keys at this shard, and by bit which of them each has."""
        masks = key_masks(pages, comparable, self._own_keys, self._content_bit)
        return self.own_keys(pages), masks

    def _nearest(
        self, pages: Pages, keys: Keys, masks: Keys, found: Found | None = None
    ) -> Nearest:
        """Return what other indexes have nearest to the pages, where the settings name any."""
        settings = self.settings
        if settings is None or not settings.also:
            return nothing_near(len(pages))
        if found and found.nearest and found.has_nearest(pages.refs, settings):
            return found.nearest
        if self._references is None:
            raise StoreMismatch(missing_reference(settings.also[0]))
        return self._references.nearest(pages, keys, masks, settings)

    @property
    def tracks_changes(self) -> bool:
        """Return whether arriving pages are compared here with the last versions of their URLs."""
        return self.number == 0 and self.settings is not None and self.settings.track_changes

    def _compare(
        self, batch: Batch, least: tuple[Leasts, Leasts], found: FoundUrls | None
    ) -> Compared:
        """Compare pages that arrive with the last versions of their URLs, which may be `found`."""
        pages, limits = batch.pages, batch.limits
        by = Tracking(
            limits.measure,
            *least,
            np.maximum(pages.times - limits.expire_after, limits.oldest_time),
            limits.keep_pages,
            limits.oldest_row,
        )
        if found is None or found.urls != pages.urls:
            found = self.lookup.urls(pages.urls, self.released_flushes)
        return self._urls.compare(pages, found, by, self.forgetting)

    def own_keys(self, pages: Pages) -> npt.NDArray[np.uint64]:
        """Return the pages' keys at this shard; it is asked of nothing that changes."""
        columns = key_columns(self.number, self.shards, pages.keys.shape[1] - 1)
        if len(columns) == pages.keys.shape[1]:
            return np.ascontiguousarray(pages.keys)
        return np.ascontiguousarray(pages.keys[:, columns])

    def _hold(self, row: int, page: Pages) -> None:
        """Hold a page until the undecided one in a row is decided."""
        ref = int(page.refs[0])
        self._held.setdefault(row, []).append(page)
        self._held_refs.add(ref)
        heapq.heappush(self._held_times, (int(page.times[0]), ref))

    def _release(self, row: int) -> list[Pages]:
        """Return the pages that are held for a row; they are not held any more."""
        pages = self._held.pop(row, [])
        self._held_refs.difference_update(int(page.refs[0]) for page in pages)
        return pages

    def _publish_to(self, batch: Batch, end: int) -> None:
        """Publish what has become of the pages up to one, as far as that was not done."""
        part = slice(batch.published, end)
        if part.start == end:
            return
        batch.published = end
        pages, judged, nearest = batch.part(part)
        if batch.compared is not None:
            changes = self._urls.take(batch.pages, part, batch.compared, batch.rows)
            pages = replace(pages, changes=changes)
        pages = batch.with_nearest(pages, judged, nearest, self.memtable)
        for i in np.flatnonzero(judged.outcome == HELD).tolist():
            page = pages.take([i])
            if page.replacements is None and self._retires_by_arrival:
                page.replacements = np.array([self.forgetting.replacements], np.int64)
            self._hold(int(self.memtable.rows[judged.best[i]]), page)
        self._publish(pages, judged, nearest, batch)

    def _publish(self, pages: Pages, judged: Judged, nearest: Nearest, batch: Batch) -> None:
        """Emit the verdicts, the pages to forward and the news for the shards before."""
        part = slice(batch.published - len(pages), batch.published)
        inserted = judged.outcome == UNIQUE
        kept = inserted & batch.arrivals.final[part]
        decided = np.flatnonzero(kept | (judged.outcome == DUPLICATE) | (judged.outcome == EMPTY))
        block = batch.verdicts(pages, judged, nearest, decided, self.memtable)
        if self._prefers:
            ranks = batch.ranks(judged, decided, self.memtable)
            block = self._preferring(block, ranks, batch.rows[part][decided])
        self._emit(VERDICTS, block)
        if self.number:
            self._tell(pages.refs[decided], kept[decided])
        if not self.last:
            forwarded = pages.take(np.flatnonzero(inserted & ~kept))
            forwarded.watermarks[:] = self._told_watermark
            self._emit(self.number + 1, forwarded)

    def _tell(self, refs: npt.NDArray[np.uint64], kept: npt.NDArray[np.bool_]) -> None:
        for shard in range(self.number):
            self._emit(shard, Decisions(refs, kept))

    # ---- decisions from shards further along ----------------------------------------------------

    def _decide(self, ref: int, *, kept: bool) -> None:
        """Take the fate of an undecided page, and free those that wait for it."""
        entry = self._undecided.pop(ref, None)
        if entry is None:
            self.forgetting.gone.discard(ref)
            return
        self.memtable.decide(entry, kept=kept)
        for page in self._release(int(self.memtable.rows[entry])):
            if kept:
                self._duplicate_of(page, entry)
                self.forgetting.doomed.discard(int(page.refs[0]))
            else:
                self._judge_held(page)

    def _judge_held(self, page: Pages) -> None:
        """Judge a page that was held; forget it behind that, if it was named meanwhile."""
        doomed, ref = self.forgetting.doomed, int(page.refs[0])
        outcome = self._judge_late(page)
        if ref in doomed and outcome != HELD:
            doomed.remove(ref)
            if outcome == UNIQUE:
                self._forget(Forget([(REF, ref)]))

    def _duplicate_of(self, page: Pages, entry: int) -> None:
        """Emit the verdict on a page that was held for the entry, now kept."""
        assert self.settings is not None
        verdict = verdict_on_held(page, self.memtable, entry, self.settings, self._content_bit)
        if self._prefers:
            rank, rows = (
                ranks_in(self.memtable.sketches[entry : entry + 1]),
                np.array([self.next_row]),
            )
            verdict = self._preferring(verdict, rank, rows)
        self._emit(VERDICTS, verdict)
        self._tell(page.refs, np.zeros(1, np.bool_))

    # ---- better copies --------------------------------------------------------------------------

    @property
    def _prefers(self) -> bool:
        return self.settings is not None and self.settings.prefers

    def _preferring(self, block: Verdicts, ranks: Keys, rows: Places) -> Verdicts:
        """Return verdicts with what they supersede, without those that are left to shard 0.

        `ranks` are those of the representatives, `rows` how many rows came before each page.
        """
        better = better_copies(block, ranks)
        if not len(better):
            return block
        if self.number == 0:
            return self.superseding(block, ranks, rows)
        self._emit(0, matched(block, ranks, better))
        return block.take(np.delete(np.arange(len(block)), better))

    def superseding(
        self, block: Verdicts, ranks: Keys, rows: Places, *, keep: bool = True
    ) -> Verdicts:
        """Return verdicts, as shard 0 gives them, with what they supersede.

        With `keep` better copies are known from then on.
        """
        better = better_copies(block, ranks)
        supersedes: list[Superseded | None] = [None] * len(block)
        pages = matched(block, ranks, better)
        found = self._supersede(pages, rows[better].tolist(), keep=keep)
        for place, each in zip(better.tolist(), found, strict=True):
            supersedes[place] = each
        return replace(block, supersedes=supersedes)

    def _supersede(
        self, pages: Pages, rows: list[int], *, keep: bool = True
    ) -> list[Superseded | None]:
        settings = self.settings
        assert settings is not None, "pages before the first CONFIG record"
        found = self.lookup.urls(names_of(pages.matches or []), self.released_flushes)
        limits = self.horizon.time, settings.keep_pages or _NO_LIMIT, self._horizon.row
        copies = BestCopies(self._urls, self.forgetting, *limits)
        return copies.supersede(pages, found, rows, keep=keep)

    def _take_back(self, pages: Pages) -> None:
        """Emit the verdicts on better copies that shards behind have found."""
        assert self.settings is not None, "pages before the first CONFIG record"
        block = verdicts_of(pages, exact=self.settings.exact)
        block.supersedes = self._supersede(pages, [self.next_row] * len(pages))
        self._emit(VERDICTS, block)

    # ---- forgetting -----------------------------------------------------------------------------

    def replacing(self, batch: Batch) -> list[int]:
        """Return the places of pages that retire what they replace, unless that has expired."""
        if batch.compared is None or not (self.settings and self.settings.retire_replaced):
            return []
        return batch.compared.replacing()

    def _retire_before(self, batch: Batch, place: int) -> None:
        """Retire what was kept under a page's URL before it is judged, if the page replaces that.

        The last shard waits for no other, and publishes a batch as a whole.
        """
        assert batch.compared is not None
        if not batch.compared.replaces(place, batch.rows, self.next_row):
            return
        if not self.last:
            self._publish_to(batch, place)
        url = batch.pages.urls[place]
        batch.hide(url)
        if self._retires_by_arrival:
            self._replace(url)
        else:
            self._retire(url)

    @property
    def _retires_by_arrival(self) -> bool:
        settings = self.settings
        assert settings is not None, "pages before the first CONFIG record"
        return settings.retire_replaced and settings.version >= RETIRES_BY_ARRIVAL

    def _replace(self, url: bytes) -> None:
        """Have no page with a URL that has come until now answer those that arrive later.

        That holds here and further along. Held pages arrived before.
        """
        replacement = self.forgetting.replace(url, self.next_row)
        self.memtable.retire(self.memtable.entries_of(url), replacement)
        if not self.last:
            self._emit(self.number + 1, Forget([(REPLACED, url)]))

    def _settle_replacements(self) -> None:
        """Settle replacements that no page to come arrived before, here and further along."""
        if self.forgetting.unsettled:
            oldest = self._oldest_arrival()
            if self.forgetting.settle(oldest) and not self.last:
                self._emit(self.number + 1, Forget([(SETTLED, oldest)]))

    def _oldest_arrival(self) -> int:
        """Return after how many replacements all pages arrived that are judged from here on."""
        own = self.forgetting
        held = map(_replacements_before, itertools.chain.from_iterable(self._held.values()))
        oldest = own.oldest if self.number else own.replacements
        return min([oldest, *(each for each in held if each >= 0)])

    def _retire(self, url: bytes) -> None:
        """Have no page with a URL answer others, held ones too, as up to version 4 of the machine.

        That holds for those that have come until now, here and further along.
        """
        self.forgetting.retire(url, self.next_row)
        if not self.last:
            self._emit(self.number + 1, Forget([(RETIRED, url)]))
        for page in itertools.chain.from_iterable(self._held.values()):
            if page.urls[0] == url:
                self.forgetting.doomed.add(int(page.refs[0]))
        self._free(dict.fromkeys(self.memtable.entries_of(url), ""))

    def _forget(self, forget: Forget) -> None:
        """Forget what a record names, pass that on, and judge the pages that waited for any of it.

        What is held when its record comes counts as judged after it.
        """
        own, memtable = self.forgetting, self.memtable
        if forget.terms and self._take_replaced(forget):
            return
        own.records += 1
        terms = Terms.of(forget, self.next_row, own.records)
        own.take(forget, terms)
        if not len(terms):
            return
        if not self.last:
            self._emit(self.number + 1, own.without_question(forget))
        for page in itertools.chain.from_iterable(self._held.values()):
            if terms.find(_ROW_0, page.refs, page.urls, page.times):
                own.doomed.add(int(page.refs[0]))
            for name in ("nearest", "containers"):
                [near] = getattr(page, name) or [None]
                if near is not None and not near.index and terms.find(_ROW_0, *near.column):
                    setattr(page, name, [None])  # it counts as judged behind the record
        count = memtable.count
        self._free(
            terms.find(
                memtable.rows[:count], memtable.refs[:count], memtable.urls, memtable.times[:count]
            )
        )

    def _take_replaced(self, forget: Forget) -> bool:
        """Take what the shard before says of replacements, if this is that; of one kind, then."""
        kind = forget.terms[0][0]
        for _, value in forget.terms:
            if kind == SETTLED:
                self.forgetting.oldest = int(value)
            elif kind in {REPLACED, RETIRED}:
                assert isinstance(value, bytes), value
                (self._replace if kind == REPLACED else self._retire)(value)
        return kind in {SETTLED, REPLACED, RETIRED}

    def _free(self, named: dict[int, str]) -> None:
        """Have entries of the memtable answer no page, each as a command wants it."""
        own, memtable = self.forgetting, self.memtable
        if not named:
            return
        states = memtable.states[[*named]]
        there = (states == UNDECIDED) | (states == KEPT)  # a flushed one is counted in the store
        own.count(itertools.compress(named.values(), there.tolist()))
        memtable.states[[*named]] = FREE
        is_undecided = (states == UNDECIDED) | (states == UNDECIDED | RETIRED_STATE)
        undecided = list(itertools.compress(named, is_undecided.tolist()))
        for ref in memtable.refs[undecided].tolist():
            del self._undecided[ref]
            own.gone.add(ref)
        freed = memtable.rows[undecided].tolist()
        for page in [page for row in freed for page in self._release(row)]:
            self._judge_held(page)

    # ---- state ----------------------------------------------------------------------------------

    @property
    def open_pages(self) -> int:
        """Return the pages that came and have no verdict yet: undecided and held ones."""
        held = sum(map(len, self._held.values()))
        return len(self._undecided) + held + len(self.forgetting.gone)

    @property
    def undecided_pages(self) -> int:
        """Return the pages that are inserted here and may yet be dropped."""
        return len(self._undecided)

    @property
    def kept_in_memtable(self) -> int:
        """Return the memtable's entries that the next flush would move to the store, at most."""
        return self.memtable.count - len(self._undecided) - self._flushed_entries

    @property
    def unflushed(self) -> int:
        """Return how much the next flush would move: kept pages, or versions of URLs if more."""
        return max(self.kept_in_memtable, len(self._urls))

    def begin_flush(self) -> FlushedRows:
        """Return what a flush must write: the next one, of which this is the whole state.

        Its entries stay in the memtable, for look-ups that do not have the flush yet, until
        `flushed` is called; that must be before the next flush. So long the arrays may be the
        memtable's own: nothing changes in an entry's row, keys or sketch.
        """
        assert self.released_flushes == self.flushes_begun, "the flush before is not done"
        versions = self._urls.begin_flush(Horizon(self.watermark, self.next_row), self.settings)
        self.memtable.free_retired(self._oldest_arrival())
        flushed = self.memtable.take_kept(self.state(), self.horizon)
        flushed.versions = versions
        self._flushed_entries = len(flushed.rows)
        self.flushes_begun += 1
        return flushed

    def flushed(self) -> None:
        """Let go of what the last flush holds: from here on, look-ups must have that flush."""
        self.memtable.retain_unflushed()
        self._undecided = self.memtable.undecided()
        self._urls.flushed()
        self._flushed_entries = 0
        self.released_flushes = self.flushes_begun

    def state(self) -> bytes:
        """Return all state that is neither a row nor a posting in the store, as bytes."""
        held = [(row, [pack_pages(page) for page in self._held[row]]) for row in sorted(self._held)]
        settings = self.settings.packed() if self.settings else None
        return pack_state(
            ShardState(
                settings, self.positions, self.sent, self.applied, self.next_row, self.refused,
                self.memtable.pack_undecided(), held, self.watermark, self._horizon,
                self._urls.generation,
                self.forgetting.packed(), self.missing, self.renewed,
            )
        )  # fmt: skip

    def _restore(self, state: ShardState) -> None:
        if settings := unpack_settings(state.settings):
            self._configure(settings)
        self.positions, self.sent, self.missing = state.positions, state.sent, state.missing
        self.renewed = state.renewed
        self.applied, self.next_row, self.refused = (
            state.applied,
            state.next_row,
            state.refused,
        )
        self.watermark, self._horizon = state.watermark, state.horizon
        self._urls.generation = state.generation
        self.forgetting = Forgetting(state.forgotten)
        for row, pages in state.held:
            for page in pages:
                self._hold(row, unpack_pages(page))
        self.memtable.restore_undecided(state.undecided)
        self._undecided = self.memtable.undecided()
