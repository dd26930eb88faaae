"""The server: answers over HTTP, for people as pages and for programs as JSON.

Queries run in a few threads, each with an end to its time, so one that is slow delays few others,
and none for long. Pages may be private, and their texts are hostile: every answer forbids frames,
and scripts and all else that is not the console's own. Without a token only this machine is
answered, only under its own names, which a foreign page in a browser cannot have, and no proxy
that says so.
"""

import asyncio
import functools
import hashlib
import hmac
import ipaddress
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from aiohttp import web

from streamer.console.answers import ConsoleData, NotFound, WrongQuery
from streamer.console.overview import crawl_state
from streamer.console.render import SCRIPT, STYLES, Renderer, csv_of
from streamer.console.routes import ROUTES, ErrorAnswer, Route, openapi, parse_query
from streamer.console.view import QueryTooLong
from streamer.errors import InputError, InvalidPage, SettingsError, StreamerError
from streamer.pages.chunk import PAGE_BYTES_MAX
from streamer.web_server import WebServer, read_body

_THREADS = 4
_AT_ONCE_BYTES = 64 << 10  # of a body that is answered in the loop's thread
_WAITING_MAX = 32  # queries at a time, for each kind of thread; more are refused at once
_LINE_MAX = 256 << 10  # of a request: a URL in a URL takes three bytes for one
_LOGIN_BYTES_MAX = 4096  # of a form with a token: anyone may send one
_COOKIE = "streamer_console"
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; "
        "script-src 'self'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_FILES = {"/style.css": (STYLES, "text/css"), "/console.js": (SCRIPT, "text/javascript")}
_OPEN = ("/login", *_FILES)  # without the token
# The first that fits:
_STATUSES = {
    NotFound: 404, InputError: 404, WrongQuery: 400, InvalidPage: 422, StreamerError: 503,
}  # fmt: skip
_UNAUTHORIZED = 401
_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::[0-9]*)?")  # a name or an address, and a port
_OF_PROXIES = re.compile(r"forwarded|via|x-real-ip|x-forwarded-.*", re.IGNORECASE)
_log = logging.getLogger("streamer")

_Done = TypeVar("_Done")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class ServerOptions:
    """Where the console answers, and whom.

    Attributes:
        base: the path that all its addresses begin with; '' or as `/console`.
        token: what a program or person must know; None where everyone on this machine may look.
        body_max: bytes of a request's body.

    Raises:
        SettingsError: other machines could look without a token, or the path is none.
    """

    host: str = "127.0.0.1"
    port: int = 0
    base: str = ""
    token: str | None = None
    body_max: int = PAGE_BYTES_MAX

    def __post_init__(self) -> None:
        if self.token is None and not is_loopback(self.host):
            raise SettingsError(
                f"--host {self.host} lets other machines look at the crawl. Give a token with "
                "--token-file, or in STREAMER_CONSOLE_TOKEN."
            )
        if self.base and self.token is None:
            raise SettingsError(
                "--base-path is for a proxy, which lets other machines look at the crawl. Give a "
                "token with --token-file, or in STREAMER_CONSOLE_TOKEN."
            )
        if self.base and (not self.base.startswith("/") or self.base.endswith("/")):
            raise SettingsError(f"--base-path {self.base!r} cannot be used: give one as /console.")


def is_loopback(host: str) -> bool:
    """Return whether a name or address is this machine's own, which no other one reaches."""
    if host.lower() == "localhost":
        return True
    is_bracketed = host.startswith("[") and host.endswith("]")
    try:
        address = ipaddress.IPv6Address(host[1:-1]) if is_bracketed else ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback and "%" not in host  # a zone may be any text


