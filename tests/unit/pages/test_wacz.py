"""WACZ: the WARC files of a ZIP archive, as if they followed each other."""

import copy
import gzip
import io
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from streamer.compression import zstd
from streamer.errors import InputError
from streamer.pages.chunk import Chunk, Ending
from streamer.pages.files import Source, open_sources
from tests.helpers.chunks import all_chunks, chunks_from_anywhere
from tests.helpers.pipes import warc_record

PACKED: list[Any] = [(".gz", gzip.compress), ("", bytes), (".zst", zstd.compress)]


def write(path: Path, *, members: int = 2, method: int = zipfile.ZIP_STORED) -> None:
    """Write an archive of `members` WARC files with three records each, gzip and plain."""
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("datapackage.json", "{}")
        archive.writestr("pages/pages.jsonl", "{}")
        for number in range(members):
            records = [warc_record(3 * number + each) for each in range(3)]
            suffix, pack = PACKED[number % len(PACKED)]
            archive.writestr(f"archive/{number}.warc{suffix}", b"".join(map(pack, records)))


def blocks(chunks: list[Chunk]) -> list[bytes]:
    return [page.block for chunk in chunks for page in chunk.pages]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "crawl.wacz"


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_records_are_those_of_its_warc_files_in_order(tmp_path: Path, method: int) -> None:
    path, plain = tmp_path / "crawl.wacz", tmp_path / "crawl.warc"
    write(path, members=3, method=method)
    plain.write_bytes(b"".join(map(warc_record, range(9))))
    (source,) = open_sources([str(path)]).sources
    chunks, wanted = list(all_chunks(source)), list(all_chunks(Source(str(plain), is_regular=True)))
    assert blocks(chunks) == blocks(wanted)
    assert len(blocks(chunks)) == 9
    assert chunks[-1].mark == wanted[-1].mark
    in_folder = [each.name for each in open_sources([str(tmp_path)]).sources]
    assert in_folder == [str(path), str(plain)]


def test_reading_goes_on_at_a_mark(path: Path) -> None:
    write(path)
    (source,) = open_sources([str(path)]).sources
    assert chunks_from_anywhere(source)


@pytest.mark.parametrize(("suffix", "pack"), PACKED[::2])
def test_damage_within_is_told_and_not_taken_for_an_end(path: Path, suffix: str, pack: Any) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/a.warc", warc_record(0))
        archive.writestr(f"archive/b.warc{suffix}", pack(os.urandom(100_000))[:-4000])
    (source,) = open_sources([str(path)]).sources
    assert len(blocks(list(all_chunks(source, ending := Ending())))) == 1
    assert ending.damage.startswith(f"archive/b.warc{suffix}: ")


def test_a_damaged_part_is_told_whatever_compressed_it(path: Path) -> None:
    write(path, method=zipfile.ZIP_LZMA)
    data = bytearray(path.read_bytes())
    at = data.find(b"archive/0.warc.gz") + 60  # of what is compressed
    data[at : at + 20] = b"\xff" * 20
    path.write_bytes(data)
    (source,) = open_sources([str(path)]).sources
    list(all_chunks(source, ending := Ending()))
    assert ending.damage.startswith("archive/0.warc.gz: ")


def test_names_that_are_no_utf_8_are_refused(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/\u00e9.warc", warc_record(0))
    data = path.read_bytes()
    name = "\u00e9".encode()
    path.write_bytes(data.replace(name, b"\xff\xff"))  # both in its list and before its bytes
    with pytest.raises(InputError, match="is no whole WACZ file"):
        Source(str(path), is_regular=True).open()
    path.write_bytes(data.replace(name, b"\xff\xff", 1))  # before its bytes only
    assert blocks(list(all_chunks(Source(str(path), is_regular=True), ending := Ending()))) == []
    assert ending.damage.startswith("archive/\u00e9.warc: ")


def test_what_is_no_archive_with_warc_files_is_refused(path: Path) -> None:
    write(path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match="is no whole WACZ file"):
        Source(str(path), is_regular=True).open()
    write(path, members=0)
    with pytest.raises(InputError, match="has no WARC file in archive/"):
        Source(str(path), is_regular=True).open()
    with pytest.raises(InputError, match=r"is a ZIP archive"):
        Source(str(path), is_regular=False).open()


def listed(path: Path, entries: list[tuple[str, int]], data: bytes) -> None:
    """Write an archive that lists a member at an offset of the file for each entry.

    At 0 is one with `data`, and at its end an empty one.
    """
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(entries[0][0], data)
        archive.writestr("empty", b"")
        size = len(data)
        for name, offset in entries[1:]:
            archive.filelist.append(copy.copy(archive.filelist[0]))
            archive.filelist[-1].filename = name
            archive.filelist[-1].header_offset = offset
            archive.filelist[-1].compress_size = size - offset
    path.write_bytes(file.getvalue())


@pytest.mark.parametrize(
    ("entries", "reported"),
    [
        ([("archive/a.warc", 0)], ""),
        ([("archive/a.warc", 0)] * 8, "lists archive/a.warc more than once"),
        ([("archive/a.warc", 0), ("archive/b.warc", 0)], r"archive/a.warc overlaps what follows"),
        ([("archive/a.warc", 0), ("archive//a.warc", 0)], r"archive/a.warc overlaps what follows"),
        ([("archive/a.warc", 0), ("archive/b.warc", 50)], r"archive/a.warc overlaps what follows"),
    ],
)
def test_members_share_no_bytes(path: Path, entries: list[tuple[str, int]], reported: str) -> None:
    listed(path, entries, warc_record(0))
    source = Source(str(path), is_regular=True)
    if reported:
        with pytest.raises(InputError, match=reported):
            source.open()
    else:
        assert len(blocks(list(all_chunks(source)))) == 1


def test_a_member_that_reaches_into_the_directory_is_refused(path: Path) -> None:
    write(path, members=1)
    data = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        at = archive.start_dir
    at = data.index(b"archive/0.warc.gz", at) - 46 + 20  # the compressed size in the directory
    path.write_bytes(data[:at] + (10**6).to_bytes(4, "little") + data[at + 4 :])
    with pytest.raises(InputError, match="overlaps what follows"):
        Source(str(path), is_regular=True).open()
