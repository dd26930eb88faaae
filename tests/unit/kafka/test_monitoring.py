"""The worker's HTTP server, asked by real requests, and the lines of its progress log."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from streamer.errors import SettingsError
from streamer.kafka.monitoring import HealthServer, ProgressLog, SignMetrics
from streamer.metrics import Metrics
from tests.helpers.broker import free_port
from tests.helpers.kafka_doubles import in_loop
from tests.helpers.wait import Clock

HERE = "127.0.0.1"
Answer = tuple[int, Any]


class Served:
    """A server on a free port, and a client; `reasons` are why the worker is not ready."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.metrics = Metrics()
        self.port = free_port()
        self.server = HealthServer(HERE, self.port, lambda: self.reasons, self.metrics)

    async def get(self, path: str, method: str = "GET") -> Answer:
        url = f"http://{HERE}:{self.port}{path}"
        async with aiohttp.ClientSession() as client, client.request(method, url) as answer:
            as_json = answer.content_type == "application/json"
            return answer.status, await (answer.json() if as_json else answer.text())

    async def ready_metric(self) -> float:
        _, text = await self.get("/metrics")
        (family,) = [
            each for each in text_string_to_metric_families(text) if each.name == "streamer_ready"
        ]
        return family.samples[0].value


@asynccontextmanager
async def serving() -> AsyncIterator[Served]:
    """Start a server, and stop it in good time."""
    served = Served()
    await served.server.start()
    try:
        yield served
    finally:
        await asyncio.wait_for(served.server.stop(), 60)


class Worker:
    """A worker's metrics, and its log of them; `look` lets a minute pass."""

    def __init__(self, *, signs: bool = True, owns: bool = True) -> None:
        structlog.reset_defaults()
        self.metrics = Metrics()
        self.signing = SignMetrics(self.metrics)
        self.clock = Clock()
        self.log = ProgressLog(self.metrics, self.signing, signs=signs, owns=owns, clock=self.clock)

    def judge(self, pages: int) -> None:
        self.signing.count_chunk(pages, Counter(), Counter())
        self.metrics.shards.verdicts.labels("0", "unique", "signature").inc(pages)

    def look(self, seconds: float = 60) -> list[Any]:
        self.clock.now += seconds
        with capture_logs() as lines:
            self.log.tell()
        return lines


@in_loop
async def test_a_worker_is_alive_whatever_keeps_it_from_being_ready() -> None:
    async with serving() as served:
        assert await served.get("/health/live") == (200, {"live": True})
        served.reasons = ["the brokers cannot be reached"]
        assert await served.get("/health/live") == (200, {"live": True})


