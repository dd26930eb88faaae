"""What can be told of a body by looking at its bytes: blank, binary, how it begins.

A body is either the inside of a JSON string, escapes not undone, or decoded bytes; each question is
asked of one of the two. Only the beginning of a body decides, unless it is blank throughout; what
it says is left to the kernels.
"""

from __future__ import annotations

import re

from streamer.errors import InvalidPage

HEAD_BYTES = 512  # as much of a body as decides what it is

_BLANK_ESCAPED = re.compile(rb"(?:[ \t\n\r\f\v]|\\[ntrf]|\\u00(?:0[9a-dA-D]|20))*")
_BLANK = re.compile(rb"[ \t\n\r\f\v]*")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([^\s;\"',]{1,64})", re.IGNORECASE)
# "binary data byte" in the WHATWG MIME sniffing standard
_BINARY = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_QUOTE = 0x22


def plain_body(raw: memoryview) -> memoryview | None:
    """Return the inside of a JSON string that is not blank; None for any other value."""
    if len(raw) <= 2 or raw[0] != _QUOTE:  # noqa: PLR2004 - the two quotes
        return None
    body = raw[1:-1]
    return None if is_blank_escaped(body) else body


def is_blank_escaped(body: memoryview) -> bool:
    """Tell whether the inside of a JSON string, of at least one byte, is white space throughout."""
    return body[0] in b" \\" and bool(_BLANK_ESCAPED.fullmatch(body))


def not_blank(body: bytes) -> bytes:
    """Return `body`.

    Raises:
        InvalidPage: `empty_body`, where it is white space throughout.
    """
    if _BLANK.fullmatch(body):
        raise InvalidPage("empty_body", f"{len(body)} bytes of white space")
    return body


def is_binary(body: bytes) -> bool:
    """Tell whether a body of no known type begins like something other than text."""
    return not body.startswith(_BYTE_ORDER_MARKS) and bool(_BINARY.search(body, 0, HEAD_BYTES))


def charset_of(content_type: str | None) -> str | None:
    """Return the `charset` parameter of a content type."""
    found = _CHARSET.search(content_type) if content_type else None
    return found[1] if found else None
