"""`streamer produce` and its topic, on a real broker."""

import gzip
import json
import os
import time
from pathlib import Path

import pytest

from streamer.errors import SettingsError, StreamerError
from streamer.kafka.topics import Topic, ensure_topic, pages_topic
from streamer.pages.chunk import Chunk
from streamer.pages.files import Source
from streamer.pages.parse import PageParser
from tests.helpers.broker import administer, messages_of, send
from tests.helpers.chunks import all_chunks
from tests.helpers.fleet import exit_code
from tests.integration.test_worker import TEXT, page
from tests.unit.pages.test_warc import response


def produce(brokers: str, topic: str, file: Path, content: bytes, partitions: int = 1) -> None:
    file.write_bytes(content)
    arguments = ("--topic", topic, "--brokers", brokers, "--partitions", partitions)
    assert exit_code("produce", file, *arguments) == 0


def test_lines_arrive_unchanged_and_in_order(brokers: str, topic: str, tmp_path: Path) -> None:
    lines = [page(n % 20, fetched_at=n) for n in range(200)]
    produce(brokers, topic, tmp_path / "pages.jsonl", b"\n".join(lines), partitions=3)
    found = messages_of(brokers, topic)
    assert len(found) == 3
    assert sum(map(bool, found.values())) > 1, "all in one partition"
    assert sorted(m.value for held in found.values() for m in held) == sorted(lines)
    places: dict[bytes, int] = {}
    for partition, held in found.items():
        times: dict[bytes, list[int]] = {}
        for message in held:
            sent = json.loads(message.value)
            assert message.key == sent["url"].encode()
            assert places.setdefault(message.key, partition) == partition
            times.setdefault(message.key, []).append(sent["fetched_at"])
        assert all(fetched == sorted(fetched) for fetched in times.values())


def test_bad_lines_and_large_ones_are_sent_and_what_is_nothing_is_counted(
    brokers: str, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [b"{broken", b"", page(1), b"\xff\xfe", page(2, body="x" * (5 << 20)), b"   "]
    lines.append(page(3, body=os.urandom(1_900_000).hex()))
    produce(brokers, topic, tmp_path / "pages.jsonl", b"\n".join(lines) + b"\n")
    sent = [(message.key, message.value) for message in messages_of(brokers, topic)[0]]
    assert sent == [
        (None, lines[0]),
        (b"http://a.example/1", lines[2]),
        (None, lines[3]),
        (b"http://a.example/3", lines[6]),
    ]
    printed = capsys.readouterr().out
    assert "messages sent     4" in printed
    assert "no pages          2" in printed
    assert "too large         1" in printed
    (alone := tmp_path / "large.jsonl").write_bytes(lines[4])
    assert exit_code("produce", alone, "--topic", topic, "--brokers", brokers) == 1
    assert "Nothing was sent" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["page", "body"])
