"""A range is cut into chunks by bytes and records; brokers that are away are asked again."""

import asyncio
import itertools
import random
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from unittest.mock import AsyncMock, Mock

import pytest

from streamer.errors import StreamerError
from streamer.kafka import reader
from streamer.kafka.connection import Connection
from streamer.kafka.reader import BYTES_MAX, RECORDS_MAX, BrokersAwayError, await_brokers, cut
from tests.helpers.kafka_doubles import FakeMessage
from tests.helpers.ports import free_port


def test_chunks_cover_all_that_was_read_gaps_included() -> None:
    draw = random.Random(1)
    small, large = b"x" * 10, b"x" * 10_000
    for count in [0, *(draw.randint(1, 6000) for _ in range(50))]:
        offsets = sorted(draw.sample(range(100, 10_000), count))
        records = [FakeMessage(offset, draw.choice((small, large))) for offset in offsets]
        chunks = list(cut("pages", 0, 90, 10_010, records))
        assert chunks[0].start == 90
        assert chunks[-1].end == 10_010
        assert all(a.end == b.start for a, b in itertools.pairwise(chunks))
        assert [record for chunk in chunks for record in chunk.records] == records
        for chunk in chunks:
            assert all(chunk.start <= record.offset < chunk.end for record in chunk.records)
            assert len(chunk.records) <= RECORDS_MAX
            assert sum(r.serialized_value_size for r in chunk.records[:-1]) < BYTES_MAX


ASKING = {
    "worker": "worker --key-file key --health-port 0",
    "produce": "produce pages.jsonl --topic pages", "tail": "tail", "verify": "verify",
    "replay": "replay --from-topic pages --verdicts v.jsonl",
    "dead letters": "dead-letters list --index-name streamer", "forget": "forget --url a --dry-run",
}  # fmt: skip


@pytest.mark.parametrize("name", ASKING)
def test_a_wrong_port_is_named_at_once_with_how_long_it_is_tried(name: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("ab" * 32)
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "pages.jsonl").write_text('{"url": "a", "body": "b"}\n')
    brokers = f"127.0.0.1:{free_port()}"
    words = [sys.executable, "-m", "streamer", *ASKING[name].split(), "--brokers", brokers]
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as asking:
        assert asking.stderr is not None
        said = next(line for line in asking.stderr if "Trying again" in line)
        ends_at_once = asking.poll() is not None
        asking.kill()
    assert f"{brokers}: it is not reached" in said
    assert "check --brokers. Trying again for 10 seconds." in said
    assert not ends_at_once


def test_what_is_waited_for_is_said_once_and_then_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.kafka.reader.ANSWER_SECONDS", 0.6)
    monkeypatch.setattr("streamer.kafka.reader.FIRST_ANSWER_SECONDS", 0.2)
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for address in (f"127.0.0.1:{silent.getsockname()[1]}", f"127.0.0.1:{free_port()}"):
            began = time.monotonic()
            with pytest.raises(BrokersAwayError):
                asyncio.run(await_brokers(Connection(address), said.append))
            assert 0.5 < time.monotonic() - began < 5
    assert ["does not answer" in said[0], "is not reached" in said[1], len(said)] == [True, True, 2]


def test_a_fetch_that_is_cancelled_with_its_consumer_ends_nobody_else() -> None:
    stop, close = AsyncMock(side_effect=asyncio.CancelledError), AsyncMock()
    asyncio.run(reader.stop_consumer(Mock(stop=stop, _client=Mock(close=close))))
    close.assert_awaited_once()


def test_a_setting_that_will_not_do_is_no_reason_to_wait() -> None:
    said: list[str] = []

    async def refuse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def ask() -> None:
        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        with closing(server):
            port = server.sockets[0].getsockname()[1]
            await await_brokers(Connection(f"127.0.0.1:{port}"), said.append)

    with pytest.raises(StreamerError, match="ends the connection"):
        asyncio.run(ask())
    assert said == []
