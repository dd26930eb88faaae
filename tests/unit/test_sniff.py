from __future__ import annotations

import pytest

from streamer.text.visible import looks_like_html


@pytest.mark.parametrize(
    "body",
    [
        *(
            b"<!doctype html>",
            b"\n\t <!DOCTYPE\n HTML PUBLIC",
            b"\\n\\r\\n<html>",
            b"\xef\xbb\xbf<HEAD>",
        ),
        *(b"<p>", b"<div class=x", b"<!-- a", b"\\u003chtml>", b"<br/>", b"<p\\n class=x>"),
        b'<?xml version="1.0"?>\n<html xmlns=x>',
    ],
)
def test_what_begins_like_a_page_is_html_without_a_type(body: bytes) -> None:
    assert looks_like_html(body, None)
    assert looks_like_html(memoryview(body), "application/octet-stream")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"text <p>",
        b"<pre-x>",
        b"<rss>",
        b"< p>",
        b"<",
        b"<?xml?><feed>",
        b"{}",
        b" " * 10_000 + b"<p>",
    ],
)
def test_other_beginnings_are_no_html(body: bytes) -> None:
    assert not looks_like_html(body, None)


@pytest.mark.parametrize("kind", ["text/html", "Text/HTML; charset=x", "application/xhtml+xml"])
def test_an_html_type_needs_no_look_at_the_body(kind: str) -> None:
    assert looks_like_html(b"text", kind)


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "image/svg+xml"])
def test_another_type_is_believed_against_the_body(kind: str) -> None:
    assert not looks_like_html(b"<html>", kind)
