"""What a body is: types as browsers read them, bytes that are no text, and HTML without a type."""

import base64
import json
import random

import pytest

from streamer.pages.body import essence_of, foreign_kind, looks_like_html
from streamer.pages.chunk import Chunk, Message, PageBatch
from streamer.pages.mapping import parse_fields
from streamer.pages.parse import PageParser
from streamer.text.visible import HTML


def parsed(*messages: object) -> PageBatch:
    values = [json.dumps(each, ensure_ascii=False).encode() for each in messages]
    numbered: list[Message] = [(i, None, value) for i, value in enumerate(values)]
    return PageParser().parse(Chunk(0, len(numbered), messages=numbered))


@pytest.mark.parametrize(
    ("content_type", "essence"),
    [
        ("text/html", "text/html"),
        (" Text/HTML ;CHARSET=utf-8", "text/html"),
        ("text/html;;charset=UTF-8", "text/html"),
        ("text/plain, text/html", "text/html"),
        ("text/html, gibberish", "text/html"),
        ("text/html, */*", "text/html"),
        ('text/html; title="a, text/plain"', "text/html"),
        ('text/html; title="a\\", text/plain"', "text/html"),
        ("text/html charset=utf-8", ""),
        ('"text/html"', ""),
        ("html", ""),
        ("*/*", ""),
        ("Text/HTM; charset=utf-8", "text/html"),
        ("application/xhtml", "text/html"),
        ("text/", ""),
        ("", ""),
    ],
)
def test_a_type_is_read_as_browsers_read_it(content_type: str, essence: str) -> None:
    assert essence_of(content_type) == essence


@pytest.mark.parametrize(
    "kind", ["text/css", "text/javascript; charset=utf-8", "TEXT/CSS", "text/html, text/css"]
)
def test_style_sheets_and_scripts_are_never_pages(kind: str) -> None:
    page = {"url": "https://a.example/", "body": "p { color: red }", "content_type": kind}
    assert parsed(page).skipped == {"type_not_text": 1}
    wide = parse_fields('{"url": "/url", "body": "/body", "pages_type": "*"}')
    assert not wide.accepts_type(kind)
    assert wide.accepts_type("application/json")


FOREIGN = {
    "pdf": [b"%PDF-1.5\n%\xe2\xe3\xcf\xd3\n", b"\r\n%PDF-1.7", b"\xef\xbb\xbf%PDF-1.4",
            b"%!PS-Adobe-3.0"],
    "image": [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"GIF89a\1\0", b"\xff\xd8\xff\xe0\0\x10JFIF",
        b"RIFF\x10\0\0\0WEBPVP8 ", b"II*\0\x08", b"MM\0*\0", b"\0\0\0\x1cftypavif", b"8BPS\0\1",
    ],
    "font": [b"wOF2\0\1\0\0", b"wOFF\0\1\0\0", b"OTTO\0\x0b", b"\0\1\0\0\0\x11", b"ttcf\0\1"],
    "archive": [
        b"PK\3\4\x14\0\6\0", b"PK\5\6", b"Rar!\x1a\7", b"7z\xbc\xaf\x27\x1c", b"BZh91AY&SY",
        b"\xfd7zXZ\0", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"{\\rtf1\\ansi ",
    ],
    "media": [
        b"OggS\0\2", b"ID3\3\0", b"\x1aE\xdf\xa3", b"fLaC\0", b"\0\0\0\x18ftypmp42",
        b"RIFF\x24\0\0\0WAVEfmt ",
    ],
    "binary": [b"BM\x36\x10" + bytes(range(1, 33)) * 9, random.Random(1).randbytes(400)],
    "program": [b"\x7fELF\2\1", b"\0asm\1\0", b"\xca\xfe\xba\xbe\0", b"SQLite format 3\0"],
}  # fmt: skip
BEGINNINGS = [(kind, head) for kind, heads in FOREIGN.items() for head in heads]


