"""The visible text of a body, and what its author says of it: description, canonical link.

The kernel serves the native signer; the functions serve methods in Python, which see the same text.
"""

from __future__ import annotations

import html
import re
from contextlib import suppress
from html.parser import HTMLParser
from typing import NamedTuple

import numpy as np

from streamer.kernel import allocating_kernel
from streamer.text import main_text
from streamer.text.blocks import html_to_blocks
from streamer.text.escapes import unescape_json
from streamer.text.html import html_to_text
from streamer.text.scan import VECTOR_BYTES, Bytes
from streamer.text.short_tokens import Segment
from streamer.text.slices import Slices
from streamer.text.tokens import SLACK

# What the bytes of a body are: marks that travel with a page until its text is visible.
ESCAPED = 1  # the inside of a JSON string: escapes not yet undone
HTML = 2  # HTML; otherwise plain text
MAIN = 4  # of HTML, functions in Python take the main text, where the page has one


Buffer = bytes | bytearray | memoryview

HEAD_BYTES_MAX = 1 << 16  # what is further down is not looked for

_DESCRIPTION = re.compile(rb"<meta\b[^>]*description", re.IGNORECASE)
_TITLE = re.compile(rb"<title(?=[\s/>])", re.IGNORECASE)
_TITLE_END = re.compile(rb"</title", re.IGNORECASE)
_CANONICAL = re.compile(rb"<link\b[^>]*canonical", re.IGNORECASE)


@allocating_kernel
def visible_span(
    body: Segment, flags: int, scratch: tuple[Bytes, Bytes], main: main_text.MainText | None
) -> tuple[Segment, bool]:
    """Return the text of one body, and whether it is the main text.

    It is the visible text, unless `main` is given and the page has a main text. The compiler knows
    of a `main` that is None, so who never asks for it does not wait for its kernels.
    """
    unescaped, text = scratch
    is_main = False
    source, start, end = body
    if flags & ESCAPED:
        end = unescape_json(source, start, end, unescaped, 0)
        source, start = unescaped, 0
    if flags & HTML:
        if main is None:
            end = html_to_text(source, start, end, text, 0)
        else:
            end, is_main = main_text.html_to_main_text(source, start, end, text, main)
        source, start = text, 0
    return Segment(source, start, end), is_main


def scratch_bytes(body_bytes: int) -> int:
    """Return how large each scratch array must be for bodies of so many bytes."""
    return body_bytes * 5 // 4 + VECTOR_BYTES + SLACK


class TextPart(NamedTuple):
    """A part of a page's visible text, whether it is compared, and on how many pages it repeats.

    `dropped` says that it is not compared because of what the site repeats.
    """

    text: str
    counts: bool
    repeats: int = 0
    dropped: bool = False


def text_parts(body: Buffer, flags: int, repeats: Bytes | None = None) -> list[TextPart]:
    """Return the visible text of a body in parts; those that count are `visible_text`, joined.

    All of it counts, except what `flags` leave out where they ask for the main text. `repeats` are
    those of the asked blocks, of an index that knows sites.
    """
    if not (flags & HTML and flags & MAIN):
        return [TextPart(visible_text(body, flags), counts=True)]
    model = main_text.MODEL if repeats is None else main_text.SITE_MODEL
    main = main_text.new_main_text(main_text.read_model(model))
    source = visible_array(body, flags & ESCAPED)
    whole = np.empty(scratch_bytes(len(source)), np.uint8)
    end = html_to_blocks(source, 0, len(source), whole, main.structure, main.records)
    has_main, spans = main_text.block_spans(main, repeats)
    spans = [span for span in spans if span.repeats or span.dropped or (has_main and span.counts)]
    found, at, rest = list[TextPart](), 0, TextPart("", counts=not has_main)
    for span in (*spans, main_text.BlockSpan(end, end, main_text.LEAST, counts=False)):
        own = TextPart("", span.counts, span.repeats, span.dropped)
        for first, last, part in ((at, span.start, rest), (span.start, span.end, own)):
            if first < last:
                text = whole[first:last].tobytes().decode("utf-8", "replace")
                found.append(part._replace(text=text))
        at = span.end
    return found


def visible_text(body: Buffer, flags: int) -> str:
    """Return the text of a body, UTF-8 as `flags` say; malformed bytes become U+FFFD."""
    return visible_array(body, flags).tobytes().decode("utf-8", "replace")


def visible_array(body: Buffer, flags: int) -> Bytes:
    """Return the text of a body as uint8; read-only, as the kernels have been compiled for."""
    size = len(body)
    data = Slices.joined([body]).data
    unescaped, text = np.empty((2, scratch_bytes(size)), np.uint8)
    main = main_text.new_main_text(main_text.read_model(main_text.MODEL)) if flags & MAIN else None
    (array, start, end), _ = visible_span(Segment(data, 0, size), flags, (unescaped, text), main)
    found = array[start:end]
    found.flags.writeable = False
    return found


def page_title(body: Buffer, flags: int) -> str:
    """Return the content of the first `title` element in the head of an HTML body, "" if none."""
    head = bytes(body[:HEAD_BYTES_MAX]) if flags & HTML else b""
    if flags & ESCAPED:
        head = visible_array(head, ESCAPED).tobytes()
    if not (found := _TITLE.search(head)):
        return ""
    # One search after another: one pattern for all takes the square of a page of open tags.
    start = head.find(b">", found.end()) + 1
    end = _TITLE_END.search(head, start)
    text = head[start : end.start()] if start and end else b""
    return " ".join(html.unescape(text.decode("utf-8", "replace")).split())


def meta_description(body: Buffer, flags: int) -> str:
    """Return the content of the first `meta name=description` of an HTML body, "" if none."""
    return _head_reader(body, flags, _DESCRIPTION).description


def canonical_link(body: Buffer, flags: int) -> str:
    """Return the address of the first `link rel=canonical` of an HTML body, "" if none."""
    return _head_reader(body, flags, _CANONICAL).canonical


def _head_reader(body: Buffer, flags: int, needed: re.Pattern[bytes]) -> _HeadReader:
    """Return what the head of a body says, where it has what is `needed`."""
    reader = _HeadReader()
    head = bytes(body[:HEAD_BYTES_MAX]) if flags & HTML else b""
    if needed.search(head):
        with suppress(AssertionError):  # the parser's way to give up on a malformed `<![`
            reader.feed(visible_text(head, flags & ESCAPED))
    return reader


class _HeadReader(HTMLParser):
    """Takes the first description and the first canonical link among a page's elements."""

    def __init__(self) -> None:
        super().__init__()
        self.description = self.canonical = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at one tag."""
        if tag not in {"meta", "link"}:
            return
        values = {name: value or "" for name, value in attrs}
        if tag == "link" and "canonical" in values.get("rel", "").lower().split():
            self.canonical = self.canonical or values.get("href", "").strip()
        elif tag == "meta" and values.get("name", "").strip().lower() == "description":
            self.description = self.description or " ".join(values.get("content", "").split())
