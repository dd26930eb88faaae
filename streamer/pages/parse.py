"""RecordBlock into page batches: every record ends as a page, a dead letter or a count.

Most records are messages with a plain text body, whose fields are found by name. For these a kernel
finds the fields of a whole batch, and the body stays as it is in the JSON: neither decoded, nor
unescaped, nor copied. Whatever is out of the ordinary takes the careful way through extract.py,
which finds the page after all or the right code; both ways give the same page. Files, WARC records
and Kafka messages all come through here. Nothing in a record may raise.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache

import msgspec
import numpy as np
import numpy.typing as npt

from streamer.errors import InvalidPage, SkippedRecord
from streamer.pages import body as bodies
from streamer.pages import chunk as chunks
from streamer.pages.chunk import Chunk, Message, PageBatch, WarcPage
from streamer.pages.encodings import is_blank_escaped
from streamer.pages.extract import URL_BYTES_MAX, Extractor, PageFields
from streamer.pages.http_record import fields_and_body
from streamer.pages.mapping import DEFAULT_MAPPING, PRESETS, FieldMapping
from streamer.pages.message import raw_fields, read_message
from streamer.pages.program_pages import GivenPage
from streamer.pages.schema_registry import SchemaRegistry, decode_without_registry, is_framed
from streamer.pages.times import epoch_ms
from streamer.rules import BY_RULE, VISIBLE, Rule, Text, rule_finder
from streamer.sketch.method_signer import OTHER_TEXT
from streamer.text import json_fields
from streamer.text.json_fields import BODY, ESCAPES, FIELDS, TIME, TYPE, UNKNOWN, URL, FieldSpans
from streamer.text.scan import Bytes
from streamer.text.slices import Slices
from streamer.text.visible import ESCAPED, HTML, Buffer

Flags = npt.NDArray[np.bool_]
RecordBlock = Slices | list[WarcPage] | list[GivenPage]

_VAGUE, _REFUSED = -1, -2
_KINDS_KEPT_MAX = 256  # a crawl repeats few types
_TYPE_BYTES_MAX = 128  # longer ones are looked at, and not kept
_TIMES_KEPT_MAX = 4096
_TIME_BYTES_MAX = 66  # as JSON; a longer one is none
_GIVEN = len(GivenPage._fields)
_TEXT = 3  # of a record that is no JSON, as PLAIN is of one that is
_URL_SURE_MAX = URL_BYTES_MAX // 4  # bytes, or characters, each of four bytes at most
_USUAL = ("status", "base64", "body_is", "time", "value")  # what a mapping may not change
_decode_text = msgspec.json.Decoder(str).decode


class PageParser:
    """Parses the records of any source with one field mapping; safe to use from several threads.

    Attributes:
        mapping: where a message has its fields.
        columns: the names of all fields at the top of a message that are looked at.
        bodies: those of them that hold the body.
        registry: decodes messages that name a schema; None: those that are no JSON are refused.
    """

    def __init__(
        self,
        mapping: FieldMapping = DEFAULT_MAPPING,
        carry: Sequence[str] = (),
        page_bytes_max: int = chunks.PAGE_BYTES_MAX,
        rules: Sequence[Rule] = (),
        text: Text = VISIBLE,
        registry: SchemaRegistry | None = None,
        scope: str = "",
    ) -> None:
        """Prepare a parser.

        WARC records have their fields where the format puts them: of `mapping` they have only which
        statuses and types are pages. Pages that a rule wants skipped are counted as `rule`; `text`
        is what most are compared by. A page without the `scope` that is asked for is a dead letter.

        Raises:
            ValueError: a name in `carry` begins with `/` and is no JSON Pointer.
        """
        self.mapping, self.registry = mapping, registry
        self._decode = registry.decode if registry else decode_without_registry
        self._rules, self._text = rules, text
        self._rule_for = rule_finder(tuple(rules))
        self._limit = page_bytes_max
        self._messages = Extractor(mapping, carry, page_bytes_max, scope)
        self.columns, self.bodies = self._messages.columns, self._messages.bodies
        which = {"pages_type": mapping.pages_type, "pages_status": mapping.pages_status}
        records = PRESETS["warc"].model_copy(update=which)
        self._records = Extractor(records, carry, page_bytes_max, scope)
        self._names = None if carry or scope else _plain_names(mapping)
        self._scoped = bool(scope)
        self._kind = lru_cache(_KINDS_KEPT_MAX)(self._find_kind)
        self._time = lru_cache(_TIMES_KEPT_MAX)(_time_in)

    def missing_fields(self) -> list[str]:
        """Return the fields to be carried that no page has had until now, in alphabetical order."""
        return sorted(self._messages.missing & self._records.missing)

    def parse(self, chunk: Chunk) -> PageBatch:
        """Return the batch for a chunk of a file, of standard input, or of a topic.

        A message without a value, or with an empty one, is skipped as `deletion`. One that names a
        schema is replaced in the chunk by the JSON that it means.

        Raises:
            StreamerError: the schema registry cannot be used.
        """
        batch = PageBatch(chunk.start, chunk.end, dead=[*chunk.dead], skipped=chunk.skipped.copy())
        records: RecordBlock
        if chunk.messages:
            messages, chunk.is_raw = chunk.messages, self.mapping.value == "body"
            if chunk.is_raw:
                ordinals = (ordinal for ordinal, _, _ in messages)
                batch.headers = dict(zip(ordinals, chunk.headers, strict=False))
            else:
                messages = self._decode_without_schemas(batch, messages)
            batch.sequences = [ordinal for ordinal, _, _ in messages]
            batch.message_keys = [key for _, key, _ in messages]
            records = Slices.joined([value or b"" for _, _, value in messages])
        else:
            records = chunk.pages or chunk.given or chunk.lines
            numbers = range(chunk.start, chunk.start + len(records))
            batch.sequences = [page.sequence for page in chunk.pages] or [*numbers]
            batch.message_keys = [None] * len(records)
        self._read_pages(batch, records, "deletion" if chunk.messages else "blank_line")
        if chunk.times:
            ordinals = (ordinal for ordinal, _, _ in chunk.messages)
            times = dict(zip(ordinals, chunk.times, strict=True))
            batch.times = [times[sequence] for sequence in batch.sequences]
        batch.dead.sort(key=lambda letter: letter.sequence)
        return batch

    def _read_pages(self, batch: PageBatch, records: RecordBlock, empty: str) -> None:
        """Fill the columns of a batch, which has the records' ordinals and keys; keep the pages.

        A body stays where it is in the block of the records. One that had to be made (decoded,
        unwrapped) is put after these: only then is the block copied.
        """
        count = len(records)
        batch.carried = [b""] * count
        batch.scopes = [b""] * count if self._scoped else []
        data, fields = self._find_fields(records)
        if fields:
            is_page, starts, ends = self._enter_plain(batch, data, fields)
        else:
            is_page, (starts, ends) = np.zeros(count, np.bool_), np.zeros((2, count), np.int64)
            batch.urls, batch.flags, batch.times = [b""] * count, [0] * count, [0] * count
        made, end = list[Buffer](), len(data)
        for i in np.flatnonzero(~is_page).tolist():
            record = records[i]
            page = self._page_of_bytes(record) if isinstance(record, GivenPage) else None
            page = page or self._careful_page(batch, i, record, empty)
            if page is not None:
                is_page[i] = True
                batch.urls[i], batch.flags[i] = page.url.encode(), page.flags
                batch.carried[i], batch.times[i] = page.carried, page.time
                if self._scoped:
                    batch.scopes[i] = page.scope
                made.append(page.body)
                starts[i], ends[i] = end, end + len(page.body)
                end += len(page.body)
        if made:
            data = np.concatenate((data, Slices.joined(made).data))
        self._apply_rules(batch, is_page)
        batch.keep(is_page)
        batch.bodies = Slices(data, starts[is_page], ends[is_page])

    def _decode_without_schemas(self, batch: PageBatch, messages: list[Message]) -> list[Message]:
        """Replace what names a schema by JSON; return all but what becomes a dead letter for it."""
        usable = []
        for place, (ordinal, key, value) in enumerate(messages):
            if value is not None and is_framed(value) and len(value) <= self._limit:
                try:
                    decoded = self._decode(value)
                except InvalidPage as fault:
                    batch.dead.append(chunks.rejected(ordinal, fault, value, key))
                    continue
                if len(decoded) > self._limit:
                    batch.dead.append(chunks.over_limit(ordinal, value, len(decoded), key))
                    continue
                messages[place] = ordinal, key, decoded
            usable.append(messages[place])
        return usable

    def _apply_rules(self, batch: PageBatch, is_page: Flags) -> None:
        """Mark the pages of which the other text counts; count those to be skipped as no pages."""
        for i in np.flatnonzero(is_page).tolist() if self._rules else ():
            rule = self._rule_for(batch.urls[i].decode())
            if rule is not None and rule.skip:
                is_page[i] = False
                batch.by_rule.append(batch.sequences[i])
            elif rule is not None and rule.text not in {None, self._text}:
                batch.flags[i] |= OTHER_TEXT
        if batch.by_rule:
            batch.skipped[BY_RULE] += len(batch.by_rule)

    def _find_fields(self, records: RecordBlock) -> tuple[Bytes, FieldSpans | None]:
        """Return a block that has the records, and where their fields are, if kernels find them."""
        if not isinstance(records, Slices):
            block = _texts_of(records) if self._names else Slices.joined()
            return block.data, _given_fields(block) if block else None
        fields = json_fields.find_page_fields(records, self._names) if self._names else None
        if fields:
            fields.states[records.lengths > self._limit] = UNKNOWN
        return records.data, fields

    def _enter_plain(
        self, batch: PageBatch, data: Bytes, fields: FieldSpans
    ) -> tuple[Flags, json_fields.Spans, json_fields.Spans]:
        """Fill the columns of a batch for all plain records at once; others need more care.

        Returns which are plain, and the places of their bodies.
        """
        states, spans = fields
        plain = np.empty(len(states), np.bool_)
        json_fields.find_sure(data, states, spans, _URL_SURE_MAX, plain)
        other_urls: dict[int, bytes] = {}
        for i in np.flatnonzero((states != UNKNOWN) & ~plain).tolist():
            url, body = (data[start:end].data for start, end in spans[i, :TYPE].tolist())
            other_urls[i] = _plain_url(url)
            has_url = bool(other_urls[i]) or not self.mapping.url
            plain[i] = has_url and not is_blank_escaped(body)
        kinds = self._kinds(data, spans)
        plain &= kinds != _REFUSED
        starts, ends = spans[:, BODY, 0], spans[:, BODY, 1]
        html = kinds == HTML
        first = data[starts]
        for i in np.flatnonzero(plain & bodies.MAY_BE_FOREIGN[first]).tolist():
            plain[i] = not bodies.foreign_kind(data[starts[i] : ends[i]].data)
        begins = bodies.MAY_BEGIN_HTML[first]
        vague = plain & (kinds == _VAGUE)
        inside = vague & ~begins
        json_fields.keep_with_markup(data, spans, bodies.HEAD_BYTES, inside)
        for i in np.flatnonzero(vague & begins | inside).tolist():
            body = data[starts[i] : ends[i]].data
            html[i] = bodies.sniff_html(body) if begins[i] else bodies.has_element(body)
            if states[i] == _TEXT:  # where the same bytes may say something else in JSON
                plain[i] = b"\\" not in bytes(body[: bodies.HEAD_BYTES])
        batch.flags = (np.where(states == ESCAPES, ESCAPED, 0) | np.where(html, HTML, 0)).tolist()
        url_ends = np.where(plain, spans[:, URL, 1], spans[:, URL, 0])
        batch.urls = json_fields.gather(data, spans[:, URL, 0], url_ends)
        for i, own in other_urls.items():
            batch.urls[i] = own
        batch.times = self._times(data, spans, plain)
        return plain, starts, ends

    def _times(self, data: Bytes, spans: json_fields.Spans, plain: Flags) -> list[int]:
        """Return the times that stand there, 0 where there is none."""
        starts, ends = spans[:, TIME, 0], spans[:, TIME, 1]
        has_one = plain & (starts < ends) & (ends - starts <= _TIME_BYTES_MAX)
        if not has_one.any():
            return [0] * len(plain)
        ends = np.where(has_one, ends, starts)
        return [self._time(each) for each in json_fields.gather(data, starts, ends)]

    def _kinds(self, data: Bytes, spans: json_fields.Spans) -> npt.NDArray[np.int64]:
        """Return what the type of each message says: HTML, 0 for text, _VAGUE or _REFUSED."""
        changes = np.empty(len(spans), np.bool_)
        json_fields.find_type_changes(data, spans, changes)
        places = np.flatnonzero(changes)
        types = [data[start:end].tobytes() for start, end in spans[places, TYPE].tolist()]
        kinds = [self._kind(each) if len(each) <= _TYPE_BYTES_MAX else _REFUSED for each in types]
        return np.repeat(np.array(kinds, np.int64), np.diff(places, append=len(spans)))

    def _find_kind(self, content_type: bytes) -> int:
        """Return what a type in JSON says: HTML, 0 for text, _VAGUE or _REFUSED."""
        text = _unescaped(content_type)
        if text is None or (text and not self.mapping.accepts_type(text)):
            return _REFUSED
        is_html = bodies.declares_html(text)
        return _VAGUE if is_html is None else HTML if is_html else 0

    def _page_of_bytes(self, page: GivenPage) -> PageFields | None:
        """Return the page, if its body is bytes and can be judged; its message says why not."""
        if isinstance(page.body, bytes):
            fields, body = {"url": page.url, "content_type": page.content_type}, page.body
            with suppress(InvalidPage, SkippedRecord):
                return self._messages.page(fields, lambda: body)
        return None

    def _careful_page(
        self, batch: PageBatch, i: int, record: bytes | WarcPage | GivenPage, empty: str
    ) -> PageFields | None:
        """Return the page of any record; where there is none, enter why and return None."""
        sequence, key = batch.sequences[i], batch.message_keys[i]
        record = record.message() if isinstance(record, GivenPage) else record
        value = record.block if isinstance(record, WarcPage) else record
        if isinstance(record, bytes):
            value = record.rstrip(b"\r\n \t") if empty == "blank_line" else record
            if not value:
                batch.skipped[empty] += 1
                return None
            if len(value) > self._limit:
                batch.dead.append(chunks.over_limit(sequence, value, len(value), key))
                return None
        try:
            if isinstance(record, WarcPage):
                return self._records.page(*fields_and_body(record, self._limit))
            if batch.headers is not None:
                fields = raw_fields(key, batch.headers.get(sequence, ()))
                return self._messages.page(fields, lambda: value)
            return self._messages.page(read_message(value))
        except InvalidPage as fault:
            batch.dead.append(chunks.rejected(sequence, fault, value, key))
        except SkippedRecord as skip:
            batch.skipped[skip.code] += 1
        return None


def tombstones_in(messages: Iterable[Message]) -> list[tuple[int, bytes]]:
    """Return the ordinals and keys of messages without a value whose key may be a page's URL."""
    named = ((ordinal, key) for ordinal, key, value in messages if value is None and key)
    return [(ordinal, key) for ordinal, key in named if len(key) <= URL_BYTES_MAX]


