"""Damaged records of each input format, through the product's own stages.

Each input begins as valid pages of the sample crawl, in one of the formats. One to four places of
it are changed: bytes flipped, cut out, repeated, or replaced by what a reader of the format must
look at (a length, a bracket, a header, an escape, a magic). A process of its own reads and judges
it, as a replay or a worker does, so a crash ends that process only and is reported with the round
that made it. No input may crash it, take more than SECONDS_MAX of the processor, raise anything but
an error that the operator can act on, or leave a record in no place or in two. Untouched records
before the damage must be read, and memory may grow by GROWTH_BYTES_MAX over all inputs of a format.
"""

import csv
import gc
import gzip
import io
import json
import os
import resource
import sys
import time
import traceback
import zipfile
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c
from pyarrow import parquet

from streamer.analysis.sample.crawl import Crawl
from streamer.compression import zstd
from streamer.errors import InputError
from streamer.kafka.reader import cut
from streamer.pages.chunk import Chunk
from streamer.pages.files import open_sources
from streamer.pages.parse import PageParser
from streamer.pages.schema_registry import RegistryAddress, SchemaRegistry
from tests.campaign.judging import Judge, check_batch, peak_bytes, reset_peak, watched
from tests.helpers.cdx import archive, warc_record
from tests.helpers.schema_registry import PAGE_SCHEMA, avro_page, by_number, fake_registry

SECONDS_MAX = 3.0  # of the processor, for one input of a few records; tests share it
SECONDS_STUCK = 60.0  # by the clock without any progress: it is ended, and that is a violation
GROWTH_BYTES_MAX = 256 << 20
ADDRESS_BYTES_MAX = 8 << 30  # what asks for more gets a MemoryError instead of the machine
WARM_UP = 20
FIRST = "http://first.example/"  # a record that nobody touched
PAGE = b"<p>one page that nobody has touched at all"
CRC_AT, CRC_FROM = 17, 21  # of a record batch


# ---- valid inputs --------------------------------------------------------------------------------


@cache
def crawled() -> list[bytes]:
    """Return valid messages of pages."""
    lines = [planted.line for planted in Crawl().records(240)]
    return [line for line in lines if line.startswith(b"{") and line.endswith(b"}")]


def _bodies(rng: Random, count: int) -> list[bytes]:
    pages = [msgspec.json.decode(line) for line in rng.choices(crawled(), k=count)]
    return [str(page.get("body", "")).encode() for page in pages]


def _resource(url: str, body: bytes) -> bytes:
    return warc_record("resource", url, body, ("Content-Type", "text/html"))


def _response(rng: Random, body: bytes) -> bytes:
    """Return a response whose body is chunked or compressed at times."""
    lines = ["HTTP/1.1 200 OK", "Content-Type: text/html"]
    if rng.random() < 0.3:
        body, lines = gzip.compress(body, 1), [*lines, "Content-Encoding: gzip"]
    if rng.random() < 0.4:
        body, lines = (
            b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body),
            [*lines, "Transfer-Encoding: chunked"],
        )
    block = "\r\n".join(lines).encode() + b"\r\n\r\n" + body
    kind = ("Content-Type", "application/http; msgtype=response")
    return warc_record("response", "http://a.example/", block, kind)


def _lines(rng: Random) -> bytes:
    return b"".join(line + b"\n" for line in rng.choices(crawled(), k=rng.randint(1, 3)))


def _warc(rng: Random) -> bytes:
    return b"".join(
        rng.choice((_resource("http://a.example/", body), _response(rng, body)))
        for body in _bodies(rng, rng.randint(1, 3))
    )


def _rows(rng: Random) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(("url", "body"))
    writer.writerows(("u", body.decode()) for body in _bodies(rng, rng.randrange(20)))
    return text.getvalue().encode()


