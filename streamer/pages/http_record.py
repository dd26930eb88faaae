"""A WARC record's block as fields and a body: the HTTP response in it taken apart.

The fields are those that the preset `warc` names. warcio parses the headers; transfer and content
encodings are undone by what the body is, with the headers as a hint, under their own names or as
renamed by crawlers (`X-Crawler-Content-Encoding`, `X-Crawler-Transfer-Encoding`). A response that
begins with no status line is a body without headers; one of another protocol (DNS look-ups, for
one) is no page.
"""

import io
import re
from collections.abc import Callable
from typing import Any

from warcio.statusandheaders import StatusAndHeadersParser, StatusAndHeadersParserException

from streamer.errors import InvalidPage, SkippedRecord
from streamer.pages.chunk import WarcPage
from streamer.pages.encodings import split_names, undo_chunks, undo_encodings
from streamer.pages.message import Fields
from streamer.pages.warc import HEADERS_BYTES_MAX

_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(r"\d{3}")
_OF_CRAWLER = re.compile(r"<?(?:metadata|dns):", re.IGNORECASE)
_HEAD = re.compile(rb"(?i:HTTP/[0-9](?:\.[0-9])?|ICY) [1-5][0-9]{2}(?: [^\r\n]{0,200})?\r?\n")
is_http = re.compile(rb"HTTP/|ICY ", re.IGNORECASE).match  # ICY: of SHOUTcast
_MORE_BLANK_LINES = re.compile(rb"(?:\r?\n)++(?!\0)")  # after a head; not of UTF-16
_HEADS_MAX = 8
_PAGE_TYPES = ("text/html", "text/plain", "application/xhtml")
_UNKNOWN_TYPES = ("application/http", "no-type", "unknown")  # the body decides


def fields_and_body(page: WarcPage, limit: int) -> tuple[Fields, Callable[[], bytes]]:
    """Return a record's fields and how to get its body, no longer than `limit` bytes.

    Raises:
        InvalidPage: `bad_warc_record`, where a response has unusable HTTP headers. The body raises
            `bad_content_encoding` or `decompressed_too_large`.
        SkippedRecord: `response_not_http`, or `crawler_metadata`: logs, and answers to DNS.
    """
    fields: Fields = dict(page.headers)
    if page.kind != "response":
        if _OF_CRAWLER.match(fields.get("warc-target-uri", "")):
            raise SkippedRecord("crawler_metadata")
        if page.kind == "conversion":
            fields.pop("warc-identified-payload-type", None)  # says what the text was made of
        return fields, lambda: page.block
    stored_as = fields.pop("content-type", "application/http").lower()
    if not is_http(page.block):
        if stored_as.startswith(_PAGE_TYPES):
            fields["content-type"] = stored_as
        elif not stored_as.startswith(_UNKNOWN_TYPES):
            raise SkippedRecord("response_not_http")
        return fields, lambda: page.block
    status, headers, body = _split(page.block)
    fields["http"] = headers
    fields["status"] = status
    return fields, lambda: _unwrap(headers, body, limit)


def http_headers_end(block: bytes) -> int:
    """Return where the HTTP headers of a response end; its length if they do not end soon."""
    end = _BLANK_LINE.search(block, 0, HEADERS_BYTES_MAX)
    return end.end() if end else len(block)


def _split(block: bytes) -> tuple[str, dict[str, Any], bytes]:
    """Return the status, the headers by lower-case name, and the body of an HTTP response.

    The last head counts: interim responses and proxies leave others before it.
    """
    found, heads = _split_head(block), 1
    while heads <= _HEADS_MAX and _HEAD.match(found[2]):
        found, heads = _split_head(found[2]), heads + 1
    return found


_LISTS = {"content-type", "content-encoding", "transfer-encoding"}  # of which several are one list


def _split_head(block: bytes) -> tuple[str, dict[str, Any], bytes]:
    cut = http_headers_end(block)
    if cut > HEADERS_BYTES_MAX:
        raise InvalidPage("bad_warc_record", f"HTTP headers of more than {HEADERS_BYTES_MAX} bytes")
    try:
        parsed = StatusAndHeadersParser(["HTTP/", "ICY "]).parse(io.BytesIO(block[:cut]))
    except (StatusAndHeadersParserException, EOFError) as error:
        raise InvalidPage("bad_warc_record", "a response without an HTTP status line") from error
    status = _STATUS.search(parsed.statusline)
    if status is None:
        raise InvalidPage("bad_warc_record", "an HTTP status line without a status")
    headers: dict[str, Any] = {}
    for name, value in parsed.headers:
        own = name.lower()
        if own in headers and own in _LISTS:
            headers[own] += f", {value}"
        headers.setdefault(own, value)
    blank = _MORE_BLANK_LINES.match(block, cut)
    return status[0], headers, block[blank.end() if blank else cut :]


def _unwrap(headers: dict[str, Any], body: bytes, limit: int) -> bytes:
    """Undo chunked transfer, then content encodings; a transfer may be compressed too."""
    transfer = split_names(_header(headers, "transfer-encoding"))
    content = split_names(_header(headers, "content-encoding"))
    body = undo_chunks(body, declared="chunked" in transfer)
    return undo_encodings(body, content + [name for name in transfer if name != "chunked"], limit)


def _header(headers: dict[str, Any], name: str) -> str:
    """Return a header, or the one that a crawler renamed it to because it no longer holds."""
    return str(headers.get(name) or headers.get(f"x-crawler-{name}") or "")
