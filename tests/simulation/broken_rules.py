"""The shard with one rule broken at a time: the simulator has to notice each.

Most rules are broken by overriding the method that keeps them. Those inside the judging kernel are
broken in its source text, which is compiled anew: the text must be there, so that a mutant cannot
quietly become the real thing when the code changes.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MethodType
from typing import Any
from unittest.mock import patch

import numba
import numpy as np

from streamer.index import batch as batch_module
from streamer.index import preferred as preferred_module
from streamer.index import rule as rule_module
from streamer.index.codec import PendingForget, ShardState, pack_state, unpack_state
from streamer.index.forgetting import REPLACED as REPLACED_URL
from streamer.index.forgetting import SETTLED, URL, Forgetting, Terms
from streamer.index.memtable import FREE, UNDECIDED
from streamer.index.messages import Forget, Pages, Record
from streamer.index.ports import BEFORE_ALL, NO_HORIZON, FlushedRows, Horizon
from streamer.index.settings import IndexSettings
from streamer.index.shard import Shard
from streamer.index.url_versions import EDITED, REPLACED, published_changes
from tests.simulation.resharding import FLAWS as RESHARDING


class MarkLast(Shard):
    """A mark a source, but items at or below it are not told apart."""

    def _accept(self, record: Record) -> int | None:
        if record.end <= self.positions.get(record.source, 0):
            return None
        self.positions[record.source] = record.end
        return 0


class MarkFirst(Shard):
    """The mark is the first number of a record instead of its end."""

    def _accept(self, record: Record) -> int | None:
        if record.start + 1 <= self.positions.get(record.source, 0):
            return None
        self.positions[record.source] = record.start + 1
        return 0


class HoleTaken(Shard):
    """A record behind a hole is taken."""

    def _accept(self, record: Record) -> int | None:
        position = self.positions.get(record.source, 0)
        if record.end <= position:
            return None
        self.positions[record.source] = record.end
        return int(np.searchsorted(record.numbers, position))


class ItemMarksLost(Shard):
    """Records between shards are trusted to come once."""

    def _accept(self, record: Record) -> int | None:
        if not record.source.startswith("shard"):
            return super()._accept(record)
        self.positions[record.source] = record.end
        return 0


def _forgetting(**gone: Any) -> type[Shard]:
    class Forgetful(Shard):
        """A flush leaves a part of the state out."""

        def state(self) -> bytes:
            state: ShardState = unpack_state(super().state())
            for name, value in gone.items():
                setattr(state, name, value)
            return pack_state(state)

    return Forgetful


class NoUndecided(Shard):
    """A flush leaves the undecided pages out."""

    def state(self) -> bytes:
        state = unpack_state(super().state())
        for name in ("rows", "keys", "masks", "sketches", "times"):
            setattr(state.undecided, name, b"")
        state.undecided.refs, state.undecided.urls = [], []
        return pack_state(state)


class NoRetired(Shard):
    """A flush leaves out which undecided pages are retired."""

    def state(self) -> bytes:
        state = unpack_state(super().state())
        state.undecided.retired = b""
        return pack_state(state)


class RowAtFlush(Shard):
    """Rows are numbered anew when a flush passes them by."""

    def flushed(self) -> None:
        super().flushed()
        for entry in range(self.memtable.count):
            self.memtable.rows[entry] = self.next_row
            self.next_row += 1


class CapAtFlush(Shard):
    """Buckets are capped when they are written, not when a posting is added."""

    def begin_flush(self) -> FlushedRows:
        flushed = super().begin_flush()
        settings = self.settings
        assert settings is not None
        hits = self.lookup.find(flushed.keys, 0)
        before = dict(zip(hits.places.tolist(), np.diff(hits.starts).tolist(), strict=True))
        counts = dict[int, int]()
        masks = flushed.masks.tolist()
        for i, keys in enumerate(flushed.keys.tolist()):
            for bit, key in enumerate(keys):
                if masks[i] >> bit & 1:
                    there = counts[key] if key in counts else before.get(i * len(keys) + bit, 0)
                    counts[key] = 1 + there
                    masks[i] ^= (counts[key] > settings.bucket_max) << bit
        flushed.masks = np.array(masks, np.uint64)
        return flushed


class NoDrop(Shard):
    """Shards before are told of kept pages only."""

    def _tell(self, refs: Any, kept: Any) -> None:
        super()._tell(refs[kept], kept[kept])


class DropForgets(Shard):
    """Pages that were held for a dropped one are forgotten."""

    def _decide(self, ref: int, *, kept: bool) -> None:
        entry = self._undecided.get(ref)
        if entry is not None and not kept:
            self._undecided.pop(ref)
            self.memtable.states[entry] = FREE
            self._held.pop(int(self.memtable.rows[entry]), None)
        else:
            super()._decide(ref, kept=kept)


class TimesAsTheyCome(Shard):
    """Shard 0 takes each page's time as it is."""

    def _take(self, pages: Pages, found: Any) -> None:
        pages = replace(pages, watermarks=pages.times) if self.number == 0 else pages
        self._judge(pages, found, arrive=True)
        self.watermark = max(self.watermark, int(pages.watermarks[-1]))