def _table(rng: Random) -> bytes:
    bodies = _bodies(rng, rng.randint(1, 20))
    whole, made = pa.table({"url": ["u"] * len(bodies), "body": bodies}), io.BytesIO()
    if rng.random() < 0.5:
        packing = rng.choice(("none", "snappy", "zstd"))
        parquet.write_table(whole, made, row_group_size=7, compression=packing)
    else:
        with pa.ipc.new_file(made, whole.schema) as stream:
            stream.write_table(whole, max_chunksize=7)
    return made.getvalue()


def _wacz(rng: Random) -> bytes:
    made = io.BytesIO()
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(made, "w", method) as opened:
        for number in range(rng.randint(1, 3)):
            opened.writestr(f"archive/{number}.warc.gz", gzip.compress(_warc(rng)))
    return made.getvalue()


def _batch(rng: Random) -> bytes:
    """Return a record batch as a broker sends it."""
    builder = DefaultRecordBatchBuilder(2, rng.choice((0, 1, 3, 4)), 0, -1, -1, -1, 1 << 20)
    for number in range(rng.randint(1, 5)):
        value = rng.choice((rng.choice(crawled()), None, b""))
        builder.append(number, 1_700_000_000_000, rng.choice((None, b"k")), value, [("name", b"x")])
    return bytes(builder.build())


def _avro(rng: Random) -> bytes:
    return by_number(1, avro_page("u", _bodies(rng, 1)[0]))


# ---- damage --------------------------------------------------------------------------------------

JSON = (
    b'"', b"\\", b"{", b"}", b"[", b",", b":", b"null", b"-1", b"1e999", b"NaN", rb"\ud800",
    rb"\u00", b'"url": 5, ', b"[" * 20_000, b"\xef\xbb\xbf", b"\r", b"\0",
)  # fmt: skip
MARKUP = (
    b"<", b">", b"</", b"<!--", b"-->", b"<![CDATA[", b"&#x110000;", b"&notit;", b"<script>",
    b"</script", b"<title>", b"<svg>", b"<plaintext>", b"<a b='", b"<meta charset=utf-16>", b"\0",
)  # fmt: skip
HEADERS = (
    b"\r\n", b"\n", b"\r\n\r\n", b": ", b"WARC/2.0", b"Content-Length: -1\r\n",
    b"Content-Length: 999999999999999\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Content-Encoding: zstd, br\r\n", b"ffffffff", b"X: " + b"y" * 70_000,
)  # fmt: skip
NUMBERS = tuple(
    number.to_bytes(4, order)
    for number in (0, 1, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF)
    for order in ("little", "big")
)
PACKED = (
    b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"PK\1\2", b"PAR1", b"ARROW1\0\0", b"\x80\x80\x80",
    *NUMBERS,
)  # fmt: skip
PLACES = (
    b"-1", b"0x10", b"1e3", b"999999999999999", b"9" * 5_000, b"../x", b"/dev/null", b"a" * 300,
    *JSON,
)  # fmt: skip