def _texts_of(records: Sequence[WarcPage | GivenPage]) -> Slices:
    """Return the texts of pages of programs, "" for a body of bytes; none if one is no Unicode."""
    given = [page for page in records if isinstance(page, GivenPage)]
    columns = [
        (url, "" if isinstance(body, bytes) else body, kind or "") for url, body, kind in given
    ]
    try:
        texts = [text.encode() for page in columns for text in page]
    except UnicodeEncodeError:
        texts = []
    return Slices.joined(texts)


def _given_fields(block: Slices) -> FieldSpans:
    """Return the places of URL, body and type of pages, which are one after the other."""
    count = len(block) // _GIVEN
    spans = np.zeros((count, FIELDS, 2), np.int64)
    spans[:, [URL, BODY, TYPE], 0] = block.starts.reshape(count, _GIVEN)
    spans[:, [URL, BODY, TYPE], 1] = block.ends.reshape(count, _GIVEN)
    has_text = spans[:, BODY, 0] < spans[:, BODY, 1]
    return FieldSpans(np.where(has_text, _TEXT, UNKNOWN).astype(np.uint8), spans)


def _time_in(value: bytes) -> int:
    """Return a time as JSON has it, in milliseconds since 1970; 0 for what is none."""
    try:
        return epoch_ms(msgspec.json.decode(value)) if value else 0
    except (msgspec.MsgspecError, ValueError):
        return 0


