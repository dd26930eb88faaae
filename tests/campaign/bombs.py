"""Small inputs that are made to become large: what a hostile page or file costs is bounded.

Each bomb is a file, or a pipe, that a process of its own reads, parses, signs and judges like any
other input. What must hold: it does not crash; it takes SECONDS_MAX of the processor, and for what
is over a record's limit, and must be read to find the next record, no more than a second for each
EXPANDED_A_SECOND bytes and each RECORDS_A_SECOND records; memory grows by GROWTH_BYTES_MAX at most;
and each record has its place (`Bomb.records`, where their number is known). Markup that exhausts
parsers is read in three sizes as well: the time must grow in line with the size.
"""

# ruff: noqa: E501 - a table of bombs, one a line

import base64
import gc
import gzip
import json
import os
import struct
import sys
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import brotli
import msgspec
import numpy as np

from streamer.compression import zstd
from streamer.errors import InputError
from streamer.pages.files import Source, open_sources
from streamer.pages.parse import PageParser
from streamer.text.html import html_to_text, text_bytes_max
from streamer.text.main_text import MainText, html_to_main_text, new_main_text, read_model
from tests.campaign.judging import MAPPING, Died, Judge, peak_bytes, reset_peak, watched
from tests.helpers.cdx import Archive, warc_record

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SECONDS_MAX = 3.0  # half a second on a quiet machine; tests share its processors
EXPANDED_A_SECOND = 32 * MIB  # 128 on a processor of 2020
RECORDS_A_SECOND = 2_500  # 7,000 to 25,000 on a quiet machine; a square takes minutes
GROWTH_BYTES_MAX = 160 * MIB  # ten times the largest record
SECONDS_STUCK = 120.0
MARKUP_SIZES = (64 * KIB, MIB, 5 * MIB)
RATIO_MAX = 15.0  # of the times for 5 MiB and 1 MiB: 5 if linear, 25 if quadratic


class Bomb(NamedTuple):
    """How to write an input, and what it is.

    Attributes:
        write: writes the file at a path without its suffix, and returns its path.
        records: how many there are; None where damage or garbage leaves that open.
        expanded_bytes: what must be read to find all records.
    """

    name: str
    write: Callable[[Path], Path]
    records: int | None = 1
    expanded_bytes: int = 0


class Measured(msgspec.Struct):
    """What a bomb cost."""

    name: str
    seconds: float
    growth_bytes: int
    fault: str = ""


# ---- compressed ----------------------------------------------------------------------------------


