import gzip
import io
from pathlib import Path

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st
from warcio.recordloader import ArcWarcRecord
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from streamer.compression import zstd
from streamer.errors import InputError
from streamer.pages.chunk import CHUNK_RECORDS_MAX, Ending, PageBatch
from streamer.pages.files import Source
from streamer.pages.parse import PageParser
from streamer.pages.warc import HEADERS_BYTES_MAX
from streamer.text.visible import HTML
from tests.helpers.chunks import all_chunks

PAGE = b"<html><body><p>Bread at five, cake at six.</p></body></html>"
URL = "http://bakery.example/"
HTML_TYPE = ("Content-Type", "text/html; charset=utf-8")


WIDE = "\n<p>page".encode("utf-16-le")


def record(
    block: bytes,
    kind: str = "response",
    content_type: str | None = "application/http; msgtype=response",
    **headers: str,
) -> bytes:
    """Return one record, by hand, so that it may be wrong."""
    lines = ["WARC/1.0", f"WARC-Type: {kind}", f"WARC-Target-URI: {URL}"]
    if content_type:
        lines.append(f"Content-Type: {content_type}")
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named.setdefault("Content-Length", str(len(block)))
    lines += [f"{name}: {value}" for name, value in named.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + block + b"\r\n\r\n"


def response(body: bytes, *headers: tuple[str, str], status: str = "200 OK") -> bytes:
    head = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers)]
    return record("\r\n".join(head).encode() + b"\r\n\r\n" + body)


def parse(path: Path, content: bytes, limit: int = 1 << 20) -> PageBatch:
    """Return all of a file's records in one batch, after a check that none is lost."""
    path.write_bytes(content)
    parser = PageParser(page_bytes_max=limit)
    whole: PageBatch | None = None
    source = Source(str(path), is_regular=True, page_bytes_max=limit)
    for chunk in all_chunks(source):
        batch = parser.parse(chunk)
        assert len(batch) + len(batch.dead) + batch.skipped.total() == batch.end - batch.start
        whole = whole or batch
        if whole is not batch:
            assert batch.start == whole.end
            whole.end = batch.end
            whole.bodies = [*whole.bodies, *batch.bodies]
            whole.sequences += batch.sequences
            whole.dead += batch.dead
            whole.skipped += batch.skipped
    assert whole is not None
    return whole


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "crawl.warc"


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warc") / "crawl.warc"


def codes(batch: PageBatch) -> list[tuple[int, str]]:
    return [(dead.sequence, dead.code) for dead in batch.dead]


@pytest.mark.parametrize("packed", [True, False])
def test_records_of_the_usual_writer_are_read(path: Path, packed: bool) -> None:
    out = io.BytesIO()
    writer = WARCWriter(out, gzip=packed)
    headers = StatusAndHeaders("200 OK", [HTML_TYPE], protocol="HTTP/1.1")
    for kind in ("response", "request", "revisit", "metadata", "strange", "resource", "conversion"):
        block = {"response": headers.to_ascii_bytes() + PAGE, "revisit": b""}.get(kind, PAGE)
        fields = [("WARC-Type", kind), ("WARC-Target-URI", URL)]
        named = StatusAndHeaders("", fields, protocol="WARC/1.1")
        said = "application/http" if kind == "response" else "text/plain"
        body = io.BytesIO(block)
        writer.write_record(ArcWarcRecord("warc", kind, named, body, None, said, len(block)))
    batch = parse(path, out.getvalue())
    assert batch.sequences == [0, 5, 6]
    assert batch.urls == [URL.encode()] * 3
    assert list(batch.bodies) == [PAGE] * 3
    assert batch.flags[0] == HTML
    assert batch.skipped == {
        f"warc_{kind}": 1 for kind in ("request", "revisit", "metadata", "other")
    }


def test_one_gzip_member_around_all_records_is_read(path: Path) -> None:
    assert parse(path, gzip.compress(response(PAGE, HTML_TYPE) * 3)).sequences == [0, 1, 2]


def test_chunks_end_at_so_many_records(path: Path) -> None:
    most = CHUNK_RECORDS_MAX
    path.write_bytes(response(b"x", HTML_TYPE) * (most + 1))
    chunks = list(all_chunks(Source(str(path), is_regular=True)))
    assert [(chunk.start, chunk.end) for chunk in chunks] == [(0, most), (most, most + 1)]


@pytest.mark.parametrize(
    ("kind", "accepted"),
    [
        ("TEXT/plain;charset=x", True),
        ("application/rss+xml", True),
        ("image/png", False),
        ("application/json", False),
    ],
)
def test_the_type_decides_what_is_a_page(path: Path, kind: str, accepted: bool) -> None:
    batch = parse(path, response(PAGE, ("content-type", kind)))
    assert batch.skipped == ({} if accepted else {"type_not_text": 1})
    assert len(batch) == accepted


