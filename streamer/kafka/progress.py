"""What a worker's log says of its progress, and of what is wrong with its input: once a minute.

The numbers are those of the metrics, so that a log alone is enough where nobody collects these. A
minute in which nothing has changed has no line, but ten of them have one.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog
from prometheus_client.metrics_core import Metric

from streamer.kafka.measures import SignMeasures
from streamer.metrics import Metrics

TELL_SECONDS = 60.0
SILENT_SECONDS_MAX = 600.0
MOSTLY = 0.5  # dead letters, as a share of what was read since the line before
RECORDS_MIN = 10  # fewer say nothing

_log = structlog.get_logger()


class _Collector(Protocol):
    def collect(self) -> Any: ...  # noqa: ANN401 - an iterable of families, which the client types loosely


@dataclass(frozen=True, slots=True)
class _Counts:
    """What the metrics say at a moment; counters since the start of the process."""

    read: int
    signed: int
    judged: int
    kept: int
    applied: int
    lag: int
    log_lag: int
    open_pages: int
    dead: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)


class ProgressLog:
    """Tells of the progress of a worker that signs, or owns shards, or both."""

    def __init__(
        self,
        metrics: Metrics,
        signing: SignMeasures,
        *,
        signs: bool,
        owns: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self._signing = signing
        self._signs = signs
        self._owns = owns
        self._clock = clock
        self._before = self._counts()
        self._looked_at = self._told_at = clock()

    async def run(self) -> None:
        """Tell each minute; never returns."""
        while True:
            await asyncio.sleep(TELL_SECONDS)
            self.tell()

    def tell(self) -> None:
        """Log what was done since the last look, if anything was, and warn of what looks wrong."""
        now, counts, before = self._clock(), self._counts(), self._before
        if counts != before or now - self._told_at >= SILENT_SECONDS_MAX:
            done = counts.judged - before.judged if self._owns else counts.signed - before.signed
            rate = done / (now - self._looked_at)
            _log.info("worker_progress", pages_per_second=round(rate, 1), **self._shown(counts))
            self._told_at = now
        for event, fields in self._warnings(counts, before):
            _log.warning(event, **fields)
        self._before, self._looked_at = counts, now

    def _shown(self, counts: _Counts) -> dict[str, int]:
        shown: dict[str, int] = {}
        if self._owns:
            shown |= {"judged": counts.judged, "kept": counts.kept}
            shown |= {"log_lag_records": counts.log_lag, "open_pages": counts.open_pages}
        if self._signs:
            shown |= {"signed": counts.signed, "dead_letters": counts.dead.total()}
            shown |= {"skipped": counts.skipped.total(), "lag_records": counts.lag}
        return shown

    def _warnings(self, now: _Counts, before: _Counts) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what is wrong: an event, and its values."""
        read, dead = now.read - before.read, now.dead - before.dead
        if read >= RECORDS_MIN and dead.total() > MOSTLY * read:
            code, count = dead.most_common(1)[0]
            yield (
                "mostly_dead_letters",
                {
                    "reason": f"{dead.total():,} of {read:,} records read since the last look "
                    f"became dead letters, {count:,} of them for {code}. Check --fields and "
                    "--preset; docs/dead-letters.md explains the code.",
                    "code": code,
                    "example": self._signing.newest_dead.get(code, ""),
                },
            )
        elif read >= RECORDS_MIN and now.signed == before.signed:
            code = (now.skipped - before.skipped).most_common(1)[0][0]
            yield (
                "nothing_judged",
                {
                    "reason": f"None of {read:,} records read since the last look was a page; "
                    f"most were skipped for {code}. Check that this is the topic of pages.",
                    "code": code,
                },
            )
        if now.lag and before.lag and now.read == before.read:
            yield "nothing_judged", {"reason": self._why_not_read(), "lag_records": now.lag}
        if now.log_lag and before.log_lag and now.applied == before.applied:
            yield (
                "nothing_judged",
                {
                    "reason": "No record of the log was applied since the last look, and there are "
                    "some. See that the brokers are up and the disk is not full.",
                    "log_lag_records": now.log_lag,
                },
            )

    def _why_not_read(self) -> str:
        if _total(self._metrics.signing.paused):
            return (
                "The signers wait for shard 0, which has too many pages open. See that the owners "
                "of all shards are up, and whether they keep up."
            )
        return "No record was read since the last look, and there are some. See the brokers."

    def _counts(self) -> _Counts:
        signing, shards = self._metrics.signing, self._metrics.shards
        return _Counts(
            read=_total(signing.records_read),
            signed=_total(signing.pages_signed),
            judged=_total(shards.verdicts),
            kept=_total(shards.kept_pages),
            applied=_total(shards.records_applied),
            lag=_total(signing.lag_records),
            log_lag=_total(shards.lag_records),
            open_pages=_total(shards.undecided_pages) + _total(shards.held_pages),
            dead=_by_code(signing.dead_letters),
            skipped=_by_code(signing.skipped_records),
        )


def _total(metric: _Collector) -> int:
    """Return the sum of a metric's values over all labels."""
    return int(sum(sample.value for family in metric.collect() for sample in family.samples))


def _by_code(metric: _Collector) -> Counter[str]:
    families: list[Metric] = list(metric.collect())
    samples = (sample for family in families for sample in family.samples)
    return Counter({sample.labels["code"]: int(sample.value) for sample in samples})
