"""Copies of kept pages: which topics may have them, and how far they have come."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from streamer.errors import SettingsError
from streamer.kafka.dead_letters import INDEX
from streamer.kafka.kept_topic import CopyProgress, check_kept_topic, decode_progress, has_copies
from streamer.kafka.owner import SEQUENCE
from streamer.kafka.reader import Fetched
from streamer.kafka.topics import Names, dead_letter_bytes_max, kept_topic
from tests.helpers.kafka_doubles import FakeMessage

NAMES = Names("streamer", "pages")


OURS = ["pages", "pages-dlt", "streamer.verdicts", "streamer.gauge", "streamer.bands.11"]


@pytest.mark.parametrize("name", [*OURS, "", ".", "a b", "x" * 201])
def test_a_topic_of_the_index_and_a_name_that_kafka_does_not_take_are_refused(name: str) -> None:
    said = "this index reads or writes" if name in OURS else "--kept-topic cannot be"
    with pytest.raises(SettingsError, match=said):
        check_kept_topic(NAMES, name)


def test_copies_keep_their_time_and_have_room_for_headers() -> None:
    check_kept_topic(NAMES, "unique")
    topic = kept_topic("unique", 3, dead_letter_bytes_max(1000), 2)
    assert (topic.partitions, topic.replicas) == (3, 2)
    assert topic.config["max.message.bytes"] == str(1000 + (64 << 10))
    assert topic.config["message.timestamp.type"] == "CreateTime"
    assert "cleanup.policy" not in topic.config, "it may be compacted"


def take(progress: CopyProgress, number: bytes | None) -> bool | None:
    return progress.advance([("other", b"0:0"), (SEQUENCE, number)])


def test_a_repeated_verdict_is_no_new_one_at_any_shard() -> None:
    progress = CopyProgress("verdicts", "log")
    numbers = [b"0:3", b"0:5", b"1:0", b"0:3", b"0:5", b"1:0", b"0:6", b"1:9", b"1:8"]
    assert [take(progress, each) for each in numbers] == [
        True, True, True, False, False, False, True, True, False,
    ]  # fmt: skip
    assert progress.following == {0: 7, 1: 10}


@pytest.mark.parametrize("number", [None, b"", b"x:1", b"1:", b"1", b"-1:2"])
def test_a_message_without_a_number_is_no_verdict(number: bytes | None) -> None:
    progress = CopyProgress("verdicts", "log")
    assert take(progress, number) is None
    assert progress.advance([]) is None
    assert progress.following == {}


def test_progress_is_committed_as_a_short_text() -> None:
    progress = CopyProgress("v" * 32, "l" * 32, dict.fromkeys(range(48), 1 << 40))
    text = progress.encode()
    assert decode_progress(text) == progress
    assert len(text) < 4096, "brokers take no more: offset.metadata.max.bytes"


@pytest.mark.parametrize("text", [None, "", "copied by hand", "{}", "[1]"])
def test_what_another_program_committed_says_nothing(text: str | None) -> None:
    assert decode_progress(text) is None


class CopiesReader:
    """A topic with the copies of indexes by partition and offset; notes which ranges are read."""

    def __init__(
        self, bounds: Sequence[tuple[int, int]], copies: Mapping[tuple[int, int], str]
    ) -> None:
        self._bounds = bounds
        self._copies = copies
        self.ranges: list[tuple[int, int, int]] = []

    async def partitions(self, _topic: str) -> list[int]:
        return list(range(len(self._bounds)))

    async def bounds(self, _topic: str, partition: int) -> tuple[int, int]:
        return self._bounds[partition]

    async def read(
        self, topic: str, partition: int, start: int, end: int
    ) -> AsyncIterator[Fetched]:
        self.ranges.append((partition, start, end))
        records = [
            FakeMessage(offset, b"page", headers=((INDEX, b"of the page"), (INDEX, index.encode())))
            for (where, offset), index in self._copies.items()
            if where == partition and start <= offset < end
        ]
        yield Fetched(topic, partition, start, end, records)


def looked(reader: Any) -> bool:
    return asyncio.run(has_copies(reader, "unique", "ours"))


@pytest.mark.parametrize("offset", [20, 700, 899, 900, 999])
def test_a_copy_is_found_behind_what_hides_it(offset: int) -> None:
    """Aborted transactions leave offsets without messages, and other indexes their copies."""
    others = {(1, each): "other" for each in range(20, 1000, 3)}
    assert looked(CopiesReader([(0, 0), (20, 1000)], {**others, (1, offset): "ours"}))


def test_a_search_for_copies_goes_back_in_growing_steps_and_ends_at_the_start() -> None:
    reader = CopiesReader([(0, 0), (20, 1000), (5, 6)], {(1, 990): "other"})
    assert not looked(reader)
    assert reader.ranges == [
        (1, 900, 1000), (1, 700, 900), (1, 300, 700), (1, 20, 300), (2, 5, 6),
    ]  # fmt: skip
