"""Pages that a program gives, as Python objects.

A page is what a JSON message of its fields would be in a file. Most have a URL, a body and a type
alone, which need no JSON in between (`GivenPage`).
"""

import base64
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streamer.model import Page
from streamer.pages.chunk import CHUNK_BYTES_MAX, Chunk
from streamer.pages.mapping import DEFAULT_MAPPING, FieldMapping
from streamer.pages.message import resolve

PAGES_A_BATCH = 2_000  # which share what a batch costs
_BODY = ("body",)
_ESCAPE_BYTES = 6  # that a character takes in JSON at most,
_NAMES_BYTES = 64  # and the names of the fields
_PLAIN: dict[type, Callable[[Any], Any]] = {  # what represents a value, by its class or one above
    str: str,
    np.datetime64: lambda moment: None if np.isnat(moment) else f"{np.datetime64(moment, 'ms')}Z",
    np.longdouble: float,
    np.generic: np.generic.item,
    np.ma.core.MaskedConstant: lambda _masked: None,
    np.ndarray: np.ndarray.tolist,
    datetime: datetime.isoformat,
    date: date.isoformat,
    time: time.isoformat,
    os.PathLike: os.fspath,
    Mapping: dict,
}


class GivenPage(NamedTuple):
    """The fields of a page that a program gives, instead of the JSON message with them."""

    url: str
    body: str | bytes
    content_type: str | None

    def message(self) -> bytes:
        """Return the message."""
        fields: dict[str, Any] = {"url": self.url, "content_type": self.content_type}
        if isinstance(self.body, bytes):
            return _encode({**fields, "body_base64": base64.b64encode(self.body).decode()})
        return _encode({**fields, "body": self.body})


AnyPage = Page | tuple[str, str | bytes] | Mapping[str, Any]
"""A page; or (URL, body), where a body of bytes has its own encoding; or a message as a dict."""
AddedPage = GivenPage | bytes
"""A page as it is judged: its fields, or a JSON message."""


