"""The visible text of a body, and the description that its author gave.

The kernel serves the native signer; the functions serve methods in Python, which see the same text.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import numpy.typing as npt

from streamer.kernel import allocating_kernel
from streamer.text.form import ESCAPED, HTML
from streamer.text.html import html_to_text
from streamer.text.slices import Slices
from streamer.text.tokens import SLACK
from streamer.text.unescape import unescape_json

Buffer = bytes | bytearray | memoryview

HEAD_BYTES_MAX = 1 << 16  # a description further down is not looked for

_DESCRIPTION = re.compile(rb"<meta\b[^>]*description", re.IGNORECASE)


@allocating_kernel
def visible_span(
    data: npt.NDArray[np.uint8],
    start: int,
    end: int,
    flags: int,
    unescaped: npt.NDArray[np.uint8],
    text: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.uint8], int, int]:
    """Return (array, start, end) of the visible text of one body."""
    source = data
    if flags & ESCAPED:
        end = unescape_json(source, start, end, unescaped, 0)
        source, start = unescaped, 0
    if flags & HTML:
        end = html_to_text(source, start, end, text, 0)
        source, start = text, 0
    return source, start, end


def scratch_bytes(body_bytes: int) -> int:
    """Return how large each scratch array must be for bodies of so many bytes."""
    return body_bytes * 5 // 4 + 16 + SLACK


def visible_text(body: Buffer, flags: int) -> str:
    """Return the visible text of a body, UTF-8 as `flags` tell; malformed bytes become U+FFFD."""
    size = len(body)
    data = Slices.joined([body]).data
    room = scratch_bytes(size)
    scratch = np.empty(room, np.uint8), np.empty(room, np.uint8)
    array, start, end = visible_span(data, 0, size, flags, *scratch)
    return array[start:end].tobytes().decode("utf-8", "replace")


def meta_description(body: Buffer, flags: int) -> str:
    """Return the content of the first `meta name=description` of an HTML body, "" if none."""
    if not flags & HTML:
        return ""
    head = bytes(body[:HEAD_BYTES_MAX])
    if not _DESCRIPTION.search(head):
        return ""
    reader = _DescriptionReader()
    reader.feed(visible_text(head, flags & ESCAPED))
    return reader.description


class _DescriptionReader(HTMLParser):
    """Takes the first description among a page's meta elements."""

    def __init__(self) -> None:
        super().__init__()
        self.description = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at one tag."""
        if tag != "meta" or self.description:
            return
        values = {name: value or "" for name, value in attrs}
        if values.get("name", "").strip().lower() == "description":
            self.description = " ".join(values.get("content", "").split())
