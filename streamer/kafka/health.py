"""The worker's HTTP: is it alive, is it ready, and what do its metrics say.

Alive means that the event loop turns: the server runs in the worker's own loop and asks nothing of
Kafka, so that an orchestrator never kills a worker because its brokers are away. Ready is what the
worker says of itself when asked. There is no authentication and nothing secret; it listens where it
is told, which is the loopback interface by default.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from aiohttp import web
from prometheus_client.aiohttp import make_aiohttp_handler

from streamer.errors import SettingsError
from streamer.metrics import Metrics

STOP_SECONDS_MAX = 1.0  # that a request in progress may take to end

Ready = Callable[[], list[str]]


class HealthServer:
    """Serve /health/live, /health/ready and /metrics; with port 0 nothing at all.

    `ready` returns the reasons why the worker is not ready, in words; it is called in the event
    loop, for each question, and must not wait.
    """

    def __init__(self, host: str, port: int, ready: Ready, metrics: Metrics) -> None:
        self._host = host
        self._port = port
        self._ready = ready
        self._metrics = metrics
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen.

        Raises:
            SettingsError: the address cannot be had.
        """
        if not self._port:
            return
        self._metrics.ready.set_function(lambda: not self._ready())
        runner = web.AppRunner(
            self._application(), access_log=None, shutdown_timeout=STOP_SECONDS_MAX
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except (OSError, UnicodeError) as error:  # the latter of a name that is none
            await runner.cleanup()
            reason = getattr(error, "strerror", None) or error
            raise SettingsError(
                f"Health and metrics cannot be served at {self._host}:{self._port}: {reason}. "
                "Give another --health-port or --health-host; --health-port 0 serves none."
            ) from error
        self._runner = runner

    async def stop(self) -> None:
        """Close all connections, and listen no more."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _application(self) -> web.Application:
        application = web.Application()
        application.router.add_get("/health/live", self._answer_live)
        application.router.add_get("/health/ready", self._answer_ready)
        application.router.add_get("/metrics", make_aiohttp_handler(self._metrics.registry))
        return application

    async def _answer_live(self, request: web.Request) -> web.Response:
        del request
        return web.json_response({"live": True})

    async def _answer_ready(self, request: web.Request) -> web.Response:
        del request
        reasons = self._ready()
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        return web.json_response({"ready": not reasons, "reasons": reasons}, status=status)
