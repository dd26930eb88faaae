"""WACZ: the WARC files of a ZIP archive, as if they followed each other."""

from __future__ import annotations

import gzip
import os
import zipfile
from pathlib import Path

import pytest

from streamer.errors import InputError
from streamer.pages.chunk import Chunk, Ending
from streamer.pages.files import Source, open_sources
from tests.helpers.chunks import all_chunks
from tests.helpers.pipes import warc_record


def write(path: Path, *, members: int = 2, method: int = zipfile.ZIP_STORED) -> None:
    """Write an archive of `members` WARC files with three records each, gzip and plain."""
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("datapackage.json", "{}")
        archive.writestr("pages/pages.jsonl", "{}")
        for number in range(members):
            records = [warc_record(3 * number + each) for each in range(3)]
            if number % 2:
                archive.writestr(f"archive/{number}.warc", b"".join(records))
            else:
                archive.writestr(f"archive/{number}.warc.gz", b"".join(map(gzip.compress, records)))


def blocks(chunks: list[Chunk]) -> list[bytes]:
    return [page.block for chunk in chunks for page in chunk.pages]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_records_are_those_of_its_warc_files_in_order(tmp_path: Path, method: int) -> None:
    path, plain = tmp_path / "crawl.wacz", tmp_path / "crawl.warc"
    write(path, method=method)
    plain.write_bytes(b"".join(map(warc_record, range(6))))
    (source,) = open_sources([str(path)]).sources
    chunks, wanted = list(all_chunks(source)), list(all_chunks(Source(str(plain), is_regular=True)))
    assert blocks(chunks) == blocks(wanted)
    assert len(blocks(chunks)) == 6
    assert chunks[-1].mark == wanted[-1].mark
    in_folder = [each.name for each in open_sources([str(tmp_path)]).sources]
    assert in_folder == [str(path), str(plain)]


def test_reading_goes_on_at_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "crawl.wacz"
    write(path)
    (source,) = open_sources([str(path)]).sources
    *_, last = all_chunks(source)
    with source.open() as records:
        list(records.follow(last.mark))
        assert records.mark() == last.mark
        assert list(records.chunks(last.end, Ending())) == []


def test_damage_within_is_told_and_never_taken_for_the_end(tmp_path: Path) -> None:
    path = tmp_path / "crawl.wacz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/a.warc", warc_record(0))
        archive.writestr("archive/b.warc.gz", gzip.compress(os.urandom(100_000))[:-4000])
    (source,) = open_sources([str(path)]).sources
    chunks = list(all_chunks(source, ending := Ending()))
    assert len(blocks(chunks)) == 1
    assert ending.damage.startswith("archive/b.warc.gz: ")


def test_a_damaged_part_is_told_whatever_compressed_it(tmp_path: Path) -> None:
    path = tmp_path / "crawl.wacz"
    write(path, method=zipfile.ZIP_LZMA)
    data = bytearray(path.read_bytes())
    at = data.find(b"archive/0.warc.gz") + 60  # of what is compressed
    data[at : at + 20] = b"\xff" * 20
    path.write_bytes(data)
    (source,) = open_sources([str(path)]).sources
    list(all_chunks(source, ending := Ending()))
    assert ending.damage.startswith("archive/0.warc.gz: ")


def test_names_that_are_no_utf_8_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "crawl.wacz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/\u00e9.warc", warc_record(0))
    data = path.read_bytes()
    name = "\u00e9".encode()
    path.write_bytes(data.replace(name, b"\xff\xff"))  # both in its list and before its bytes
    with pytest.raises(InputError, match="is no whole WACZ file"):
        Source(str(path), is_regular=True).open()
    path.write_bytes(data.replace(name, b"\xff\xff", 1))  # before its bytes only
    chunks = list(all_chunks(Source(str(path), is_regular=True), ending := Ending()))
    assert blocks(chunks) == []
    assert ending.damage.startswith("archive/\u00e9.warc: ")


def test_what_is_no_archive_with_warc_files_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "crawl.wacz"
    write(path)
    data = path.read_bytes()
    path.write_bytes(data[:-30])
    with pytest.raises(InputError, match="is no whole WACZ file"):
        Source(str(path), is_regular=True).open()
    write(path, members=0)
    with pytest.raises(InputError, match="has no WARC file in archive/"):
        Source(str(path), is_regular=True).open()
    with pytest.raises(InputError, match=r"is a ZIP archive"):
        Source(str(path), is_regular=False).open()
