"""The shard with one rule broken at a time: the simulator has to notice each.

Most rules are broken by overriding the method that keeps them. Those inside the judging kernel are
broken in its source text, which is compiled again: the text must be there, so that a mutant cannot
quietly become the real thing when the code changes.
"""

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
from streamer.index import log_time
from streamer.index import rule as rule_module
from streamer.index import url_versions as versions_module
from streamer.index.codec import PendingForget, ShardState, TimeState, pack_state, unpack_state
from streamer.index.forgetting import ASK, Forgetting, Terms
from streamer.index.log_time import LogTime
from streamer.index.messages import Forget, IndexSettings, Pages, Record, Verdicts
from streamer.index.ports import NO_HORIZON, FlushedRows, Horizon
from streamer.index.shard import Shard


class MarkLast(Shard):
    """A record is taken whole unless its end was seen."""

    def _accept(self, record: Record) -> int | None:
        if record.end <= self.positions.get(record.source, 0):
            return None
        self.positions[record.source] = record.end
        return 0


class MarkFirst(Shard):
    """The position is the first number of a record instead of its end."""

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


def _forgetting(**gone: Any) -> type[Shard]:
    class Forgetful(Shard):
        """A flush leaves a part of the state out."""

        def state(self) -> bytes:
            state: ShardState = unpack_state(super().state())
            for name, value in gone.items():
                setattr(state, name, value)
            return pack_state(state)

    return Forgetful


class CapAtFlush(Shard):
    """Buckets are capped when they are written, not when a posting is added."""

    def begin_flush(self) -> FlushedRows:
        flushed = super().begin_flush()
        settings = self.settings
        assert settings is not None
        hits = self.lookup.find(flushed.keys, 0)
        before = dict(zip(hits.key_places.tolist(), np.diff(hits.starts).tolist(), strict=True))
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


class TimesAsTheyCome(Shard):
    """Each page's time is taken as it is."""

    def _judge_pages(self, pages: Pages, found: Any) -> Verdicts:
        def advance(self: LogTime, dates: Any, _refs: Any, age: int) -> Any:
            self.now = max(self.now, int(dates[-1]))
            return dates, dates - age

        with patch.object(LogTime, "advance", advance):
            return super()._judge_pages(pages, found)


class DatesBelieved(Shard):
    """Any date moves the time."""

    def _judge_pages(self, pages: Pages, found: Any) -> Verdicts:
        with patch.object(log_time, "AHEAD_MAX_MS", 1 << 60):
            return super()._judge_pages(pages, found)


class NoJumps(Shard):
    """Pages that came before the time moved count as of the time before."""

    def _judge_pages(self, pages: Pages, found: Any) -> Verdicts:
        with patch.object(LogTime, "by_rows", lambda _self, time: time):
            return super()._judge_pages(pages, found)


class DroppedEarly(Shard):
    """What is dropped may still answer."""

    @property
    def horizon(self) -> Horizon:
        time, row = super().horizon
        return Horizon(time + 3000 if time > 0 else time, row + 4 if row else 0)


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


class StoredVersionsFirst(Shard):
    """The store's version of a URL comes before one that was not flushed yet."""

    def _compare(self, pages: Pages, by: Any, found: Any) -> Any:
        found = self.lookup.urls(pages.urls, self.released_flushes)
        known = {key for key, version in zip(found.keys, found.versions, strict=True) if version}
        for key in known:
            self._urls._recent.pop(key, None)  # noqa: SLF001 - it is broken from inside
        return super()._compare(pages, by, found)


class OldVersionsAnswer(Shard):
    """A version of a URL answers as long as it is there."""

    def _compare(self, pages: Pages, by: Any, found: Any) -> Any:
        wide = by._replace(oldest_times=by.oldest_times - (1 << 60), keep_pages=1 << 60)
        return super()._compare(pages, wide, found)


class VersionsRemembered(Shard):
    """A version of a URL that is forgotten answers."""

    def _compare(self, *arguments: Any) -> Any:
        with patch.object(versions_module, "is_hidden", return_value=False):
            return super()._compare(*arguments)