class DroppedEarly(Shard):
    """What is dropped may still answer."""

    @property
    def horizon(self) -> Horizon:
        time, row = super().horizon
        return Horizon(time + 3000 if time > 0 else time, row + 4 if row else 0)


class HeldForgotten(Shard):
    """A shard says that nothing older will come, though it holds something older."""

    def _oldest_to_come(self) -> int:
        return self.watermark


class HorizonOfSettings(Shard):
    """Settings let answer again what those before have let expire."""

    def _configure(self, settings: IndexSettings) -> None:
        super()._configure(settings)
        self._horizon = NO_HORIZON


class VersionsLost(Shard):
    """A flush leaves the versions of URLs out."""

    def begin_flush(self) -> FlushedRows:
        flushed = super().begin_flush()
        flushed.versions = None
        return flushed


class HeldArriveAgain(Shard):
    """A page that was held is compared with the last version of its URL when it is judged."""

    def _judge(self, pages: Pages, found: Any = None, *, arrive: bool = False) -> Any:
        del arrive
        return super()._judge(pages, found, arrive=True)


class StoredVersionsFirst(Shard):
    """The store's version of a URL comes before one that was not flushed yet."""

    def _compare(self, batch: Any, least: Any, found: Any) -> Any:
        found = self.lookup.urls(batch.pages.urls, self.released_flushes)
        known = {key for key, version in zip(found.keys, found.versions, strict=True) if version}
        for key in known:
            self._urls._recent.pop(key, None)  # noqa: SLF001 - it is broken from inside
        return super()._compare(batch, least, found)


class OldVersionsAnswer(Shard):
    """A version of a URL answers as long as it is there."""

    def _compare(self, batch: Any, least: Any, found: Any) -> Any:
        wide = batch.limits._replace(expire_after=1 << 60, keep_pages=1 << 60)
        return super()._compare(replace(batch, limits=wide), least, found)


class RetiresLate(Shard):
    """What a page replaces may still answer that page, and those that come with it."""

    def replacing(self, batch: Any) -> list[int]:
        del batch
        return []

    def _publish_to(self, batch: Any, end: int) -> None:
        super()._publish_to(batch, end)
        for place in super().replacing(batch):
            self._replace(batch.pages.urls[place])


class RetiresInTheMemtable(Shard):
    """What is stored of a URL that was replaced goes on answering."""

    def _replace(self, url: bytes) -> None:
        super()._replace(url)
        self.forgetting._replaced_urls[url][-1].row_end = 0  # noqa: SLF001 - it is broken from inside


class RetiresHere(Shard):
    """The shards behind the first are not told of URLs that were replaced."""

    def _emit(self, destination: int, items: Any) -> None:
        if not (isinstance(items, Forget) and items.terms[0][0] in {REPLACED_URL, SETTLED}):
            super()._emit(destination, items)


class ReachesBack(Shard):
    """What is replaced is hidden from held pages that arrived before: as up to version 4."""

    @property
    def _retires_by_arrival(self) -> bool:
        return False


class TextNotPassedOn(Shard):
    """The next shard does not know which pages have no main text."""

    def _emit(self, destination: int, items: Any) -> None:
        if isinstance(items, Pages) and items.main is not None:
            items = replace(items, main=np.ones(len(items), np.bool_))
        super()._emit(destination, items)


class HeldTextLost(Shard):
    """A page that was held is judged as if it had main text."""

    def _judge_held(self, page: Pages) -> None:
        super()._judge_held(
            replace(page, main=page.main if page.main is None else page.main | True)
        )