def damaged(rng: Random, data: bytes, odd: tuple[bytes, ...]) -> bytes:
    """Return the data with one to four places changed."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((0, 1, 2, 4, 16, 200)))
        kind = rng.randrange(8)
        if kind < 4:
            new = rng.choice(odd)
            data = data[:at] + new + data[at + len(new) if kind < 2 else end :]
        elif kind == 4:
            data = (
                data[:at]
                + bytes(each ^ 1 << rng.randrange(8) for each in data[at : at + 1])
                + data[at + 1 :]
            )
        elif kind == 5:
            data = data[:end] + data[at:]
        elif kind == 6:
            data = data[:at] + rng.randbytes(end - at) + data[end:]
        else:
            data = data[: rng.choice((at, len(data)))]
    return data


# ---- in the process that reads -------------------------------------------------------------------


class _Reader:
    """Reads damaged inputs, and checks what became of each."""

    def __init__(self, folder: Path, judge: Judge, registry: SchemaRegistry) -> None:
        self._folder, self._judge = folder, judge
        self._parser, self._with_schemas = PageParser(), PageParser(registry=registry)

    def json(self, rng: Random) -> None:
        """Read lines after an untouched one."""
        first = json.dumps({"url": FIRST, "body": PAGE.decode()}).encode() + b"\n"
        urls = self._file("x.jsonl", first + damaged(rng, _lines(rng), JSON))
        assert urls[:1] == [FIRST.encode()], "the untouched record before is lost"

    def html(self, rng: Random) -> None:
        """Read a page as text and as bytes under some charset."""
        body = damaged(rng, _bodies(rng, 1)[0], MARKUP)
        codec = rng.choice(("utf-8", "utf-16-le", "koi8-r", "shift_jis", "gb18030", "cp1252"))
        text = body.decode("utf-8", "replace")
        fields = {"url": "u", "content_type": f"text/html; charset={codec}"}
        coded = msgspec.json.encode({**fields, "body_base64": text.encode(codec, "replace")})
        self._messages([(0, None, msgspec.json.encode({**fields, "body": text})), (1, None, coded)])

    def warc(self, rng: Random) -> None:
        """Read records after an untouched one, compressed one by one at times."""
        parts = [_resource(FIRST, PAGE), damaged(rng, _warc(rng), HEADERS)]
        if rng.random() < 0.3:
            packed = gzip.compress(_warc(rng), 1)
            parts = [gzip.compress(parts[0], 1), damaged(rng, packed, PACKED)]
        urls = self._file("x.warc", b"".join(parts))
        assert urls[:1] == [FIRST.encode()], "the untouched record before is lost"

    def compressed(self, rng: Random) -> None:
        """Read lines in gzip or zstd."""
        pack: Callable[[bytes], bytes] = rng.choice((gzip.compress, zstd.compress))
        self._file("x.jsonl", damaged(rng, pack(_lines(rng)) + pack(_lines(rng)), PACKED))

    def rows(self, rng: Random) -> None:
        """Read text in columns."""
        self._file("x.csv", damaged(rng, _rows(rng), JSON))

    def table(self, rng: Random) -> None:
        """Read a table in Parquet or Arrow."""
        data = _table(rng)
        suffix = ".parquet" if data[:4] == b"PAR1" else ".arrow"
        self._file(f"x{suffix}", damaged(rng, data, PACKED))

    def wacz(self, rng: Random) -> None:
        """Read an archive of WARC files."""
        self._file("x.wacz", damaged(rng, _wacz(rng), PACKED))

    def cdx(self, rng: Random) -> None:
        """Read the records of an archive that lines name; the lines or the archive are damaged."""
        records = [_resource(f"urn:{number}", body) for number, body in enumerate(_bodies(rng, 3))]
        made = archive("a.warc.gz", records, gzip.compress)
        data, lines = (
            made.data,
            b"".join(made.line(n, f"urn:{n}", mime="text/html") for n in range(3)),
        )
        if rng.random() < 0.5:
            lines = damaged(rng, lines, PLACES)
        else:
            data = damaged(rng, data, PACKED)
        (self._folder / "a.warc.gz").write_bytes(data)
        self._file("x.cdxj", lines)

    def schemas(self, rng: Random) -> None:
        """Read a message that names a schema."""
        self._messages([(0, None, damaged(rng, _avro(rng), PACKED))], self._with_schemas)

    def kafka(self, rng: Random) -> None:
        """Read what a broker sent, as the worker does; what the client refuses ends a worker."""
        data = damaged(rng, _batch(rng), PACKED)
        if rng.random() < 0.8:  # with the checksum of what is there now
            data = data[:CRC_AT] + calc_crc32c(data[CRC_FROM:]).to_bytes(4, "big") + data[CRC_FROM:]
        place = TopicPartition("pages", 0)
        try:
            records = list(
                PartitionRecords(
                    place, MemoryRecords(data), [(7, 0)], 0, None, None, True, READ_COMMITTED
                )
            )
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - a worker ends here, whatever it is, and skips nothing
            return
        offsets = [record.offset for record in records]
        if any(one >= next_one for one, next_one in pairwise(offsets)):
            return  # no broker takes such a batch in, or sends it
        end = offsets[-1] + 1 if records else 0
        for chunk in cut("pages", 0, 0, end, records) if records else ():
            self._messages([(one.offset, one.key, one.value) for one in chunk.records])

    def _file(self, name: str, data: bytes) -> list[bytes]:
        """Read a file; return the URLs of its pages."""
        path = self._folder / name
        path.write_bytes(data)
        try:
            sources = open_sources([str(path)], cdx_base=str(self._folder)).sources
        except InputError:  # its first bytes are those of a format that is not read
            return [FIRST.encode()]
        return [url for one in sources for url in self._judge.source(one, self._parser).urls]

    def _messages(self, messages: list[Any], parser: PageParser | None = None) -> None:
        """Read messages of one partition, as a worker does."""
        start, end = messages[0][0], messages[-1][0] + 1
        batch = (parser or self._parser).parse(Chunk(start, end, messages=messages))
        check_batch(batch, len(messages))
        self._judge.batch(batch)


FORMATS = ("json", "html", "warc", "compressed", "rows", "table", "wacz", "cdx", "schemas", "kafka")


def read_rounds(rounds: int, seed: int, first: int, folder: Path) -> list[str]:
    """Read all formats' inputs from number `first` on; the number of each is in a file `at`."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES_MAX, ADDRESS_BYTES_MAX))
    at, judge = os.open(folder / "at", os.O_CREAT | os.O_WRONLY), Judge(folder / "judge", bytes(32))
    violations: list[str] = []
    with fake_registry() as reported:
        reported.schemas["/schemas/ids/1"] = {"schema": PAGE_SCHEMA}
        reader = _Reader(folder, judge, SchemaRegistry(RegistryAddress(reported.url)))
        for place, kind in enumerate(FORMATS):
            begin, end = max(first, place * rounds), (place + 1) * rounds
            for number in range(WARM_UP if begin < end else 0):
                _faults(reader, kind, Random(f"warm/{number}"))
            gc.collect()
            reset_peak()
            idle = peak_bytes()
            for number in range(begin, end):
                os.pwrite(at, b"%12d" % number, 0)
                where = f"{kind}, round {number - place * rounds}, seed {seed}"
                said = _faults(reader, kind, Random(f"{kind}/{seed}/{number}"))
                violations += [f"{where}: {each}" for each in said]
            if (grown := peak_bytes() - idle) > GROWTH_BYTES_MAX:
                violations.append(f"{kind}, seed {seed}: grew by {grown >> 20} MiB")
    return violations


