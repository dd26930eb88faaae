"""The audit of an index, step by step: logs, verdicts, dead letters, records, conclusions.

The steps come in this order, since each is held against the ones before: a log is folded before the
verdicts are read, and a record is looked at when all that could have become of it is known.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamer.kafka.audit.outcomes import Outcomes
from streamer.kafka.audit.pairs import KeptPages
from streamer.kafka.audit.published import PublishedVerdicts
from streamer.kafka.audit.reading import LogReading
from streamer.kafka.audit.report import Report
from streamer.kafka.audit.scene import Scene
from streamer.kafka.audit.shard_log import ExpectedVerdicts, ShardLog
from streamer.kafka.audit.streams import Streams
from streamer.kafka.audit.table import PageTable


class IndexAudit:
    """Audits the index in `scene`; scratch files go to `folder`, which must be empty."""

    def __init__(self, scene: Scene, folder: Path) -> None:
        self._scene = scene
        self._folder = folder
        self._report = Report(settled=scene.settled)
        ends = {partition: end for partition, (_, end) in scene.page_bounds.items()}
        self._table = PageTable(ends, scene.shards)
        self._streams = Streams()
        self._kept = KeptPages(folder, scene.shards, scene.bands)
        self._covered = LogReading()
        self._expected: list[ExpectedVerdicts] = []

    @contextmanager
    def log(self, number: int) -> Iterator[ShardLog]:
        """Audit the log of a shard, in the shards' order: give it every record, then leave."""
        folder = self._folder / f"shard-{number}"
        folder.mkdir()
        log = ShardLog(self._scene, number, folder, self._table, self._streams, self._kept)
        try:
            yield log
        finally:
            log.close()
        self._expected.append(log.finish(self._report))
        if number == 0:
            self._covered = log.reading
        shutil.rmtree(folder)

    @contextmanager
    def verdicts(self) -> Iterator[PublishedVerdicts]:
        """Audit the verdicts: give it every message, then leave."""
        verdicts = PublishedVerdicts(self._scene, self._table, self._expected, self._report)
        yield verdicts
        verdicts.finish()

    @contextmanager
    def outcomes(self) -> Iterator[Outcomes]:
        """Audit the records: give it every dead letter, then every record, then leave."""
        outcomes = Outcomes(self._scene, self._table, self._covered, self._report)
        yield outcomes
        outcomes.finish()

    def conclude(self) -> Report:
        """Return what was found."""
        self._streams.compare(self._report.log_items)
        self._kept.compare(self._report)
        return self._report