class HeldArriveLate(Shard):
    """A held page is judged as if it had arrived when it is released."""

    def _judge_held(self, page: Pages) -> None:
        page.replacements = None
        super()._judge_held(page)


class ArrivalNotPassedOn(Shard):
    """The next shard does not know when a page that was held had arrived."""

    def _emit(self, destination: int, items: Any) -> None:
        items = replace(items, replacements=None) if isinstance(items, Pages) else items
        super()._emit(destination, items)


class SettlesAtOnce(Shard):
    """Replacements settle though pages are held that arrived before."""

    def _oldest_arrival(self) -> int:
        return self.forgetting.replacements


class RetiresEdited(Shard):
    """What a page edits is retired, too."""

    def replacing(self, batch: Any) -> list[int]:
        if batch.compared is None or not (self.settings and self.settings.retire_replaced):
            return []
        codes, _ = published_changes(batch.compared.codes)
        return np.flatnonzero((codes == REPLACED) | (codes == EDITED)).tolist()


class VersionsRetired(Shard):
    """A URL that was replaced has no version any more."""

    def _replace(self, url: bytes) -> None:
        super()._replace(url)
        self.forgetting.records += 1
        terms = Terms.of(Forget([(URL, url)]), self.next_row, self.forgetting.records)
        self.forgetting.take(Forget([]), terms)


class ForgetsHere(Shard):
    """What is to be forgotten does not go on to the next shard."""

    def _emit(self, destination: int, items: Any) -> None:
        if not isinstance(items, Forget):
            super()._emit(destination, items)


class MemtableRemembers(Shard):
    """Only stored pages are forgotten."""

    def _forget(self, forget: Forget) -> None:
        states = self.memtable.states[: self.memtable.count].copy()
        undecided = self._undecided.copy()
        super()._forget(forget)
        self.memtable.states[: len(states)] = states
        self._undecided = undecided


class UndecidedRemembered(Shard):
    """What is undecided is not forgotten."""

    def _forget(self, forget: Forget) -> None:
        undecided = self.memtable.states[: self.memtable.count] == UNDECIDED
        times = self.memtable.times[: self.memtable.count][undecided].copy()
        urls, entries = self.memtable.urls, np.flatnonzero(undecided).tolist()
        self.memtable.urls = [b"" if i in entries else url for i, url in enumerate(urls)]
        self.memtable.times[entries] = -BEFORE_ALL
        super()._forget(forget)
        self.memtable.urls[: len(urls)] = urls
        self.memtable.times[entries] = times