def test_the_type_that_the_crawler_found_counts_before_the_servers(path: Path) -> None:
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + PAGE
    content = record(block, WARC_Identified_Payload_Type="application/pdf")
    assert parse(path, content).skipped == {"type_not_text": 1}


def test_text_that_was_made_of_another_type_is_text(path: Path) -> None:
    content = record(
        b"words", "conversion", "text/plain", WARC_Identified_Payload_Type="application/pdf"
    )
    batch = parse(path, content)
    assert (list(batch.bodies), batch.flags) == ([b"words"], [0])


def test_a_body_without_a_type_is_looked_at(path: Path) -> None:
    assert parse(path, response(PAGE)).flags == [HTML]
    assert parse(path, response(b"%PDF-1.7\n\x00\x01")).skipped == {"body_pdf": 1}
    types = ("Content-Type", "text/plain"), ("Content-Type", "text/html")
    assert parse(path, response(PAGE, *types)).flags == [HTML], "several are one list"


def test_what_crawlers_write_about_themselves_is_skipped(path: Path) -> None:
    log = record(b"a log", "resource", "text/plain").replace(URL.encode(), b"metadata://wget/log")
    assert parse(path, log).skipped == {"crawler_metadata": 1}


def test_a_response_that_is_not_http_is_skipped(path: Path) -> None:
    content = record(b"20260101\nbakery.example. 60 IN A 192.0.2.1\n", content_type="text/dns")
    assert parse(path, content).skipped == {"response_not_http": 1}


def in_chunks(body: bytes) -> bytes:
    half = len(body) // 2
    first, second = body[:half], body[half:]
    return b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(first), first, len(second), second)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (in_chunks(PAGE), [("Transfer-Encoding", "chunked")]),
        (in_chunks(PAGE), []),
        (in_chunks(PAGE), [("X-Crawler-Transfer-Encoding", "chunked")]),
        (PAGE, [("Transfer-Encoding", "chunked")]),
        (brotli.compress(PAGE), [("X-Crawler-Content-Encoding", "br")]),
        (in_chunks(gzip.compress(PAGE)), [("Transfer-Encoding", "gzip, chunked")]),
        (in_chunks(gzip.compress(PAGE)), [("Content-Encoding", "gzip")]),
        (b"\r\n" + in_chunks(gzip.compress(PAGE)), [("Transfer-Encoding", "gzip, chunked")]),
        (b"\n\n" + gzip.compress(PAGE), [("Content-Encoding", "gzip")]),
    ],
    ids=range(9),  # gzip writes the time: bytes would name the tests differently in each process
)
def test_transfer_and_content_encodings_are_undone_whatever_the_headers_say(
    path: Path, body: bytes, headers: list[tuple[str, str]]
) -> None:
    assert list(parse(path, response(body, HTML_TYPE, *headers)).bodies) == [PAGE]


def test_a_bomb_and_a_torn_body_are_dead_letters_with_the_bytes_as_stored(path: Path) -> None:
    bomb, torn = gzip.compress(bytes(1 << 17)), gzip.compress(PAGE)[:-9]
    content = response(bomb, HTML_TYPE) + response(torn, HTML_TYPE) + response(PAGE, HTML_TYPE)
    batch = parse(path, content, limit=1 << 16)
    assert codes(batch) == [(0, "decompressed_too_large"), (1, "bad_content_encoding")]
    assert batch.dead[0].value.endswith(bomb)
    assert batch.sequences == [2]


def test_a_record_over_the_limit_is_passed_over(path: Path) -> None:
    content = response(b"x" * 300_000, HTML_TYPE) + response(PAGE, HTML_TYPE)
    batch = parse(path, content, limit=1000)
    assert codes(batch) == [(0, "record_too_large")]
    assert batch.dead[0].value_bytes > 300_000
    assert len(batch.dead[0].value) == 1000
    assert list(batch.bodies) == [PAGE]


def test_an_empty_body_is_a_dead_letter(path: Path) -> None:
    assert codes(parse(path, response(b" \r\n", HTML_TYPE))) == [(0, "empty_body")]


@pytest.mark.parametrize(
    "block",
    [
        b"HTTP/1.1 fine\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * (HEADERS_BYTES_MAX // 6 + 1) + b"\r\nx",
    ],
)
def test_a_response_with_unusable_http_headers_is_a_dead_letter(path: Path, block: bytes) -> None:
    assert codes(parse(path, record(block))) == [(0, "bad_warc_record")]