class MessageWriter:
    """Writes pages as JSON messages for a parser with this mapping.

    `columns` are the fields at the top of a message that the parser reads; None: all. Any other
    field may hold anything: it is left out where JSON cannot hold it. No page with more than
    `bytes_max` goes without a message.
    """

    def __init__(
        self,
        mapping: FieldMapping = DEFAULT_MAPPING,
        columns: frozenset[str] | None = None,
        bytes_max: int = 0,
    ) -> None:
        self._is_mapped = mapping != DEFAULT_MAPPING
        self._columns, self._bytes_max = columns, bytes_max
        self._others = None
        if columns is not None and not self._is_mapped:
            self._others = columns.difference(GivenPage._fields)
        self._texts = (*mapping.url, *mapping.body, *mapping.body_base64)

    def message(self, page: AnyPage) -> bytes:
        """Return a page as a JSON message.

        Raises:
            TypeError: it is no page, or a field that is read cannot be written as JSON.
        """
        fields = self._write_text(self._fields_of(page))
        try:
            return _encode(fields)
        except Exception:  # noqa: BLE001 - whatever an object raises that is asked for its value
            return self._encode_by_field(fields)

    def added(self, page: AnyPage) -> AddedPage:
        """Return the fields of a page if the parser reads no others of it, else a message."""
        fields = page if type(page) is dict else self._fields_of(page)
        if self._others is not None and self._others.isdisjoint(fields):
            url, body, kind = fields.get("url"), fields.get("body"), fields.get("content_type")
            is_kind = kind is None or isinstance(kind, str)
            if isinstance(url, str) and isinstance(body, str | bytes) and is_kind:
                # They may stand for the message: with no escape in the URL, a body, and if small.
                size = _NAMES_BYTES + _ESCAPE_BYTES * (len(url) + len(body) + len(kind or ""))
                if "\\" not in url and not body.isspace() and size <= self._bytes_max:
                    return GivenPage(url, body, kind)
        return self.message(page)

    def _fields_of(self, page: AnyPage) -> Mapping[str, Any]:
        if isinstance(page, Mapping):
            return page
        if isinstance(page, Page | tuple) and self._is_mapped:
            raise TypeError("with fields= or a crawler's preset=, pages are dicts")
        if isinstance(page, Page):
            given = msgspec.structs.asdict(page)
            return {name: each for name, each in given.items() if each is not msgspec.UNSET}
        if isinstance(page, tuple) and len(page) == 2:  # noqa: PLR2004 - URL, body
            return dict(zip(("url", "body"), page, strict=True))
        kind = f"{len(page)} values" if isinstance(page, tuple) else type(page).__name__
        raise TypeError(f"a page is a Page, (URL, body) or a dict, not {kind}")

    def _write_text(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields with a body of bytes as base64.

        Raises:
            TypeError: a URL or another field of a body has bytes, which would become base64; or one
                is a path, which would be taken for the text.
        """
        for tokens in self._texts:
            value = resolve(fields, tokens)
            if not isinstance(value, bytes | bytearray | memoryview | os.PathLike):
                continue
            if tokens != _BODY or self._is_mapped or isinstance(value, os.PathLike):
                raise TypeError(f"the field {tokens[-1]!r} has {type(value).__name__}: give text")
            others = {name: each for name, each in fields.items() if name != "body"}
            fields = {**others, "body_base64": base64.b64encode(value).decode()}
        return fields

    def _encode_by_field(self, fields: Mapping[str, Any]) -> bytes:
        parts = []
        for name, value in fields.items():
            is_read = self._columns is None or name in self._columns
            try:
                parts.append(_encode(str(name)) + b":" + _encode(value))
            except Exception as error:
                if is_read:
                    raise TypeError(f"the field {name!r} cannot be used: {error}") from error
        return b"{" + b",".join(parts) + b"}"


class Batches:
    """Iterates over pages in lists of bounded number and size.

    Where the iterable fails, or gives what is no page, the pages before it make up the last list,
    and `raise_error` raises it.
    """

    def __init__(self, pages: Iterable[AnyPage], writer: MessageWriter) -> None:
        self._pages = pages
        self._writer = writer
        self._error: BaseException | None = None

    def __iter__(self) -> Iterator[list[AddedPage]]:
        batch: list[AddedPage] = []
        size = 0
        for page in self._added():
            batch.append(page)
            size += len(page.body if isinstance(page, GivenPage) else page)
            if len(batch) == PAGES_A_BATCH or size >= CHUNK_BYTES_MAX:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _added(self) -> Iterator[AddedPage]:
        count = 0
        pages = iter(self._pages)
        while True:
            try:
                page = next(pages)
            except StopIteration:
                return
            except BaseException as error:  # noqa: BLE001 - what the iterable raises
                error.add_note(f"The iterable of pages raised this instead of item {count}.")
                self._error = error
                return
            try:
                added = self._writer.added(page)
            except Exception as error:  # noqa: BLE001 - a mapping may raise anything, as it is read
                self._error = TypeError(f"Item {count} cannot be added: {error}.")
                return
            yield added
            count += 1

    def raise_error(self) -> None:
        """Raise what has ended the iteration early, if anything has."""
        if self._error is not None:
            raise self._error


def chunk_of(pages: Sequence[AddedPage]) -> Chunk:
    """Return pages as a chunk: of messages, if one of them is a message."""
    given = [page for page in pages if isinstance(page, GivenPage)]
    if len(given) == len(pages):
        return Chunk(0, len(pages), given=given)
    messages = (page if isinstance(page, bytes) else page.message() for page in pages)
    return Chunk(0, len(pages), messages=[(i, None, each) for i, each in enumerate(messages)])


def _encode(value: object) -> bytes:
    """Return a value as JSON; what is no Unicode is in it as escapes, as other writers do."""
    try:
        return msgspec.json.encode(value, enc_hook=_plain)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value, enc_hook=_plain), allow_nan=False).encode()


def _plain(value: Any) -> Any:  # noqa: ANN401 - of whatever is in a field
    """Return what represents a value that JSON does not have, as a row of a data frame has them.

    Raises:
        NotImplementedError: nothing does.
    """
    if type(value).__name__ in {"NAType", "NaTType"}:  # missing values of pandas
        return None
    for kind, plain in _PLAIN.items():
        if isinstance(value, kind) and not isinstance(value, np.timedelta64):
            return plain(value)
    raise NotImplementedError(f"JSON has no form of {type(value).__name__}")