def test_pages_without_the_field_that_is_their_key_are_counted(
    brokers: str, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    lines = [page(1, site="a"), page(2), b"{broken"]
    (file := tmp_path / "pages.jsonl").write_bytes(b"\n".join(lines))
    arguments = ("--topic", topic, "--brokers", brokers, "--key", "site", "--value", value)
    assert exit_code("produce", file, *arguments, "--partitions", 1) == 0
    sent = [message.key for message in messages_of(brokers, topic)[0]]
    assert sent == [b"a", None, None][: 1 if value == "body" else 3]
    assert "without the key   1\n" in capsys.readouterr().out


def test_a_name_that_kafka_does_not_take_is_refused(
    brokers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file := tmp_path / "pages.jsonl").write_bytes(page(1))
    for name in ("a b", "\udcff", "x" * 250):
        assert exit_code("produce", file, "--topic", name, "--brokers", brokers) == 2
        arguments = ("--from-topic", name, "--brokers", brokers)
        assert exit_code("dead-letters", "list", *arguments) == 2
        assert capsys.readouterr().err.count("Use at most 249 letters") == 2


def test_warc_records_become_messages_of_pages(brokers: str, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "pages.warc.gz"
    records = [
        response(f"<p>{TEXT} na\u00efve {number}</p>".encode("latin-1"), ("Content-Type", kind))
        for number, kind in enumerate([*["text/html; charset=latin-1"] * 4, "image/png"])
    ]
    produce(brokers, topic, path, b"".join(map(gzip.compress, records)))
    sent = messages_of(brokers, topic)[0]
    parser = PageParser()
    arrived = parser.parse(Chunk(0, 9, messages=[(m.offset, m.key, m.value) for m in sent]))
    assert [m.key for m in sent] == arrived.urls
    wanted = [parser.parse(chunk) for chunk in all_chunks(Source(str(path), is_regular=True))]
    assert arrived.urls == [url for batch in wanted for url in batch.urls]
    assert len(arrived.urls) == 4
    bodies = [json.loads(m.value)["body"].encode() for m in sent]
    assert bodies == [bytes(body) for batch in wanted for body in batch.bodies]


def ensure(brokers: str, topic: Topic) -> bool:
    made: bool = administer(brokers, lambda admin: ensure_topic(admin, topic))
    return made


def test_a_topic_is_made_once_and_with_other_settings_refused_with_the_remedy(
    brokers: str, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = {"retention.ms": "1000000", "max.message.bytes": "88888"}
    assert [ensure(brokers, Topic(topic, 2, 1, wanted)) for _ in range(2)] == [True, False]
    with pytest.raises(SettingsError, match=r"retention\.ms = 1000000, -1 is needed\. Alter it"):
        ensure(brokers, Topic(topic, 2, 1, {"retention.ms": "-1"}))
    with pytest.raises(SettingsError, match=r"has 2 partitions, 3 are asked for\. Ask for as many"):
        ensure(brokers, Topic(topic, 3, 1))
    capsys.readouterr()
    other = {"retention.ms": "-1", "max.message.bytes": "77777"}
    assert not ensure(brokers, Topic(topic, 2, 1, other, may_expire=True))
    said = capsys.readouterr().out
    assert said.count("messages_expire") == 1
    assert "1000000" in said
    with pytest.raises(SettingsError, match=r"max\.message\.bytes = 88888, 99999 is needed"):
        ensure(brokers, Topic(topic, 2, 1, {"max.message.bytes": "99999"}, may_expire=True))
    with pytest.raises(StreamerError, match="Cannot make the topic no/name"):
        ensure(brokers, Topic("no/name", 1, 1))


def test_a_topic_that_we_make_takes_any_time_and_one_of_pages_none_of_the_future(
    brokers: str, topic: str
) -> None:
    dates = [round(1000 * (time.time() + days * 86_400)) for days in (-400, -1, 0, 1, 400)]
    pages = f"{topic}-pages"
    for each in (Topic(topic, 1, 1, {"retention.ms": "-1"}), pages_topic(pages, 1, 1)):
        ensure(brokers, each)
        for moment in dates:
            send(brokers, each.name, [(None, b"dated", moment)])
    assert [m.timestamp for m in messages_of(brokers, topic)[0]] == dates
    assert [m.timestamp for m in messages_of(brokers, pages)[0]] == dates[:3]


def test_pages_of_other_fields_are_not_sent_unless_their_mapping_is_given(
    brokers: str, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "pages.jsonl.gz"
    lines = [json.dumps({"uri": f"http://a/{n}", "text": TEXT}).encode() for n in range(12)]
    file.write_bytes(gzip.compress(b"\n".join(lines)))
    arguments = ("produce", file, "--topic", topic, "--brokers", brokers, "--partitions", 1)
    assert exit_code(*arguments) == 2
    assert messages_of(brokers, topic) == {0: []}
    assert exit_code(*arguments, "--fields", '{"url": "/uri", "body": "/text"}') == 0
    assert [each.value for each in messages_of(brokers, topic)[0]] == lines
    assert messages_of(brokers, topic)[0][0].key == b"http://a/0"
