"""CSV and TSV as records: each row is an object under the names of the first row."""

import csv
import gzip
import io
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import InputError
from streamer.pages.chunk import Chunk, Ending
from streamer.pages.files import Source
from streamer.pages.parse import PageParser
from streamer.pages.rows import COLUMNS_MAX
from tests.helpers.chunks import all_chunks

NAMES = ["url", "body", "score"]
# Of control characters those of texts alone: with others a short file looks like UTF-16.
CELLS = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], include_characters="\t\r\n"), max_size=12
)


def read(path: Path, ending: Ending | None = None, limit: int = 1 << 20) -> list[Chunk]:
    return list(all_chunks(Source(str(path), is_regular=True, page_bytes_max=limit), ending))


def rows_of(chunks: list[Chunk]) -> list[object]:
    return [msgspec.json.decode(line) for chunk in chunks for line in chunk.lines]


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pages.csv"


@given(
    st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=6),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_written_csv_is_read(scratch: Path, rows: list[list[str]], end: str, packed: bool) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([NAMES, *rows])
    data = b"\xef\xbb\xbf" * packed + text.getvalue().encode()
    path = scratch / f"pages.csv{'.gz' * packed}"
    path.write_bytes(gzip.compress(data) if packed else data)
    ending = Ending()
    chunks = read(path, ending)
    assert rows_of(chunks) == [dict(zip(NAMES, row, strict=True)) for row in rows]
    assert not ending.damage
    assert [chunk.start for chunk in chunks] == [0] * bool(rows)


def test_a_quote_in_tsv_is_a_character_and_a_backslash_n_no_cell(tmp_path: Path) -> None:
    path = tmp_path / "pages.tsv"
    path.write_text(
        'url\tbody\tscore\nu1\t"He said\t\\N\nu2\tof 5.25" and "more"\tx\nu3\t""\t\n',
        encoding="utf-8",
    )
    ending = Ending()
    assert rows_of(read(path, ending)) == [
        {"url": "u1", "body": '"He said', "score": None},
        {"url": "u2", "body": 'of 5.25" and "more"', "score": "x"},
        {"url": "u3", "body": '""', "score": ""},
    ]
    assert not ending.damage


def test_rows_that_do_not_fit_the_first_are_told_apart(path: Path) -> None:
    path.write_bytes(b'url,body\nu,b\nonly\n\nu,b,more\n"x"y,z\nu,\xff\nlast,one')
    assert [line.rstrip() for chunk in read(path) for line in chunk.lines] == [
        b'{"url":"u","body":"b"}',
        b'{"url":"only"}',
        b"",
        b'["u","b","more"]',
        b'"\\"x\\"y,z\\n"',
        '{"url":"u","body":"\ufffd"}'.encode(),
        b'{"url":"last","body":"one"}',
    ]


def test_a_quote_that_is_never_closed_is_damage_and_no_record(tmp_path: Path) -> None:
    path, ending = tmp_path / "pages.csv", Ending()
    path.write_bytes(b'url,body\nu,b\nv,"cut off\n' + b"w,c\n" * 9)
    assert rows_of(read(path, ending)) == [{"url": "u", "body": "b"}]
    assert "a quote is not closed" in ending.damage


@pytest.mark.parametrize("row", [b"x" * 9000, b'"' + b"x\n" * 4500, b'"xx",' * 1800])
def test_memory_is_bounded_by_the_page_limit(tmp_path: Path, row: bytes) -> None:
    path, ending = tmp_path / "pages.csv", Ending()
    path.write_bytes(b"url,body\nu,b\n" + row + b"\nv,c\n")
    assert rows_of(read(path, ending, limit=2048)) == [{"url": "u", "body": "b"}]
    assert "a row of more than 8,192 characters" in ending.damage


def test_a_quote_that_swallows_rows_is_a_dead_letter(path: Path) -> None:
    rows = [f"https://a.example/{n},text {n}\n" for n in range(9)]
    rows[2:7] = [rows[2].replace(",", ',"'), *rows[3:6], rows[6].replace("\n", '"\n')]
    path.write_text("url,body,,\n" + "".join(rows))  # names of columns may be missing
    lines = [bytes(line) for chunk in read(path) for line in chunk.lines]
    assert [line[:1] for line in lines] == [b"{", b"{", b'"', b"{", b"{"]


@pytest.mark.parametrize(
    "row", [r'"a \"b\" c",d', r'"a \", b","x, y"', r'"a \", b"', r'"a \", \"b"', '"a \\""\nv,"c"']
)
def test_quotes_behind_backslashes_are_named_as_these(tmp_path: Path, row: str) -> None:
    path, ending = tmp_path / "pages.csv", Ending()
    path.write_text(f'url,body,title\nu,"C:\\dir\\",\nu,{row}\n')
    [chunk] = read(path)
    good, bad = (PageParser().parse(replace(chunk, lines=chunk.lines[i : i + 1])) for i in (0, 1))
    assert (len(good), len(bad)) == (1, 0)
    assert "quotes are escaped by backslashes" in bad.dead[0].detail
    path.write_text('url,body\nu,"5\\""\n')
    assert read(path, ending) == []
    assert "quotes are escaped by backslashes" in ending.damage


def test_what_separates_cells_is_named_where_it_is_not_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "pages.csv").write_text("url;body\nu;b\n")
    with pytest.raises(InputError, match="separated by ';' and not by a comma; write it again"):
        read(tmp_path / "pages.csv")
    (tmp_path / "pages.tsv").write_bytes(b"url\tbody\nu\tone\rtwo\n")
    assert rows_of(read(tmp_path / "pages.tsv")) == [{"url": "u", "body": "one two"}]


def test_a_row_over_the_page_limit_is_a_dead_letter_of_its_own(path: Path) -> None:
    path.write_bytes(b"url,body\nu,b\nv," + b"x" * 3000 + b"\nw,c\n")
    chunks = read(path, limit=2048)
    assert [(dead.sequence, dead.code) for chunk in chunks for dead in chunk.dead] == [
        (1, "record_too_large")
    ]
    assert rows_of(chunks) == [{"url": "u", "body": "b"}, {"url": "w", "body": "c"}]


def test_two_columns_of_one_name_are_refused(path: Path) -> None:
    path.write_bytes(b"url,body,url\na,b,c\n")
    with pytest.raises(InputError, match=r"csv: its first row has the column 'url' twice; rename"):
        read(path)


def test_a_first_row_of_very_many_columns_is_refused_at_once(path: Path) -> None:
    path.write_bytes(b"url,body" + b"," * (3 << 20) + b"\nu,b\n")
    with pytest.raises(InputError, match=r"line 0 .* a row of 3,145,73. cells, and at most 16,384"):
        read(path)
    names = [f"c{number}" for number in range(COLUMNS_MAX - 2)]
    path.write_text(",".join(["url", "body", *names]) + "\nu,b\n")
    assert rows_of(read(path)) == [{"url": "u", "body": "b"}]
    commas = "a\n" + "1," * COLUMNS_MAX  # in a cell
    path.write_text(f'url,body\nu,"{commas}"\nv{commas}')
    assert rows_of(read(path, ending := Ending())) == [{"url": "u", "body": commas}, {"url": "va"}]
    assert "a row of 16,385 cells, and at most 16,384 are read" in ending.damage
