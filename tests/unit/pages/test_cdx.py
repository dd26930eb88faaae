"""CDX files: lines lead to records, and what is wrong with either is a dead letter."""

import json
from pathlib import Path
from typing import Any

import pytest

from streamer.errors import InputError, InvalidPage, SettingsError, SkippedRecord
from streamer.pages import cdx
from streamer.pages.archives import ArchiveRange
from streamer.pages.cdx import Capture, archives_root, parse_capture
from streamer.pages.chunk import Chunk, WarcPage
from streamer.pages.files import Source, open_sources
from streamer.pages.formats import CDX, format_by_name, format_of
from streamer.pages.warc import first_record
from tests.helpers.cdx import HEADER, archive
from tests.helpers.chunks import all_chunks, chunks_from_anywhere
from tests.helpers.pipes import arc_record, text_of, url_of, warc_record

A = archive("crawl/a.warc.gz", [*map(warc_record, range(60))])
FIELDS = {"url": "http://a.example/", "filename": "a.warc.gz", "offset": "5", "length": "7"}


def cdxj(**fields: object) -> bytes:
    return b"example,a)/ 20260101 " + json.dumps(FIELDS | fields).encode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "crawl").mkdir()
    (tmp_path / A.name).write_bytes(A.data)
    return tmp_path


def source(folder: Path, *lines: bytes, base: str = "") -> Source:
    (folder / "index.cdxj").write_bytes(b"".join(lines))
    [found] = open_sources([str(folder / "index.cdxj")], cdx_base=base).sources
    return found


def whole(chunks: list[Chunk]) -> list[WarcPage]:
    return [page for chunk in chunks for page in chunk.pages]


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("index.cdx", True), ("index.cdxj.gz", True), ("a/cdx-00123.gz", True),
        ("cdx-00123.gz", True), ("xcdx-00123.gz", False), ("cdx-1.gz", False),
    ],
)  # fmt: skip
def test_a_cdx_file_is_known_by_its_name(name: str, is_one: bool) -> None:
    assert (format_by_name(name) is CDX) is is_one


def test_a_cdx_file_is_known_by_its_beginning() -> None:
    assert format_of("-", HEADER) is CDX
    assert format_of("-", cdxj()) is CDX
    assert format_of("-", b'{"url": "u 20260101 {"}') is not CDX


@pytest.mark.parametrize(
    "line",
    [
        cdxj(),
        cdxj(offset=5, length=7, status="200", mime="text/html"),
        cdxj(offset=5.0, length=0.7e1, status=200.0),
        json.dumps(FIELDS).encode(),
        b"example,a)/ 20260101 http://a.example/ text/html 200 AA - - 7 5 a.warc.gz",
        b"example,a)/ 20260101 http://a.example/ text/html - AA - 7 5 a.warc.gz",
        "example,a)/b\u00a0\u3000c 20260101 http://a.example/ - - - - 7 5 a.warc.gz".encode(),
    ],
)
def test_a_line_names_a_place(line: bytes) -> None:
    wanted = Capture("http://a.example/", ArchiveRange("b/a.warc.gz", 5, 12))
    assert parse_capture(line, root="b") == wanted


@pytest.mark.parametrize(
    ("root", "name", "archive"),
    [
        ("https://host", "a/b.warc.gz", "https://host/a/b.warc.gz"),
        ("https://host", "/b.warc.gz", "https://host/b.warc.gz"),
        ("folder", "s3://bucket/b.warc.gz", "s3://bucket/b.warc.gz"),
        ("folder", "/other/b.warc.gz", "/other/b.warc.gz"),
        ("", "b.warc.gz", "b.warc.gz"),
    ],
)
def test_an_archive_is_below_the_root_or_elsewhere(root: str, name: str, archive: str) -> None:
    assert parse_capture(cdxj(filename=name), root=root).place.archive == archive


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"  \r", "blank_line"),
        (HEADER.rstrip(), "cdx_header"),
        (b'!meta {"a": 1}', "cdx_header"),
        (cdxj(mime="warc/revisit", status="404"), "warc_revisit"),
        (cdxj(status="301"), "status_not_2xx"),
        (cdxj(**{"mime-detected": "image/png"}), "type_not_text"),
    ],
)
def test_what_is_no_page_for_sure_is_skipped(line: bytes, code: str) -> None:
    with pytest.raises(SkippedRecord, match=code):
        parse_capture(line)


@pytest.mark.parametrize(
    "line",
    [
        b"no cdx", b"\xff\xfe a b", b'example,a)/ 20260101 {"url": ', b'{"url": []}',
        b"example,a)/ 20260101 " + b'{"a":' * 5_000,
        cdxj(url=""), cdxj(filename="-"), cdxj(offset="-"), cdxj(offset="-1"), cdxj(offset=5.5),
        cdxj(offset=1e300), cdxj(length="0"), cdxj(length="9" * 16),
        cdxj(filename="https://user:SECRET@host/a.warc.gz"), cdxj(filename="https://host//a.warc"),
        cdxj(filename="s3://bucket/a/../b.warc.gz"), cdxj(filename="s3://bucket/a\n.warc.gz"),
        b"a 2026 http://a.example/ text/html 200 AA - 5 a.warc.gz",  # no length
    ],
)  # fmt: skip
def test_what_is_no_cdx_line_is_refused(line: bytes) -> None:
    with pytest.raises(InvalidPage, match="bad_cdx_line") as caught:
        parse_capture(line)
    assert "SECRET" not in caught.value.detail


