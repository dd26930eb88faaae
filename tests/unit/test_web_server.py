"""A web server with real connections: how long they may stay, and how many."""

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from streamer import web_server
from streamer.web_server import WebServer, connections_max, read_body

HERE = "127.0.0.1"
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Served:
    """A server that says "here", or at /wait waits for `released`; a POST sends the body back."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.app = web.Application()
        self.app.router.add_get("/", self._answer)
        self.app.router.add_get("/wait", self._wait)
        self.app.router.add_post("/", self._send_back)
        self.server = WebServer(self.app, shutdown_timeout=1)
        self.port = 0
        self.clients: list[asyncio.StreamWriter] = []

    async def connect(self, first: bytes = b"") -> Connection:
        reader, writer = await asyncio.open_connection(HERE, self.port)
        self.clients.append(writer)
        writer.write(first)
        return reader, writer

    async def ask(self, request: bytes = GET) -> bytes:
        reader, _ = await self.connect(request)
        return (await asyncio.wait_for(reader.readline(), 60)).strip()

    async def _answer(self, request: web.Request) -> web.Response:
        del request
        return web.Response(text="here")

    async def _wait(self, request: web.Request) -> web.Response:
        await self.released.wait()
        return await self._answer(request)

    async def _send_back(self, request: web.Request) -> web.Response:
        return web.Response(body=await read_body(request))


@asynccontextmanager
async def serving() -> AsyncIterator[Served]:
    served = Served()
    async with asyncio.timeout(60), served.server.serving(HERE, 0, "") as served.port:
        yield served
        for client in served.clients:
            client.close()


async def is_closed(connection: Connection) -> bool:
    """Return whether the server closes a connection; what it sends before is dropped."""
    try:
        await asyncio.wait_for(connection[0].read(), 5)
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    return True


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(web_server, "BODY_SECONDS", 0.2)


@pytest.mark.parametrize("first", [b"", GET[:20], GET])
@pytest.mark.usefixtures("impatient")
async def test_a_connection_without_a_whole_head_is_closed(first: bytes) -> None:
    async with serving() as served:
        assert await is_closed(await served.connect(first))


@pytest.mark.usefixtures("impatient")
async def test_a_body_has_an_end_to_its_time() -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nbody"
    async with serving() as served:
        connection = await served.connect(head)
        assert (await connection[0].readline()).split()[1] == b"408"
        assert await is_closed(connection)


async def test_the_oldest_idle_connection_makes_room(caplog: pytest.LogCaptureFixture) -> None:
    most = connections_max()
    async with serving() as served:
        waiting = await served.connect(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(0.05)
        idle = [await served.connect(GET[:10]) for _ in range(2 * most)]
        assert await served.ask() == b"HTTP/1.1 200 OK"
        assert await is_closed(idle[0])
        served.released.set()
        assert (await asyncio.wait_for(waiting[0].readline(), 60)).strip() == b"HTTP/1.1 200 OK"
        still_open = [not each[0].at_eof() for each in idle]
        assert sum(still_open) < most
        assert still_open[-1]
    lines = [each.getMessage() for each in caplog.records]
    assert [f"More than {most} connections" in line for line in lines] == [True]


async def test_if_all_wait_for_answers_the_oldest_makes_room() -> None:
    async with serving() as served:
        wait = b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"
        waiting = []
        for _ in range(connections_max()):
            waiting.append(await served.connect(wait))
            await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        assert await served.ask() == b"HTTP/1.1 200 OK"
        assert await is_closed(waiting[0])
        served.released.set()


BODY = b"POST / HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02 not HTTP\r\n\r\n",
        b"GET / HTTP/9.x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nno header\r\n\r\n",
        BODY + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        BODY + b"Content-Length: 4\r\nContent-Encoding: gzip\r\n\r\nbody",
    ],
)
async def test_a_malformed_request_is_answered_and_not_logged(
    request_bytes: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as served:
        assert (await served.ask(request_bytes)).split()[1] == b"400"
    assert [each.getMessage() for each in caplog.records] == []


async def test_a_body_that_is_cut_off_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as served:
        for _ in range(5):
            _, writer = await served.connect(BODY + b"Content-Length: 9\r\n\r\nbody")
            await writer.drain()
            writer.transport.abort()
        assert await served.ask() == b"HTTP/1.1 200 OK"
        await asyncio.sleep(0.1)
    assert [each.getMessage() for each in caplog.records] == []


@pytest.mark.parametrize(("allowed", "most"), [(-1, 64), (4096, 64), (64, 16), (2, 1)])
def test_connections_leave_descriptors_for_the_rest_of_the_process(
    allowed: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (allowed, allowed))
    assert connections_max() == most