def _plain_url(raw: memoryview) -> bytes:
    """Return a URL in JSON that can stand as it is, its escapes undone; b"" for any other."""
    url = _unescaped(bytes(raw))
    if url is None or len(url) > _URL_SURE_MAX or not url.isprintable() or " " in url:
        return b""
    return url.encode()


def _unescaped(raw: bytes) -> str | None:
    """Return the text of a string in JSON, given without its quotes; None where it is none."""
    try:
        return _decode_text(b'"%b"' % raw)
    except (msgspec.MsgspecError, ValueError):
        return None


def _plain_names(mapping: FieldMapping) -> json_fields.Names | None:
    """Return where kernels find the fields of a mapping; None where that takes more than names."""
    as_usual = (getattr(mapping, each) == getattr(DEFAULT_MAPPING, each) for each in _USUAL)
    places = (mapping.url, mapping.body, mapping.content_type, mapping.fetched_at)
    given = [tokens for pointers in places for tokens in pointers]
    distinct = len({*given}) == len(given) == sum(map(bool, places))
    at_top = all(len(each) == 1 and each[0] and each[0].isprintable() for each in given)
    if not (all(as_usual) and distinct and at_top):
        return None
    return json_fields.names_of(pointers[0][0] if pointers else "" for pointers in places)