def _faults(reader: _Reader, kind: str, rng: Random) -> list[str]:
    """Read one input; return what is wrong with it."""
    start, found = time.process_time(), []
    try:
        getattr(reader, kind)(rng)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a violation
        place = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__}: {error}"[:200]
        found.append(f"{what} ({Path(place.filename).name}:{place.lineno})")
    seconds = time.process_time() - start
    if seconds > SECONDS_MAX:
        found.append(f"took {seconds:.1f} s")
    return found


# ---- in the process that watches -----------------------------------------------------------------


def run(rounds: int, seed: int, folder: Path) -> list[str]:
    """Have `rounds` inputs of each format read; where the reader dies, go on after that input."""
    violations: list[str] = []
    module = ["tests.campaign.records", str(rounds), str(seed)]
    for answer in watched(module, rounds * len(FORMATS), folder, SECONDS_STUCK):
        if isinstance(answer, bytes):
            violations += msgspec.json.decode(answer, type=list[str])
        else:
            place, one = divmod(max(answer.at, 0), rounds)
            violations.append(f"{FORMATS[place]}, round {one}, seed {seed}: {answer.how}")
    return violations


if __name__ == "__main__":
    _rounds, _seed, _first, _folder = sys.argv[1:]
    _done = read_rounds(int(_rounds), int(_seed), int(_first), Path(_folder))
    sys.stdout.buffer.write(msgspec.json.encode(_done))
