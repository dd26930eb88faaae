"""CPU time of each stage of a replay, taken by wrapping the functions that are the stages.

A stage's time is its own: what a wrapped function spends in another stage's function is counted
there and nowhere else. `time.thread_time` counts the calling thread's processor time, so waiting,
other threads, and the store's own threads do not count. The wrappers are called a few times a
batch, never once a page; their cost is measured and reported. No rate is taken from a wrapped run.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import streamer.run.engine
import streamer.run.stages
from streamer.pages.lines import LineReader
from streamer.pages.parse import PageParser
from streamer.run.judge import Judge
from streamer.run.outputs import OutputFile
from streamer.stored.key_table import KeyTable
from streamer.stored.lookup import StoredLookup
from streamer.stored.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CALIBRATION_CALLS = 20_000


class Stage(NamedTuple):
    """A stage: its budget in microseconds of CPU a page (None: it has none), and its functions."""

    name: str
    budget_us: float | None
    functions: tuple[tuple[Any, str], ...]


STAGES = (
    Stage("reading", None, ((LineReader, "take"),)),
    Stage("JSON to fields", 5, ((PageParser, "parse"),)),
    Stage("sign", 12, ((streamer.run.engine, "sign"),)),
    Stage("memtable, verify, insert", 3, ((Judge, "apply"),)),
    Stage("store: look-ups", 3, ((StoredLookup, "find"), (StoredLookup, "rows"))),
    Stage("store: flushes", 6, ((Store, "flush"),)),
    Stage("store: key table", 6, ((KeyTable, "add"),)),
    Stage(
        "verdict",
        3,
        ((streamer.run.stages, "verdict_lines"), (OutputFile, "write"), (OutputFile, "sync")),
    ),
)


@dataclass(slots=True)
class _Tally:
    """One thread's times; `inner` is what the stages within the present one have taken so far."""

    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    calls: int = 0
    inner: float = 0.0


class StageClock:
    """The times of all stages over all threads, in seconds."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._tallies: list[_Tally] = []

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Wrap the functions of all stages for the time of a `with` block."""
        with ExitStack() as stack:
            for stage in STAGES:
                for owner, name in stage.functions:
                    wrapped = self.timed(stage.name, getattr(owner, name))
                    stack.enter_context(mock.patch.object(owner, name, wrapped))
            yield

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function` with its own CPU time added to a stage's."""

        @functools.wraps(function)
        def call(*args: object, **kwargs: object) -> object:
            tally = self._tally()
            around, tally.inner = tally.inner, 0.0
            begin = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                spent = time.thread_time() - begin
                tally.seconds[stage] += spent - tally.inner
                tally.calls += 1
                tally.inner = around + spent

        return call

    def _tally(self) -> _Tally:
        tally: _Tally | None = getattr(self._local, "tally", None)
        if tally is None:
            tally = self._local.tally = _Tally()
            self._tallies.append(tally)
        return tally

    def seconds(self) -> dict[str, float]:
        """Return each stage's CPU time, in the order of STAGES."""
        return {
            stage.name: sum(tally.seconds[stage.name] for tally in self._tallies)
            for stage in STAGES
        }

    def overhead_seconds(self) -> float:
        """Return about what the wrapping has cost: its calls at the price of an empty one."""
        calls = sum(tally.calls for tally in self._tallies)
        empty = StageClock().timed("", lambda: None)
        begin = time.thread_time()
        for _ in range(CALIBRATION_CALLS):
            empty()
        return calls * (time.thread_time() - begin) / CALIBRATION_CALLS
