"""A worker answers whether it is alive and ready, what it has done, and what its metrics are."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from streamer.errors import SettingsError
from streamer.kafka.health import HealthServer
from streamer.metrics import Metrics
from tests.helpers.ports import free_port

HERE = "127.0.0.1"
Answer = tuple[int, Any]


class Served:
    """A server on a free port, and a client; `reasons` are why the worker is not ready."""

    def __init__(self, about: Any = None) -> None:
        self.reasons: list[str] | None = []
        self.metrics = Metrics()
        self.port = free_port()
        self.server = HealthServer(
            HERE, self.port, self._why, self.metrics, about or {}, lambda: {"judged": 7}
        )

    def _why(self) -> list[str]:
        assert self.reasons is not None
        return self.reasons

    async def get(self, path: str, method: str = "GET") -> Answer:
        url = f"http://{HERE}:{self.port}{path}"
        async with aiohttp.ClientSession() as client, client.request(method, url) as answer:
            as_json = answer.content_type == "application/json"
            return answer.status, await (answer.json() if as_json else answer.text())

    async def metric(self, name: str) -> float:
        status, text = await self.get("/metrics")
        assert status == 200
        [value] = re.findall(rf"^{name} (\S+)$", text, re.MULTILINE)
        return float(value)


@asynccontextmanager
async def serving(about: Any = None) -> AsyncIterator[Served]:
    """Start a server, and stop it in good time."""
    served = Served(about)
    async with asyncio.timeout(60), served.server.serving():
        yield served


async def test_a_worker_is_alive_and_says_whether_it_is_ready_and_what_is_in_the_way() -> None:
    reasons = ["shard 0 has 12 records to fold", "the signers have not joined"]
    async with serving() as served:
        for served.reasons in (reasons, []):
            status, state = (503, False) if served.reasons else (200, True)
            answer = {"ready": state, "reasons": served.reasons}
            assert await served.get("/health/ready") == (status, answer)
            assert await served.get("/health/live") == (200, {"live": True})
            assert await served.metric("streamer_ready") == state
        served.reasons = None  # it cannot say
        assert (await served.get("/health/ready"))[0] == 500
        assert (await served.get("/health/live"))[0] == 200


async def test_the_metrics_are_those_of_the_worker_and_of_its_process() -> None:
    async with serving() as served:
        served.metrics.signing.pages_signed.inc(42)
        assert await served.metric("streamer_pages_signed_total") == 42
        assert await served.metric("process_resident_memory_bytes") > 0


async def test_it_listens_where_it_is_told_and_nowhere_else() -> None:
    async with serving() as served:
        with pytest.raises(ConnectionRefusedError):  # another address of the loopback interface
            await asyncio.open_connection("127.0.0.2", served.port)


async def test_a_port_in_use_is_an_error_of_the_settings_with_the_remedy() -> None:
    async with serving() as served:
        second = HealthServer(HERE, served.port, list, Metrics())
        with pytest.raises(SettingsError, match=rf"{HERE}:{served.port}: .*in use.*--health-port"):
            await second.serving().__aenter__()
        assert (await served.get("/health/live"))[0] == 200


@pytest.mark.parametrize("host", ["192.0.2.1", "n" * 70])
async def test_a_host_that_is_not_ours_is_an_error_of_the_settings(host: str) -> None:
    with pytest.raises(SettingsError, match=rf"{host}:.* --health-host"):
        await HealthServer(host, free_port(), list, Metrics()).serving().__aenter__()


def sockets() -> set[str]:
    links = Path("/proc/self/fd").iterdir()
    named = {str(link.readlink()) for link in links if link.is_symlink()}
    return {name for name in named if name.startswith("socket:")}


async def test_port_0_serves_nothing() -> None:
    before = sockets()
    async with HealthServer(HERE, 0, list, Metrics()).serving():
        assert sockets() <= before


async def test_half_a_request_does_not_hold_up_a_stop() -> None:
    async with serving() as served:
        reader, writer = await asyncio.open_connection(HERE, served.port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: here\r\n")
        await writer.drain()
        assert (await served.get("/health/live"))[0] == 200  # by now the server has read the half
    assert await reader.read() == b""
    writer.close()


async def test_the_page_at_the_root_has_the_state_and_links_that_lead_somewhere() -> None:
    about = {"index": "news<b>", "shards": [0, 2]}
    async with serving(about) as served:
        status, page = await served.get("/")
        assert status == 200
        for said in ("This worker is ready.", "<h1>news&lt;b&gt;</h1>", "<td>0, 2</td>"):
            assert said in page
        links = re.findall(r'<a href="([^"]+)"', page)
        assert sorted(links) == ["/health/live", "/health/ready", "/metrics", "/status.json"]
        assert [(await served.get(link))[0] for link in links] == [200] * 4
        served.reasons = ["shard <1> is not open yet"]
        state = {"ready": False, "reasons": served.reasons, "now": {"judged": 7}}
        assert await served.get("/status.json") == (200, {**about, **state})
        _, page = await served.get("/")
        assert "not ready:" in page
        assert '<div class="state look">' in page
        assert "<br>shard &lt;1&gt; is not open yet</div>" in page
