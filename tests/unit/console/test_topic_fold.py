"""The fold of topics: what a failure, or a message of another program, leaves of a poll."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError, KafkaError, TopicAuthorizationFailedError

from streamer.console.answers import ConsoleData
from streamer.console.inputs import FoldedLine
from streamer.console.overview import OverviewQuery, overview
from streamer.console.topic_fold import Layout, TopicFold
from streamer.console.view import VerdictView
from streamer.errors import StreamerError
from streamer.kafka.connection import Connection
from streamer.kafka.reader import Reader
from streamer.kafka.topics import Names
from tests.helpers.kafka_doubles import FakeMessage
from tests.helpers.verdict_lines import unique

NAMES = Names("streamer", "pages")
Topics = Mapping[str, Sequence[FakeMessage]]


class FoldOfLists(TopicFold):
    """Reads lists of messages in place of topics, each with one partition."""

    def __init__(self, view: VerdictView, topics: Topics) -> None:
        super().__init__(view, Connection("127.0.0.1:1"), NAMES)
        self.topics = topics
        self.positions: dict[TopicPartition, int] = {}
        self.failures: list[Exception] = []
        self.topic_id = "id"

    async def _connect(self) -> None:
        self._layout = Layout(
            {topic: [0] for topic in self.topics}, dict.fromkeys(self.topics, self.topic_id)
        )
        self._reader = cast("Reader", object())  # which nothing here uses
        self._ended = dict.fromkeys(self._layout.places(*self.topics), 1 << 30)
        starts = {place: self.topics[place.topic][0].offset for place in self._ended}
        self.positions = {place: self._begin(place, start) for place, start in starts.items()}

    async def _fetch(self) -> tuple[list[tuple[TopicPartition, Sequence[Any], int]], bool]:
        found: list[tuple[TopicPartition, Sequence[Any], int]] = []
        for place, position in self.positions.items():
            held = [each for each in self.topics[place.topic] if each.offset >= position][:3]
            if held:
                self.positions[place] = held[-1].offset + 1
                found.append((place, held, self.positions[place]))
        return found, True

    async def _look(self) -> bool:
        return False

    def close(self) -> None:
        self._disconnect()
        super().close()

    def _add(self, lines: Iterable[FoldedLine]) -> int:
        if self.failures:
            raise self.failures.pop()
        return super()._add(lines)


@contextmanager
def folding(folder: Path, topics: Topics) -> Iterator[tuple[FoldOfLists, ConsoleData]]:
    with closing(VerdictView(folder / "view")) as view, closing(FoldOfLists(view, topics)) as fold:
        yield fold, ConsoleData(view, 5, fold=fold.state)


def verdict(offset: int, *, timestamp: int = 1_700_000_000_000, said: bytes = b"") -> FakeMessage:
    value = said or msgspec.json.encode(unique(offset))
    return FakeMessage(offset, value, topic=NAMES.verdicts, timestamp=timestamp)


VERDICTS = [verdict(offset) for offset in range(7)]


@pytest.mark.parametrize(
    "failure", [sqlite3.OperationalError("disk is full"), MemoryError()], ids=repr
)
def test_a_failure_loses_no_verdict(tmp_path: Path, failure: Exception) -> None:
    with folding(tmp_path, {NAMES.verdicts: VERDICTS}) as (fold, data):
        fold.failures = [failure]
        with pytest.raises((StreamerError, MemoryError)):
            fold.go_on()
        fold.go_on()
        assert overview(data, OverviewQuery()).pages == 7


BAD = {
    "not UTF-8": msgspec.json.encode(unique(1))[:-1] + b',"carried":{"a":"\xff"}}',
    "too large": msgspec.json.encode(unique(1)).replace(
        b'"partition":0', b'"partition":%d' % 2**64
    ),
    "no JSON": b"{",
}


@pytest.mark.parametrize("name", BAD)
def test_a_message_of_another_program_is_passed_over_alone(tmp_path: Path, name: str) -> None:
    messages = [*VERDICTS[:1], verdict(1, said=BAD[name]), *VERDICTS[2:]]
    with folding(tmp_path, {NAMES.verdicts: messages}) as (fold, data):
        fold.go_on()
        found = overview(data, OverviewQuery())
        assert (found.pages, [each.lines for each in found.inputs]) == (6, [7])
        assert "the message at offset 1 is no verdict" in found.state.warnings[0]


def test_what_the_view_cannot_hold_is_passed_over_alone(tmp_path: Path) -> None:
    with folding(tmp_path, {NAMES.verdicts: VERDICTS}) as (fold, data):
        fold.failures = [OverflowError("too large"), OverflowError("a group, too")]
        fold.go_on()
        found = overview(data, OverviewQuery())
        assert (found.pages, [each.lines for each in found.inputs]) == (6, [7])
        assert "at offset 0 is no verdict (too large)" in found.state.warnings[0]


@pytest.mark.parametrize("timestamp", [-1, 9 * 10**17])
def test_a_time_that_cannot_be_stops_no_view(tmp_path: Path, timestamp: int) -> None:
    messages = [verdict(0, timestamp=timestamp)]
    with folding(tmp_path, {NAMES.verdicts: messages}) as (fold, data):
        fold.go_on()
        found = overview(data, OverviewQuery())
        assert (found.pages, len(found.history.bars)) == (1, 1)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TopicAuthorizationFailedError("pages"), "have refused since .* They say TopicAuth"),
        (KafkaConnectionError("gone"), "have been unreachable since .* KafkaConnectionError"),
        (TimeoutError(), "have been unreachable since .* They do not answer in time."),
    ],
    ids=["no right", "away", "late"],
)
def test_the_cause_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: KafkaError | TimeoutError, said: str
) -> None:
    async def refused(_fold: FoldOfLists) -> bool:
        raise error

    monkeypatch.setattr(FoldOfLists, "_look", refused)
    topics = {NAMES.verdicts: VERDICTS}
    with folding(tmp_path, topics) as (fold, _), pytest.raises(StreamerError, match=said):
        fold.go_on()


def test_messages_that_expired_unread_are_counted(tmp_path: Path) -> None:
    with folding(tmp_path, {NAMES.verdicts: VERDICTS[2:4]}) as (fold, data):
        fold.go_on()
        assert " 2 messages expired before" in overview(data, OverviewQuery()).state.warnings[0]
        fold.topics = {NAMES.verdicts: [verdict(5)]}
        fold.failures = [MemoryError()]
        with pytest.raises(MemoryError):
            fold.go_on()  # and it connects again
        fold.go_on()
        found = overview(data, OverviewQuery())
        assert (found.pages, len(found.state.warnings)) == (3, 1)
        assert " 3 messages expired before" in found.state.warnings[0]


def test_a_topic_made_again_is_another_though_it_begins_further_on(tmp_path: Path) -> None:
    with folding(tmp_path, {NAMES.verdicts: VERDICTS[:2]}) as (fold, data):
        fold.go_on()
        fold.topics, fold.topic_id = {NAMES.verdicts: [verdict(5)]}, "another"
        fold._reader = None  # noqa: SLF001 - the connection is lost
        fold.go_on()
        assert overview(data, OverviewQuery()).pages == 1
