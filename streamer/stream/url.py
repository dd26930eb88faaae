"""A page's URL as the rest of the program may rely on it.

It is not empty, is at most 8 KiB of valid UTF-8, and holds no control characters. Spaces around it
go and tabs and newlines within it go, as in the URL standard (WHATWG, basic URL parser); other
controls are percent-encoded. Nothing else is changed: whether two spellings are one page is not
decided here.
"""

from __future__ import annotations

import re

from streamer.errors import InvalidPage

URL_BYTES_MAX = 8 << 10
_AROUND = "".join(map(chr, range(0x21)))
_REMOVED = re.compile(r"[\t\n\r]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def clean_url(url: str) -> str:
    """Return `url` without what troubles its readers.

    Raises:
        InvalidPage: `missing_url` where nothing is left, `url_too_long` over 8 KiB.
    """
    if not url.isprintable() or url[:1] == " " or url[-1:] == " ":
        url = _SURROGATE.sub("\ufffd", _REMOVED.sub("", url.strip(_AROUND)))
        url = _CONTROL.sub(_percent_encoded, url)
    if not url:
        raise InvalidPage("missing_url", "the URL is empty")
    # A character takes up to four bytes: only a long URL is worth encoding to see how long.
    if len(url) * 4 > URL_BYTES_MAX and len(url.encode()) > URL_BYTES_MAX:
        raise InvalidPage("url_too_long", f"{len(url.encode())} bytes, at most {URL_BYTES_MAX}")
    return url


def _percent_encoded(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())
