"""A topic as the input of a replay: one partition after the other, or in the order of an index.

A topic has no order across its partitions. By default, partitions are read one after the other by
number, each by offset and in chunks that depend on the messages alone. With the order of an index's
log, pages come as its worker took them, under the settings that were in force there. With one shard
the verdicts are then the worker's, byte for byte.
"""

from collections.abc import Iterator, Mapping

from streamer.errors import InputError, StoreMismatch
from streamer.index.messages import Forget, IndexSettings
from streamer.kafka.reader import BYTES_MAX, RECORDS_MAX
from streamer.kafka.topic_input import Interval, LogOrder, PageTopic, Range
from streamer.kafka.topics import Names
from streamer.kafka.wire import LogIdentity
from streamer.pages.chunk import Chunk
from streamer.pages.parse import tombstones_in
from streamer.run.catalogue import Catalogue
from streamer.run.reading import Forgotten, InputReport, Step


class PartitionsInput:
    """Partitions one after the other, by number; amounts are offsets.

    With `takes_tombstones` a message without a value means to forget the URL that is its key.
    The first chunk of a partition covers all offsets from the index's position on, also those that
    are not asked for or have expired: they are skipped for good.
    """

    def __init__(
        self, topic: PageTopic, ranges: Mapping[int, Range], *, takes_tombstones: bool = False
    ) -> None:
        self._topic = topic
        self._takes_tombstones, self._ranges = takes_tombstones, ranges
        self._entered: dict[int, tuple[int, int]] = {}  # by partition: number, position
        self.amount_in_all = sum(wanted.end - wanted.start for wanted in ranges.values())
        self.report = InputReport()

    def enter(self, catalogue: Catalogue) -> None:
        """Enter the partitions in the catalogue.

        Raises:
            StoreMismatch: the topic was made again or has lost messages, or the index has another
                order.
        """
        self._entered = _enter(catalogue, self._topic, "", list(self._ranges))
        for partition, wanted in self._ranges.items():
            position = self._entered[partition][1]
            if 0 < position < wanted.start and not wanted.named:
                raise StoreMismatch(
                    f"Partition {partition} of {self._topic.name} begins at {wanted.start}, the "
                    f"index is at {position}: messages have expired unread. Give --offsets "
                    f"{partition}:{wanted.start}- to go on without them, or a new --index."
                )

    def steps(self) -> Iterator[Step]:
        """Yield what is in the ranges and was not judged."""
        before = 0
        for partition, wanted in self._ranges.items():
            number, position = self._entered[partition]
            start = max(position, wanted.start)
            if start < wanted.end:
                self._topic.begin({partition: start})
            while start < wanted.end:
                read = self._topic.read(partition, wanted.end, RECORDS_MAX, BYTES_MAX)
                messages, times, headers, start = read
                amount = before + start - wanted.start
                gone = tombstones_in(messages) if self._takes_tombstones else []
                yield Chunk(
                    position, start, amount, messages=messages, times=times, headers=headers,
                    source=number, tombstones=gone,
                )  # fmt: skip
                position = start
            before += wanted.end - wanted.start


class OrderedInput:
    """All pages of a topic that an index has taken, in the order of its log; amounts are records.

    Or all of one `partition` that has an index of its own. `fingerprint` is that of the settings
    and key of this run.
    """

    def __init__(
        self, topic: PageTopic, names: Names, fingerprint: str, partition: int | None = None
    ) -> None:
        self._topic, self._partition = topic, partition
        self._log = log = names.log(partition or 0)
        self._identity = LogIdentity(fingerprint, topic.id, names.per_partition)
        self._entered: dict[int, tuple[int, int]] = {}
        first, self.amount_in_all = topic.log_bounds(log)
        if first:
            raise StoreMismatch(
                f"The first {first} records of the log {log} have expired, and its order with them "
                "any more. Replay without --order-of."
            )
        self.report = InputReport()

    def enter(self, catalogue: Catalogue) -> None:
        """Enter all partitions in the catalogue, once the log is known to be of these pages.

        Raises:
            StoreMismatch: the log is of other pages, settings or keys, or as for PartitionsInput.
        """
        if self.amount_in_all:
            order = LogOrder(self._identity)
            for _, data in self._topic.log(self._log, 1):
                order.read_record(data)
        log_id = self._topic.id_of(self._log)
        every = [*self._topic.bounds] if self._partition is None else [self._partition]
        self._entered = _enter(catalogue, self._topic, log_id, every)

    def steps(self) -> Iterator[Step]:
        """Yield the chunks of the log that have not been judged, and its settings."""
        bounds = self._topic.bounds
        starts = {p: max(at, bounds[p][0]) for p, (_, at) in self._entered.items()}
        self._topic.begin({p: at for p, at in starts.items() if at < bounds[p][1]})
        order = LogOrder(self._identity)
        settings: IndexSettings | None = None
        announced: IndexSettings | None = None
        for offset, data in self._topic.log(self._log, self.amount_in_all):
            found = order.read_record(data)
            if isinstance(found, IndexSettings):
                settings = found
            elif isinstance(found, Forget):
                yield Forgotten(found, offset)
            elif found is not None and (chunk := self._chunk(found, offset + 1)) is not None:
                if settings is not None and settings != announced:
                    yield settings
                    announced = settings
                yield chunk
        if settings is not None:
            yield settings

    def _chunk(self, interval: Interval, amount: int) -> Chunk | None:
        """Return the messages of an interval, or None where all of it has been judged."""
        partition, end = interval.partition, interval.end
        first, last = self._topic.bounds.get(partition, (0, 0))
        if end > last:
            raise InputError(
                f"The log has taken partition {partition} of {self._topic.name} up to {end}, the "
                f"topic has it up to {last}: it has lost messages. Restore it."
            )
        number, position = self._entered[partition]
        start = max(interval.start, position)
        if start >= end:
            return None
        pages = [offset for offset in interval.pages if offset >= start]
        if pages and pages[0] < first:
            raise InputError(
                f"Partition {partition} of {self._topic.name} begins at {first}, the log has a "
                f"page at {pages[0]}: it has expired. Replay without --order-of."
            )
        read = self._topic.read(partition, end) if end > first else ([], [], [], end)
        messages, times, headers, _ = read
        return Chunk(
            start, end, amount, messages=messages, times=times, headers=headers, source=number,
            expected_pages=pages,
            tombstones=[each for each in interval.tombstones if each[0] >= start],
        )  # fmt: skip


def _enter(
    catalogue: Catalogue, topic: PageTopic, order: str, partitions: list[int]
) -> dict[int, tuple[int, int]]:
    """Return by partition its number in the catalogue and its position."""
    if catalogue.entries and catalogue.order != order:
        raise StoreMismatch(
            "The index has taken its pages in another order: --order-of must name the same log in "
            "every run. Start over with a new --index."
        )
    catalogue.order = order
    entered = {}
    for partition in partitions:
        number = catalogue.enter_partition(topic.name, topic.id, partition)
        position = catalogue.entries[number].position
        if position > topic.bounds[partition][1]:
            raise StoreMismatch(
                f"Partition {partition} of {topic.name} ends at {topic.bounds[partition][1]}, the "
                f"index is at {position}: the topic has lost messages. Restore it, or start over "
                "with a new --index."
            )
        entered[partition] = number, position
    return entered
