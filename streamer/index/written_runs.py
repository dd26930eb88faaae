"""What look-ups take over of runs that were just written, so that none is read again for it.

It is noted while a run's file is written, and handed out once; a merge carries over what nobody has
taken of the runs that it replaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from streamer.index.codec import RunMeta
from streamer.index.postings import Keys, Rows
from streamer.index.run_keys import RunKeys


class Written(NamedTuple):
    """What a look-up takes over of a run just written; `new` are keys that no run had before."""

    keys: RunKeys
    new: list[Keys]


class WrittenRuns:
    """The notes of written runs, by shard and seq."""

    def __init__(self) -> None:
        self._written: dict[tuple[int, int], Written] = {}

    def noted(
        self, shard: int, run: RunMeta, parts: Iterable[tuple[Keys, Rows]], *, new: bool
    ) -> Iterator[tuple[Keys, Rows]]:
        """Yield the parts of a run as they are, and note their keys."""
        written = self._written[shard, run.seq] = Written(RunKeys(run.postings), [])
        for keys, rows in parts:
            written.keys.add(keys)
            if new:
                written.new.append(keys)
            yield keys, rows

    def carry_over(self, shard: int, runs: Sequence[RunMeta], merged: RunMeta) -> None:
        """Note the new keys of merged runs that nobody has taken with the run that they are now."""
        for run in runs:
            if untaken := self.take(shard, run):
                self._written[shard, merged.seq].new.extend(untaken.new)

    def take(self, shard: int, run: RunMeta) -> Written | None:
        """Hand out what was noted of a run when it was written; once."""
        return self._written.pop((shard, run.seq), None)
