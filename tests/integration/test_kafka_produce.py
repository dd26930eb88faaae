"""`streamer produce` and its topic, on a real broker."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from warcio.recordloader import ArcWarcRecord
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from streamer.cli.main import run
from streamer.errors import SettingsError, StreamerError
from streamer.kafka.topics import Topic, ensure_topic
from streamer.pages.files import Source
from streamer.pages.parse import PageParser
from tests.helpers.broker import broker, free_port, messages_of, running_broker

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "the quick brown fox jumps over a lazy dog while animals of the farm look on"


def page(number: int, **more: Any) -> bytes:
    message = {"url": f"http://a.example/{number}", "body": f"{TEXT} {number}", **more}
    return json.dumps(message).encode()


def streamer(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["streamer", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        run()
    return ended.value.code if isinstance(ended.value.code, int) else 0


def test_lines_arrive_as_they_are_and_fetches_of_a_page_in_order(
    brokers: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [page(n % 20, fetched_at=n) for n in range(200)]
    (tmp_path / "pages.jsonl").write_bytes(b"\n".join(lines))
    arguments = ("--topic", topic, "--brokers", brokers, "--partitions", 3)
    assert streamer(monkeypatch, "produce", tmp_path / "pages.jsonl", *arguments) == 0
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


def test_bad_lines_are_sent_and_what_is_nothing_is_counted(
    brokers: str,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = [b"{broken", b"", page(1), b"\xff\xfe", page(2, body="x" * (5 << 20)), b"   "]
    (tmp_path / "pages.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    arguments = ("--topic", topic, "--brokers", brokers, "--partitions", 1)
    assert streamer(monkeypatch, "produce", tmp_path / "pages.jsonl", *arguments) == 0
    sent = [(message.key, message.value) for message in messages_of(brokers, topic)[0]]
    assert sent == [(None, lines[0]), (b"http://a.example/1", lines[2]), (None, lines[3])]
    printed = capsys.readouterr().out
    assert "messages sent     3" in printed
    assert "no pages          2" in printed
    assert "too large         1" in printed


def test_a_page_near_the_limit_passes(
    brokers: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = page(1, body=os.urandom(1_900_000).hex())
    (tmp_path / "pages.jsonl").write_bytes(page(0) + b"\n" + large + b"\n")
    arguments = ("--topic", topic, "--brokers", brokers, "--partitions", 1)
    assert streamer(monkeypatch, "produce", tmp_path / "pages.jsonl", *arguments) == 0
    assert [len(m.value) for m in messages_of(brokers, topic)[0]] == [len(page(0)), len(large)]


def test_warc_records_become_messages_of_the_same_pages(
    brokers: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pages.warc.gz"
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=True)
        for number in range(5):
            html = f"<html><body><p>{TEXT} na\u00efve {number}</body></html>".encode("latin-1")
            kind = "text/html; charset=latin-1" if number < 4 else "image/png"
            http = StatusAndHeaders("200 OK", [("Content-Type", kind)], protocol="HTTP/1.1")
            block = http.to_ascii_bytes() + html
            about = [("WARC-Type", "response"), ("WARC-Target-URI", f"http://w.example/{number}")]
            head = StatusAndHeaders("", about, protocol="WARC/1.1")
            writer.write_record(
                ArcWarcRecord(
                    "warc",
                    "response",
                    head,
                    io.BytesIO(block),
                    None,
                    "application/http",
                    len(block),
                )
            )
    arguments = ("--topic", topic, "--brokers", brokers, "--partitions", 1)
    assert streamer(monkeypatch, "produce", path, *arguments) == 0
    sent = messages_of(brokers, topic)[0]
    parser = PageParser()
    arrived = parser.parse_messages(0, 9, [(m.offset, m.key, m.value) for m in sent])
    assert [m.key for m in sent] == arrived.urls
    wanted = [parser.parse(chunk) for chunk in Source(str(path), is_regular=True).read()]
    assert arrived.urls == [url for batch in wanted for url in batch.urls]
    assert len(arrived.urls) == 4
    bodies = [json.loads(m.value)["body"].encode() for m in sent]
    assert bodies == [bytes(body) for batch in wanted for body in batch.bodies]


def test_brokers_that_are_not_there_are_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pages.jsonl").write_bytes(page(1))
    nowhere = f"127.0.0.1:{free_port()}"
    arguments = ("--topic", "pages", "--brokers", nowhere)
    assert streamer(monkeypatch, "produce", tmp_path / "pages.jsonl", *arguments) == 1
    printed = " ".join(capsys.readouterr().err.split())
    assert f"{nowhere}: it is not reached" in printed
    assert "check --brokers" in printed


def ensure(brokers: str, *topics: Topic) -> list[bool]:
    async def call() -> list[bool]:
        admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
        await admin.start()
        try:
            return [await ensure_topic(admin, topic) for topic in topics]
        finally:
            await admin.close()

    return asyncio.run(call())


def test_a_topic_is_made_once_with_its_settings(brokers: str, topic: str) -> None:
    wanted = Topic(topic, 2, 1, {"retention.ms": "-1", "max.message.bytes": "77777"})
    assert ensure(brokers, wanted, wanted) == [True, False]


def test_a_topic_with_other_settings_is_refused_with_the_remedy(brokers: str, topic: str) -> None:
    ensure(brokers, Topic(topic, 2, 1, {"retention.ms": "1000"}))
    with pytest.raises(SettingsError, match=r"retention\.ms = 1000, -1 is needed\. Alter it"):
        ensure(brokers, Topic(topic, 2, 1, {"retention.ms": "-1"}))
    with pytest.raises(SettingsError, match=r"has 2 partitions, 3 are asked for\. Ask for as many"):
        ensure(brokers, Topic(topic, 3, 1))


def test_a_topic_that_we_make_takes_messages_of_any_time(brokers: str, topic: str) -> None:
    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=brokers) as producer:
            for days in (-400, -1, 0, 1, 400):
                moment = round(1000 * (time.time() + days * 86_400))
                await producer.send_and_wait(topic, b"%d" % days, timestamp_ms=moment)

    ensure(brokers, Topic(topic, 1, 1, {"retention.ms": "-1"}))
    asyncio.run(send())
    assert [m.value for m in messages_of(brokers, topic)[0]] == [b"-400", b"-1", b"0", b"1", b"400"]


def test_what_the_brokers_refuse_is_told(brokers: str) -> None:
    with pytest.raises(StreamerError, match="Cannot make the topic no/name"):
        ensure(brokers, Topic("no/name", 1, 1))


def test_a_broker_keeps_its_messages_when_it_is_stopped_and_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pages.jsonl").write_bytes(page(1))
    port = free_port()
    with running_broker(tmp_path / "broker", port) as started:
        assert "running already" in broker("start", tmp_path / "broker", port)
        arguments = ("--topic", "pages", "--brokers", started, "--partitions", 1)
        assert streamer(monkeypatch, "produce", tmp_path / "pages.jsonl", *arguments) == 0
    assert "not running" in broker("stop", tmp_path / "broker")
    with running_broker(tmp_path / "broker", port) as started:
        assert [m.value for m in messages_of(started, "pages")[0]] == [page(1)]
