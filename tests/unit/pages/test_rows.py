"""CSV and TSV as records: each row is an object under the names of the first row."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import InputError
from streamer.pages.chunk import Chunk, Ending
from streamer.pages.files import Source
from streamer.pages.rows import COLUMNS_MAX
from tests.helpers.chunks import all_chunks

NAMES = ["url", "body", "score"]
CELLS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def read(path: Path, ending: Ending | None = None, limit: int = 1 << 20) -> list[Chunk]:
    return list(all_chunks(Source(str(path), is_regular=True, page_bytes_max=limit), ending))


def rows_of(chunks: list[Chunk]) -> list[object]:
    return [msgspec.json.decode(line) for chunk in chunks for line in chunk.lines]


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows")


@given(
    st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=6),
    st.sampled_from([(".csv", ","), (".tsv", "\t")]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_what_csv_writes_is_read_again(
    scratch: Path,
    rows: list[list[str]],
    kind: tuple[str, str],
    end: str,
    packed: bool,  # noqa: FBT001 - drawn
) -> None:
    suffix, delimiter = kind
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([NAMES, *rows])
    data = b"\xef\xbb\xbf" * packed + text.getvalue().encode()
    path = scratch / f"pages{suffix}{'.gz' * packed}"
    path.write_bytes(gzip.compress(data) if packed else data)
    ending = Ending()
    chunks = read(path, ending)
    assert rows_of(chunks) == [dict(zip(NAMES, row, strict=True)) for row in rows]
    assert not ending.damage
    assert [chunk.start for chunk in chunks] == [0] * bool(rows)


def test_rows_that_do_not_fit_the_first_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "pages.csv"
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
    with pytest.raises(InputError, match="a quote is not closed"):
        list(Source(str(path), is_regular=True).read())


@pytest.mark.parametrize("row", [b"x" * 9000, b'"' + b"x\n" * 4500, b'"xx",' * 1800])
def test_memory_is_bounded_by_the_page_limit(tmp_path: Path, row: bytes) -> None:
    path, ending = tmp_path / "pages.csv", Ending()
    path.write_bytes(b"url,body\nu,b\n" + row + b"\nv,c\n")
    assert rows_of(read(path, ending, limit=2048)) == [{"url": "u", "body": "b"}]
    assert "a row of more than 8,192 characters" in ending.damage


def test_a_row_over_the_page_limit_is_a_dead_letter_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "pages.csv"
    path.write_bytes(b"url,body\nu,b\nv," + b"x" * 3000 + b"\nw,c\n")
    chunks = read(path, limit=2048)
    assert [(dead.sequence, dead.code) for chunk in chunks for dead in chunk.dead] == [
        (1, "record_too_large")
    ]
    assert rows_of(chunks) == [{"url": "u", "body": "b"}, {"url": "w", "body": "c"}]


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "pages.csv"
    path.write_bytes(b"url,body,url\na,b,c\n")
    with pytest.raises(InputError, match=r"csv: its first row has the column 'url' twice; rename"):
        read(path)


def test_a_first_row_of_very_many_columns_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "pages.csv"
    path.write_bytes(b"url,body" + b"," * (3 << 20) + b"\nu,b\n")
    with pytest.raises(InputError, match=r"first row has 3,145,730 columns, and at most 16,384"):
        read(path)
    names = [f"c{number}" for number in range(COLUMNS_MAX - 2)]
    path.write_text(",".join(["url", "body", *names]) + "\nu,b\n")
    assert rows_of(read(path)) == [{"url": "u", "body": "b"}]
