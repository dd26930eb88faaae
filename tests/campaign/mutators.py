"""Records of each input format, damaged where the format's structure is.

Each function takes a random generator and gives what is read as one input. Most begin with valid
records of the sample crawl, and change one to three things that a reader of the format must look
at: a length, a flag, a name, a nesting, a checksum. Equal generators give equal bytes.
"""

# ruff: noqa: E501, PLR0911 - tables of odd things; a kind of damage by its number
from __future__ import annotations

import base64
import binascii
import gzip
import json
import struct
import zlib
from functools import cache
from typing import TYPE_CHECKING, Any

import brotli
import msgspec
from aiokafka.codec import gzip_encode, lz4_encode, zstd_encode
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from streamer.analysis.sample.crawl import Crawl
from streamer.compression import zstd
from tests.helpers.schema_registry import PAGE_SCHEMA, avro_page, by_number

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

FIRST, LAST = "http://first.example/", "http://last.example/"  # records that nobody touched
RECORDS = 240
DEEP = 20_000

ODD_TEXTS = (
    "", " ", "\0", "\n", "\x1b$B", "\ufeff", "\u202e", "\u200b", "\ud800", "\udfff", "\U0010ffff",
    "null", "NaN", "-1", "1e999", "a" * 70_000, "é" * 3_000, "http://", "http://[::1", "//x",
    "javascript:0", "http://a.example/" + "b" * 9_000, "%zz", "=", "====", "AA==", "A", "AAA!", "H4sI",
    "H4sIAAAAAAAA", "KLUv/Q==", "text/html; charset=" + "x" * 500, "text/html;charset=utf-7",
    "application/pdf", "TEXT/HTML", "text/plain", "multipart/mixed; boundary=x", "gzip", "x-gzip, br",
    "gzip,gzip,gzip,gzip,gzip", "deflate", "zstd", "br", "identity", "klingon", "utf-16", "zip",
    "2024-02-30T99:99:99Z", "20240101000000", "99999999999999999",
)  # fmt: skip
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1 << 63, 1 << 64, 10**400, 0.5, -0.0, 1e308, [], {}, [[]], [None],
    ["a", "b"], [1, 2], {"": ""}, {"a": {"b": {"c": None}}}, [["text/html"]], *ODD_TEXTS,
)  # fmt: skip
FIELDS = (
    "url", "body", "body_base64", "content_type", "charset", "content_encoding", "fetched_at",
    "status", "extra", "", "URL", "url\0", "bödy",
)  # fmt: skip


@cache
def crawled() -> list[bytes]:
    """Return valid messages of pages."""
    lines = [planted.line for planted in Crawl().records(RECORDS)]
    return [line for line in lines if line.startswith(b"{") and line.endswith(b"}")]


@cache
def html_pages() -> list[str]:
    """Return HTML as it stands in the valid messages."""
    pages = [msgspec.json.decode(line) for line in crawled()]
    return [page["body"] for page in pages if isinstance(page.get("body"), str)]


def untouched(url: str) -> bytes:
    """Return a message that is a page."""
    return json.dumps({"url": url, "body": "one page that nobody has touched at all"}).encode()


def damaged_bytes(rng: Random, data: bytes) -> bytes:
    """Return `data` with a flip, a cut, a hole, a repeat or something inserted."""
    if not data:
        return rng.randbytes(4)
    at = rng.randrange(len(data))
    end = min(len(data), at + rng.choice((1, 2, 4, 16, 200)))
    kind = rng.randrange(7)
    if kind == 0:
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    if kind == 1:
        return data[:at]
    if kind == 2:
        return data[:at] + data[end:]
    if kind == 3:
        return data[:end] + data[at:]
    if kind == 4:
        return data[:at] + rng.choice((b"\0", b"\xff", b"\r", b"\x80\x80", b"\xc0\x80")) + data[at:]
    if kind == 5:
        return data[:at] + rng.randbytes(end - at) + data[end:]
    return data[:at] + rng.choice((b'"', b"\\", b"{", b"}", b"[", b"<", b":", b",")) + data[at:]


