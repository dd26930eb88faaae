"""Records into page batches: every record ends as a page, a dead letter or a count.

Most records are messages of the `page` schema with a plain text body. For these one msgspec call
finds the fields and leaves the body as it stands in the JSON: neither decoded, nor unescaped, nor
copied. Whatever is out of the ordinary takes the careful way through extract.py, which finds the
page after all or the right code; both ways give the same page. Files, WARC records and Kafka
messages all come through here. Nothing in a record may raise.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

import msgspec

from streamer.errors import InvalidPage, SkippedRecord
from streamer.stream.batch import ESCAPED, HTML, Buffer, PageBatch, Rejected
from streamer.stream.body import plain_body
from streamer.stream.chunk import PAGE_BYTES_MAX, RawChunk, WarcPage, over_limit
from streamer.stream.extract import Extractor, PageFields
from streamer.stream.fields import DEFAULT_MAPPING, FieldMapping
from streamer.stream.httpblock import fields_and_body
from streamer.stream.message import read_message
from streamer.stream.presets import PRESETS
from streamer.stream.url import URL_BYTES_MAX
from streamer.text.sniff import looks_like_html

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Message = tuple[int, bytes | None, bytes | None]  # sequence, key, value
_URL_CHARACTERS_MAX = URL_BYTES_MAX // 4  # at four bytes a character; longer ones are looked at


class _PlainMessage(msgspec.Struct, gc=False):
    """The fields of the `page` schema that a text page needs."""

    url: str = ""
    body: msgspec.Raw = msgspec.Raw()
    content_type: str | None = None


class PageParser:
    """Parses the records of any source with one field mapping; safe to use from several threads."""

    def __init__(
        self,
        mapping: FieldMapping = DEFAULT_MAPPING,
        carry: Sequence[str] = (),
        page_bytes_max: int = PAGE_BYTES_MAX,
    ) -> None:
        """Prepare a parser.

        WARC records have their fields where the format puts them: `mapping` is not for these.

        Raises:
            ValueError: a name in `carry` begins with `/` and is no JSON Pointer.
        """
        self._limit = page_bytes_max
        self._messages = Extractor(mapping, carry, page_bytes_max)
        self._records = Extractor(PRESETS["warc"], carry, page_bytes_max)
        self._accepts_type = self._messages.accepts_type
        self._plain = mapping == DEFAULT_MAPPING and not carry
        self._decode = msgspec.json.Decoder(_PlainMessage).decode

    def parse(self, chunk: RawChunk) -> PageBatch:
        """Return the batch for a chunk of a file or of standard input."""
        ordinals = range(chunk.start, chunk.start + len(chunk.lines))
        batch = PageBatch(
            chunk.start, chunk.end, dead=list(chunk.dead), skipped=chunk.skipped.copy()
        )
        self._add_messages(
            batch, zip(ordinals, repeat(None), chunk.lines, strict=False), "blank_line"
        )
        for page in chunk.pages:
            self._add_record(batch, page)
        if chunk.dead:
            batch.dead.sort(key=lambda letter: letter.sequence)
        return batch

    def parse_messages(self, start: int, end: int, messages: Iterable[Message]) -> PageBatch:
        """Return the batch for messages of one partition, ascending within [start, end).

        Offsets may have gaps. A message without a value, or with an empty one, is skipped as
        `deletion`.
        """
        batch = PageBatch(start, end)
        self._add_messages(batch, messages, "deletion")
        return batch

    def _add_messages(self, batch: PageBatch, messages: Iterable[Message], empty: str) -> None:
        for sequence, key, value in messages:
            page: tuple[str, Buffer, int, bytes] | None = None
            if self._plain and value:
                page = self._plain_page(value)
            if page is None:
                page = self._careful_page(batch, sequence, key, value, empty)
                if page is None:
                    continue
            url, body, flags, carried = page
            batch.sequences.append(sequence)
            batch.keys.append(key)
            batch.urls.append(url)
            batch.bodies.append(body)
            batch.flags.append(flags)
            batch.carried.append(carried)

    def _plain_page(self, value: bytes) -> tuple[str, Buffer, int, bytes] | None:
        """Return the page of an ordinary message, or None for one that needs the careful way."""
        if len(value) > self._limit:
            return None
        try:
            message = self._decode(value)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        url = message.url
        body = plain_body(memoryview(message.body))
        content_type = message.content_type
        if (
            body is None
            or not 0 < len(url) <= _URL_CHARACTERS_MAX
            or not url.isprintable()
            or " " in url
            or (content_type and not self._accepts_type(content_type))
        ):
            return None
        html = looks_like_html(body, content_type)
        # A bare tuple: a named one costs as much as all of the checks.
        return url, body, ESCAPED | HTML if html else ESCAPED, b""

    def _careful_page(
        self, batch: PageBatch, sequence: int, key: bytes | None, value: bytes | None, empty: str
    ) -> PageFields | None:
        """Return the page of any message; where there is none, enter why and return None."""
        if empty == "blank_line" and value is not None:
            value = value.rstrip(b"\r\n \t")
        if not value:
            batch.skipped[empty] += 1
            return None
        if len(value) > self._limit:
            batch.dead.append(over_limit(sequence, value, len(value), key))
            return None
        try:
            return self._messages.page(read_message(value))
        except InvalidPage as fault:
            batch.dead.append(_rejected(sequence, fault, key, value))
        except SkippedRecord as skip:
            batch.skipped[skip.code] += 1
        return None

    def _add_record(self, batch: PageBatch, record: WarcPage) -> None:
        """Enter a WARC record as a page, a dead letter or a count."""
        try:
            fields, body = fields_and_body(record, self._limit)
            page = self._records.page_with_body(fields, body)
        except InvalidPage as fault:
            batch.dead.append(_rejected(record.sequence, fault, None, record.block))
        except SkippedRecord as skip:
            batch.skipped[skip.code] += 1
        else:
            batch.sequences.append(record.sequence)
            batch.keys.append(None)
            batch.urls.append(page.url)
            batch.bodies.append(page.body)
            batch.flags.append(page.flags)
            batch.carried.append(page.carried)


def _rejected(sequence: int, fault: InvalidPage, key: bytes | None, value: bytes) -> Rejected:
    return Rejected(sequence, fault.code, fault.detail, key, value, len(value))
