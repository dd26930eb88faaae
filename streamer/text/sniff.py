r"""Is a page HTML? By its type where that says something, else by its first bytes.

The signatures are those of the WHATWG sniffing standard and a few more elements that pages begin
with. Escaped bodies are sniffed before their escapes are undone: white space may be written `\n`
there, and `<` may be `\u003c`. At most LEADING_MAX characters of white space are passed over, so
that the cost has a bound.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

LEADING_MAX = 512

_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
# Types that servers and crawlers give when they do not know.
_VAGUE_TYPES = frozenset(
    {"", "*/*", "application/octet-stream", "application/xml", "text/xml", "unknown/unknown"}
)
_LESS = rb"(?:<|\\u003[cC])"
_ELEMENTS = (
    rb"html|head|body|title|meta|link|base|script|style|noscript|iframe|div|span|p|a|b|i|h[1-6]|br"
    rb"|table|ul|ol|li|dl|img|font|center|form|main|article|section|header|nav|pre|strong|em"
)
_BEGINNINGS = np.zeros(256, np.bool_)
_BEGINNINGS[list(b"\xef\\ \t\n\f\r<")] = True
_HTML = re.compile(
    rb"(?:\xef\xbb\xbf|\\ufeff)?(?:[\t\n\f\r ]|\\[nrtf]){0,%d}+"
    rb"(?:%b\?xml[^<>]{0,200}>(?:[\t\n\f\r ]|\\[nrtf])*+)?"
    rb"%b(?:!--|!doctype(?:\s|\\[nrtf])+html|(?:%b)(?=[\t\n\f\r />\\]))"
    % (LEADING_MAX, _LESS, _LESS, _ELEMENTS),
    re.IGNORECASE,
)


def told_html(content_type: str | None) -> bool | None:
    """Tell whether a type is that of HTML; None for one that says nothing."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    if kind in _HTML_TYPES:
        return True
    return None if kind in _VAGUE_TYPES else False


def may_begin_html(first: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Tell whether bodies that begin with these bytes may look like HTML."""
    return _BEGINNINGS[first]


def sniffed_html(body: bytes | bytearray | memoryview) -> bool:
    """Tell whether a body begins like HTML; UTF-8 text or the inside of a JSON string."""
    return _HTML.match(body) is not None


def looks_like_html(body: bytes | bytearray | memoryview, content_type: str | None) -> bool:
    """Tell whether a page is HTML: by its type, or else by its body."""
    told = told_html(content_type)
    return sniffed_html(body) if told is None else told