def _forgetting_that(**methods: Any) -> type[Shard]:
    """Return a shard whose `Forgetting` has other methods."""

    class Careless(Shard):
        """Has a part of what is to be forgotten go wrong."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            for name, method in methods.items():
                setattr(self.forgetting, name, MethodType(method, self.forgetting))

    return Careless


class HeldRemembered(Shard):
    """What is held is not forgotten when it is inserted."""

    def _judge_held(self, page: Pages) -> None:
        self.forgetting.doomed.discard(int(page.refs[0]))
        self._judge(page)


class WaitsForForgotten(Shard):
    """Pages go on waiting for one that is forgotten."""

    def _forget(self, forget: Forget) -> None:
        held, self._held = self._held, {}
        super()._forget(forget)
        self._held = held | self._held


def _pass_on_at_once(self: Forgetting) -> Forget | None:
    doomed, self.doomed = self.doomed, set()
    questions = Forgetting.pass_on(self)
    self.doomed = doomed
    return questions


def _take_for_all(self: Forgetting, forget: Forget, _terms: Terms) -> None:
    Forgetting.take(self, forget, Terms.of(forget, 1 << 60))


class RenewsInTheMemtable(Shard):
    """Only what is in the memtable is renewed."""

    def _renew_match(self, batch: Any, old: tuple[int, int]) -> None:
        if old[0] >= 0:
            super()._renew_match(batch, old)


class RenewsNothing(Shard):
    """No page is renewed."""

    def _renew_match(self, batch: Any, old: tuple[int, int]) -> None:
        """Leave it as it is."""


class RenewedLate(Shard):
    """A renewed page has the time that it had."""

    def _insert_again(self, kept: Any, time: int) -> None:
        super()._insert_again(kept, time - 3000)


class RenewalsJudged(Shard):
    """What shards behind are to renew is judged there."""

    def _renew_by(self, pages: Pages) -> None:
        self._judge(replace(pages, renews=None))


class PrefersHere(Shard):
    """Each shard knows better copies of its own."""

    def _preferring(self, block: Any, ranks: Any, rows: Any) -> Any:
        return (
            self.superseding(block, ranks, rows)
            if self.number
            else super()._preferring(block, ranks, rows)
        )


class EqualCopiesSupersede(Shard):
    """A copy that is as good as the best one supersedes it."""

    def _preferring(self, block: Any, ranks: Any, rows: Any) -> Any:
        return super()._preferring(block, ranks - np.uint64(1), rows)


class CopiesInMemory(Shard):
    """Better copies are not known any more when they are flushed."""

    def flushed(self) -> None:
        super().flushed()
        self.lookup.urls = self._no_copies  # type: ignore[method-assign]

    def _no_copies(self, urls: list[bytes], flushes: int) -> Any:
        found = type(self.lookup).urls(self.lookup, urls, flushes)
        pairs = zip(urls, found.versions, strict=True)
        kept = [None if url[:1] == b"\xff" else version for url, version in pairs]
        return found._replace(versions=kept)


class CopiesRemembered(Shard):
    """A better copy that is forgotten goes on being the best one."""

    def _supersede(self, *arguments: Any, **options: Any) -> Any:
        with patch.object(preferred_module, "is_hidden", return_value=False):
            return super()._supersede(*arguments, **options)


class CopiesJudged(Shard):
    """A better copy that comes back to shard 0 is judged there again."""

    def _take_back(self, pages: Pages) -> None:
        self._judge(replace(pages, matches=None))


def _with_kernel(old: str, new: str, base: type[Shard] = Shard) -> type[Shard]:
    """Return a shard whose judging kernel has `old` replaced by `new` in its source."""
    source = Path(rule_module.__file__).read_text()
    assert source.count(old) == 1, f"the kernel has changed: {old!r}"
    module = types.ModuleType("broken_rule")
    uncached = source.replace(old, new).replace("@kernel\n", "@uncached\n")
    module.__dict__["uncached"] = numba.njit(nogil=True)
    exec(compile(uncached, "broken_rule", "exec"), module.__dict__)  # noqa: S102 - our own source, altered

    class Broken(base):  # type: ignore[misc, valid-type]
        """Places pages with the altered kernel."""

        def _judge(self, pages: Pages, found: Any = None, *, arrive: bool = False) -> Any:
            with patch.object(batch_module, "judge_pages", module.__dict__["judge_pages"]):
                return super()._judge(pages, found, arrive=arrive)

    return Broken


RULES: dict[str, Callable[[], type[Shard]]] = {
    "mark-last": lambda: MarkLast,
    "mark-first": lambda: MarkFirst,
    "hole-taken": lambda: HoleTaken,
    "item-marks-lost": lambda: ItemMarksLost,
    "no-undecided": lambda: NoUndecided,
    "no-held": lambda: _forgetting(held=[]),
    "no-seen": lambda: _forgetting(positions={}),
    "no-sent": lambda: _forgetting(sent={}),
    "row-at-flush": lambda: RowAtFlush,
    "no-drop": lambda: NoDrop,
    "drop-forgets": lambda: DropForgets,
    "cap-per-store": lambda: _with_kernel(
        "oldest):\n                    sizes[j] += 1\n", "oldest):\n                    pass\n"
    ),
    "cap-at-flush": lambda: _with_kernel(
        "if scratch.sizes[j] >= limits.bucket_max:", "if False:", CapAtFlush
    ),
    "candidates-memtable-first": lambda: _with_kernel(
        "count, hits.rows[k], -1 - place, meets)",
        "count, hits.rows[k] + (1 << 40), -1 - place, meets)",
    ),
    "no-hold": lambda: _with_kernel("elif waits_for >= 0:", "elif False:"),
    "times-as-they-come": lambda: TimesAsTheyCome,
    "dropped-early": lambda: DroppedEarly,
    "held-forgotten": lambda: HeldForgotten,
    "horizon-of-settings": lambda: HorizonOfSettings,
    "versions-lost": lambda: VersionsLost,
    "held-arrive-again": lambda: HeldArriveAgain,
    "stored-versions-first": lambda: StoredVersionsFirst,
    "old-versions-answer": lambda: OldVersionsAnswer,
    "no-generation": lambda: _forgetting(generation=(0, 0, 0)),
    "no-watermark": lambda: _forgetting(watermark=0),
    "no-horizon": lambda: _forgetting(horizon=NO_HORIZON),
    "expires-when-dropped": lambda: _with_kernel(
        "oldest_time = max(pages.times[i] - limits.expire_after, limits.oldest_time)",
        "oldest_time = limits.oldest_time",
    ),
    "newest-when-dropped": lambda: _with_kernel(
        "oldest_row = max(next_row - limits.keep_pages, limits.oldest_row)",
        "oldest_row = limits.oldest_row",
    ),
    "expired-in-store": lambda: _with_kernel(
        "elif _may_answer(hits.rows[k], hits.times[place], oldest):", "else:"
    ),
    "expired-in-buckets": lambda: _with_kernel(
        "if entry >= 0 and _is_candidate(",
        "if entry >= 0 and not _may_answer(memtable.rows[entry], memtable.times[entry], oldest):\n"
        "                sizes[j] += FREE < memtable.states[entry] <= limits.newest_state\n"
        "            if entry >= 0 and _is_candidate(",
    ),
    "scope-meets-itself": lambda: _with_kernel(
        "return across == 0 or not are_of_one_scope(pages.sketches[i], other)", "return True"
    ),
    "scope-in-store-only": lambda: _with_kernel(
        "meets = _may_meet(pages, i, memtable.sketches[entry], limits.across)", "meets = True"
    ),
    "scope-takes-no-place": lambda: _with_kernel(
        "sizes[j] += 1\n                    meets = _may_meet(",
        "sizes[j] += _may_meet(pages, i, hits.sketches[place], limits.across)\n"
        "                    meets = _may_meet(",
    ),
    "prefers-here": lambda: PrefersHere,
    "equal-copies-supersede": lambda: EqualCopiesSupersede,
    "copies-in-memory": lambda: CopiesInMemory,
    "copies-remembered": lambda: CopiesRemembered,
    "copies-judged": lambda: CopiesJudged,
    "named-copies-kept": lambda: _forgetting_that(is_named_open=lambda *_: False),
    "renews-in-the-memtable": lambda: RenewsInTheMemtable,
    "renews-nothing": lambda: RenewsNothing,
    "renewed-late": lambda: RenewedLate,
    "renewals-judged": lambda: RenewalsJudged,
    "retires-late": lambda: RetiresLate,
    "retires-in-the-memtable": lambda: RetiresInTheMemtable,
    "retires-here": lambda: RetiresHere,
    "retired-held": lambda: _forgetting_that(retire_late=lambda *_: 0),
    "reaches-back": lambda: ReachesBack,
    "text-not-passed-on": lambda: TextNotPassedOn,
    "held-text-lost": lambda: HeldTextLost,
    "held-arrive-late": lambda: HeldArriveLate,
    "arrival-not-passed-on": lambda: ArrivalNotPassedOn,
    "settles-at-once": lambda: SettlesAtOnce,
    "no-retired": lambda: NoRetired,
    "retires-edited": lambda: RetiresEdited,
    "versions-retired": lambda: VersionsRetired,
    "forgets-here": lambda: ForgetsHere,
    "memtable-remembers": lambda: MemtableRemembers,
    "undecided-remembered": lambda: UndecidedRemembered,
    "held-remembered": lambda: HeldRemembered,
    "waits-for-forgotten": lambda: WaitsForForgotten,
    "no-forgotten": lambda: _forgetting(forgotten=PendingForget()),
    "store-remembers": lambda: _forgetting_that(hide=lambda _self, kept, *_rows: kept),
    "forgets-later-pages": lambda: _forgetting_that(take=_take_for_all),
    "answers-at-once": lambda: _forgetting_that(pass_on=_pass_on_at_once),
    "hold-is-kept": lambda: _with_kernel("elif _is_kept(place, memtable):", "elif True:"),
    "near-is-undecided": lambda: _with_kernel(
        "score > near_max and _is_kept(place, memtable)", "score > near_max"
    ),
    "container-is-undecided": lambda: _with_kernel(
        "if not _is_kept(place, memtable):", "if False:"
    ),
}
WORLD_FLAWS = ("settings-in-code", *RESHARDING)