@pytest.mark.parametrize(
    "garbage",
    [
        b"garbage\r\n",
        b"g" * (2 * HEADERS_BYTES_MAX) + b"WARC/1.0 within a line\n",
        b"WARC/1.0\r\nWARC-Type: response\r\n\r\nno length\r\n",
        b"WARC/1.0\r\nContent-Length: -5\r\n\r\n",
        b"WARC/1.0\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n",
        b"WARC/1.0\r\nContent-Length: 0\r\n" + b"a: b\r\n" * (HEADERS_BYTES_MAX // 6 + 2) + b"\r\n",
    ],
)
def test_garbage_is_one_dead_letter_and_the_next_record_is_read(path: Path, garbage: bytes) -> None:
    good = response(PAGE, HTML_TYPE)
    batch = parse(path, good + garbage + good)
    assert codes(batch) == [(1, "bad_warc_record")]
    assert batch.dead[0].value_bytes == len(garbage)
    assert batch.sequences == [0, 2]


def test_a_length_that_is_too_short_costs_only_its_record_and_the_rest_of_it(path: Path) -> None:
    short = record(b"HTTP/1.1 200 OK\r\n\r\nshort and more", Content_Length="24")
    batch = parse(path, short + response(PAGE, HTML_TYPE))
    assert codes(batch) == [(1, "bad_warc_record")]
    assert list(batch.bodies) == [b"short", PAGE]


@given(st.integers(1, 600))
def test_a_file_cut_anywhere_gives_its_complete_records(scratch: Path, cut: int) -> None:
    good = response(PAGE, HTML_TYPE)
    content = (good * 3)[: -min(cut, 2 * len(good))]
    batch = parse(scratch, content)
    whole = (len(content) + 4) // len(good)  # the blank lines after a record may be missing
    assert batch.sequences == list(range(whole))
    assert set(codes(batch)) <= {(whole, "truncated_input"), (whole, "bad_warc_record")}


@pytest.mark.parametrize("tail", [gzip.compress(response(PAGE))[:-20], b"\x1f\x8bgarbage"])
def test_what_damage_cuts_off_is_left_and_told(path: Path, tail: bytes) -> None:
    member = gzip.compress(response(PAGE, HTML_TYPE))
    path.write_bytes(member * 2 + tail)
    source, ending = Source(str(path), is_regular=True), Ending()
    (chunk,) = all_chunks(source, ending)
    assert ([page.sequence for page in chunk.pages], chunk.dead) == ([0, 1], [])
    assert f"begins at byte {2 * len(member):,}" in ending.damage


@given(st.lists(st.one_of(st.binary(max_size=60), st.just(response(PAGE, HTML_TYPE)))))
def test_any_warc_ends_in_pages_dead_letters_or_counts(scratch: Path, parts: list[bytes]) -> None:
    parse(scratch, b"WARC/1.0\r\n" + b"\r\n".join(parts))  # checks that no ordinal is lost


def test_a_target_in_brackets_is_the_url_in_them(path: Path) -> None:
    content = response(PAGE, HTML_TYPE).replace(URL.encode(), f"<{URL}>".encode())
    assert parse(path, content).urls == [URL.encode()]


@pytest.mark.parametrize(
    "before",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n",
        b"HTTP/1.1 200 Connection established\r\n\r\n",
        b"HTTP/2 200\r\nX-Proxy: a\r\n\r\n" * 3,
        b"ICY 200 OK\r\n\r\n\r\n",
        b"http/1.0 200 ok\n\n",
    ],
)
def test_of_several_heads_of_a_response_the_last_counts(path: Path, before: bytes) -> None:
    head = b"HTTP/1.1 %d x\r\nContent-Type: text/html\r\n\r\n"
    batch = parse(path, record(before + head % 200 + PAGE))
    assert ([*map(bytes, batch.bodies)], batch.flags) == ([PAGE], [HTML])
    assert parse(path, record(before + head % 404 + PAGE)).skipped == {"status_not_2xx": 1}
    wide = parse(path, record(head.replace(b"html", b"html;charset=utf-16-le") % 200 + WIDE))
    assert [*map(bytes, wide.bodies)] == [WIDE.decode("utf-16-le").encode()]


def with_dictionary(records: list[bytes], *, packed: bool) -> bytes:
    samples = [response(b"<p>%d words to train with" % i, HTML_TYPE) for i in range(400)]
    book = zstd.train_dict(samples, 4000)
    stored = zstd.compress(book.dict_content) if packed else book.dict_content
    head = b"\x5d\x2a\x4d\x18" + len(stored).to_bytes(4, "little") + stored
    return head + b"".join(zstd.compress(each, zstd_dict=book) for each in records)


@pytest.mark.parametrize("packed", [True, False])
def test_a_file_of_zstd_frames_may_begin_with_its_dictionary(tmp_path: Path, packed: bool) -> None:
    records = [response(b"<p>page %d" % i, HTML_TYPE) for i in range(8)]
    content = with_dictionary(records, packed=packed)
    for name, data in (
        ("plain.warc.zst", b"".join(map(zstd.compress, records))), ("own.warc.zst", content),
    ):  # fmt: skip
        batch = parse(tmp_path / name, data)
        assert [*map(bytes, batch.bodies)] == [b"<p>page %d" % i for i in range(8)]
    for cut in (6, 100):
        with pytest.raises(InputError, match="dictionary cannot be read"):
            parse(tmp_path / "cut.warc.zst", content[:cut])
