"""`streamer replay --from-topic` on a real broker, and next to a real worker."""

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from msgspec.json import Decoder
from msgspec.structs import replace

from streamer import Location, Verdict
from streamer.index.messages import IndexSettings
from streamer.kafka import topic_replay
from streamer.kafka.topics import Names
from streamer.kafka.wire import unpack_record
from streamer.run.replay import Replay
from streamer.testing import Replayer, assert_same_verdicts
from tests.helpers.broker import Sent, delete_topic, make_topic, messages_of, verdicts_of
from tests.helpers.fleet import KEY, exit_code, fleet
from tests.helpers.place import PROSE
from tests.helpers.place import said as printed
from tests.helpers.wait import wait_until

PARTITIONS = 3
TIMESTAMP = 1_700_000_000_000  # of the first message; each offset is a second later


def page(number: int, copy: int = 0) -> Sent:
    """Return a page that shares little with others; copies differ in a word and the URL."""
    words = [f"{word}{number}" for word in (PROSE * 10).format(number).split()]
    if copy:
        words[copy % len(words)] = f"changed{copy}"
    url = f"http://a.example/{number}/{copy}"
    return url.encode(), json.dumps({"url": url, "body": " ".join(words)}).encode()


def crawl(partition: int, first: int = 0, count: int = 60) -> list[Sent]:
    """Return what a topic may hold: pages and copies, bad ones, deletions, no keys."""
    found: list[Sent] = []
    for i in range(first, first + count):
        key, value = page(i % 25, copy=i // 25 + 3 * partition)
        found.append((None if i % 7 == 3 else key, value))
        if i % 20 == 5:
            found += [(key, None), (key, b"{broken"), (None, b""), (b"\xff", b'{"url": "no body"}')]
    return found


def send(
    brokers: str, topic: str, parts: Sequence[list[Sent]], *, transactions: bool = False
) -> None:
    """Send messages by partition; with `transactions` some in each, between others aborted."""
    nobody = [page(900 + n) for n in range(3)]

    async def go() -> None:
        name = f"{topic}-sender" if transactions else None
        options = {"bootstrap_servers": brokers, "transactional_id": name, "linger_ms": 5}
        async with AIOKafkaProducer(**options) as producer:

            async def put(messages: list[Sent], partition: int, at: int) -> None:
                sent = [
                    await producer.send(topic, value, key, partition, TIMESTAMP + 1000 * number)
                    for number, (key, value) in enumerate(messages, at)
                ]
                await asyncio.gather(*sent)

            for partition, messages in enumerate(parts):
                if not transactions:
                    await put(messages, partition, 0)
                for at in range(0, len(messages) * transactions, 25):
                    async with producer.transaction():
                        await put(messages[at : at + 25], partition, at)
                    await producer.begin_transaction()
                    await put(nobody, partition, at)
                    await producer.abort_transaction()

    make_topic(brokers, topic, PARTITIONS)
    asyncio.run(go())


def thresholds(brokers: str, log: str) -> list[float]:
    """Return the thresholds of the settings in a log."""
    items = [unpack_record(message.value).items for message in messages_of(brokers, log)[0]]
    return [settings.threshold for settings in items if isinstance(settings, IndexSettings)]


class Place:
    """A folder to run in; `replay` returns the exit code."""

    def __init__(self, folder: Path, brokers: str) -> None:
        self.folder = folder
        self.brokers = brokers
        self.key = folder / "key"
        self.key.write_text(KEY)

    def replay(self, topic: str, *arguments: object, out: str = "v.jsonl") -> int:
        return exit_code(
            "replay", "--from-topic", topic, "--brokers", self.brokers, "--verdicts",
            self.folder / out, "--threads", 2, "--key-file", self.key, *arguments,
        )  # fmt: skip

    def lines(self, out: str = "v.jsonl") -> list[bytes]:
        return (self.folder / out).read_bytes().splitlines()

    def verdicts(self, out: str = "v.jsonl") -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines(out)]

    def offsets(self, out: str = "v.jsonl") -> list[tuple[int, int]]:
        return [(v["page"]["partition"], v["page"]["offset"]) for v in self.verdicts(out)]


@pytest.fixture
def place(tmp_path: Path, brokers: str) -> Place:
    return Place(tmp_path, brokers)


