"""Records into page batches: every record ends as a page, a dead letter or a count.

Most records are messages of the `page` schema with a plain text body. For these a kernel finds the
fields of a whole batch, and the body stays as it stands in the JSON: neither decoded, nor
unescaped, nor copied. Whatever is out of the ordinary takes the careful way through extract.py,
which finds the page after all or the right code; both ways give the same page. Files, WARC records
and Kafka messages all come through here. Nothing in a record may raise.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING

from streamer.errors import InvalidPage, SkippedRecord
from streamer.stream.batch import ESCAPED, HTML, PageBatch, Rejected
from streamer.stream.body import is_blank_escaped
from streamer.stream.body_slices import BodySlices
from streamer.stream.chunk import PAGE_BYTES_MAX, RawChunk, WarcPage, over_limit
from streamer.stream.extract import Extractor, PageFields
from streamer.stream.fields import DEFAULT_MAPPING, FieldMapping
from streamer.stream.httpblock import fields_and_body
from streamer.stream.message import read_message
from streamer.stream.presets import PRESETS
from streamer.stream.url import URL_BYTES_MAX
from streamer.text.page_fields import ESCAPES, UNTOLD, find_page_fields
from streamer.text.slices import Slices
from streamer.text.sniff import may_begin_html, sniffed_html, told_html

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Place = tuple[int, bytes | None]  # sequence, key
Message = tuple[int, bytes | None, bytes | None]  # sequence, key, value
PlainPage = tuple[str, int, int, int]  # URL, begin and end of the body, flags
_VAGUE, _REFUSED = -1, -2
_KINDS_KEPT_MAX = 256  # a crawl repeats few types
_TYPE_BYTES_MAX = 128  # longer ones are looked at, and not kept
_URL_CHARACTERS_MAX = URL_BYTES_MAX // 4  # at four bytes a character; longer ones are looked at


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
        self._plain = mapping == DEFAULT_MAPPING and not carry
        self._kind = lru_cache(_KINDS_KEPT_MAX)(self._found_kind)

    def parse(self, chunk: RawChunk) -> PageBatch:
        """Return the batch for a chunk of a file or of standard input."""
        batch = PageBatch(
            chunk.start, chunk.end, dead=list(chunk.dead), skipped=chunk.skipped.copy()
        )
        bodies = BodySlices(chunk.lines)
        ordinals = range(chunk.start, chunk.start + len(chunk.lines))
        keys = repeat(None, len(ordinals))
        self._add_messages(
            batch, bodies, chunk.lines, zip(ordinals, keys, strict=True), "blank_line"
        )
        for page in chunk.pages:
            self._add_record(batch, bodies, page)
        batch.bodies = bodies.slices()
        if chunk.dead:
            batch.dead.sort(key=lambda letter: letter.sequence)
        return batch

    def parse_messages(self, start: int, end: int, messages: Iterable[Message]) -> PageBatch:
        """Return the batch for messages of one partition, ascending within [start, end).

        Offsets may have gaps. A message without a value, or with an empty one, is skipped as
        `deletion`.
        """
        batch = PageBatch(start, end)
        places: list[Place] = []
        values: list[bytes] = []
        for sequence, key, value in messages:
            places.append((sequence, key))
            values.append(value or b"")
        slices = Slices.joined(values)
        bodies = BodySlices(slices)
        self._add_messages(batch, bodies, slices, places, "deletion")
        batch.bodies = bodies.slices()
        return batch

    def _add_messages(
        self,
        batch: PageBatch,
        bodies: BodySlices,
        values: Slices,
        places: Iterable[Place],
        empty: str,
    ) -> None:
        """Enter messages; one without a value is skipped as `empty`."""
        plain = self._plain_pages(values) if self._plain else repeat(None, len(values))
        for i, ((sequence, key), found) in enumerate(zip(places, plain, strict=True)):
            if found is None:
                page = self._careful_page(batch, sequence, key, values[i], empty)
                if page is None:
                    continue
                url, body, flags, carried = page
                bodies.add(body)
            else:
                url, start, end, flags = found
                carried = b""
                bodies.add_place(start, end)
            batch.sequences.append(sequence)
            batch.keys.append(key)
            batch.urls.append(url)
            batch.flags.append(flags)
            batch.carried.append(carried)

    def _plain_pages(self, values: Slices) -> Iterator[PlainPage | None]:
        """Yield the page of each ordinary message, None for one that needs the careful way.

        A page is a bare tuple: a named one costs as much as all of the checks.
        """
        told, spans = find_page_fields(values)
        told[values.lengths > self._limit] = UNTOLD
        data = values.data.data
        for known, fields in zip(told.tolist(), spans.reshape(-1, 6).tolist(), strict=True):
            url_start, url_end, start, end, type_start, type_end = fields
            kind = _REFUSED
            if known and type_end - type_start <= _TYPE_BYTES_MAX:
                kind = self._kind(bytes(data[type_start:type_end]))
            url = _plain_url(data[url_start:url_end])
            body = data[start:end]
            if kind == _REFUSED or url is None or is_blank_escaped(body):
                yield None
                continue
            flags = ESCAPED if known == ESCAPES else 0
            if kind == HTML or (kind == _VAGUE and may_begin_html(body[0]) and sniffed_html(body)):
                flags |= HTML
            yield url, start, end, flags

    def _found_kind(self, content_type: bytes) -> int:
        """Return what a type says: HTML, 0 for text, _VAGUE or _REFUSED."""
        try:
            text = content_type.decode()
        except UnicodeDecodeError:
            return _REFUSED
        if text and not self._messages.accepts_type(text):
            return _REFUSED
        told = told_html(text)
        return _VAGUE if told is None else HTML if told else 0

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

    def _add_record(self, batch: PageBatch, bodies: BodySlices, record: WarcPage) -> None:
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
            bodies.add(page.body)
            batch.flags.append(page.flags)
            batch.carried.append(page.carried)


def _plain_url(raw: memoryview) -> str | None:
    """Return a URL that can stand as it is; None for one that may not."""
    try:
        url = str(raw, "utf-8")
    except UnicodeDecodeError:
        return None
    plain = 0 < len(url) <= _URL_CHARACTERS_MAX and url.isprintable() and " " not in url
    return url if plain else None


def _rejected(sequence: int, fault: InvalidPage, key: bytes | None, value: bytes) -> Rejected:
    return Rejected(sequence, fault.code, fault.detail, key, value, len(value))
