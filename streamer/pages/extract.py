"""From a message's fields, or a WARC record's, to one page: URL, body, flags, what is carried.

The order is: is it a page at all (status, type), then the URL, then the body. A text body stays as
it is in the JSON, escapes and all, where that can be; a body of bytes is unwrapped and decoded.
Every refusal is an `InvalidPage` or a `SkippedRecord` with its code; optional fields that are null
count as absent.

The URL of a page is not empty, is at most 8 KiB of valid UTF-8, and holds no control characters.
Spaces around it and tabs and newlines within it are removed, as in the URL standard (WHATWG, basic
URL parser); other controls are percent-encoded. Nothing else is changed: whether two spellings are
one page is not decided here.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from streamer.errors import InvalidPage, SkippedRecord
from streamer.hosts import host_of
from streamer.pages import encodings
from streamer.pages.body import essence_of, foreign_kind, is_binary, looks_like_html
from streamer.pages.mapping import POINTER_FIELDS, FieldMapping
from streamer.pages.message import MISSING, Fields, field_at, parse_pointer
from streamer.pages.times import epoch_ms, normalise_time
from streamer.sketch.settings import HOST
from streamer.text.charset import cut_utf16, decode_body
from streamer.text.visible import ESCAPED, HTML, Buffer

URL_BYTES_MAX = 8 << 10
_AROUND = "".join(map(chr, range(0x21)))
_REMOVED = re.compile(r"[\t\n\r]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_UNREAD = "\ufffd"  # in place of what is no character
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def clean_url(url: str) -> str:
    """Return `url` without what troubles its readers.

    Raises:
        InvalidPage: `missing_url` where nothing is left, `url_too_long` over 8 KiB.
    """
    if not url.isprintable() or url[:1] == " " or url[-1:] == " ":
        url = _SURROGATE.sub(_UNREAD, _REMOVED.sub("", url.strip(_AROUND)))
        url = _CONTROL.sub(lambda found: quote(found[0]), url)
    if not url:
        raise InvalidPage("missing_url", "the URL is empty")
    # A character takes up to four bytes: only a long URL is worth encoding to see how long.
    if len(url) * 4 > URL_BYTES_MAX and len(url.encode()) > URL_BYTES_MAX:
        raise InvalidPage("url_too_long", f"{len(url.encode())} bytes, at most {URL_BYTES_MAX}")
    return url


CARRIED_BYTES_MAX = 4 << 10  # of one value, as JSON


class PageFields(NamedTuple):
    """One page: `flags`, `carried` and `time` as in chunk.py."""

    url: str
    body: Buffer
    flags: int
    carried: bytes
    time: int
    scope: bytes = b""


class Extractor:
    """Reads pages out of fields by one mapping; safe to use from several threads."""

    def __init__(
        self, mapping: FieldMapping, carry: Sequence[str], page_bytes_max: int, scope: str = ""
    ) -> None:
        """Prepare the mapping; `scope` is the field that has the scope, or HOST.

        Raises:
            ValueError: a name in `carry` begins with `/` and is no JSON Pointer.
        """
        self._mapping = mapping
        self._limit = page_bytes_max
        self._carry = {name: () if name in POINTER_FIELDS else _pointer_of(name) for name in carry}
        self.missing = set(carry)  # what is to be carried, and no page has had until now
        pointers = [tokens for name in POINTER_FIELDS for tokens in getattr(mapping, name)]
        pointers += filter(None, self._carry.values())
        self._scope = scope
        self._scope_at = _pointer_of(scope) if scope not in {"", HOST} else ()
        pointers += [self._scope_at] if self._scope_at else []
        self.columns = frozenset(tokens[0] for tokens in pointers)
        self.bodies = frozenset(tokens[0] for tokens in (*mapping.body, *mapping.body_base64))

    def page(self, fields: Fields, block: Callable[[], bytes] | None = None) -> PageFields:
        """Return the page in a JSON message; `block` gives the body that follows its fields.

        Raises:
            InvalidPage: a field is missing or cannot be used, or `block` raises it.
            SkippedRecord: `status_not_2xx`, `type_not_text`, or `body_` and a kind of body.py.
        """
        content_type = self._accept_type(fields)
        url = self._url(fields)
        decoded = self._decode(fields, block(), content_type) if block else None
        body, flags = decoded or self._body(fields, content_type)
        scope = self._scope_of(url, fields) if self._scope else b""
        return PageFields(url, body, flags, self._carried(fields), self._time(fields), scope)

    def _scope_of(self, url: str, fields: Fields) -> bytes:
        """Return the scope of a page: its host, or a field as JSON.

        Raises:
            InvalidPage: `missing_scope`.
        """
        is_host = self._scope == HOST
        value = host_of(url) if is_host else whole_number(field_at(fields, self._scope_at))
        if isinstance(value, str) and _UNREAD in value:  # one sign for many that were not read
            raise InvalidPage("missing_scope", f"{self._scope}: not valid Unicode")
        if is_host and not value:
            raise InvalidPage("missing_scope", "the URL has no host")
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            raise InvalidPage("missing_scope", f"{self._scope}: neither a text nor a whole number")
        return str(value).encode() if is_host else msgspec.json.encode(value)

    def _accept_type(self, fields: Fields) -> str | None:
        """Return the content type of what may be a page; skip what may not."""
        status = self._scalar(fields, "status")
        if status is not None and not self._mapping.accepts_status(status):
            raise SkippedRecord("status_not_2xx")
        content_type = self._scalar(fields, "content_type")
        if content_type and not self._mapping.accepts_type(content_type):
            raise SkippedRecord("type_not_text")
        return content_type

    def _url(self, fields: Fields) -> str:
        """Return the URL, which may be a number; "" where the mapping names none."""
        if not self._mapping.url:
            return ""
        value = self._found(fields, "url")
        if value is MISSING:
            raise InvalidPage("missing_url", "none of the mapping's places holds one")
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise InvalidPage("wrong_type", f"url: {_kind(value)}")
        return clean_url(str(value))

    def _body(self, fields: Fields, content_type: str | None) -> tuple[Buffer, int]:
        """Return the body and its flags; `body` counts before `body_base64`."""
        mapping = self._mapping
        for tokens in mapping.body if mapping.base64 == "no" else ():
            raw = fields.get(tokens[0]) if len(tokens) == 1 else None
            plain = encodings.plain_body(raw) if isinstance(raw, msgspec.Raw) else None
            if plain is not None:
                _refuse_foreign(plain)
                return plain, ESCAPED | self._html_flag(plain, content_type)
        text = self._found(fields, "body")
        packed = self._found(fields, "body_base64")
        if isinstance(text, str) and (text.strip() or packed is MISSING):
            found = self._unpack(text)
            if isinstance(found, bytes):
                return self._decode(fields, found, content_type)
            body = encodings.is_not_blank(text.encode(errors="replace"))
            _refuse_foreign(body)
            return body, self._html_flag(body, content_type)
        if isinstance(packed, str):
            return self._decode(fields, encodings.decode_base64(packed), content_type)
        for name, value in (("body", text), ("body_base64", packed)):
            if value is not MISSING:
                raise InvalidPage("wrong_type", f"{name}: {_kind(value)}")
        places = (*mapping.body, *mapping.body_base64)
        if any(field_at(fields, tokens) is None for tokens in places):
            raise InvalidPage("wrong_type", "body: null")
        raise InvalidPage("missing_body", "none of the mapping's places holds one")

    def _unpack(self, text: str) -> bytes | None:
        """Return the bytes that a base64 `body` encodes, or None where it is text."""
        if self._mapping.base64 == "yes":
            return encodings.decode_base64(text)
        return encodings.guess_base64(text) if self._mapping.base64 == "try" else None

    def _decode(self, fields: Fields, body: bytes, content_type: str | None) -> tuple[bytes, int]:
        """Return a body of bytes as UTF-8, with its flags."""
        names = self._scalar(fields, "content_encoding")
        body = encodings.undo_encodings(body, encodings.split_names(names or ""), self._limit)
        charset = self._scalar(fields, "charset") or encodings.charset_of(content_type)
        body = cut_utf16(body, charset)  # whose bytes look like no text
        untold = not essence_of(content_type or "") and is_binary(body)
        if untold and foreign_kind(body) in {None, "binary"}:
            raise SkippedRecord("type_not_text")
        _refuse_foreign(body)
        html = looks_like_html(encodings.is_not_blank(body), content_type)
        text = decode_body(body, charset, html=html)
        return encodings.is_not_blank(text), HTML if html else 0

    def _html_flag(self, body: Buffer, content_type: str | None) -> int:
        told = self._mapping.body_is
        is_html = looks_like_html(body, content_type) if told == "auto" else told == "html"
        return HTML if is_html else 0

    def _found(self, fields: Fields, name: str) -> Any:  # noqa: ANN401 - any JSON value
        """Return the first value other than null of a field's places; alone, out of its array."""
        for tokens in getattr(self._mapping, name):
            value = field_at(fields, tokens)
            if isinstance(value, list) and len(value) == 1:
                value = value[0]
            if value is not MISSING and value is not None:
                return whole_number(value)
        return MISSING

    def _scalar(self, fields: Fields, name: str) -> str | None:
        """Return an optional field as text; of several values, the one with a `/` (a type).

        An empty one is as if it were not there: so are the cells of a table.
        """
        value = self._found(fields, name)
        if value is MISSING or value == "":
            return None
        if isinstance(value, list):
            value = next((one for one in value if isinstance(one, str) and "/" in one), None)
            if value is None:
                return None
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise InvalidPage("wrong_type", f"{name}: {_kind(value)}")
        return str(value)

    def _carried(self, fields: Fields) -> bytes:
        """Return the carried fields as one JSON object, in the order asked for; empty if none."""
        carried: dict[str, msgspec.Raw] = {}
        for name, tokens in self._carry.items():
            value = self._carried_value(fields, name, tokens)
            if value is MISSING:
                continue
            self.missing.discard(name)
            encoded = msgspec.json.encode(value)
            if len(encoded) <= CARRIED_BYTES_MAX:
                carried[name] = msgspec.Raw(encoded)
        return msgspec.json.encode(carried) if carried else b""

    def _time(self, fields: Fields) -> int:
        """Return when the page was fetched, in milliseconds since 1970; 0 if unknown."""
        try:
            return epoch_ms(self._found(fields, "fetched_at"), self._mapping.time)
        except InvalidPage:  # a number that is none
            return 0

    def _carried_value(self, fields: Fields, name: str, tokens: tuple[str, ...]) -> Any:  # noqa: ANN401 - any JSON value
        """Return what `--carry NAME` names: a field, or what is at a place in the message."""
        if tokens:
            return field_at(fields, tokens)
        value = self._found(fields, name)
        return (name == "fetched_at" and normalise_time(value, self._mapping.time)) or value


def _refuse_foreign(body: Buffer) -> None:
    """Raise SkippedRecord, with the kind, for a body of a format that is no text."""
    if kind := foreign_kind(body):
        raise SkippedRecord(f"body_{kind}")


def whole_number(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a number without a fraction as a whole one: data frames write 200.0 for 200."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _pointer_of(name: str) -> tuple[str, ...]:
    """Return the place that `--carry NAME` names, if it is not that of a field of the mapping."""
    return parse_pointer(name if name.startswith("/") else f"/{name}")


def _kind(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Name a JSON value's type for a dead letter, without showing the value."""
    names = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
