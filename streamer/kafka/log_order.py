"""The order in which an index took its pages, as the log of its shard 0 has it.

Records are taken by the one rule of intervals (streamer/index/records.py): what two signers wrote
both, after a rebalance, counts where it stands first. So the intervals of a partition that come out
here follow each other without gaps, whatever the log holds twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamer.index.records import Pages, source_name
from streamer.index.settings import IndexSettings
from streamer.kafka.wire import LogIdentity, unpack_record

_PARTITION = source_name(0)[:-1]


@dataclass(frozen=True, slots=True)
class Interval:
    """The offsets [start, end) of a partition, and at which of them there are pages, ascending."""

    partition: int
    start: int
    end: int
    pages: list[int]


class LogOrder:
    """Reads the records of a log in order, of the index with this identity."""

    def __init__(self, identity: LogIdentity) -> None:
        self._identity = identity
        self._marks: dict[str, int] = {}

    def take(self, data: bytes) -> Interval | IndexSettings | None:
        """Return what the next record says that is new: pages taken, or settings in force.

        None is for what other shards wrote, and for what is passed over.

        Raises:
            StoreMismatch: the record is of a later version, or not of this index.
        """
        record = unpack_record(data, self._identity)
        mark = self._marks.get(record.source, 0)
        if not record.start <= mark < record.end:
            return None
        self._marks[record.source] = record.end
        if isinstance(record.items, IndexSettings):
            return record.items
        if not isinstance(record.items, Pages) or not record.source.startswith(_PARTITION):
            return None
        partition = int(record.source.removeprefix(_PARTITION))
        pages = record.numbers[record.numbers >= mark].tolist()
        return Interval(partition, mark, record.end, pages)
