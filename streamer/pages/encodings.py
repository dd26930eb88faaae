"""Undo what wraps a body: base64, chunked transfer, content encodings.

Headers are a hint, not the truth: a body that does not look encoded is left as it is, and one that
begins with a compressor's magic is expanded though no header says so (text never begins with those
bytes). No expansion ever holds more than `limit` bytes, whatever its ratio. What is encoded and
cannot be undone to its end is `bad_content_encoding`: a half-expanded page is never passed on.
Nothing here decides on characters; that is the charset's part.

A body is either the inside of a JSON string, escapes not undone, or decoded bytes; each question is
asked of one of the two.
"""

import base64
import binascii
import re
import zlib
from collections.abc import Callable, Sequence

import brotli
import msgspec

from streamer.compression import zstd
from streamer.errors import InvalidPage
from streamer.pages.body import foreign_kind, is_binary
from streamer.pages.members import DAMAGED, GZIP_MAGIC, ZSTD_MAGIC, Decoder, Inflate, expand

MEMBERS_MAX = 1 << 12  # of a gzip or zstd body, which has one: bounds the time of empty ones
LAYERS_MAX = 4  # of encodings around one body; double encoding is seen, more is an attack
CHUNKS_MAX = 1 << 17  # of one chunked body: bounds the time that one-byte chunks take
WINDOW_LOG_MAX = 23  # RFC 9659: a zstd window over 8 MiB is not allowed as content encoding

_MAGICS = {GZIP_MAGIC: "gzip", ZSTD_MAGIC: "zstd"}
_NO_ENCODINGS = frozenset({"", "identity", "none", "utf-8", "utf8", "8bit", "binary"})
_CHUNK_SIZE = re.compile(rb"[ \t]{0,16}([0-9a-fA-F]{1,8})[ \t]{0,16}(?:;[^\r\n]{0,1024})?\r?\n")
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_HEAD_BYTES = 1024
_EARLY = "the encoded body ends early"