# ---- JSON ----------------------------------------------------------------------------------------


def _odd(rng: Random) -> Any:
    return rng.choice(ODD_VALUES)


def _change_object(rng: Random, fields: dict[str, Any]) -> None:
    """Change one thing in a message's structure."""
    name = rng.choice(list(fields) or ["url"])
    kind = rng.randrange(8)
    if kind == 0:
        fields.pop(name, None)
    elif kind == 1:
        fields[rng.choice(FIELDS)] = fields.pop(name, None)
    elif kind == 2:
        fields[name] = _odd(rng)
    elif kind == 3:
        fields[name] = rng.choice(([fields.get(name)], [fields.get(name)] * 2, {"a": 1}))
    elif kind == 4:
        fields[rng.choice(FIELDS)] = _odd(rng)
    elif kind == 5:
        fields["body_base64"] = base64.b64encode(packed_body(rng)).decode()
        fields.pop("body", None)
        fields["content_encoding"] = rng.choice(ODD_TEXTS[-24:])
    elif kind == 6:
        text = str(fields.get(name, ""))
        at = rng.randrange(len(text) + 1)
        fields[name] = text[:at] + str(rng.choice(ODD_TEXTS)) + text[at:]
    else:
        for number in range(rng.choice((10, 3_000))):
            fields[f"extra{number}"] = number


def _change_text(rng: Random, text: bytes) -> bytes:
    """Change one thing in a message's notation."""
    kind = rng.randrange(12)
    if kind == 0:
        value = rng.choice((b"NaN", b"-Infinity", b"01", b"1e999999", b"-", b".5", b"'a'", b"tru"))
        return text.replace(b": ", b": " + value + b", ", 1)
    if kind == 1:
        return text[:-1] + rng.choice((b",}", b', "url": 5}', b', "body": null}', b"}}", b"]"))
    if kind == 2:
        nest = rng.choice((b"[", b'{"a":')) * rng.choice((50, DEEP))
        return text[:-1] + b', "deep": ' + nest + rng.choice((b"", b"1")) + b"}"
    if kind == 3:
        escape = rng.choice(
            (rb"\ud800", rb"\udc00\ud800", rb"\ud83d\ude00", rb"\u0000", rb"\x41", rb"\u12", rb"\/")
        )
        at = rng.randrange(len(text))
        return text[:at] + escape + text[at:]
    if kind == 4:
        head = rng.choice((b"\xef\xbb\xbf", b"\0", b"\x1e", b" " * 5_000, b"\xff\xfe", b"/**/"))
        return head + text
    if kind == 5:
        return text + rng.choice((b"\r", b" \t\r", b"\0", text, b"{}", b"\x0c"))
    if kind == 6:
        return "".join(
            f"\\u{ord(c):04x}" if c.isalpha() and ord(c) < 1 << 16 and rng.random() < 0.3 else c
            for c in text.decode("utf-8", "replace")
        ).encode("utf-8", "replace")
    if kind == 7:
        return text.decode("utf-8", "replace").encode(rng.choice(("utf-16", "latin-1")), "replace")
    return damaged_bytes(rng, text)


def message(rng: Random) -> bytes:
    """Return one damaged message; it may hold line ends."""
    fields = msgspec.json.decode(rng.choice(crawled()))
    for _ in range(rng.randrange(3)):
        _change_object(rng, fields)
    text = json.dumps(fields, ensure_ascii=rng.random() < 0.5).encode(errors="surrogatepass")
    for _ in range(rng.randrange(3)):
        text = _change_text(rng, text) or b"{"
    return text


def json_lines(rng: Random) -> bytes:
    """Return lines: one untouched, one to three damaged, one untouched."""
    damaged = [message(rng) for _ in range(rng.randint(1, 3))]
    ends = rng.choice((b"\n", b"\n", b"\r\n", b"\n\n", b"\n \n"))
    return ends.join([untouched(FIRST), *damaged, untouched(LAST)]) + rng.choice((b"\n", b""))


