"""One replay in a process of its own, its memory sampled on the way and taken apart at its end.

As timed_replay.py, it is the command `streamer replay` with a stopwatch in the progress bar's
place, pinned to two cores. Beside a file it reads standard input, and it takes the number of
shards; for that it counts the records that went from one shard to the next.

    producer | python -m benchmarks.sampled_replay - result.json --folder scratch
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import msgspec

import streamer.cli.replay as command
from benchmarks import memory
from benchmarks.resident import resident
from benchmarks.timed_replay import Span, Stopwatch, pin, replay_options, replayed
from streamer.cli.summary import Summary, summarise
from streamer.index.types import shard_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from streamer.pages.files import Source
    from streamer.run.judge import Judge
    from streamer.run.replay import Progress

STEP = 1_000_000


class Sample(msgspec.Struct, frozen=True):
    """Bytes in memory after so many pages, and how many of them are anonymous."""

    pages: int
    rss_bytes: int
    anonymous_bytes: int


class SampledRun(msgspec.Struct, frozen=True):
    """What one replay did.

    Attributes:
        cpu_seconds: of all threads, from the first read to the last flush.
        spans: the run in parts, in order; without the flush at the end, which `seconds` includes.
        samples: the memory at the end of each part.
        memory: what the memory was made of when the run was done.
        hops: pages that a shard handed on to the next, counted at each hand-over.
        flushes: of the index, which holds what it has in so many parts.
    """

    pages: int
    unique: int
    duplicates: int
    seconds: float
    cpu_seconds: float
    spans: list[Span]
    samples: list[Sample]
    memory: memory.Memory
    hops: int
    index_bytes: int
    index_pages: int
    flushes: int = 0

    @property
    def rate(self) -> float:
        """Return pages a second over the whole run, its last flush included."""
        return self.pages / self.seconds

    @property
    def rates(self) -> list[float]:
        """Return pages a second of each part; without a last one too short to compare."""
        whole = self.spans[0].pages / 2 if self.spans else 0
        return [span.pages / span.seconds for span in self.spans if span.pages >= whole]

    @property
    def cpu_us(self) -> float:
        """Return microseconds of CPU a page."""
        return 1e6 * self.cpu_seconds / self.pages

    @property
    def peak_bytes(self) -> int:
        """Return the most memory that was seen: the system notes its own peak now and then only."""
        return max(self.memory.resident.peak_bytes, *(one.rss_bytes for one in self.samples), 0)

    @property
    def index_bytes_a_page(self) -> float:
        """Return the bytes of the index's files a kept page."""
        return self.index_bytes / max(1, self.index_pages)


class SamplingStopwatch(Stopwatch):
    """A stopwatch that notes the memory too, at every `step` records."""

    def __init__(self, step: int) -> None:
        super().__init__(step)
        self.samples: list[Sample] = []

    @contextmanager
    def watch(self, sources: Sequence[Source], *_: object) -> Iterator[Progress]:
        """Yield the function that a replay tells its progress."""
        with super().watch(sources) as report:

            def sampled(bytes_read: int, records: int) -> None:
                report(bytes_read, records)
                if records >= (len(self.samples) + 1) * self._step:
                    now = resident()
                    self.samples.append(Sample(records, now.total_bytes, now.anonymous_bytes))

            yield sampled


class _AtEnd:
    """Note what only an open judge can tell, at the end of a replay."""

    def __init__(self, base_bytes: int) -> None:
        self._base_bytes = base_bytes
        self.memory: memory.Memory | None = None
        self.hops = self.flushes = 0

    def summarise(self, outcome: Any, catalogue: Any, judge: Judge, folder: Any) -> Summary:  # noqa: ANN401 - passed on
        """Stand in for the command's function of this name."""
        self.memory = memory.measure(judge, self._base_bytes)
        self.flushes = folder.store.flushes
        self.hops = sum(shard.sent.get(shard_name(shard.number + 1), 0) for shard in judge.shards)
        return summarise(outcome, catalogue, judge, folder)


def sampled_replay(
    pages: str, folder: Path, *, step: int, head_pages: int | None, shards: int | None
) -> SampledRun:
    """Replay a file, or `-`, into a new index in `folder`, which must be empty."""
    stopwatch, at_end = SamplingStopwatch(step), _AtEnd(memory.base_bytes())
    with mock.patch.object(command, "summarise", at_end.summarise):
        summary = replayed(stopwatch, pages, folder, head_pages, shards)
    assert at_end.memory is not None
    return SampledRun(
        pages=summary["pages"],
        unique=summary["unique"],
        duplicates=summary["duplicates"],
        seconds=summary["seconds"],
        cpu_seconds=stopwatch.cpu_seconds,
        spans=stopwatch.spans(),
        samples=stopwatch.samples,
        memory=at_end.memory,
        hops=at_end.hops,
        index_bytes=summary["index_bytes"],
        index_pages=summary["index_pages"],
        flushes=at_end.flushes,
    )


def main() -> None:
    """Run one replay as the command line says; write the result as JSON."""
    parser = replay_options("Replay pages once; measure speed and memory.", STEP)
    parser.add_argument("--shards", type=int, help="as of streamer replay")
    arguments = parser.parse_args()
    pin()
    run = sampled_replay(
        arguments.pages,
        arguments.folder,
        step=arguments.step,
        head_pages=arguments.head_pages,
        shards=arguments.shards,
    )
    arguments.result.write_bytes(msgspec.json.encode(run))


if __name__ == "__main__":
    main()