def judged(verdict: Verdict) -> Verdict:
    """Return a verdict without the places of pages."""
    other, nowhere = verdict.representative, Location("", 0, 0)
    own = other and replace(other, page=nowhere)
    return replace(verdict, page=nowhere, representative=own)


def test_a_topic_gives_the_verdicts_of_its_partitions_as_files(
    streamer_replay: Replayer, brokers: str, topic: str, tmp_path: Path
) -> None:
    parts = [crawl(p) for p in range(PARTITIONS)]
    send(brokers, topic, parts, transactions=True)  # aborted messages are no pages
    for p, messages in enumerate(parts):
        lines = b"\n".join(value or b"" for _, value in messages) + b"\n"
        (tmp_path / f"{p}.jsonl").write_bytes(lines)
    found = streamer_replay(topic=topic, brokers=brokers)
    expected = streamer_replay(tmp_path)
    assert list(map(judged, found)) == list(map(judged, expected))
    assert sum(verdict.is_duplicate for verdict in found) > 20
    held = {
        (p, message.offset): message.value or b""
        for p, messages in messages_of(brokers, topic).items()
        for message in messages
    }
    places = [(v.page.partition, v.page.offset) for v in found]
    assert places == sorted(places)
    assert [json.loads(held[place])["url"] for place in places] == [v.url for v in found]
    dead, as_files = found.dead_letters, expected.dead_letters
    assert [(d.code, d.value_base64) for d in dead] == [(d.code, d.value_base64) for d in as_files]
    assert {each.page.topic for each in (*found, *dead)} == {topic}
    assert len(dead) == PARTITIONS * 3 * 2