def decode_base64(text: str) -> bytes:
    """Return the bytes that base64 encodes, of either alphabet, with line breaks, padded or not.

    Raises:
        InvalidPage: `bad_base64`.
    """
    packed = "".join(text.split()).replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(packed + "=" * (-len(packed) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidPage("bad_base64", str(error)) from error


def guess_base64(text: str) -> bytes | None:
    """Return what `text` encodes if it is base64 of markup or of compressed data, else None.

    Words of plain letters are valid base64 too, with the spaces between them left out. So there
    must be none, and the bytes must look like something that is sent: compressed, or markup
    without control characters, of which random bytes have one in nine.
    """
    if " " in text.strip():
        return None
    try:
        body = decode_base64(text)
    except InvalidPage:
        return None
    if body.startswith((GZIP_MAGIC, ZSTD_MAGIC)):
        return body
    return body if b"<" in body[:_HEAD_BYTES] and not is_binary(body) else None


def undo_chunks(body: bytes, *, declared: bool) -> bytes:
    """Return `body` without chunked transfer (RFC 9112, 7.1); unchanged where it is not chunked.

    Without a header, the first chunk must be whole and followed by another chunk's size. A body
    that was cut off within a chunk gives what there is.

    Raises:
        InvalidPage: `bad_content_encoding`, where there are more chunks than `CHUNKS_MAX`.
    """
    parts: list[bytes] = []
    at = 0
    while size_line := _CHUNK_SIZE.match(body, at):
        begin, size = size_line.end(), int(size_line[1], 16)
        at = begin + size
        parts.append(body[begin:at])
        if size == 0 or at >= len(body):
            return b"".join(parts) if declared or len(parts) > 1 else body
        at += 2 if body.startswith(b"\r\n", at) else 1 if body.startswith(b"\n", at) else len(body)
        if len(parts) > CHUNKS_MAX:
            raise InvalidPage("bad_content_encoding", f"more than {CHUNKS_MAX} chunks")
    ended = at == len(body) and bool(parts)
    return b"".join(parts) if ended and (declared or len(parts) > 1) else body


def undo_encodings(body: bytes, names: Sequence[str], limit: int) -> bytes:
    """Return `body` without its content encodings, in the order in which they were applied.

    `names` are as from `split_names`. Under an unknown name, as servers that give a charset or a
    type there, readable bytes count as they are.

    Raises:
        InvalidPage: `bad_content_encoding`, or `decompressed_too_large`, over `limit` bytes.
    """
    given = [name for name in names if name not in _NO_ENCODINGS]
    known = [name for name in given if name in _DECODERS]
    if len(known) > LAYERS_MAX:
        raise InvalidPage("bad_content_encoding", f"{len(known)} encodings")
    for named in (*reversed(known), *[""] * LAYERS_MAX):
        own = (name for magic, name in _MAGICS.items() if body.startswith(magic))
        name = next(own, named)  # by its magic, whatever the header calls it
        if not name:
            break
        body = _DECODERS[name](body, limit)
    else:
        raise InvalidPage("bad_content_encoding", f"more than {LAYERS_MAX} encodings")
    if len(known) < len(given) and is_binary(body) and not foreign_kind(body):
        unknown = next(name for name in given if name not in _DECODERS)
        raise InvalidPage("bad_content_encoding", f"unknown encoding {unknown[:40]!r}")
    return body


def split_names(header: str) -> list[str]:
    """Return the encodings that a Content-Encoding or Transfer-Encoding header lists, in order."""
    return [name.strip().strip("\"'").lower().removeprefix("x-") for name in header.split(",")]


def _gunzip(body: bytes, limit: int) -> bytes:
    """Undo gzip, of several members too; what follows the last member is not looked at.

    Without its magic it may be deflate, as some servers call that.
    """
    if not body.startswith(GZIP_MAGIC) and is_binary(body):
        return _undeflate(body, limit)
    return _members(body, limit, GZIP_MAGIC, Inflate)


def _undeflate(body: bytes, limit: int) -> bytes:
    """Undo deflate: the zlib format by the standard, the bare stream as many servers send it."""
    failure: InvalidPage | None = None
    for window in (zlib.MAX_WBITS, -zlib.MAX_WBITS):
        try:
            return _expand(Inflate(window), memoryview(body), limit)[0]
        except InvalidPage as error:
            if error.code != "bad_content_encoding":
                raise
            failure = failure or error
    return _plain_or(body, failure)


def _unzstd(body: bytes, limit: int) -> bytes:
    """Undo zstd, of several frames too."""
    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: WINDOW_LOG_MAX}
    return _members(body, limit, ZSTD_MAGIC, lambda: zstd.ZstdDecompressor(options=options))


def _members(body: bytes, limit: int, magic: bytes, make: Callable[[], Decoder]) -> bytes:
    """Undo one member after the other, as long as one begins with the magic."""
    parts: list[bytes] = []
    at, left = 0, limit
    data = memoryview(body)
    while body.startswith(magic, at):
        if len(parts) == MEMBERS_MAX:
            raise InvalidPage("bad_content_encoding", f"more than {MEMBERS_MAX} members")
        part, read = _expand(make(), data[at:], left)
        parts.append(part)
        at += read
        left -= len(part)
    return b"".join(parts) if parts else body


def _expand(decoder: Decoder, data: memoryview, limit: int) -> tuple[bytes, int]:
    """Return what one stream holds, and how many bytes of `data` it takes."""
    try:
        found, taken = expand(decoder, data, limit)
    except DAMAGED as error:
        raise InvalidPage("bad_content_encoding", str(error)) from error
    _check_end(len(found), limit, ended=decoder.eof)
    return found, taken


def _unbrotli(body: bytes, limit: int) -> bytes:
    """Undo brotli, which has no magic: what does not decode but looks like text stays as it is."""
    stream, data = brotli.Decompressor(), body
    parts, size = list[bytes](), 0
    try:
        while not stream.is_finished() and size <= limit:
            part = stream.process(data, output_buffer_limit=min(limit - size + 1, 1 << 20))
            if not part and stream.can_accept_more_data():
                return _plain_or(body, InvalidPage("bad_content_encoding", _EARLY))
            data = b""
            parts.append(part)
            size += len(part)
    except brotli.error as error:
        return _plain_or(body, InvalidPage("bad_content_encoding", str(error)))
    _check_end(size, limit, ended=True)
    return b"".join(parts)


def _check_end(size: int, limit: int, *, ended: bool) -> None:
    """Refuse an expansion that is over the limit or that stops before its end."""
    if size > limit:
        raise InvalidPage("decompressed_too_large", f"more than {limit} bytes")
    if not ended:
        raise InvalidPage("bad_content_encoding", _EARLY)


def _plain_or(body: bytes, failure: InvalidPage | None) -> bytes:
    """Return `body` where it looks like text, as the header was wrong; else raise `failure`."""
    if failure is not None and _CONTROLS.search(body, 0, _HEAD_BYTES):
        raise failure
    return body


_DECODERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _gunzip,
    "deflate": _undeflate,
    "br": _unbrotli,
    "brotli": _unbrotli,
    "zstd": _unzstd,
}


_BLANK_ESCAPED = re.compile(rb"(?:[ \t\n\r\f\v]|\\[ntrf]|\\u00(?:0[9a-dA-D]|20))*")
_BLANK = re.compile(rb"[ \t\n\r\f\v]*")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([^\s;\"',]{1,64})", re.IGNORECASE)
_QUOTE = 0x22


def plain_body(raw: msgspec.Raw) -> memoryview | None:
    """Return the inside of a JSON string that is not blank; None for any other value."""
    whole = memoryview(raw)
    body = whole[1:-1]
    return body if body and whole[0] == _QUOTE and not is_blank_escaped(body) else None


def is_blank_escaped(body: memoryview) -> bool:
    """Return whether the inside of a JSON string, at least one byte, is all white space."""
    return body[0] in b" \\" and bool(_BLANK_ESCAPED.fullmatch(body))


def is_not_blank(body: bytes) -> bytes:
    """Return `body`.

    Raises:
        InvalidPage: `empty_body`, where it is white space throughout.
    """
    if _BLANK.fullmatch(body):
        raise InvalidPage("empty_body", f"{len(body)} bytes of white space")
    return body


def charset_of(content_type: str | None) -> str | None:
    """Return the `charset` parameter of a content type."""
    found = _CHARSET.search(content_type) if content_type else None
    return found[1] if found else None