# ---- HTML ----------------------------------------------------------------------------------------

MARKUP = (
    "<", ">", "</", "<!", "<!-", "<!--", "-->", "--!>", "<!-->", "<!DOCTYPE", "<?", "<![CDATA[", "]]>",
    "&", "&#", "&#x", "&#0;", "&#x110000;", "&#xd800;", "&#99999999999;", "&notit;", "&amp", "&AMP;",
    "&CounterClockwiseContourIntegral;", "<script>", "</script", "<script><!--<script>", "<style>",
    "<title>", "</title ", "<textarea>", "<svg>", "</svg>", "<svg><style>", "<math><mi>", "<template>",
    "<select><option>", "<table><tr><td>", "</p>", "<plaintext>", "<noscript>", "<iframe>", "<frameset>",
    "<a b='", '<a b="', "<a b=>", "<a =>", "<a/b/c>", "<a\0b>", "<A" + "a" * 3_000 + ">", "\0", "\r", "\x0c",
    "\ufeff", "\ufffd", "\u202e", "\u2028", "<meta charset=utf-16>", "<meta charset='x", "<br/ >",
    '<meta http-equiv="content-type" content="text/html; charset=koi8-r">', "<base href=//x>", "<p hidden>",
)  # fmt: skip


def html(rng: Random) -> str:
    """Return a page with its markup damaged in up to eight places."""
    page = rng.choice(html_pages())
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(page) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            page = page[:at] + rng.choice(MARKUP) + page[at:]
        elif kind == 1:
            page = page[:at] + rng.choice(MARKUP) * rng.randint(2, 300) + page[at:]
        elif kind == 2:
            end = page.find(rng.choice("<>\"'&;="), at)
            page = page[:at] + page[end + 1 :] if end > 0 else page[:at]
        elif kind == 3:
            page = page.replace(rng.choice("<>\"'=/ "), rng.choice(("", "<", "\t", "\0")), 5)
        else:
            page = page[:at] + page[at : at + 3_000] + page[at:]
    return page


def html_messages(rng: Random) -> list[bytes]:
    """Return a damaged page as a message in text, in bytes, and in bytes under some charset."""
    page = html(rng)
    codec = rng.choice(("utf-8", "utf-16-le", "koi8-r", "shift_jis", "gb18030", "cp1252"))
    coded = page.encode(codec, "replace")
    if rng.random() < 0.3:
        coded = damaged_bytes(rng, coded)
    kinds = ("text/html", "text/html; charset=" + codec, "application/xhtml+xml", "text/plain", "")
    return [
        json.dumps({"url": "u", "content_type": rng.choice(kinds), **body}).encode(
            errors="surrogatepass"
        )
        for body in (
            {"body": page},
            {"body_base64": base64.b64encode(page.encode(errors="replace")).decode()},
            {"body_base64": base64.b64encode(coded).decode(), "charset": rng.choice(ODD_TEXTS)},
        )
    ]


# ---- compression ---------------------------------------------------------------------------------