def test_with_the_order_of_an_index_the_verdicts_are_the_workers_byte_by_byte(
    streamer_replay: Replayer, place: Place, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"index-{topic}"
    keyless = ("replay", "--from-topic", topic, "--order-of", name, "--verdicts", place.folder)
    assert exit_code(*keyless) == 2
    assert "Give it with --key-file" in printed(capsys)
    send(place.brokers, topic, [crawl(p) for p in range(PARTITIONS)], transactions=True)
    names, own = Names(name, topic), ("--index", place.folder / "worker")
    with fleet(place.folder, place.brokers, names) as workers:
        workers.settle("all", *own)
        pages = [json.loads(value)["page"] for value in verdicts_of(place.brokers, names)]
        before = {(page["partition"], page["offset"]) for page in pages}
        assert workers.kill("all", signal.SIGTERM) == 0
        workers.start("all", *own, "--threshold", 0.99)
        wait_until(lambda: thresholds(place.brokers, f"{name}.bands.0") == [0.8, 0.99])
        send(place.brokers, topic, [crawl(p, first=200, count=40) for p in range(PARTITIONS)])
        workers.wait_until_settled()
        assert workers.kill("all", signal.SIGTERM) == 0
    published = verdicts_of(place.brokers, names)
    index = ("--index", place.folder / "index")
    # What the command line says of the threshold is for indexes that have none of their own.
    assert place.replay(topic, "--order-of", name, "--threshold", 0.3, *index, out="o.jsonl") == 0
    assert len(published) == PARTITIONS * 100
    replayed = streamer_replay(
        topic=topic, brokers=place.brokers, order_of=name, key_file=place.key
    )
    assert_same_verdicts(replayed, map(Decoder(Verdict).decode, published))
    assert sorted(place.lines("o.jsonl")) == sorted(published)
    similarities: dict[bool, list[float]] = {True: [], False: []}
    for verdict in place.verdicts("o.jsonl"):
        where = verdict["page"]["partition"], verdict["page"]["offset"]
        similarities[where in before].append(verdict["similarity"] or 1.0)
    assert min(similarities[True]) < 0.99, "the first threshold has no effect"
    assert min(similarities[False]) >= 0.99, "the change has no effect"
    assert place.replay(topic, "--order-of", name, *index, out="o.jsonl") == 0
    assert sorted(place.lines("o.jsonl")) == sorted(published)
    assert place.replay(topic, "--index", place.folder / "worker" / "shard-0", out="w.jsonl") == 3


def test_only_what_is_asked_for_is_judged(place: Place, topic: str) -> None:
    parts = [[page(100 * p + i) for i in range(30)] for p in range(PARTITIONS)]
    send(place.brokers, topic, parts)
    assert place.replay(topic, "--partitions", "0,2", "--offsets", "0:10-20,2:25-") == 0
    expected = [(0, o) for o in range(10, 20)] + [(2, o) for o in range(25, 30)]
    assert place.offsets() == expected
    # The moment is between the messages 7 and 8.
    arguments = ("--until", "2023-11-14T22:13:27.500Z", "--offsets", "1:5-")
    assert place.replay(topic, *arguments, out="until.jsonl") == 0
    assert place.offsets("until.jsonl") == [(1, o) for o in range(5, 8)]
    assert place.replay(topic, "--until", "2100-01-01", out="all.jsonl") == 0
    assert len(place.lines("all.jsonl")) == 90


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--offsets", "0:10-31"], 1, "Partition 0 of {} has the offsets 0 to 30"),
        (["--order-of", "x", "--until", "2026-01-01"], 2, "leave out --until"),
        (["--order-of", "nowhere"], 1, "There is no topic nowhere.bands.0"),
        (["--order-of", "no/name"], 2, "no name that Kafka takes"),
        (["--from-topic", "nowhere"], 1, "There is no topic nowhere"),
        (["pages.jsonl"], 2, "PAGES or --from-topic"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_with_the_remedy(
    place: Place, refusing: str, arguments: list[str], code: int, said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert place.replay(refusing, *arguments) == code
    assert said.format(refusing) in printed(capsys)
    assert not (place.folder / "v.jsonl").exists()


@pytest.fixture(scope="module")
def refusing(brokers: str) -> str:
    name = f"refusing-{os.getpid()}"
    send(brokers, name, [[page(i) for i in range(30)] for _ in range(PARTITIONS)])
    return name


class KilledError(Exception):
    """The end of a process without any flush."""


def stopped_after(monkeypatch: pytest.MonkeyPatch, chunks: int) -> None:
    """End as by a kill before the chunk with this number is judged."""
    judge, left = Replay._judge_chunk, [chunks]  # noqa: SLF001 - where a stop may come is inside

    def stopping(self: Replay, *arguments: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KilledError
        judge(self, *arguments)

    monkeypatch.setattr(Replay, "_judge_chunk", stopping)


def test_a_run_that_was_killed_goes_on_and_each_line_is_there_once(
    place: Place, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_replay, "RECORDS_MAX", 12)
    send(place.brokers, topic, [crawl(p) for p in range(PARTITIONS)], transactions=True)
    arguments = ("--head-pages", 10)
    assert place.replay(topic, *arguments, out="quiet.jsonl") == 0
    index = ("--index", place.folder / "index")
    for chunks in (7, 6):
        with monkeypatch.context() as patch:
            stopped_after(patch, chunks)
            with pytest.raises(KilledError):
                place.replay(topic, *arguments, *index)
    assert 0 < len(place.lines()) < len(place.lines("quiet.jsonl"))
    assert place.replay(topic, *arguments, *index) == 0
    for end in ("", ".dead.jsonl"):
        assert place.lines(f"v.jsonl{end}") == place.lines(f"quiet.jsonl{end}")
    assert place.replay(topic, *arguments, *index) == 0
    assert place.lines() == place.lines("quiet.jsonl")


def test_a_topic_that_has_grown_goes_on_and_one_made_anew_is_refused(
    place: Place, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [[page(100 * p + i) for i in range(5)] for p in range(PARTITIONS)]
    index = ("--index", place.folder / "index")
    send(place.brokers, topic, parts)
    assert place.replay(topic, *index) == 0
    send(place.brokers, topic, [[page(1)], [], [page(777)]])
    assert place.replay(topic, *index) == 0
    assert place.offsets()[15:] == [(0, 5), (2, 5)]
    assert [v["verdict"] for v in place.verdicts()[15:]] == ["duplicate", "unique"]
    delete_topic(place.brokers, topic)
    send(place.brokers, topic, [part * 3 for part in parts])
    before = place.lines()
    assert place.replay(topic, *index) == 3
    assert "made again" in printed(capsys)
    assert place.lines() == before
