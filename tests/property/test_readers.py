"""Each reader, with labels, framings and encodings at random: no record is lost or read twice.

A file as a whole is read or refused in one sentence; each of its records is a page, a dead letter
or a count.
"""

import base64
import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from pyarrow import feather, parquet

from streamer.compression import zstd
from streamer.errors import StreamerError
from streamer.pages.files import open_sources
from streamer.pages.parse import PageParser
from tests.campaign.judging import check_batch
from tests.helpers.cdx import warc_record
from tests.helpers.chunks import all_chunks

TEXTS = (
    "The council closed the old bridge", "<!-- a --> <p>Совет закрыл старый мост</p>",
    "市议会关闭了旧桥", "<html><head><meta charset=koi8-r></head>мост", "\U0001f600 ⠃⠗",
    "%PDF-1.7 %%EOF", "PK\x03\x04 office", '{"a": [1, 2]}', "body { color: red }",
    "\ufeffbridge", " \r\n", "",
)  # fmt: skip
CHARSETS = ("utf-8", "utf-16", "utf-16-le", "windows-1251", "koi8-r", "gb18030", "shift_jis")
TYPES = (
    "", "text/html", "TEXT/HTML ; charset=koi8-r", 'text/html;charset="utf-16"', "text/css",
    "text/html, text/plain", "application/pdf", "application/json", ";;;", "html",
    "text/plain; a=b", "application/octet-stream", "application/xhtml+xml;charset=x-unknown",
    "image/png, text/html",
)  # fmt: skip
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes, "identity": bytes, "gzip": gzip.compress, "x-gzip": gzip.compress,
    "deflate": zlib.compress, "zstd": zstd.compress, "aws-chunked": bytes, "utf-8": bytes,
}  # fmt: skip


class Drawn(NamedTuple):
    """A page as a producer might write it; what it says of its encoding need not be true."""

    body: bytes
    content_type: str
    said: str


def drawn(text: str, charset: str, content_type: str, packed: str, said: str | None) -> Drawn:
    body = PACKED[packed](text.encode(charset, "replace"))
    return Drawn(body, content_type, packed if said is None else said)


PAGES = st.lists(
    st.builds(
        drawn,
        st.sampled_from(TEXTS) | st.text(max_size=20),
        st.sampled_from(CHARSETS),
        st.sampled_from(TYPES) | st.text(st.characters(codec="latin-1"), max_size=9),
        st.sampled_from(list(PACKED)),
        st.none() | st.sampled_from([*PACKED, "br", "gzip, gzip", "no such"]),
    ),
    min_size=1,
    max_size=6,
)


def messages(pages: list[Drawn]) -> list[bytes]:
    names = "url", "body_base64", "content_type", "content_encoding"
    rows = [
        (f"http://a.example/{number}", base64.b64encode(each.body).decode(), *each[1:])
        for number, each in enumerate(pages)
    ]
    return [json.dumps(dict(zip(names, row, strict=True))).encode() for row in rows]


def table(pages: list[Drawn]) -> pa.Table:
    names = "url", "body", "content_type", "content_encoding"
    urls = [f"http://a.example/{number}" for number in range(len(pages))]
    columns = (urls, *zip(*pages, strict=True))
    return pa.table(dict(zip(names, map(list, columns), strict=True)))


def as_table(pages: list[Drawn], write: Callable[[pa.Table, pa.BufferOutputStream], None]) -> bytes:
    sink = pa.BufferOutputStream()
    write(table(pages), sink)
    return bytes(sink.getvalue())


def separated(pages: list[Drawn], delimiter: str) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerow(["url", "body", "content_type"])
    for number, each in enumerate(pages):
        body = each.body.decode("latin-1").replace("\0", "0")
        cells = [f"http://a.example/{number}", body, each.content_type]
        if delimiter == "\t":  # which has no quoting
            cells = [
                " ".join(cell.replace("\t", " ").splitlines()).replace('"', "'") for cell in cells
            ]
        writer.writerow(cells)
    return out.getvalue().encode()


def response(each: Drawn) -> bytes:
    named = {"Content-Type": each.content_type, "Content-Encoding": each.said}
    heads = [f"{name}: {' '.join(value.split())}\r\n" for name, value in named.items() if value]
    return "".join(["HTTP/1.1 200 OK\r\n", *heads, "\r\n"]).encode("latin-1") + each.body


def warc(pages: list[Drawn], pack: Callable[[bytes], bytes] = bytes) -> bytes:
    found = b""
    for number, each in enumerate(pages):
        kind = ("Content-Type", "application/http")
        url = f"<http://a.example/{number}>"
        found += pack(warc_record("response", url, response(each), kind))
    return found


def arc(pages: list[Drawn]) -> bytes:
    found = b"filedesc://a.arc 0.0.0.0 20260101000000 text/plain 10\n1 0 a\n\nURL\n"
    for number, each in enumerate(pages):
        block = response(each)
        head = f"http://a.example/{number} 10.0.0.1 20260101000000 text/html {len(block)}\n"
        found += head.encode() + block + b"\n"
    return found


# The name of a file, what it holds, and how many records there are next to those of pages.
READERS: dict[str, tuple[Callable[[list[Drawn]], bytes], int]] = {
    "lines.jsonl": (lambda pages: b"\n".join(messages(pages)) + b"\n", 0),
    "array.json": (lambda pages: b"[" + b",\n".join(messages(pages)) + b"]", 0),
    "row.jsonl": (lambda pages: b" ; ".join(messages(pages)), 0),
    "lines.jsonl.gz": (lambda pages: gzip.compress(b"\n".join(messages(pages))), 0),
    "pages.csv": (lambda pages: separated(pages, ","), 0),
    "pages.tsv": (lambda pages: separated(pages, "\t"), 0),
    "pages.parquet": (lambda pages: as_table(pages, parquet.write_table), 0),
    "pages.arrow": (lambda pages: as_table(pages, feather.write_feather), 0),
    "pages.warc": (warc, 0),
    "pages.warc.gz": (lambda pages: warc(pages, gzip.compress), 0),
    "pages.arc": (arc, 1),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("readers")


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(pages=PAGES)
def test_a_record_is_page_dead_letter_or_count(folder: Path, name: str, pages: list[Drawn]) -> None:
    make, others = READERS[name]
    path = folder / name
    path.write_bytes(make(pages))
    parser, at, found = PageParser(), 0, []
    try:
        source = open_sources([str(path)]).sources[0]
        for chunk in all_chunks(source):
            batch = parser.parse(chunk)
            check_batch(batch, chunk.end - chunk.start)
            assert batch.start == at
            at = batch.end
            found += [*batch.urls, *(letter.code for letter in batch.dead)]
    except StreamerError as error:
        event(f"refused: {str(error)[-60:]}")
        return
    assert at == len(pages) + others
    if small := source.read_small():
        event("small")
        batch = parser.parse(small[0])
        assert [*batch.urls, *(letter.code for letter in batch.dead)] == found
