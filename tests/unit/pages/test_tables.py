"""Parquet and Arrow files as records."""

import base64
import datetime as dt
import decimal
import importlib
import itertools
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from streamer.errors import InputError, SettingsError
from streamer.pages.chunk import CHUNK_BYTES_MAX, Chunk, Ending
from streamer.pages.files import Source, open_sources
from tests.helpers.chunks import all_chunks, chunks_from_anywhere
from tests.unit.pages.test_table_copy import write


@pytest.fixture(params=["pages.parquet", "stream.arrow", "pages.feather"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


def pages(count: int) -> Any:
    return pa.table(
        {
            "url": [f"https://a.example/{i}" for i in range(count)],
            "body": [f"text {i}" for i in range(count)],
            "vector": [[float(i)] * 3 for i in range(count)],
        }
    )


def source_of(path: Path, columns: set[str] | None = None, limit: int = 1 << 20) -> Source:
    wanted = None if columns is None else frozenset(columns)
    return Source(str(path), is_regular=True, page_bytes_max=limit, columns=wanted)


def rows_in(folder: Path, table: Any) -> list[Any]:
    """Return the rows of a table, as they are read from a Parquet file."""
    return rows_of(list(all_chunks(source_of(write(folder / "pages.parquet", table, 100)))))


def rows_of(chunks: list[Chunk]) -> list[Any]:
    return [msgspec.json.decode(line) for chunk in chunks for line in chunk.lines]


def test_rows_have_their_numbers_and_their_cells(path: Path) -> None:
    chunks = list(all_chunks(source_of(write(path, pages(250), 100)), ending := Ending()))
    assert rows_of(chunks) == pages(250).to_pylist()
    assert [chunk.start for chunk in chunks] == [0, *(chunk.end for chunk in chunks[:-1])]
    assert not ending.damage
    amounts = [chunk.amount for chunk in chunks]
    assert amounts == sorted(amounts)


@pytest.mark.parametrize("columns", [None, {"url", "body"}])
def test_reading_goes_on_behind_any_chunk_and_cuts_the_same_chunks(
    path: Path, columns: set[str] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("streamer.pages.chunk.CHUNK_RECORDS_MAX", 30)
    assert len(chunks_from_anywhere(source_of(write(path, pages(250), 100), columns))) > 8


def test_of_wide_tables_wanted_columns_are_read_behind_the_head(path: Path) -> None:
    write(path, pages(250), 100)
    rows = rows_of(list(all_chunks(source_of(path, {"body", "url_base64"}))))
    assert rows[:64] == pages(64).to_pylist()
    assert all(list(row) == ["url", "body"] for row in rows[64:])
    assert len(rows) == 250


def test_a_first_part_may_be_shorter_than_the_head(tmp_path: Path) -> None:
    path = tmp_path / "pages.parquet"
    parquet.write_table(pages(70), path, row_group_size=30)
    chunks = list(all_chunks(source_of(path, {"url", "body"}), ending := Ending()))
    assert [row["url"] for row in rows_of(chunks)] == [row["url"] for row in pages(70).to_pylist()]
    assert not ending.damage


def test_a_file_written_again_with_other_rows_is_noticed(path: Path) -> None:
    write(path, pages(250), 100)
    *_, last = all_chunks(source_of(path))
    write(path, pages(249), 100)
    with source_of(path).open() as records:
        assert list(records.follow(last.mark)) == []  # at once
        assert records.mark() != last.mark


def test_column_names_that_are_no_utf_8_are_refused(path: Path) -> None:
    write(path, pa.table({"url": ["u"], "body": ["b"], "column": [1]}))
    path.write_bytes(path.read_bytes().replace(b"column", b"\xff" * 6))
    with pytest.raises(InputError, match="is no whole"):
        source_of(path).open()


def test_cells_of_all_types_become_json(tmp_path: Path) -> None:
    day = dt.date(2026, 11, 25)
    table = pa.table(
        {
            "text": pa.array(["a\nb", None]),
            "bytes": pa.array([b"caf\xc3\xa9", b"caf\xe9"], pa.binary()),
            "day": pa.array([day, None]),
            "price": pa.array([decimal.Decimal("1.50"), None]),
            "meta": pa.array([{"url": "u", "tags": ["x"]}, None]),
            "kind": pa.array(["html", "html"]).dictionary_encode(),
            "nan": pa.array([float("nan"), 1.5]),
        }
    )
    assert rows_in(tmp_path, table) == [
        {
            "text": "a\nb", "bytes": "café", "day": "2026-11-25", "price": 1.5,
            "meta": {"url": "u", "tags": ["x"]}, "kind": "html", "nan": None,
        },
        {
            "text": None, "day": None, "price": None, "meta": None, "kind": "html", "nan": 1.5,
            "bytes_base64": base64.b64encode(b"caf\xe9").decode(),
        },
    ]  # fmt: skip


def test_times_that_python_has_not_are_cut_or_null(tmp_path: Path) -> None:
    table = pa.table(
        {
            "ns": pa.array([1_700_000_000_123_456_789], pa.timestamp("ns")),
            "late": pa.array([10**12], pa.timestamp("s")),  # the year 33,658
            "zone": pa.array([1], pa.timestamp("us", tz="Pacific Standard Time")),
        }
    )
    times = {"ns": "2023-11-14T22:13:20.123456", "late": None, "zone": None}
    assert rows_in(tmp_path, table) == [times]


def test_short_batches_lose_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader may give fewer rows at a time than were asked for."""
    path = write(tmp_path / "pages.parquet", pages(250), 100)
    real = parquet.ParquetFile.iter_batches

    def short(self: Any, batch_size: int, **options: Any) -> Any:
        return real(self, batch_size=min(batch_size, 7), **options)

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", short)
    rows = rows_of(list(all_chunks(source_of(path, {"url", "body"}))))
    assert [row["url"] for row in rows] == [row["url"] for row in pages(250).to_pylist()]
    monkeypatch.setattr(
        parquet.ParquetFile,
        "iter_batches",
        lambda self, **options: itertools.islice(real(self, **options), 0),
    )
    list(all_chunks(source_of(path), ending := Ending()))
    assert ending.damage == "part 1 of 3: it has 0 of 100 rows"


def test_text_that_is_no_utf_8_is_repaired(tmp_path: Path) -> None:
    odd = pa.array([b"good", b"b\xffd"], pa.binary()).view(pa.string())
    nested = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), odd)
    assert rows_in(tmp_path, pa.table({"text": odd, "list": nested})) == [
        {"text": "good", "list": ["good"]},
        {"text": "b\ufffdd", "list": None},
    ]


def test_rows_over_the_page_limit_are_dead_letters_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "pages.parquet"
    parquet.write_table(pa.table({"body": ["a", "x" * 3000, "b", "c", "y" * 3000]}), path)
    chunks = list(all_chunks(source_of(path, limit=2048)))
    assert [(chunk.start, chunk.end, len(chunk.dead)) for chunk in chunks] == [
        (0, 1, 0), (1, 2, 1), (2, 4, 0), (4, 5, 1),
    ]  # fmt: skip
    assert rows_of(chunks) == [{"body": "a"}, {"body": "b"}, {"body": "c"}]


def test_chunks_have_about_so_many_bytes(tmp_path: Path) -> None:
    path = tmp_path / "pages.parquet"
    size = CHUNK_BYTES_MAX // 10
    texts = [str(i % 10) * size for i in range(35)]
    parquet.write_table(pa.table({"body": texts}), path, use_dictionary=False)
    lengths = [len(chunk.lines) for chunk in all_chunks(source_of(path))]
    assert sum(lengths) == 35
    assert max(lengths) <= 12


def test_a_file_that_was_cut_or_is_empty_is_refused(path: Path) -> None:
    write(path, pages(250), 100)
    data = path.read_bytes()
    path.write_bytes(b"")
    with pytest.raises(InputError, match="is empty, and so no"):
        list(all_chunks(source_of(path)))
    path.write_bytes(data[:40])
    with pytest.raises(InputError, match="is no whole"):
        list(all_chunks(source_of(path)))
    path.write_bytes(data[:-8])  # of a stream its end, which its readers do not need
    with pytest.raises(InputError, match="is no whole"):
        list(all_chunks(source_of(path)))


def test_streams_one_after_another_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "stream.arrow", pages(5))
    path.write_bytes(2 * path.read_bytes())
    with pytest.raises(InputError, match=r"is no whole .* has no end, or something follows"):
        source_of(path).open()


def test_what_cannot_be_read_of_a_file_is_told_and_never_taken_for_its_end(tmp_path: Path) -> None:
    path = write(tmp_path / "pages.parquet", pages(250), 100)
    data = path.read_bytes()
    place = parquet.read_metadata(path).row_group(1).column(1).data_page_offset
    path.write_bytes(data[:place] + bytes(40) + data[place + 40 :])
    source, ending = source_of(path), Ending()
    assert list(all_chunks(source, ending))[-1].end == 100
    assert ending.damage.startswith("part 2 of 3: ")


@pytest.mark.parametrize("head", [b"PAR1", b"ARROW1\0\0"])
def test_a_pipe_is_refused(tmp_path: Path, head: bytes) -> None:
    path = tmp_path / "pipe"
    path.write_bytes(head + bytes(600))
    with pytest.raises(InputError, match="cannot be read from a pipe; name the file"):
        Source(str(path), is_regular=False).open()


def test_a_file_tells_what_it_is_whatever_its_name_says(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    parquet.write_table(pages(3), path)
    (source,) = open_sources([str(path)]).sources
    assert rows_of(list(all_chunks(source))) == pages(3).to_pylist()


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_the_extra_is_named(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"pages{suffix}"
    path.write_bytes(b"x")
    monkeypatch.setitem(importlib.import_module("sys").modules, "pyarrow", None)
    for given in (path, tmp_path):
        with pytest.raises(SettingsError, match=r"pip install '\.\[parquet\]'"):
            open_sources([str(given)])


def test_a_column_that_comes_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pages.parquet"
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["url", "url"])
    parquet.write_table(table, path)
    with pytest.raises(InputError, match="has the column 'url' twice"):
        list(itertools.islice(all_chunks(source_of(path)), 1))