class ConsoleServer:
    """The console over HTTP."""

    def __init__(self, data: ConsoleData, options: ServerOptions) -> None:
        self._data, self._options = data, options
        self._pool = ThreadPoolExecutor(_THREADS, "query")
        self._index_pool = ThreadPoolExecutor(1, "check")  # reading an index delays no view
        self._waiting: Counter[ThreadPoolExecutor] = Counter()
        self._render = Renderer(options.base)

    def application(self) -> web.Application:
        """Return what aiohttp serves."""
        base = self._options.base
        app = web.Application(middlewares=[self._guard], client_max_size=self._options.body_max)
        app.router.add_get(base or "/", self._home)
        if base:
            app.router.add_get(f"{base}/", self._home)
        for name, (body, kind) in _FILES.items():
            app.router.add_get(f"{base}{name}", functools.partial(self._file, body, kind))
        document = msgspec.json.encode(openapi(base))
        answer = functools.partial(self._file, document, "application/json")
        app.router.add_get(f"{base}/openapi.json", answer)
        if self._options.token is not None:
            app.router.add_post(f"{base}/login", self._login)
        for route in ROUTES:
            json = functools.partial(self._json, route)
            if route.is_view:
                app.router.add_get(f"{base}{route.path}", functools.partial(self._view, route))
                app.router.add_get(f"{base}{route.path}.json", json)
                app.router.add_get(f"{base}{route.path}.csv", functools.partial(self._csv, route))
            if route.is_live:
                live = functools.partial(self._live, route)
                app.router.add_get(f"{base}{route.path}/live", live)
            if route.method == "POST":
                app.router.add_post(f"{base}{route.api}", functools.partial(self._post, route))
            elif route.api:
                app.router.add_get(f"{base}{route.api}", json)
        return app

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve, and yield the address.

        Raises:
            SettingsError: the address cannot be used.
        """
        server = WebServer(self.application(), shutdown_timeout=2, max_line_size=_LINE_MAX)
        host, remedy = self._options.host, "Give another --port or --host."
        name = f"[{host}]" if ":" in host and not host.startswith("[") else host
        try:
            async with server.serving(host.strip("[]"), self._options.port, remedy) as port:
                yield f"http://{name}:{port}{self._options.base}/"
        finally:
            for pool in (self._pool, self._index_pool):
                pool.shutdown(wait=False, cancel_futures=True)

    # ---- answers ---------------------------------------------------------------------------------

    async def _home(self, _request: web.Request) -> web.Response:
        return web.Response(status=303, headers={"Location": self._render.link(ROUTES[0].path)})

    async def _file(self, body: bytes, kind: str, _request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=kind, charset="utf-8")

    async def _view(self, route: Route, request: web.Request) -> web.Response:
        parameters, data = _parse_parameters(request), self._data
        query = parse_query(route, parameters)

        def work() -> bytes:
            answer = route.answer(data, query)
            with data.read() as view:
                state = crawl_state(data, view)
            return self._render.view(route, answer, query, parameters, state)

        return _html(await self._run_in_thread(work, self._pool_for(route, query)))

    async def _json(self, route: Route, request: web.Request) -> web.Response:
        body = await self._encoded(route, request, msgspec.json.encode)
        return web.Response(body=body, content_type="application/json")

    async def _csv(self, route: Route, request: web.Request) -> web.Response:
        text = await self._encoded(route, request, lambda answer: csv_of(answer, route.rows))
        return web.Response(text=text, content_type="text/csv", charset="utf-8")

    async def _encoded(
        self, route: Route, request: web.Request, encode: Callable[[msgspec.Struct], _Done]
    ) -> _Done:
        query = parse_query(route, _parse_parameters(request))
        pool = self._pool_for(route, query)
        return await self._run_in_thread(lambda: encode(route.answer(self._data, query)), pool)

    async def _live(self, route: Route, request: web.Request) -> web.Response:
        """Answer with the parts of a view's page that change, which the page asks for again."""
        render = functools.partial(self._render.live, route)
        return _html(await self._encoded(route, request, render))

    async def _post(self, route: Route, request: web.Request) -> web.Response:
        if request.content_type != "application/json":  # which no form of a foreign page can send
            raise web.HTTPUnsupportedMediaType(text="Send a page as application/json.")
        body, data = await read_body(request), self._data
        # On busy cores each change of threads takes longer than the answer does.
        if route.at_once and len(body) <= _AT_ONCE_BYTES and (found := route.at_once(data, body)):
            return _json(found)
        return _json(await self._run_in_thread(lambda: route.answer(data, body), self._index_pool))

    def _pool_for(self, route: Route, query: msgspec.Struct) -> ThreadPoolExecutor:
        """Return the threads of a query: one that asks the index takes no time of views."""
        is_slow = route.is_slow or getattr(query, "explain", "no") == "yes"
        return self._index_pool if is_slow else self._pool

    async def _run_in_thread(self, work: Callable[[], _Done], pool: ThreadPoolExecutor) -> _Done:
        """Run a query in one of these threads.

        Raises:
            QueryTooLong: too many others are waiting, or it takes too long itself.
        """
        if self._waiting[pool] >= _WAITING_MAX:
            raise QueryTooLong
        self._waiting[pool] += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, work)
        finally:
            self._waiting[pool] -= 1

    # ---- who may look ----------------------------------------------------------------------------

    async def _login(self, request: web.Request) -> web.Response:
        body = await read_body(request.clone(client_max_size=_LOGIN_BYTES_MAX))
        form = dict(parse_qsl(body.decode("utf-8", "replace")))
        if not self._is_token(form.get("token", "")):
            raise _wants_token()
        response = await self._home(request)
        response.set_cookie(
            _COOKIE, self._cookie(), path=self._options.base or "/", httponly=True,
            samesite="Strict", secure=request.secure,
        )  # fmt: skip
        return response

    def _is_token(self, given: str) -> bool:
        own = self._options.token
        return own is None or hmac.compare_digest(_bytes(given), own.encode())

    def _cookie(self) -> str:
        """Return what a browser has in the token's place: the token cannot be derived from it."""
        key = (self._options.token or "").encode()
        return hmac.new(key, b"streamer console", hashlib.sha256).hexdigest()

    def _may_look(self, request: web.Request) -> bool:
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self._is_token(given.strip())
        cookie = request.cookies.get(_COOKIE, "")
        own = self._options.token is None
        return own or hmac.compare_digest(_bytes(cookie), self._cookie().encode())

    def _check(self, request: web.Request) -> None:
        """Raise an error for HTTP unless a request may be answered."""
        # All names that a request has for this server are loopback's.
        names = map(_HOST.fullmatch, (request.host, *request.headers.getall("Host", ())))
        is_for_this_machine = all(found and is_loopback(found[1]) for found in names)
        if self._options.token is None and not is_for_this_machine:
            raise web.HTTPForbidden(
                text="Without a token the console answers under the address that it printed."
            )
        if self._options.token is None and any(map(_OF_PROXIES.fullmatch, request.headers)):
            raise web.HTTPForbidden(
                text="Behind a proxy the console needs a token: start it with --token-file."
            )
        path = request.path.removeprefix(self._options.base)
        if path not in _OPEN and not self._may_look(request):
            raise _wants_token()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer whom it may be, turn errors into answers, and forbid what no answer needs."""
        try:
            self._check(request)
            response = await handler(request)
        except (web.HTTPException, StreamerError, InvalidPage, QueryTooLong) as error:
            response = self._failure(request, error)
        except Exception as error:  # noqa: BLE001 - one answer fails, and the log says why
            _log.exception("The console could not answer %s", request.path)
            response = self._failure(request, error)
        response.headers.update(_HEADERS)
        return response

    def _failure(self, request: web.Request, error: Exception) -> web.Response:
        """Return an error as a page or as JSON, by the path."""
        status, sentence = _describe_error(error, self._data.seconds)
        path = request.path.removeprefix(self._options.base)
        if path.startswith("/api/") or path.endswith((".json", ".csv")):
            code = error.code if isinstance(error, InvalidPage) else None
            response = _json(ErrorAnswer(sentence, code), status)
        else:
            needs_token = status == _UNAUTHORIZED
            title = "Token" if needs_token else "That did not work"
            response = _html(self._render.message(title, sentence, login=needs_token), status)
        if status == _UNAUTHORIZED:
            response.headers["WWW-Authenticate"] = "Bearer"
        if isinstance(error, web.HTTPMethodNotAllowed):
            response.headers["Allow"] = error.headers["Allow"]
        return response


def _bytes(header: str) -> bytes:
    """Return what was sent, of which aiohttp has made a string."""
    return header.encode("utf-8", "surrogateescape")


def _wants_token() -> web.HTTPUnauthorized:
    return web.HTTPUnauthorized(text="Give the token that the console was started with.")


def _parse_parameters(request: web.Request) -> dict[str, str]:
    """Return the parameters of a URL.

    Raises:
        WrongQuery: one is there twice.
    """
    given = dict(request.query)
    if len(given) < len(request.query):
        raise WrongQuery("A parameter is there twice: give each once.")
    return given


def _describe_error(error: Exception, seconds: float) -> tuple[int, str]:
    """Return the status of an error, and what is said of it."""
    if isinstance(error, web.HTTPException):
        return error.status, (error.text or error.reason).strip()
    if isinstance(error, QueryTooLong):
        return 503, (
            f"The answer took more than {seconds:g} seconds, or too many queries are waiting. Ask "
            "again later, ask for less, or give more time with --query-seconds."
        )
    for kind, status in _STATUSES.items():
        if isinstance(error, kind):
            return status, str(error)
    return 500, "The console failed; its log has the reason."


def _html(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="text/html", charset="utf-8")


def _json(answer: Any, status: int = 200) -> web.Response:  # noqa: ANN401 - whatever is JSON
    body = msgspec.json.encode(answer)
    return web.Response(body=body, status=status, content_type="application/json")
