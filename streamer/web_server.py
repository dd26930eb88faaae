"""A web server that bounds what its connections take.

aiohttp accepts connections without end, and one that sends nothing stays for an hour. Enough of
them take all descriptors of the process, which then can open no file. Here a connection has a
limited time for each request, and beyond CONNECTIONS_MAX the oldest idle one is closed. An idle
connection is one without a complete request.
"""

import asyncio
import logging
import math
import resource
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from streamer.errors import SettingsError

STYLE = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")  # of all pages for people
HEAD_SECONDS = 30.0  # for the head of a request, from the connection or the last answer on
BODY_SECONDS = 30.0  # for the body
CONNECTIONS_MAX = 64  # at most; fewer where the process may have few descriptors
_LINGER_SECONDS = 1.0  # for a body that nobody wants
_REPORT_SECONDS = 60.0  # without a closed connection, until one is reported again
_log = logging.getLogger("streamer")


def connections_max() -> int:
    """Return how many connections may be open: at most a quarter of the descriptors."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS_MAX if allowed < 0 else max(1, min(CONNECTIONS_MAX, allowed // 4))


async def read_body(request: web.Request) -> bytes:
    """Return the body of a request.

    Raises:
        HTTPException: it is too large, malformed or cut off, or takes more than BODY_SECONDS.
    """
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError as error:
        raise web.HTTPRequestTimeout(
            text=f"The body did not arrive within {BODY_SECONDS:g} seconds."
        ) from error
    except (ConnectionError, web.RequestPayloadError) as error:
        raise web.HTTPBadRequest(text="The body is malformed or incomplete.") from error


class WebServer:
    """An application, served at one address; `options` are those of aiohttp's AppRunner."""

    def __init__(self, app: web.Application, **options: Any) -> None:  # noqa: ANN401 - aiohttp's
        app.middlewares.insert(0, self._note_request)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            keepalive_timeout=HEAD_SECONDS,
            lingering_time=_LINGER_SECONDS,
            **options,
        )
        self._requests: dict[web.RequestHandler, web.Request] = {}
        self._most = connections_max()
        self._closed_at = -math.inf

    @asynccontextmanager
    async def serving(self, host: str, port: int, remedy: str) -> AsyncIterator[int]:
        """Listen, and yield the port; then stop listening, and close all connections.

        Raises:
            SettingsError: the address cannot be used; `remedy` says what to do.
        """
        logging.getLogger("aiohttp.server").addFilter(_is_not_by_client)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._runner.cleanup)
            await self._runner.setup()
            at, loop = (self._connection, host, port), asyncio.get_running_loop()
            try:
                # All that wait are accepted at once, before one can be closed.
                listening = await loop.create_server(*at, backlog=self._most)
            except (OSError, UnicodeError) as error:  # the latter of a name that is none
                reason = getattr(error, "strerror", None) or error
                said = f"Nothing can be served at {host}:{port}: {reason}. {remedy}"
                raise SettingsError(said) from error
            stack.callback(listening.close)
            yield listening.sockets[0].getsockname()[1]

    def _connection(self) -> asyncio.Protocol:
        """Return the protocol of a new connection, and close another one if there are too many."""
        server = self._runner.server
        assert server is not None, "not started"
        opened = [each for each in server.connections if each.transport is not None]
        if len(opened) >= self._most:
            asking = {each for each, request in self._requests.items() if request.content.is_eof()}
            idle = (each for each in opened if each not in asking)
            next(idle, opened[0]).force_close()
            self._report()
        return server()

    def _report(self) -> None:
        now = time.monotonic()
        if now - self._closed_at > _REPORT_SECONDS:
            _log.warning(
                "More than %d connections to the web server are open, so it closes the oldest "
                "idle ones. Find the clients that leave connections open.", self._most,
            )  # fmt: skip
        self._closed_at = now

    @web.middleware
    async def _note_request(self, request: web.Request, handler: Any) -> web.StreamResponse:  # noqa: ANN401 - aiohttp's
        """Answer a request, and know meanwhile that its connection has one."""
        self._requests[request.protocol] = request
        try:
            answer: web.StreamResponse = await handler(request)
            return answer
        finally:
            del self._requests[request.protocol]


def _is_not_by_client(record: logging.LogRecord) -> bool:
    """Return whether a line of aiohttp is about more than a malformed request."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, (HttpProcessingError, web.RequestPayloadError))
