"""One fixture for each preset: messages in the producers' shapes, written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.pages.chunk import PageBatch
from streamer.pages.files import open_sources
from streamer.pages.mapping import PRESETS
from streamer.pages.parse import PageParser
from streamer.text.visible import ESCAPED, HTML

MESSAGES = Path(__file__).parents[2] / "fixtures" / "messages"


def parse(name: str, suffix: str = "jsonl") -> PageBatch:
    (source,) = open_sources([str(MESSAGES / f"{name}.{suffix}")]).sources
    (chunk,) = source.read()
    parser = PageParser(PRESETS[name], carry=["fetched_at", "content_type"])
    return parser.parse(chunk)


def test_scrapy_cluster() -> None:
    batch = parse("scrapy-cluster")
    assert batch.urls == [b"http://shop.example/new", b"http://shop.example/b64"]
    assert list(batch.bodies) == [
        b"<html><body><p>Twelve chairs in stock.</p></body></html>",
        "<html><p>Täglich frisch</p></html>".encode(),
    ]
    assert batch.flags == [HTML, HTML]
    assert batch.carried[0] == (
        b'{"fetched_at":"2026-03-04T05:06:07.250Z","content_type":"text/html; charset=utf-8"}'
    )
    assert batch.skipped == {"status_not_2xx": 1}
    ((sequence, code, detail),) = ((d.sequence, d.code, d.detail) for d in batch.dead)
    assert (sequence, code, detail) == (3, "invalid_json", "the producer's own encoding failed")


def test_nutch() -> None:
    batch = parse("nutch")
    assert batch.urls == [b"http://news.example/1", b"http://news.example/2"]
    assert list(batch.bodies) == [b"Rain is expected where 3 < 5 and later.", b"<p>Sun</p>"]
    assert batch.flags == [0, HTML]
    assert batch.skipped == {"type_not_text": 1}
    assert b'"fetched_at":"2026-01-01T00:00:00Z"' in batch.carried[0]


def test_norconex() -> None:
    batch = parse("norconex")
    assert batch.urls == [b"https://docs.example/start"]
    assert bytes(batch.bodies[0]) == b"How to begin, in three steps."
    assert batch.flags == [ESCAPED]
    assert batch.skipped == {"type_not_text": 1}
    deleted = PageParser(PRESETS["norconex"]).parse_messages(0, 1, [(0, b"https://x", None)])
    assert deleted.skipped == {"deletion": 1}


def test_frontera() -> None:
    batch = parse("frontera")
    assert batch.urls == [b"http://blog.example/"]
    assert list(batch.bodies) == [b"<html><h1>A blog</h1></html>"]
    assert batch.skipped == {"status_not_2xx": 1}
    assert [(dead.sequence, dead.code) for dead in batch.dead] == [(2, "missing_body")]


def test_page() -> None:
    batch = parse("page")
    assert batch.urls == [b"https://plain.example/a", b"https://plain.example/b"]
    assert bytes(batch.bodies[0]) == rb"A line.\nAnother \"quoted\" one."
    assert batch.bodies[1] == "grün".encode()
    assert batch.carried[1] == b'{"fetched_at":"2026-01-01T00:00:00Z","content_type":"text/plain"}'


def test_warc() -> None:
    batch = parse("warc", "warc")
    assert batch.sequences == [2, 3]
    assert batch.urls == [b"http://bakery.example/"] * 2
    assert list(batch.bodies) == [b"<html><body>Bread at five.</body></html>", b"Bread at six."]
    assert batch.flags == [HTML, 0]
    assert batch.skipped == {"warc_warcinfo": 1, "warc_request": 1}
    assert batch.carried[0] == b'{"fetched_at":"2026-02-03T04:05:06Z","content_type":"text/html"}'


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_has_a_fixture(name: str) -> None:
    assert list(MESSAGES.glob(f"{name}.*"))