def gzip_member(rng: Random, data: bytes) -> bytes:
    """Return a gzip member with a header of any kind, mostly a right one."""
    flags = rng.choice((0, 0, 0, 1, 2, 4, 8, 16, 30, 32, 224, 255))
    body = bytes([0x1F, 0x8B, rng.choice((8,) * 12 + (0, 9)), flags]) + rng.randbytes(4) + b"\0\3"
    if rng.random() < 0.8:
        if flags & 4:
            size = rng.choice((0, 3, 300, 65_535))
            body += size.to_bytes(2, "little") + rng.randbytes(rng.choice((size, size // 2)))
        if flags & 8:
            body += b"name" * rng.choice((1, 5_000)) + b"\0" * (rng.random() < 0.9)
        if flags & 16:
            body += b"comment\0"
        if flags & 2:
            body += (binascii.crc32(body) & 0xFFFF).to_bytes(2, "little")
    deflate = zlib.compressobj(rng.choice((0, 1, 9)), zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = deflate.compress(data) + deflate.flush(
        rng.choice((zlib.Z_FINISH,) * 9 + (zlib.Z_SYNC_FLUSH,))
    )
    check = rng.choice((zlib.crc32(data),) * 8 + (0, 1))
    size = rng.choice((len(data),) * 8 + (0, 0xFFFFFFFF))
    return body + packed + check.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little")


def zstd_frame(rng: Random, data: bytes) -> bytes:
    """Return a zstd frame with any header, mostly a right one, or one to be skipped."""
    if rng.random() < 0.1:
        size = rng.choice((0, 5, 70_000))
        declared = rng.choice((size, size, 0xFFFFFFFF))
        return (
            (0x184D2A50 + rng.randrange(16)).to_bytes(4, "little")
            + declared.to_bytes(4, "little")
            + rng.randbytes(size)
        )
    option = zstd.CompressionParameter
    options: dict[int, int] = {
        option.checksum_flag: rng.randrange(2),
        option.content_size_flag: rng.randrange(2),
        option.window_log: rng.choice((10, 17, 23, 27)),
    }
    frame = bytearray(zstd.compress(data, options=options))
    if rng.random() < 0.4:
        at = rng.choice((4, 4, 5, 6, 7, 8))
        if at < len(frame):
            frame[at] = rng.randrange(256)
    return bytes(frame)


def packed_body(rng: Random) -> bytes:
    """Return a page's HTML under one to three compressions, often damaged."""
    data = rng.choice(html_pages()).encode()
    for _ in range(rng.randint(1, 3)):
        data = rng.choice((gzip_member, zstd_frame, _brotli, _zlib, _deflate))(rng, data)
    return damaged_bytes(rng, data) if rng.random() < 0.5 else data


def _brotli(rng: Random, data: bytes) -> bytes:
    packed: bytes = brotli.compress(
        data, quality=rng.choice((0, 4)), lgwin=rng.choice((10, 22, 24))
    )
    return packed


def _zlib(rng: Random, data: bytes) -> bytes:
    return zlib.compress(data, rng.choice((0, 6)))


def _deflate(rng: Random, data: bytes) -> bytes:  # noqa: ARG001 - as the others
    return zlib.compress(data)[2:-4]


def compressed_lines(rng: Random, pack: Callable[[Random, bytes], bytes]) -> bytes:
    """Return a compressed file of one to four members, with something between or behind them."""
    parts: list[bytes] = []
    for _ in range(rng.randint(1, 4)):
        lines = b"".join(line + b"\n" for line in rng.choices(crawled(), k=rng.randrange(3)))
        parts.append(pack(rng, lines))
        if rng.random() < 0.1:
            parts.append(rng.choice((b"\0" * 300, b"garbage", b"\x1f\x8b", b"\x28\xb5\x2f\xfd")))
    data = b"".join(parts)
    return damaged_bytes(rng, data) if rng.random() < 0.5 else data


def compressed_message(rng: Random, pack: Callable[[Random, bytes], bytes], name: str) -> bytes:
    """Return a message whose body is compressed and damaged, under a name that may be wrong."""
    body = pack(rng, rng.choice(html_pages()).encode())
    if rng.random() < 0.6:
        body = damaged_bytes(rng, body)
    fields = {
        "url": "u",
        "body_base64": base64.b64encode(body).decode(),
        "content_type": "text/html",
    }
    if rng.random() < 0.7:
        fields["content_encoding"] = rng.choice((name, name, f"{name},{name}", "deflate", "br"))
    return json.dumps(fields).encode() + b"\n"


# ---- WARC ----------------------------------------------------------------------------------------


def warc_record(kind: str, url: str, block: bytes, *headers: tuple[str, str]) -> bytes:
    """Return a valid record."""
    lines = [("WARC-Type", kind), ("WARC-Target-URI", url), *headers]
    head = "".join(f"{name}: {value}\r\n" for name, value in lines)
    return f"WARC/1.0\r\n{head}Content-Length: {len(block)}\r\n\r\n".encode() + block + b"\r\n\r\n"


def http_response(rng: Random, body: bytes, *headers: str) -> bytes:
    """Return an HTTP response, with its body chunked or compressed at times."""
    lines = ["HTTP/1.1 200 OK", "Content-Type: text/html", *headers]
    if rng.random() < 0.3:
        body = gzip.compress(body, 1)
        lines.append("Content-Encoding: gzip")
    if rng.random() < 0.4:
        lines.append("Transfer-Encoding: chunked")
        size = rng.choice((1_000, 7_000))
        cut = [body[i : i + size] for i in range(0, len(body), size)]
        body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in cut) + b"0\r\n\r\n"
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _valid_record(rng: Random) -> bytes:
    kind = rng.choice(
        ("response",) * 6 + ("resource", "conversion", "request", "metadata", "revisit", "odd")
    )
    body = rng.choice(html_pages()).encode()
    block = http_response(rng, body) if kind in ("response", "request") else body
    stored = "application/http; msgtype=response" if kind == "response" else "text/html"
    return warc_record(kind, "http://a.example/", block, ("Content-Type", stored))


def _changed_head(rng: Random, record: bytes) -> bytes:
    """Change the record's own headers, or those of HTTP, in one place."""
    start = 0 if rng.random() < 0.6 else record.find(b"\r\n\r\n") + 4
    end = record.find(b"\r\n\r\n", start)
    lines = record[start:end].split(b"\r\n")
    at = rng.randrange(len(lines))
    kind = rng.randrange(10)
    if kind == 0:
        lines.pop(at)
    elif kind == 1:
        lines.insert(at, rng.choice(lines))
    elif kind == 2:
        lines[at] = lines[at].replace(b":", b"", 1)
    elif kind == 3:
        lines[at] = rng.choice(
            (b"", b" folded", b"\t", b":", b"\0: \0", b"X: " + b"y" * 70_000, b"\xff: \xfe")
        )
    elif kind == 4:
        length = rng.choice(
            (
                b"-1",
                b"0",
                b"1e3",
                b"0x10",
                b"99999999",
                b"999999999999999",
                b"9" * 30,
                b"",
                b"+5",
                b"5 5",
            )
        )
        lines = [b"Content-Length: " + length if b"Length" in each else each for each in lines]
    elif kind == 5:
        lines[0] = rng.choice(
            (b"WARC/0.17", b"WARC/2.0", b"warc/1.0", b"WARC/1.", b"HTTP/2 200", b"HTTP/1.1", b"200")
        )
    elif kind == 6:
        value = rng.choice(ODD_TEXTS).encode(errors="replace")
        lines[at] = lines[at].partition(b":")[0] + b": " + value
    elif kind == 7:
        lines.append(
            rng.choice(
                (
                    b"Transfer-Encoding: chunked",
                    b"Content-Encoding: zstd, br",
                    b"Content-Encoding: gzip",
                )
            )
        )
    else:
        ends = rng.choice((b"\n", b"\r", b"\r\r\n", b"\n\r"))
        return record[:start] + ends.join(lines) + record[end:]
    return record[:start] + b"\r\n".join(lines) + record[end:]


def _changed_record(rng: Random, record: bytes) -> bytes:
    kind = rng.randrange(8)
    if kind < 4:
        return _changed_head(rng, record)
    if kind == 4:
        return record.rstrip(b"\r\n") + rng.choice((b"", b"\r\n", b"\n\n", b"\r\n" * 50))
    if kind == 5:
        size = rng.choice((b"ffffffff", b"-1", b"", b"g", b"0", b"1;" + b"x" * 2_000, b"1" * 9))
        return record.replace(b"\r\n3e8\r\n", b"\r\n" + size + b"\r\n", 1)
    if kind == 6:
        return record + rng.choice(
            (b"garbage\r\n", b"\0" * 300, b"WARC/1.0\r\n", b"\x1f\x8b\x08", b"\r")
        )
    return damaged_bytes(rng, record)


def warc(rng: Random) -> bytes:
    """Return records of which the first is untouched, plain or compressed one by one."""
    page = b"<p>one page that nobody has touched at all"
    records = [warc_record("resource", FIRST, page, ("Content-Type", "text/html"))]
    for _ in range(rng.randint(1, 3)):
        record = _valid_record(rng)
        for _ in range(rng.randrange(3)):
            record = _changed_record(rng, record)
        records.append(record)
    records.append(warc_record("resource", LAST, page, ("Content-Type", "text/html")))
    if rng.random() < 0.3:
        packed = [gzip.compress(record, 1) for record in records]
        if rng.random() < 0.5:
            at = rng.randrange(1, len(packed))
            packed[at] = damaged_bytes(rng, packed[at])
        return b"".join(packed)
    return b"".join(records)


# ---- messages that name a schema ------------------------------------------------------------------

SCHEMAS = {"/schemas/ids/1": {"schema": PAGE_SCHEMA}}


def _plain_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def framed_messages(rng: Random) -> list[bytes]:
    """Return messages that name a schema: one untouched, one to four damaged, one untouched."""
    damaged = []
    for _ in range(rng.randint(1, 4)):
        one = by_number(1, avro_page("u", rng.choice(html_pages()).encode()))
        head, rest = one[:5], one[5:]
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(min(len(rest), 80)) if rest else 0
            number = _plain_varint(rng.choice((0, 1, 127, 1 << 31, (1 << 63) - 1, (1 << 64) - 1)))
            kind = rng.randrange(4)
            if kind == 0:
                rest = rest[:at] + number + rest[at + 1 :]
            elif kind == 1:
                nested = rng.choice((rest, b"\2" * DEEP))
                rest = rest[:at] + nested + rest[at:]
            elif kind == 2:
                rest = damaged_bytes(rng, rest)
            else:
                rest = damaged_bytes(rng, rest[:80]) + rest[80:]
        if rng.random() < 0.1:
            head = rng.choice(
                (b"\0\0\0\0\3", b"\0\0\0\0\0", b"\0\0\0", b"\1" * 17, b"\2\0\0\0\1", b"")
            )
        damaged.append(head + rest)
    page = b"one page that nobody has touched at all"
    first, last = (by_number(1, avro_page(url, page)) for url in (FIRST, LAST))
    return [first, *damaged, last]


# ---- Kafka record batches ------------------------------------------------------------------------


CRC_AT, ATTRIBUTES_AT, RECORDS_AT = 17, 21, 61  # in a batch of version 2
CODECS = (0, 0, 1, 3, 4)  # none, gzip, lz4, zstd
CONTROL, TRANSACTIONAL = 1 << 5, 1 << 4


def _varint(value: int) -> bytes:
    """Return a zigzag varint, as record batches have them."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value & 0x7F])


def _field(rng: Random, data: bytes | None) -> bytes:
    """Return a field with its length before it, which is wrong at times."""
    length = -1 if data is None else len(data)
    if rng.random() < 0.004:
        length = rng.choice((-2, -(1 << 31), length + 1, 1 << 20, (1 << 31) - 1, 1 << 40))
    return _varint(length) + (data or b"")


def _record(rng: Random, delta: int, value: bytes | None) -> bytes:
    headers = [(b"name", rng.choice((b"", b"value", None))) for _ in range(rng.randrange(3))]
    count = rng.choice((len(headers),) * 300 + (-1, 5, 1 << 30))
    body = (
        bytes([rng.choice((0,) * 300 + (1, 255))])
        + _varint(rng.choice((0, 1, -1, 1 << 40)))
        + _varint(rng.choice((delta,) * 200 + (-1, 0, 1 << 30)))
        + _field(rng, rng.choice((None, b"key", b"")))
        + _field(rng, value)
        + _varint(count)
        + b"".join(_field(rng, name) + _field(rng, text) for name, text in headers)
    )
    length = rng.choice((len(body),) * 300 + (0, -1, len(body) + 1, 1 << 29))
    return _varint(length) + body


def _packed_records(rng: Random, codec: int, data: bytes) -> bytes:
    if rng.random() < 0.02:
        return data  # not what the attributes say
    packed = {0: lambda d: d, 1: gzip_encode, 3: lz4_encode, 4: zstd_encode}[codec](data)
    return damaged_bytes(rng, packed) if rng.random() < 0.08 else bytes(packed)


def _batch(rng: Random, offset: int) -> bytes:
    """Return a batch of version 2; its checksum is right as a rule, also over damage."""
    values = [
        rng.choice((message(rng), rng.choice(crawled()), None, b""))
        for _ in range(rng.randint(0, 5))
    ]
    if rng.random() < 0.03:
        values = [bytes([0, 0, 0, rng.randrange(2)])]
    codec = rng.choice(CODECS)
    attributes = codec | rng.choice(
        (0,) * 60 + (CONTROL, TRANSACTIONAL, CONTROL | TRANSACTIONAL, 8, 7, 2, 5)
    )
    records = b"".join(_record(rng, delta, value) for delta, value in enumerate(values))
    count = rng.choice((len(values),) * 60 + (0, -1, len(values) + 1, (1 << 31) - 1))
    tail = struct.pack(
        ">hiqqqhii",
        attributes,
        rng.choice((max(len(values) - 1, 0),) * 30 + (-1, (1 << 31) - 1)),
        rng.choice((1_700_000_000_000, -1, (1 << 63) - 1)),
        rng.choice((1_700_000_000_000, -1, 0)),
        rng.choice((-1, -1, 7)),
        rng.choice((-1, 0)),
        -1,
        count,
    ) + _packed_records(rng, codec, records)
    if rng.random() < 0.1:
        tail = damaged_bytes(rng, tail)
    crc = calc_crc32c(tail) if rng.random() < 0.96 else rng.getrandbits(32)
    length = rng.choice(
        (len(tail) + 9,) * 90 + (0, -1, 5, len(tail), len(tail) + 10, (1 << 31) - 1)
    )
    base = rng.choice((offset,) * 20 + (0, offset + 1_000))
    magic = rng.choice((2,) * 90 + (3, 127, 255))
    return struct.pack(">qiibI", base, length, 0, magic if magic < 128 else -1, crc) + tail


def _legacy(rng: Random, offset: int) -> bytes:
    """Return a message set of version 0 or 1, compressed as a whole at times."""
    magic = rng.randrange(2)
    builder = LegacyRecordBatchBuilder(
        magic=magic, compression_type=rng.choice((0, 0, 1, 3 * magic)), batch_size=1 << 20
    )
    for number in range(rng.randint(1, 4)):
        builder.append(
            offset + number, 1_700_000_000_000, rng.choice((None, b"k")), rng.choice(crawled())
        )
    data = bytearray(builder.build())
    for _ in range(rng.choice((0,) * 6 + (1, 2))):
        at = rng.choice((8, 11, 12, 16, 17, 18, 26, 29, rng.randrange(len(data))))
        if at < len(data):
            data[at] = rng.choice((0, 1, 2, 3, 127, 128, 255, rng.randrange(256)))
    if rng.random() < 0.7 and len(data) > 20:  # the checksum of the first message as it is now
        size = int.from_bytes(data[8:12], "big", signed=True)
        if 0 < size <= len(data) - 12:
            data[12:16] = zlib.crc32(data[16 : 12 + size]).to_bytes(4, "big")
    return bytes(data)


def record_batches(rng: Random) -> bytes:
    """Return what a broker might send of a partition from offset 0 on: one to three batches."""
    parts = [
        rng.choice((_batch, _batch, _batch, _legacy))(rng, 10 * number)
        for number in range(rng.randint(1, 3))
    ]
    data = b"".join(parts)
    return damaged_bytes(rng, data) if rng.random() < 0.05 else data
