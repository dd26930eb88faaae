"""What a WARC collection needs of duplicates: revisit records, and verdicts as metadata records.

A page whose payload has the same bytes as its representative's becomes a revisit record by the
profile identical-payload-digest of WARC 1.1, which names the representative's URL and date: with
the kept records a replay tool shows the page. Other duplicates are near ones, and a revisit would
show something that was never fetched: they become metadata records with their verdict.

The date and the digests of a kept page are not in its row. So they are noted next to the state of
the index, in blocks, with each flush. Every record is a function of the page, its representative
and the verdict: a run that repeats one after a kill writes the same bytes.

The payload is what follows the HTTP headers, as stored. SHA-1 over it decides whether two are
equal. The digest in a revisit record is the one that the representative's record declares, under
which indexes of the collection have it, or else this one.
"""

import base64
import hashlib
import io
import uuid
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from streamer.index.codec import Entry, entry_key
from streamer.index.messages import Verdicts
from streamer.model import SEQUENCE_MASK
from streamer.pages.chunk import Chunk, WarcPage
from streamer.pages.http_record import http_headers_end, is_http
from streamer.run.stages import Locate, verdict_lines
from streamer.stored.store import Store

_FAMILY = b"o"  # of entries next to the state, as codec.SOURCES is another
_PAGES_A_BLOCK = 64
_BLOCKS_KEPT = 2048  # some 25 MB, besides those that are not flushed yet


class Original(NamedTuple):
    """What a revisit needs of a kept page: its date, its declared digest, and that of its bytes."""

    date: str
    declared: str
    payload: bytes

    @property
    def digest(self) -> str:
        """Return the digest under which the page is known, with the name of its algorithm."""
        return self.declared or f"sha1:{base64.b32encode(self.payload).decode()}"


def originals_of(chunk: Chunk) -> dict[int, Original]:
    """Return what there is of the WARC records of a chunk, by ordinal; in any thread."""
    found = {}
    for page in chunk.pages:
        payload = memoryview(page.block)[_payload_start(page) :]
        digest = hashlib.sha1(payload, usedforsecurity=False).digest()
        date = page.headers.get("warc-date", "")
        found[page.sequence] = Original(date, page.headers.get("warc-payload-digest", ""), digest)
    return found


def _payload_start(page: WarcPage) -> int:
    has_head = page.kind == "response" and is_http(page.block)
    return http_headers_end(page.block) if has_head else 0


Block = dict[int, Original]


class Originals:
    """The originals of kept pages by page ref; one thread asks and adds."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._blocks: OrderedDict[int, Block] = OrderedDict()
        self._changed: set[int] = set()  # since the last flush began
        self._flushing: set[int] = set()  # by that one, which may not be on the disk yet
        self._decode = msgspec.msgpack.Decoder(Block).decode

    def add(self, ref: int, original: Original) -> None:
        """Take what there is of a page that is kept."""
        number, place = divmod(ref, _PAGES_A_BLOCK)
        self._block(number)[place] = original
        self._changed.add(number)

    def find(self, ref: int) -> Original | None:
        """Return what there is of a kept page; None of one that was judged without revisits."""
        number, place = divmod(ref, _PAGES_A_BLOCK)
        return self._block(number).get(place)

    def to_flush(self) -> list[Entry]:
        """Return what the next flush is to note."""
        self._flushing, self._changed = self._changed, set()
        numbers = sorted(self._flushing)
        return [(entry_key(_FAMILY, n), msgspec.msgpack.encode(self._blocks[n])) for n in numbers]

    def _block(self, number: int) -> Block:
        if number in self._blocks:
            self._blocks.move_to_end(number)
            return self._blocks[number]
        data = self._store.note(entry_key(_FAMILY, number))
        self._blocks[number] = self._decode(data) if data else {}
        if (too_many := len(self._blocks) - _BLOCKS_KEPT) > 0:
            in_use = self._changed | self._flushing | {number}
            for oldest in [*self._blocks][:too_many]:
                if oldest not in in_use:
                    del self._blocks[oldest]
        return self._blocks[number]


class RevisitPair(NamedTuple):
    """A duplicate and its representative, as far as that is a page of this index."""

    own: Original
    other: Original | None

    @property
    def is_identical(self) -> bool:
        """Return whether both have the same payload, and the other can be named."""
        other = self.other
        return other is not None and bool(other.date) and other.payload == self.own.payload


Pairs = list[RevisitPair | None]
"""Those of a block of verdicts, None where a page is unique."""


def pairs_of(block: Verdicts, made: Mapping[int, Original], known: Originals) -> Pairs:
    """Return the pairs of a block, whose chunk's `made` are; its kept pages must be `known`."""
    elsewhere = block.references or [None] * len(block)
    columns = zip(
        block.pages.refs.tolist(), block.similarities.tolist(), block.representative_refs.tolist(),
        elsewhere, strict=True,
    )  # fmt: skip
    return [
        None
        if similarity < 0
        else RevisitPair(made[ref & SEQUENCE_MASK], None if corpus else known.find(other))
        for ref, similarity, other, corpus in columns
    ]


