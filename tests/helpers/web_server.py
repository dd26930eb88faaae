"""A web server on loopback whose files a test changes, and that breaks off where a test wants."""

import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass
class WebServer:
    """A running server: its files by path, and how it answers.

    Attributes:
        tags: the ETags of files; others have one of their own, with "" none. Several, with blanks
            between, are given in turns.
        modified: the Last-Modified header of all files; "" for none.
        cuts: how many connections are still to be cut, each after `cut_bytes` of an answer.
        broken: from which byte on nothing of a file is sent any more.
        ranges: whether parts of files are given; `status`: an answer to all requests but 200.
        heads: the status for HEAD; with 204, a 200 without size, ETag and time, as some give.
        failures: how many requests are still to be answered with 503.
        statuses: the answers to GET for files; `delay`: seconds before an answer.
        most: how many requests were answered at the same time.
        asked: the requests, as "GET /path bytes=0-99".
        headers: the names of all headers of requests.
    """

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    modified: str = "Wed, 21 Oct 2015 07:28:00 GMT"
    cuts: int = 0
    cut_bytes: int = 50_000
    broken: dict[str, int] = field(default_factory=dict)
    ranges: bool = True
    heads: int = 200
    status: int = 200
    failures: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    delay: float = 0.0
    lengths: bool = True
    now: int = 0
    most: int = 0
    asked: list[str] = field(default_factory=list)
    headers: set[str] = field(default_factory=set)

    def put(self, path: str, data: bytes, tag: str = "one") -> str:
        """Set a file; return its URL."""
        self.files[path], self.tags[path] = data, tag
        return f"{self.url}{path}"


@contextmanager
def web_server() -> Iterator[WebServer]:
    """Run a server."""
    served = WebServer()

    class Answers(_FileAnswers):
        web = served

    with serving(Answers) as served.url:
        yield served


class HttpAnswers(BaseHTTPRequestHandler):
    """Answers requests by `answer`, without a word on the terminal."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        self.answer()

    def do_HEAD(self) -> None:
        self.answer()

    def answer(self) -> None:
        """Answer the request, whose parts are attributes."""
        raise NotImplementedError

    def give(self, status: int, body: bytes, **headers: str) -> None:
        """Answer with a status, a body and more headers."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        with suppress(ConnectionError):  # who asked may be gone
            self.end_headers()
            self.wfile.write(body)


@contextmanager
def serving(handler: type[HttpAnswers], context: ssl.SSLContext | None = None) -> Iterator[str]:
    """Run a server of these answers, with TLS if there is a context for it; yield its URL."""
    with _Server(("127.0.0.1", 0), handler) as server:
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"{'https' if context else 'http'}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    request_queue_size = 64  # files are looked up many at a time


class _FileAnswers(HttpAnswers):
    web: WebServer
    lock = threading.Lock()

    def answer(self) -> None:
        web, path = self.web, urlsplit(self.path).path
        asked = self.headers.get("Range") or ""
        web.asked.append(f"{self.command} {path} {asked}".rstrip())
        web.headers |= {name.title() for name in self.headers}
        with self.lock:
            web.now += 1
            web.most = max(web.most, web.now)
        time.sleep(web.delay)
        with self.lock:
            web.now -= 1
        data = web.files.get(path)
        status = web.status if data is not None else 404
        if self.command == "HEAD" and status == 200:
            status = web.heads
        if status == 204:
            self.give(200, b"")
            return
        if self.command == "GET":
            status = web.statuses.get(path, status)
        with self.lock:
            if web.failures:
                web.failures, status = web.failures - 1, 503
        start, end = 0, len(data or b"")
        if status == 200 and asked and web.ranges:
            first, last = asked.removeprefix("bytes=").split("-")
            start, end, status = int(first), min(int(last) + 1, end), 206
            status = status if start < end else 416
        if data is None or status not in {200, 206}:
            data, start, end = b"", 0, 0
        self._send(status, path, data, start, end)

    def _send(self, status: int, path: str, data: bytes, start: int, end: int) -> None:
        web = self.web
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        if web.lengths:
            self.send_header("Content-Length", str(end - start))
        if tags := web.tags.get(path, "").split():
            tag = tags[len(web.asked) % len(tags)]
            self.send_header("ETag", tag if tag.startswith("W/") else f'"{tag}"')
        if web.modified:
            self.send_header("Last-Modified", web.modified)
        self.close_connection = self.close_connection or not web.lengths
        self.end_headers()
        if self.command == "HEAD":
            return
        body = data[start:end]
        if start >= web.broken.get(path, end + 1):
            self.close_connection = True
            return
        if web.cuts and len(body) > web.cut_bytes:
            web.cuts -= 1
            self.wfile.write(body[: web.cut_bytes])
            self.wfile.flush()
            self.close_connection = True
            return
        try:
            self.wfile.write(body)
        except ConnectionError:  # who asked has enough
            self.close_connection = True
