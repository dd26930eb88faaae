"""A small site to crawl, on loopback: serve.py PORT. It has four articles, under many URLs.

Each article has a print view. A visitor without a session gets a new one, with its number in every
link. The mirror is the same server under the name localhost.
"""

import itertools
import random
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORDS = [
    "bridge",
    "council",
    "river",
    "ferry",
    "engineer",
    "autumn",
    "market",
    "harbour",
    "library",
]
WORDS += ["garden", "teacher", "winter", "railway", "museum", "orchard", "village", "letter"]
SESSIONS = itertools.count(1)


def text(number: int) -> str:
    """Return an article: the same each time, and unlike the others."""
    return " ".join(random.Random(number).choices(WORDS, k=300))  # noqa: S311 - no secret


class Site(BaseHTTPRequestHandler):
    """The front page, the articles and their print views."""

    def do_GET(self) -> None:
        """Send a page."""
        path = re.fullmatch(r"/(?:(article|print)/([1-4]))?(?:\?session=(\d+))?", self.path)
        if path is None:
            self.send_error(404)
            return
        view, number = path[1], int(path[2] or 0)
        session = f"?session={path[3] or next(SESSIONS)}"
        if view == "article":
            page = f"<a href='/{session}'>News</a><h1>Article {number}</h1><p>{text(number)}</p>"
            page += f"<a href='/print/{number}{session}'>Print</a>"
        elif view == "print":
            page = f"<pre>{text(number)}</pre><a href='/article/{number}'>Back to the site</a>"
        else:
            links = (f"<li><a href='/article/{n}{session}'>{text(n)[:60]}</a>" for n in range(1, 5))
            mirror = f"http://localhost:{self.server.server_port}/"  # type: ignore[attr-defined]
            page = f"<h1>News</h1><ul>{''.join(links)}</ul><a href='{mirror}'>Mirror</a>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(f"<!doctype html><title>News</title>{page}".encode())


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Site).serve_forever()