@cache
def _gzip(size: int, unit: bytes = bytes(MIB), tail: bytes = b"") -> bytes:
    """Return gzip of so many bytes; a block is compressed once and repeated."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    block = deflate.compress(unit) + deflate.flush(zlib.Z_FULL_FLUSH)
    last = deflate.compress(tail) + deflate.flush(zlib.Z_FINISH)
    count, crc = size // len(unit), 0
    for _ in range(count):
        crc = zlib.crc32(unit, crc)
    head = b"\x1f\x8b\x08\0\0\0\0\0\0\3"
    length = (count * len(unit) + len(tail)) & 0xFFFFFFFF
    check = zlib.crc32(tail, crc).to_bytes(4, "little") + length.to_bytes(4, "little")
    return head + block * count + last + check


@cache
def _zlib(size: int) -> bytes:
    deflate = zlib.compressobj(9)
    block = deflate.compress(bytes(MIB)) + deflate.flush(zlib.Z_FULL_FLUSH)
    head = block[:2]
    plain = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = plain.compress(bytes(MIB)) + plain.flush(zlib.Z_FULL_FLUSH)
    return head + body * (size // MIB)  # what is behind the limit is never looked at


@cache
def _zstd(
    size: int, unit: bytes = bytes(MIB), *, window_log: int = 0, reported: bool = False
) -> bytes:
    option = zstd.CompressionParameter
    options: dict[int, int] = {option.window_log: window_log} if window_log else {}
    packer = zstd.ZstdCompressor(options=options)
    if reported:
        packer.set_pledged_input_size(size // len(unit) * len(unit))
    parts = [packer.compress(unit) for _ in range(size // len(unit))]
    return b"".join(parts) + packer.flush()


@cache
def _brotli(size: int) -> bytes:
    packer = brotli.Compressor(quality=1, lgwin=24)
    parts = [packer.process(bytes(MIB)) for _ in range(size // MIB)]
    packed: bytes = b"".join(parts) + packer.finish()
    return packed


def _nested(layers: int, size: int) -> bytes:
    data = _gzip(size)
    for _ in range(layers - 1):
        data = gzip.compress(data, 9, mtime=0)
    return data


def _told_zstd(size: int) -> bytes:
    """Return a tiny frame that claims to hold `size` bytes in one segment."""
    return b"\x28\xb5\x2f\xfd\xe0" + size.to_bytes(8, "little") + b"\x01\0\0"


def _wide_zstd() -> bytes:
    """Return a tiny frame that asks for a window of 3.75 TiB."""
    return b"\x28\xb5\x2f\xfd\x00\xff" + b"\x01\0\0"


# ---- in messages, in WARC records, as files ------------------------------------------------------


def _message(path: Path, body: Callable[[], bytes], encoding: str = "") -> Path:
    """Write one message with a body of bytes."""
    path = path.with_suffix(".jsonl")
    fields = {"content_encoding": encoding} if encoding else {}
    fields |= {"url": "u", "content_type": "text/html"}
    packed = base64.b64encode(body()).decode()
    path.write_text(json.dumps({**fields, "body_base64": packed}) + "\n")
    return path


def _response(path: Path, body: Callable[[], bytes], *headers: str) -> Path:
    """Write one WARC response."""
    path = path.with_suffix(".warc")
    head = "\r\n".join(["HTTP/1.1 200 OK", "Content-Type: text/html", *headers])
    block = head.encode() + b"\r\n\r\n" + body()
    stored = ("Content-Type", "application/http; msgtype=response")
    path.write_bytes(warc_record("response", "http://a.example/", block, stored))
    return path


def _file(path: Path, suffix: str, body: Callable[[], bytes]) -> Path:
    path = path.with_suffix(suffix)
    path.write_bytes(body())
    return path


def _line(path: Path, *parts: bytes) -> Path:
    """Write a line from parts."""
    return _file(path, ".jsonl", lambda: b"".join(parts) + b"\n")


def _body(path: Path, unit: str, size: int = 15 * MIB) -> Path:
    """Write one message whose body is a unit over and over, `size` bytes in JSON's notation."""
    text = json.dumps(unit, ensure_ascii=False).encode()[1:-1]
    return _line(path, b'{"url": "u", "body": "', text * (size // len(text)), b'"}')


def _pipe(path: Path) -> Path:
    """Make a pipe that gives one line of 1 GiB, and a page behind it."""
    path = path.with_suffix(".pipe")
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb") as pipe:
            pipe.write(b'{"url": "u", "body": "')
            for _ in range(GIB // MIB):
                pipe.write(b"x" * MIB)
            pipe.write(b'"}\n{"url": "u", "body": "words"}\n')

    threading.Thread(target=write, daemon=True).start()
    return path


def _chunked(size: int, chunk: bytes) -> bytes:
    return chunk * (size // len(chunk)) + b"0\r\n\r\n"


def _wacz(path: Path, parts: Sequence[bytes], files: int = 1) -> Path:
    """Write an archive of so many WARC files, each of these parts."""
    path = path.with_suffix(".wacz")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as opened:
        for number in range(files):
            with opened.open(f"archive/{number}.warc", "w") as file:
                file.writelines(parts)
    return path


def _named_often(path: Path) -> Path:
    """Write an archive that names one WARC file of 10 MiB 1,000 times."""
    path = _wacz(path, [warc_record("resource", "u", bytes(10 * MIB))])
    data = path.read_bytes()
    at = data.index(b"PK\1\2")
    end = data.index(b"PK\5\6")
    entries = 1000 * data[at:end]
    tail = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1000, 1000, len(entries), at, 0)
    path.write_bytes(data[:at] + entries + tail)
    return path


def _cdx(path: Path) -> Path:
    """Write a line that names the record of an archive next to it."""
    data = _large_record()
    (path.parent / "large.warc.gz").write_bytes(data)
    line = Archive("large.warc.gz", data, [(0, len(data))]).line(0, "u")
    return _file(path, ".cdxj", lambda: line)


_LARGE_HEAD = b"WARC/1.0\r\nWARC-Type: resource\r\nContent-Length: %d\r\n\r\n" % GIB


def _large_record() -> bytes:
    """Return a WARC record of 1 GiB in two gzip members."""
    return gzip.compress(_LARGE_HEAD) + _gzip(GIB)


_BEHIND = b'"}\n{"url": "u", "body": "words"}\n'
_LONG_LINE = b'{"url": "u", "body": "'


BOMBS: tuple[Bomb, ...] = (
    Bomb("gzip of 1.5 MB that is 1 GiB", lambda p: _message(p, lambda: _gzip(GIB), "gzip")),
    Bomb("gzip of 1 GiB that no header tells", lambda p: _message(p, lambda: _gzip(GIB))),
    Bomb("gzip of 1 GiB in a WARC response", lambda p: _response(p, lambda: _gzip(GIB), "Content-Encoding: gzip")),
    Bomb("gzip of 1 GiB, chunked, in a WARC response", lambda p: _response(p, lambda: (b"%x\r\n%s\r\n0\r\n\r\n" % (len(_gzip(GIB)), _gzip(GIB))), "Transfer-Encoding: chunked")),
    Bomb("deflate with a header", lambda p: _message(p, lambda: _zlib(GIB), "deflate")),
    Bomb("zstd of 1 GiB", lambda p: _message(p, lambda: _zstd(GIB), "zstd")),
    Bomb("zstd with a window of 128 MiB", lambda p: _message(p, lambda: _zstd(GIB, window_log=27), "zstd")),
    Bomb("zstd that claims to hold 2^62 bytes", lambda p: _message(p, lambda: _told_zstd(1 << 62), "zstd")),
    Bomb("zstd that asks for a window of terabytes", lambda p: _message(p, _wide_zstd, "zstd")),
    Bomb("100,000 empty zstd frames", lambda p: _message(p, lambda: zstd.compress(b"") * 100_000, "zstd")),
    Bomb("500,000 gzip members of a byte", lambda p: _message(p, lambda: gzip.compress(b"x", mtime=0) * 500_000, "gzip")),
    Bomb("brotli of 1 GiB", lambda p: _message(p, lambda: _brotli(GIB), "br")),
    Bomb("gzip in gzip", lambda p: _message(p, lambda: _nested(2, GIB), "gzip, gzip")),
    Bomb("ten layers of gzip", lambda p: _message(p, lambda: _nested(10, MIB), "gzip")),
    Bomb("gzip in zstd in brotli", lambda p: _message(p, lambda: brotli.compress(zstd.compress(_gzip(GIB)), quality=1), "gzip, zstd, br")),
    Bomb("a file of gzip in gzip", lambda p: _file(p, ".jsonl.gz", lambda: _nested(2, GIB)), None),
    Bomb("four encodings, each of 15 MiB", lambda p: _message(p, lambda: _nested(4, 15 * MIB), "gzip, gzip, gzip, gzip")),
    Bomb("a list of 100,000 encodings", lambda p: _message(p, lambda: b"x", ",".join(["gzip"] * 100_000))),
    Bomb("chunks of one byte", lambda p: _response(p, lambda: _chunked(15 * MIB, b"1\r\nx\r\n"), "Transfer-Encoding: chunked")),
    Bomb("empty lines for chunk sizes", lambda p: _response(p, lambda: b"0" * 8 + b";" + b"x" * MIB, "Transfer-Encoding: chunked")),
    Bomb("a chunk of 4 GiB", lambda p: _response(p, lambda: b"ffffffff\r\nx", "Transfer-Encoding: chunked")),
    Bomb("just under the limit, of words", lambda p: _message(p, lambda: _gzip(15 * MIB, b"ab cd ef " * 116_508), "gzip")),
    Bomb("just under the limit, of tags", lambda p: _message(p, lambda: _gzip(15 * MIB, b"<p><b>" * 174_762), "gzip")),
    Bomb("just under the limit, of high bytes", lambda p: _message(p, lambda: _gzip(15 * MIB, b"\xe1\xe2 " * 349_525), "gzip")),
    Bomb("arrays 7,000,000 deep", lambda p: _line(p, b'{"url": "u", "body": "x", "deep": ', b"[" * 7_000_000, b"]" * 7_000_000, b"}")),
    Bomb("objects 2,000,000 deep for a body", lambda p: _line(p, b'{"url": "u", "body": ', b'{"a":' * 2_000_000, b"1", b"}" * 2_000_000, b"}")),
    Bomb("an array of 5,000,000 for a URL", lambda p: _line(p, b'{"body": "x", "url": [', b"1," * 5_000_000, b"1]}")),
    Bomb("1,000,000 fields", lambda p: _line(p, b'{"url": "u", "body": "x"', b"".join(b',"%d":1' % i for i in range(1_000_000)), b"}")),
    Bomb("1,000,000 bodies", lambda p: _line(p, b'{"url": "u"', b',"body": "x"' * 1_000_000, b"}")),
    Bomb("a number of 15 MiB", lambda p: _line(p, b'{"url": "u", "body": "x", "status": ', b"9" * 15 * MIB, b"}")),
    Bomb("a URL of 15 MiB", lambda p: _line(p, b'{"body": "x", "url": "http://', b"a" * 15 * MIB, b'"}')),
    Bomb("escapes throughout", lambda p: _line(p, b'{"url": "u", "body": "', rb"\u0061\u0020" * (MIB + MIB // 8), b'"}')),
    Bomb("backslashes", lambda p: _line(p, b'{"url": "u", "body": "', rb"\\" * (7 * MIB), b'"}')),
    Bomb("base64 of 15 MiB of white space", lambda p: _line(p, b'{"url": "u", "body_base64": "', b" " * 15 * MIB, b'"}')),
    Bomb("combining marks", lambda p: _body(p, "a" + "\u0301\u0316" * 500)),
    Bomb("one token of 15 MiB", lambda p: _body(p, "aé")),
    Bomb("entities", lambda p: _body(p, "<p>" + "&nGt;&#x10ffff;" * 1_000)),
    Bomb("20,000 WARC files in a WACZ", lambda p: _wacz(p, [warc_record("resource", "u", b"x")], 20_000), 20_000),
    Bomb("a WACZ that names a file 1,000 times", _named_often, None),
    Bomb("a CSV header of 15 MiB of commas", lambda p: _file(p, ".csv", lambda: b"," * 15 * MIB + b"\n"), None),
    Bomb("a record of 1 GiB that a CDX file names", _cdx),
    Bomb("1,048,576 blank lines in 1 kB", lambda p: _file(p, ".jsonl.gz", lambda: _gzip(MIB, b"\n" * MIB)), MIB),
    Bomb("300,000 tiny records that are none", lambda p: _file(p, ".jsonl.gz", lambda: _gzip(900_000, b"{}\n" * 300_000)), 300_000),
    Bomb("100,000 tiny WARC records", lambda p: _file(p, ".warc.gz", lambda: gzip.compress(warc_record("resource", "u", b"x") * 100_000, 1)), 100_000),
    Bomb("200,000 empty gzip members as a file", lambda p: _file(p, ".jsonl.gz", lambda: gzip.compress(b"", mtime=0) * 200_000), 0, GIB),
    Bomb("a WARC header of 64 MiB", lambda p: _file(p, ".warc.gz", lambda: _gzip(64 * MIB, b"X: y\r\n" * 174_762)), None, GIB),
    Bomb("a WARC record of 1 GiB in gzip", lambda p: _file(p, ".warc.gz", _large_record), 1, GIB),
    Bomb("a line of 1 GiB in gzip", lambda p: _file(p, ".jsonl.gz", lambda: gzip.compress(_LONG_LINE) + _gzip(GIB, b"x" * MIB) + gzip.compress(_BEHIND)), 2, GIB),
    Bomb("a line of 1 GiB in zstd", lambda p: _file(p, ".jsonl.zst", lambda: zstd.compress(_LONG_LINE) + _zstd(GIB, b"x" * MIB) + zstd.compress(_BEHIND)), 2, GIB),
    Bomb("a file of zstd with a window of 2 GiB", lambda p: _file(p, ".jsonl.zst", lambda: _zstd(256 * MIB, window_log=31)), None, GIB),
    Bomb("a line of 1 GiB from a pipe", _pipe, 2, GIB),
)  # fmt: skip


# ---- markup --------------------------------------------------------------------------------------

# Of each kind, what a page begins with and what it then repeats.
MARKUP: dict[str, tuple[str, str]] = json.loads(
    Path(__file__).parents[1].joinpath("fixtures", "markup.json").read_text("utf-8")
)


def _html_seconds(page: bytes, main: MainText | None) -> float:
    """Return the time that a page's text takes, or its main text, of two tries the shorter."""
    source = np.frombuffer(bytearray(page), np.uint8)
    out = np.empty(text_bytes_max(len(page)), np.uint8)
    times = []
    for _ in range(2):
        start = time.process_time()
        if main is None:
            html_to_text(source, 0, len(page), out, 0)
        else:
            html_to_main_text(source, 0, len(page), out, main)
        times.append(time.process_time() - start)
    return min(times)


def _markup(name: str) -> Measured:
    """Read a page of one kind of markup in all sizes."""
    reset_peak()
    idle = peak_bytes()
    head, unit = MARKUP[name]
    pages = [(head + unit * (size // len(unit) + 1))[:size].encode() for size in MARKUP_SIZES]
    seconds, faults = 0.0, []
    for what, main in (("text", None), ("main text", new_main_text(read_model()))):
        _, one, five = (_html_seconds(page, main) for page in pages)
        seconds = max(seconds, five)
        if five >= RATIO_MAX * max(one, 1e-3):
            faults.append(f"{what}: {one:.3f} s for 1 MiB, {five:.3f} for 5")
    return Measured(f"markup: {name}", seconds, peak_bytes() - idle, "; ".join(faults))


# ---- the run -------------------------------------------------------------------------------------


def _parser(path: Path) -> PageParser:
    """Return a parser; one that knows of content encodings goes the careful way only."""
    if path.suffix == ".jsonl":
        with path.open("rb") as file:
            if file.read(20).startswith(b'{"content_encoding"'):
                return PageParser(MAPPING)
    return PageParser()


def _source(path: Path) -> Source:
    """Return the source of a file as the command line does; of a pipe as of any other.

    Raises:
        InputError: its format is not read.
    """
    if path.suffix == ".pipe":
        return Source(str(path), is_regular=False)
    return open_sources([str(path)]).sources[0]


def _read(bomb: Bomb, folder: Path, judge: Judge) -> Measured:
    """Read one bomb."""
    path = bomb.write(folder / "bomb")
    size = path.stat().st_size
    gc.collect()
    reset_peak()
    idle, start = peak_bytes(), time.process_time()
    result, records = Measured(bomb.name, 0, 0), 0
    try:
        read = judge.source(_source(path), _parser(path), careful=False)
    except InputError as error:
        if bomb.records is not None:
            result.fault = f"refused instead of {bomb.records} records: {error}"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a violation
        result.fault = f"{type(error).__name__}: {error}"[:200]
    else:
        records = read.records
        if bomb.records is not None and read.records != bomb.records:
            result.fault = f"{read.records} records instead of {bomb.records}"
    result.seconds = time.process_time() - start
    result.growth_bytes = peak_bytes() - idle
    allowed = SECONDS_MAX + max(bomb.expanded_bytes, size) / EXPANDED_A_SECOND
    allowed += records / RECORDS_A_SECOND
    if result.seconds > allowed:
        result.fault = f"took {result.seconds:.1f} s where {allowed:.1f} are allowed"
    path.unlink()
    return result


def read_bombs(names: list[str], first: int, folder: Path) -> Iterator[Measured]:
    """Read bombs from a place in the list on, with the place of each in a file next to it."""
    at = os.open(folder / "at", os.O_CREAT | os.O_WRONLY)
    judge = Judge(folder / "judge", bytes(32))
    warm = _body(folder / "warm", "<p>w &amp; x \u0301", 300_000)
    for path in (warm, _message(folder / "warm2", lambda: b"<p>w", "gzip")):
        judge.source(open_sources([str(path)]).sources[0], PageParser())
    by_name = {bomb.name: bomb for bomb in BOMBS}
    for place in range(first, len(names)):
        os.pwrite(at, b"%12d" % place, 0)
        name = names[place]
        yield _markup(name) if name in MARKUP else _read(by_name[name], folder, judge)


def run(rounds: int, seed: int, folder: Path) -> list[str]:
    """Read the first `rounds` bombs, and all markup."""
    del seed  # bombs are what they are
    names = [bomb.name for bomb in BOMBS[:rounds]] + list(MARKUP)
    _markup(names[-1])  # compiles its kernels, which may take SECONDS_STUCK while others run
    violations: list[str] = []
    module = ["tests.campaign.bombs", str(rounds)]
    for answer in watched(module, len(names), folder, SECONDS_STUCK):
        if isinstance(answer, Died):
            violations.append(f"{names[max(answer.at, 0)]}: {answer.how}")
            continue
        for each in msgspec.json.decode(answer, type=list[Measured]):
            if each.fault:
                violations.append(f"{each.name}: {each.fault}")
            if each.growth_bytes > GROWTH_BYTES_MAX:
                violations.append(f"{each.name}: memory grew by {each.growth_bytes >> 20} MiB")
    return violations


if __name__ == "__main__":
    _rounds, _first, _folder = sys.argv[1:]
    _names = [bomb.name for bomb in BOMBS[: int(_rounds)]] + list(MARKUP)
    _done = list(read_bombs(_names, int(_first), Path(_folder)))
    sys.stdout.buffer.write(msgspec.json.encode(_done))