class TextLost(Shard):
    """All pages are judged as if they had main text."""

    def _judge_pages(self, pages: Pages, found: Any) -> Verdicts:
        return super()._judge_pages(replace(pages, main=None), found)


class MemtableRemembers(Shard):
    """Only stored pages are forgotten."""

    def _forget(self, forget: Forget) -> None:
        states = self.memtable.states[: self.memtable.count].copy()
        super()._forget(forget)
        self.memtable.states[: len(states)] = states


def _forgetting_that(**methods: Any) -> type[Shard]:
    """Return a shard whose `Forgetting` has other methods."""

    class Careless(Shard):
        """Has a part of what is to be forgotten go wrong."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            for name, method in methods.items():
                setattr(self.forgetting, name, MethodType(method, self.forgetting))

    return Careless


def _take_for_all(self: Forgetting, forget: Forget, _terms: Terms) -> None:
    Forgetting.accept(self, forget, Terms.of(forget, 1 << 60))


def _answer_at_once(self: Forgetting, forget: Forget, terms: Terms) -> None:
    Forgetting.accept(self, forget, terms)
    self.done |= {value.decode(): 0 for kind, value in forget.terms if kind == ASK}  # type: ignore[union-attr]


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

        def _judge_pages(self, pages: Pages, found: Any) -> Any:
            with patch.object(batch_module, "judge_pages", module.__dict__["judge_pages"]):
                return super()._judge_pages(pages, found)

    return Broken


RULES: dict[str, Callable[[], type[Shard]]] = {
    "mark-last": lambda: MarkLast,
    "mark-first": lambda: MarkFirst,
    "hole-taken": lambda: HoleTaken,
    "no-seen": lambda: _forgetting(positions={}),
    "no-numbers": lambda: _forgetting(verdicts=0),
    "no-generation": lambda: _forgetting(generation=(0, 0, 0)),
    "no-time": lambda: _forgetting(time=TimeState()),
    "no-horizon": lambda: _forgetting(horizon=NO_HORIZON),
    "no-forgotten": lambda: _forgetting(forgotten=PendingForget()),
    "cap-per-store": lambda: _with_kernel(
        "oldest):\n                    sizes[j] += 1\n", "oldest):\n                    pass\n"
    ),
    "cap-at-flush": lambda: _with_kernel(
        "if scratch.sizes[j] >= limits.bucket_max:", "if False:", CapAtFlush
    ),
    "candidates-memtable-first": lambda: _with_kernel(
        "count, hits.rows[k], -1 - place)", "count, hits.rows[k] + (1 << 40), -1 - place)"
    ),
    "last-of-equals": lambda: _with_kernel("elif score > score_max:", "elif score >= score_max:"),
    "near-is-far": lambda: _with_kernel("if score > near_max:", "if score >= 0:"),
    "times-as-they-come": lambda: TimesAsTheyCome,
    "dates-believed": lambda: DatesBelieved,
    "no-jumps": lambda: NoJumps,
    "dropped-early": lambda: DroppedEarly,
    "horizon-of-settings": lambda: HorizonOfSettings,
    "versions-lost": lambda: VersionsLost,
    "stored-versions-first": lambda: StoredVersionsFirst,
    "old-versions-answer": lambda: OldVersionsAnswer,
    "versions-remembered": lambda: VersionsRemembered,
    "text-lost": lambda: TextLost,
    "expires-when-dropped": lambda: _with_kernel(
        "(pages.oldest_times[i], oldest_row)", "(-(1 << 60), oldest_row)"
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
    "memtable-remembers": lambda: MemtableRemembers,
    "store-remembers": lambda: _forgetting_that(hide=lambda _self, kept, _rows: kept),
    "forgets-later-pages": lambda: _forgetting_that(accept=_take_for_all),
    "answers-at-once": lambda: _forgetting_that(accept=_answer_at_once),
}
WORLD_FLAWS = ("settings-in-code",)