@pytest.mark.parametrize(("kind", "head"), BEGINNINGS, ids=[str(head) for _, head in BEGINNINGS])
def test_known_bytes_win_over_any_type(kind: str, head: bytes) -> None:
    body = head + b" some text, and more of it" * 9
    packed = base64.b64encode(body).decode()
    assert foreign_kind(body) == kind
    url = "https://a.example/"
    for content_type in ("text/html; charset=utf-8", "text/plain", None):
        page = {"url": url, "body_base64": packed, "content_type": content_type}
        untold = kind == "binary" and content_type is None
        assert parsed(page).skipped == {"type_not_text" if untold else f"body_{kind}": 1}


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("content_type", [None, "text/html"])
def test_a_body_in_utf_16_is_what_it_is_in_utf_8(charset: str, content_type: str | None) -> None:
    text = "<html><p>Привет, это страница</p>" * 20
    packed = base64.b64encode(text.encode(charset)).decode()
    page = {"url": "https://a.example/", "body_base64": packed, "content_type": content_type}
    batch = parsed(page)
    assert (bytes(batch.bodies[0]), batch.flags) == (text.encode(), [HTML])


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("pdf", "%PDF-1.5\n%âãÏÓ\n1 0 obj"),
        ("image", "\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
        ("image", "\ufffdPNG\r\n\x1a\n\0"),
        ("image", "\ufffd\ufffd\ufffd\ufffd\0\x10JFIF\0"),
        ("image", "ÿØÿà\0\x10JFIF\0"),
        ("image", "GIF89a\1\0"),
        ("archive", "PK\3\4\x14\0"),
        ("font", "wOF2\0\1\0\0"),
    ],
)
def test_bytes_that_a_crawler_took_for_text_are_known_too(kind: str, body: str) -> None:
    for content_type in ("text/html", "text/plain", None):
        page = {"url": "https://a.example/", "body": body * 3, "content_type": content_type}
        assert parsed(page, {**page, "status": 200}).skipped == {f"body_{kind}": 2}


@pytest.mark.parametrize(
    "text",
    [
        "PKs are primary keys, 3 of them", "Ogg is a format", "MM. Dupont", "II* is no number",
        "GIF is said with a hard G", "%PDF is how a file begins", "BZh is no word", "ID3 tags",
        "wOF2 without more", "Rar! she said", "8BPS", "RIFFs of all kinds, WEBP among them, later",
    ],
)  # fmt: skip
def test_text_about_formats_is_text(text: str) -> None:
    page = {"url": "https://a.example/", "body": text, "content_type": "text/plain"}
    assert len(parsed(page)) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"<!doctype html>", b"\n\t <!DOCTYPE\n HTML PUBLIC", b"\\n\\r\\n<html>",
        b"\xef\xbb\xbf<HEAD>", b"<p>", b"<div class=x", b"<!-- a", b"\\u003chtml>", b"<br/>",
        b"<blockquote>", b"<figure ", b"<x-story>", b"<details open>", b"<button>x", b"<svg>",
        b"\xef\xbb\xbf\xef\xbb\xbf<html>", b"\n" * 600 + b"<p>", b"\\n" * 600 + b"<p>",
        b"<?page version=2?><html>", b"<?a?>\n<?b?>\n<!-- x", b"Today. <h1>News</h1>",
        b"Today. \\u003cp class=x\\u003eNews\\u003c/p\\u003e", b"Today. <p>News<\\/p>",
        b"<p\\n class=x>", b'<?xml version="1.0"?>\n<html xmlns=x>',
    ],
)  # fmt: skip
def test_what_begins_like_a_page_is_html_without_a_type(body: bytes) -> None:
    assert looks_like_html(body, None)
    assert looks_like_html(memoryview(body), "application/octet-stream")


@pytest.mark.parametrize(
    "body",
    [
        b"", b"text <p>", b"<rss>", b"< p>", b"<", b"<?xml?><feed>", b"{}",
        b" " * 100_000 + b"<p>", b"a < b and c > d", b"if a</b", b"text </p> <p>",
        b"see <x>y</x>", b"words " * 1000 + b"<p>late</p>",
    ],
)  # fmt: skip
def test_other_beginnings_are_no_html(body: bytes) -> None:
    assert not looks_like_html(body, None)


@pytest.mark.parametrize(
    ("kind", "is_html"),
    [
        ("text/html", True), ("Text/HTML; charset=x", True), ("application/xhtml+xml", True),
        ("text/plain", False), ("application/json", False), ("image/svg+xml", False),
    ],
)  # fmt: skip
def test_a_type_is_believed_against_the_body(kind: str, is_html: bool) -> None:
    assert looks_like_html(b"text" if is_html else b"<html>", kind) == is_html
