"""The worker's HTTP: is it alive, is it ready, what has it done, and what do its metrics say.

Alive means that the event loop turns: the server runs in the worker's own loop and asks nothing of
Kafka, so that an orchestrator never kills a worker because its brokers are away. Ready is what the
worker says of itself when asked. There is no authentication and nothing secret; it listens on
the loopback interface by default.

The page at the root is one file of HTML without scripts, in the look of the console, since it is
read through a tunnel, in a hurry.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from html import escape
from http import HTTPStatus

from aiohttp import web
from prometheus_client.aiohttp import make_aiohttp_handler

from streamer.metrics import Metrics
from streamer.web_server import STYLE, WebServer

STOP_SECONDS_MAX = 1.0  # that a request in progress may take to end

_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,"><title>{title}: worker</title>
<style>
{style}</style></head>
<body>
<main>
<p class="kicker">Worker</p>
<h1>{title}</h1>
<div class="state {level}"><div><strong>{state}</strong>{reasons}</div></div>
<ul class="figures">
{figures}</ul>
<section class="panel"><table>
{rows}</table></section>
</main>
<footer><a href="/status.json">status</a> · <a href="/metrics">metrics</a> ·
<a href="/health/ready">ready</a> · <a href="/health/live">live</a></footer>
</body>
</html>
"""
# What a person looks for first: the page shows five, of those that the worker's roles have.
_FIGURES = {
    "judged": "pages judged since the start", "kept": "pages in the index",
    "lag_records": "messages to sign", "log_lag_records": "log records to apply",
    "dead_letters": "dead letters since the start", "signed": "messages signed since the start",
    "skipped": "messages skipped since the start",
}  # fmt: skip


@dataclass
class HealthServer:
    """Serve /health/live, /health/ready, /metrics, /status.json and a page; with port 0 nothing.

    `ready` returns the reasons why the worker is not ready, in words; it is called in the event
    loop, for each question, and must not wait. The page and the status say what the worker is
    (`about`) and what it has done (`figures`).
    """

    host: str
    port: int
    ready: Callable[[], list[str]]
    metrics: Metrics
    about: Mapping[str, object] = field(default_factory=dict)
    figures: Callable[[], Mapping[str, int]] = dict

    def serving(self) -> AbstractAsyncContextManager[object]:
        """Listen, until the context is left.

        Raises:
            SettingsError: the address cannot be had.
        """
        if not self.port:
            return nullcontext()
        self.metrics.ready.set_function(lambda: not self.ready())
        server = WebServer(self._application(), shutdown_timeout=STOP_SECONDS_MAX)
        remedy = "Give another --health-port or --health-host; --health-port 0 serves none."
        return server.serving(self.host, self.port, remedy)

    def _application(self) -> web.Application:
        application = web.Application()
        application.router.add_get("/", self._answer_page)
        application.router.add_get("/health/live", self._answer_live)
        application.router.add_get("/health/ready", self._answer_ready)
        application.router.add_get("/status.json", self._answer_status)
        application.router.add_get("/metrics", make_aiohttp_handler(self.metrics.registry))
        return application

    async def _answer_page(self, _request: web.Request) -> web.Response:
        page = status_page(self.about, self.figures(), self.ready())
        return web.Response(text=page, content_type="text/html", charset="utf-8")

    async def _answer_status(self, _request: web.Request) -> web.Response:
        reasons = self.ready()
        state = {"ready": not reasons, "reasons": reasons, "now": self.figures()}
        return web.json_response({**self.about, **state})

    async def _answer_live(self, _request: web.Request) -> web.Response:
        return web.json_response({"live": True})

    async def _answer_ready(self, _request: web.Request) -> web.Response:
        reasons = self.ready()
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        return web.json_response({"ready": not reasons, "reasons": reasons}, status=status)


def status_page(about: Mapping[str, object], figures: Mapping[str, int], reasons: list[str]) -> str:
    """Return the page of a worker; `reasons` are why it is not ready, none if it is."""
    rows = (
        f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>\n"
        for name, value in about.items()
        for text in [", ".join(map(str, value)) if isinstance(value, list) else str(value)]
    )
    shown = [
        f"<li><strong>{figures[name]:,}</strong> {said}</li>\n"
        for name, said in _FIGURES.items()
        if name in figures
    ][:5]
    return _PAGE.format(
        title=escape(str(about.get("index", "worker"))), style=STYLE,
        level="look" if reasons else "well",
        state="This worker is not ready:" if reasons else "This worker is ready.",
        reasons="".join(f"<br>{escape(reason)}" for reason in reasons),
        figures="".join(shown), rows="".join(rows),
    )  # fmt: skip