def test_the_base_is_no_signed_url() -> None:
    assert archives_root("https://host/a/") == "https://host/a"
    assert archives_root("/") == "/"
    with pytest.raises(SettingsError, match="a signed URL is of one file") as caught:
        archives_root("https://host/a?sig=SECRET")
    assert "SECRET" not in str(caught.value)
    with pytest.raises(InputError, match="a user or a password"):
        archives_root("https://a:b@host/a")


def test_pages_are_those_of_the_archive_in_the_order_of_the_lines(folder: Path) -> None:
    [read] = open_sources([str(folder / A.name)]).sources
    there = whole([*all_chunks(read)])
    lines = [A.line(number, url_of(number)) for number in range(60)]
    assert whole([*all_chunks(source(folder, *lines))]) == there
    backwards = whole([*all_chunks(source(folder, *lines[::-1], *lines[:2]))])
    assert [page.block for page in backwards] == [page.block for page in [*there[::-1], *there[:2]]]
    assert [page.sequence for page in backwards] == [*range(62)]
    in_columns = [HEADER, *(A.columns(number, url_of(number)) for number in range(60))]
    assert [page.block for page in whole([*all_chunks(source(folder, *in_columns))])] == [
        page.block for page in there
    ]


def test_archives_that_are_not_compressed_and_arc_files_are_read(folder: Path) -> None:
    plain = archive("plain.warc", [*map(warc_record, range(5))], packed=bytes)
    arc = archive("old.arc.gz", [*map(arc_record, range(5))])
    for each in (plain, arc):
        (folder / each.name).write_bytes(each.data)
    lines = [each.line(n, url_of(n)) for each in (plain, arc, A) for n in (4, 0)]
    chunks = [*all_chunks(source(folder, *lines))]
    assert [page.block.endswith(text_of(4).encode()) for page in whole(chunks)] == 3 * [True, False]
    assert [(chunk.start, chunk.end) for chunk in chunks] == [(0, 2), (2, 4), (4, 6)]


def test_reading_on_gives_the_same_chunks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.pages.chunk.CHUNK_BYTES_MAX", 3_000)
    monkeypatch.setattr(cdx, "WINDOW_LINES", 7)
    lines = [A.line(number, url_of(number)) for number in range(60)]
    lines[5], lines[17] = b"no cdx\n", A.line(1, url_of(1), mime="warc/revisit")
    chunks = chunks_from_anywhere(source(folder, *lines))
    assert len(chunks) > 4
    assert [chunk.end for chunk in chunks[:-1]] == [chunk.start for chunk in chunks[1:]]
    assert (chunks[0].start, chunks[-1].end) == (0, 60)


def test_places_that_are_wrong_are_dead_letters_and_the_others_are_read(folder: Path) -> None:
    bomb = bytes(40 << 20)
    torn = archive("torn.warc.gz", [warc_record(0), warc_record(1)[:-9], bomb, b"no record"])
    (folder / torn.name).write_bytes(torn.data[:-4])
    (folder / "a-folder").mkdir()
    offset, length = torn.places[0]
    lines = [
        torn.line(0, url_of(0)),
        torn.line(0, url_of(1)),
        torn.line(0, url_of(0), offset=str(offset + 1)),
        torn.line(0, url_of(0), length=str(length - 1)),
        torn.line(1, url_of(1)),
        torn.line(2, url_of(1)),
        torn.line(3, url_of(1)),
        torn.line(0, url_of(0), offset="999999"),
        torn.line(0, url_of(0), length=str(1 << 40)),
        torn.line(0, url_of(0), filename="none.warc.gz"),
        torn.line(0, url_of(0), filename="a-folder"),
        torn.line(0, url_of(0), filename="a" * 5_000),
        b"no cdx " + b"x" * 200_000 + b"\n",
        torn.line(0, url_of(0)),
    ]
    chunks = [*all_chunks(source(folder, *lines))]
    assert [page.sequence for page in whole(chunks)] == [0, 13]
    dead = {each.sequence: each for chunk in chunks for each in chunk.dead}
    assert [dead[number].code for number in range(1, 13)] == [
        "wrong_record", "bad_warc_record", "damaged_member", "bad_warc_record",
        "record_too_large", "damaged_member", "archive_unreadable", "record_too_large",
        "archive_unreadable", "archive_unreadable", "archive_unreadable", "bad_cdx_line",
    ]  # fmt: skip
    assert dead[1].detail == (
        f"it has another URL than the line; bytes 0 to {length} of {folder}/torn.warc.gz"
    )
    for number in range(1, 12):
        assert (dead[number].value, dead[number].value_bytes) == (
            lines[number].rstrip(), len(lines[number]) - 1
        )  # fmt: skip
    assert (dead[12].value_bytes, len(dead[12].value)) == (200_007, 64 << 10)


def test_a_replaced_archive_ends_the_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cdx, "WINDOW_LINES", 1)
    monkeypatch.setattr(cdx, "WINDOWS_AHEAD", 1)

    def then_replaced(*arguments: Any) -> WarcPage | str:
        (folder / A.name).write_bytes(other)
        return first_record(*arguments)

    monkeypatch.setattr(cdx, "first_record", then_replaced)
    lines = [A.line(number, url_of(number)) for number in range(3)]
    other = A.data + A.data  # grown
    assert len(whole([*all_chunks(source(folder, *lines))])) == 3
    other = b"\x1f\x8b other" + A.data[8:]
    with pytest.raises(InputError, match=r"a.warc.gz: has changed while it was read"):
        list(all_chunks(source(folder, *lines)))