@in_loop
async def test_a_worker_that_cannot_say_whether_it_is_ready_is_alive_and_not_ready() -> None:
    served = Served()
    served.server = HealthServer(HERE, served.port, lambda: [str(1 // 0)], served.metrics)
    await served.server.start()
    assert (await served.get("/health/live"))[0] == 200
    assert (await served.get("/health/ready"))[0] == 500
    await served.server.stop()


@in_loop
async def test_it_is_ready_when_nothing_is_in_the_way_and_says_what_is() -> None:
    async with serving() as served:
        served.reasons = ["shard 0 has 12 records to fold", "the signers have not joined"]
        assert await served.get("/health/ready") == (
            503,
            {"ready": False, "reasons": served.reasons},
        )
        served.reasons = []
        assert await served.get("/health/ready") == (200, {"ready": True, "reasons": []})


@in_loop
async def test_readiness_is_a_metric_as_of_the_moment() -> None:
    async with serving() as served:
        served.reasons = ["not yet"]
        assert await served.ready_metric() == 0
        served.reasons = []
        assert await served.ready_metric() == 1


@in_loop
async def test_the_metrics_are_those_of_the_worker_and_of_its_process() -> None:
    async with serving() as served:
        served.metrics.signing.pages_signed.inc(42)
        status, text = await served.get("/metrics")
        assert status == 200
        values = {
            sample.name: sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        assert values["streamer_pages_signed_total"] == 42
        assert values["process_resident_memory_bytes"] > 0


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/table", 404), ("POST", "/", 405), ("POST", "/health/ready", 405)],
)
@in_loop
async def test_there_is_nothing_else(method: str, path: str, status: int) -> None:
    async with serving() as served:
        assert (await served.get(path, method))[0] == status


@in_loop
async def test_it_listens_where_it_is_told_and_nowhere_else() -> None:
    async with serving() as served:
        with pytest.raises(ConnectionRefusedError):  # another address of the loopback interface
            await asyncio.open_connection("127.0.0.2", served.port)


@in_loop
async def test_a_port_in_use_is_an_error_of_the_settings_with_the_remedy() -> None:
    async with serving() as served:
        second = HealthServer(HERE, served.port, list, Metrics())
        with pytest.raises(SettingsError, match=rf"{HERE}:{served.port}: .*in use.*--health-port"):
            await second.start()
        await second.stop()
        assert (await served.get("/health/live"))[0] == 200


@pytest.mark.parametrize("host", ["192.0.2.1", "n" * 70])
@in_loop
async def test_a_host_that_is_not_ours_is_an_error_of_the_settings(host: str) -> None:
    with pytest.raises(SettingsError, match=rf"{host}:.* --health-host"):
        await HealthServer(host, free_port(), list, Metrics()).start()


def sockets() -> set[str]:
    links = Path("/proc/self/fd").iterdir()
    named = {str(link.readlink()) for link in links if link.is_symlink()}
    return {name for name in named if name.startswith("socket:")}


@in_loop
async def test_port_0_serves_nothing() -> None:
    before = sockets()
    server = HealthServer(HERE, 0, list, Metrics())
    await server.start()
    assert sockets() <= before
    await server.stop()


@in_loop
async def test_after_a_stop_nobody_answers_though_a_client_kept_its_connection() -> None:
    served = Served()
    await served.server.start()
    async with aiohttp.ClientSession() as client:
        url = f"http://{HERE}:{served.port}/health/live"
        async with client.get(url) as answer:
            assert answer.status == 200
        await asyncio.wait_for(served.server.stop(), 60)
        with pytest.raises(aiohttp.ClientConnectorError):
            await client.get(url)


def test_half_a_request_does_not_hold_up_a_stop() -> None:
    async def run() -> bytes:
        served = Served()
        await served.server.start()
        reader, writer = await asyncio.open_connection(HERE, served.port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: here\r\n")
        await writer.drain()
        assert (await served.get("/health/live"))[0] == 200  # by now the server has read the half
        await asyncio.wait_for(served.server.stop(), 60)
        rest = await reader.read()
        writer.close()
        return rest

    assert asyncio.run(run()) == b""


@in_loop
async def test_the_page_at_the_root_has_the_state_and_links_that_lead_somewhere() -> None:
    served = Served()
    about = {"index": "news<b>", "shards": [0, 2]}
    served.server = HealthServer(HERE, served.port, lambda: served.reasons, served.metrics, about)
    await served.server.start()
    try:
        status, page = await served.get("/")
        assert status == 200
        assert "This worker is ready." in page
        assert "<td>news&lt;b&gt;</td>" in page
        assert "<td>0, 2</td>" in page
        links = re.findall(r'href="([^"]+)"', page)
        assert sorted(links) == ["/health/live", "/health/ready", "/metrics"]
        assert [(await served.get(link))[0] for link in links] == [200] * 3
        served.reasons = ["shard <1> is not open yet"]
        _, page = await served.get("/")
        assert "not ready:" in page
        assert "<li>shard &lt;1&gt; is not open yet</li>" in page
    finally:
        await served.server.stop()


def test_a_line_a_minute_tells_what_was_done_and_what_is_left() -> None:
    worker = Worker()
    worker.judge(1_200)
    worker.signing.count_chunk(0, Counter(empty_body=3), Counter(deletion=2))
    worker.signing.observe_lag(0, 70)
    worker.signing.observe_lag(1, 7)
    worker.metrics.shards.kept_pages.labels("0").set(900)
    worker.metrics.shards.kept_pages.labels("1").set(100)
    assert worker.look() == [
        {
            "event": "worker_progress", "log_level": "info", "pages_per_second": 20.0,
            "judged": 1_200, "kept": 1_000, "log_lag_records": 0,
            "signed": 1_200, "dead_letters": 3, "skipped": 2, "lag_records": 77,
        }
    ]  # fmt: skip
    worker.judge(600)
    assert worker.look()[0]["pages_per_second"] == 10.0, "since the line before"


def test_a_minute_without_any_change_has_no_line_and_ten_of_them_have_one() -> None:
    worker = Worker()
    worker.judge(1)
    assert len(worker.look()) == 1
    seen = [len(worker.look()) for _ in range(20)]
    assert seen == [*[0] * 9, 1, *[0] * 9, 1]
    assert worker.look() == []
    worker.judge(1)
    assert worker.look()[0]["pages_per_second"] == round(1 / 60, 1)


@pytest.mark.parametrize(("signs", "names"), [(True, "signed"), (False, "judged")])
def test_a_worker_tells_of_its_own_part_only(*, signs: bool, names: str) -> None:
    worker = Worker(signs=signs, owns=not signs)
    worker.judge(60)
    (line,) = worker.look()
    assert names in line
    assert ("signed" in line, "judged" in line) == (signs, not signs)
    assert line["pages_per_second"] == 1.0


def test_mostly_dead_letters_are_warned_of_with_the_code_and_an_example() -> None:
    worker = Worker()
    worker.signing.newest_dead["missing_url"] = "pages/1@77"
    worker.signing.count_chunk(40, Counter(missing_url=60, empty_body=1), Counter())
    _, warning = worker.look()
    assert (warning["event"], warning["log_level"]) == ("mostly_dead_letters", "warning")
    assert (warning["code"], warning["example"]) == ("missing_url", "pages/1@77")
    assert "61 of 101 records" in warning["reason"]
    assert "60 of them for missing_url" in warning["reason"]
    worker.signing.count_chunk(51, Counter(missing_url=50), Counter())
    assert [line["event"] for line in worker.look()] == ["worker_progress"], "of this minute alone"


def test_records_of_which_none_is_a_page_are_warned_of() -> None:
    worker = Worker()
    worker.signing.count_chunk(0, Counter(), Counter(status_not_2xx=20, deletion=1))
    _, warning = worker.look()
    assert (warning["event"], warning["code"]) == ("nothing_judged", "status_not_2xx")


@pytest.mark.parametrize("paused", [True, False])
def test_a_signer_that_reads_nothing_of_what_there_is_is_warned_of(*, paused: bool) -> None:
    worker = Worker(owns=False)
    worker.signing.observe_lag(0, 500)
    assert [line["event"] for line in worker.look()] == ["worker_progress"], "it may have just come"
    worker.signing.observe_gauge(0, paused=paused)
    (warning,) = worker.look()
    assert warning["event"] == "nothing_judged"
    assert ("wait for a shard" in warning["reason"]) == paused


def test_a_shard_that_stands_still_is_warned_of_but_not_one_that_folds() -> None:
    worker = Worker(signs=False)
    worker.metrics.shards.lag_records.labels("0").set(9)
    worker.look()
    assert [line["event"] for line in worker.look()] == ["nothing_judged"]
    worker.metrics.shards.records_applied.labels("0").inc()
    assert [line["event"] for line in worker.look()] == ["worker_progress"]