def duplicate_records(
    chunk: Chunk, block: Verdicts, pairs: Pairs, locate: Locate, fingerprint: str
) -> Iterator[bytes]:
    """Yield the records of the duplicates in a block; may be called in any thread."""
    pages = {page.sequence: page for page in chunk.pages}
    lines = verdict_lines(block, locate, fingerprint).splitlines()
    refs, urls = block.pages.refs.tolist(), block.representative_urls
    for ref, url, pair, line in zip(refs, urls, pairs, lines, strict=True):
        if pair is None:
            continue
        page = pages[ref & SEQUENCE_MASK]
        # The verdict too: what is judged otherwise, by another threshold, is another record.
        name = f"{locate(ref)} {page.headers.get('warc-record-id', '')} {line.decode()}"
        headers = {
            "WARC-Record-ID": f"<{uuid.uuid5(uuid.NAMESPACE_URL, name).urn}>",
            "WARC-Date": page.headers.get("warc-date", "1970-01-01T00:00:00Z"),
        }
        out = io.BytesIO()
        writer = WARCWriter(out, gzip=False, warc_version="1.1")
        if pair.other is not None and pair.is_identical:
            # With the HTTP headers that came with the page.
            start, original = _payload_start(page), pair.other
            record = writer.create_revisit_record(
                page.headers["warc-target-uri"], original.digest, url.decode(), original.date,
                http_headers=_StoredHeaders(page.block[:start]) if start else None,
                warc_headers_dict=headers,
            )  # fmt: skip
        else:
            record = _metadata(writer, page, headers, line)
        writer.write_record(record)
        yield out.getvalue()


class _StoredHeaders(StatusAndHeaders):  # type: ignore[misc]  # of warcio, which is untyped
    """HTTP headers as they were stored: parsed and written again they may be others."""

    def __init__(self, stored: bytes) -> None:
        super().__init__("as stored", [])  # without any, there would be no headers
        self.headers_buff = stored

    def compute_headers_buffer(self, header_filter: object = None) -> None:
        """Leave the bytes as they are."""
        del header_filter


def _metadata(writer: Any, page: WarcPage, headers: dict[str, str], verdict: bytes) -> Any:  # noqa: ANN401 - of warcio
    """Return a metadata record about a page's own record, with its verdict.

    Of the type whose records no index of captures takes for a capture of the URL.
    """
    field = b"verdict: " + verdict + b"\r\n"
    if about := page.headers.get("warc-record-id"):
        headers = {**headers, "WARC-Refers-To": about}
    return writer.create_warc_record(
        page.headers["warc-target-uri"],
        "metadata",
        payload=io.BytesIO(field),
        length=len(field),
        warc_content_type="application/warc-fields",
        warc_headers_dict=headers,
    )
