import gzip
import os
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from streamer.compression import zstd
from streamer.errors import InputError
from streamer.pages.bytestream import ByteStream
from streamer.pages.chunk import CHUNK_RECORDS_MAX, Chunk, Ending
from streamer.pages.files import Source, open_sources
from streamer.pages.identity import HEAD_BYTES_MAX, identify
from streamer.pages.members import ZSTD_MAGIC, expanded
from tests.helpers.chunks import all_chunks, chunks_from_anywhere

CHECKED: dict[int, int] = {zstd.CompressionParameter.checksum_flag: 1}


def lines_of(chunks: list[Chunk]) -> dict[int, bytes]:
    return {
        chunk.start + at: line.rstrip(b"\r\n")
        for chunk in chunks
        for at, line in enumerate(chunk.lines)
    }


def read(path: Path, limit: int = 1 << 20, ending: Ending | None = None) -> list[Chunk]:
    chunks = list(all_chunks(Source(str(path), is_regular=True, page_bytes_max=limit), ending))
    at = 0
    for chunk in chunks:
        assert chunk.start == at < chunk.end
        assert len(chunk.lines) + len(chunk.dead) == chunk.end - chunk.start
        at = chunk.end
    return chunks


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pages.jsonl"


def test_every_line_has_its_ordinal_also_one_over_the_limit(path: Path) -> None:
    path.write_bytes(b"a\n" + b"f" * 30 + b"\nb\n\n" + b"g" * 10 + b"\r\n" + b"h" * 9 + b"\nc")
    chunks = read(path, limit=10)
    assert lines_of(chunks) == {0: b"a", 2: b"b", 3: b"", 5: b"h" * 9, 6: b"c"}
    assert [
        (dead.sequence, dead.code, dead.value_bytes) for chunk in chunks for dead in chunk.dead
    ] == [(1, "record_too_large", 30), (4, "record_too_large", 11)]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd.compress])
def test_compression_is_told_by_content_also_of_members(path: Path, pack: type[bytes]) -> None:
    path.write_bytes(pack(b"a\nb") + pack(b"c\nd\n"))
    assert lines_of(read(path)) == {0: b"a", 1: b"bc", 2: b"d"}


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_lines_before_a_tear_are_read_and_the_rest_is_left(path: Path, pack: type[bytes]) -> None:
    whole = pack(b"first\nsecond\nthi")
    torn = pack(os.urandom(3000).hex().encode())
    path.write_bytes(whole + torn[: len(torn) // 2])
    chunks = read(path, ending=(ending := Ending()))
    assert lines_of(chunks) == {0: b"first", 1: b"second"}
    assert not any(chunk.dead for chunk in chunks)
    assert ending.damage.startswith("it ends too early")


def test_bytes_after_a_gzip_member_that_are_no_member_are_a_tear(path: Path) -> None:
    member = gzip.compress(b"a\n")
    path.write_bytes(member + b"garbage")
    assert lines_of(read(path, ending=(ending := Ending()))) == {0: b"a"}
    assert ending.damage.endswith(f"in the compressed part that begins at byte {len(member)}")


@pytest.mark.parametrize("lines", [3, 200_000], ids=["held", "gone through twice"])
@pytest.mark.parametrize("pack", [gzip.compress, partial(zstd.compress, options=CHECKED)])
def test_nothing_is_read_of_a_member_with_a_flip(path: Path, pack: type[bytes], lines: int) -> None:
    good, bad = pack(b"good\n"), bytearray(pack(b"%d flipped\n" * lines % (*range(lines),)))
    bad[len(bad) // 2] ^= 1
    path.write_bytes(good + bad + good)
    assert lines_of(read(path, ending=(ending := Ending()))) == {0: b"good"}
    assert f"begins at byte {len(good)}" in ending.damage


CYRILLIC = "съешь же ещё этих мягких французских булок да выпей чаю " * 3


@pytest.mark.parametrize(
    ("name", "text", "charset"),
    [
        ("ru.csv", f"url,body\r\nu,{CYRILLIC}\r\n", "windows-1251"),
        ("ru.tsv", f"url\tbody\nu\t{CYRILLIC}\n", "windows-1251"),
        ("ru.jsonl", f'{{"url":"u","body":"{CYRILLIC}"}}\n', "windows-1251"),
        ("ru.json", f'[\n{{"url":"u","body":"{CYRILLIC}"}}\n', "windows-1251"),
        ("ru.json", f'[\n{{\n"url":"u",\n"body":"{CYRILLIC}"\n}},\n', "windows-1251"),
        ("ja.csv", "url,body\nu," + "いろはにほへと" * 9 + "\n", "cp932"),
        ("ru.jsonl", f'{{"url":"u","body":"{CYRILLIC}"}}\n', "utf-16-le"),
        ("en.csv", "url,body\nu," + "plain words of English " * 9 + "\n", "utf-16-be"),
    ],
)
@pytest.mark.parametrize("size", [1, 2000], ids=["small", "large"])
def test_text_of_another_charset_is_refused_with_its_name(
    tmp_path: Path, name: str, text: str, charset: str, size: int
) -> None:
    path = tmp_path / name
    whole = text + text.splitlines(keepends=True)[-1] * size
    path.write_bytes(whole.encode(charset))
    source = Source(str(path), is_regular=True)
    with pytest.raises(InputError, match=rf"is not UTF-8, .* iconv -f {charset} -t"):
        source.open()
    path.write_bytes(whole.encode())
    assert len(list(all_chunks(source))) > 0
    path.write_bytes(whole.encode() + b"\xe9\xe8" * 4 + b"\n")
    assert len(list(all_chunks(source))) > 0


def test_a_window_that_is_over_the_limit_is_named(tmp_path: Path) -> None:
    path, line = tmp_path / "pages.jsonl.zst", b'{"url": "u", "body": "b"}\n'
    block = (1 | len(line) << 3).to_bytes(3, "little") + line  # the last one, raw
    for log, found in ((20, {0: line.strip()}), (27, {0: line.strip()}), (28, {}), (31, {})):
        path.write_bytes(ZSTD_MAGIC + bytes((0, log - 10 << 3)) + block)
        assert lines_of(read(path, ending=(ending := Ending()))) == found
        assert ("zstd --long" in ending.damage) == (not found)


def test_reading_goes_on_at_any_mark(path: Path) -> None:
    content = b"".join(b"%d\n" % number for number in range(3 * CHUNK_RECORDS_MAX)) + b"last"
    path.write_bytes(b"\xef\xbb\xbf" + content)
    assert len(chunks_from_anywhere(Source(str(path), is_regular=True))) == 4


def test_a_last_line_that_gets_its_newline_later_is_the_same_record(path: Path) -> None:
    path.write_bytes(b"a\nb")
    (chunk,) = read(path)
    for now, same, rest in (
        (b"a\nb", True, {}),
        (b"a\nb\nc\n", True, {2: b"c"}),
        (b"a\nbc\n", 0, {}),
    ):
        path.write_bytes(now)
        source = Source(str(path), is_regular=True)
        with source.open() as records:
            list(records.follow(chunk.mark))
            assert (records.mark() == chunk.mark) is bool(same)
            if same:
                assert lines_of(list(records.chunks(2, Ending()))) == rest


def test_a_byte_order_mark_is_no_part_of_the_first_line(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n")
    assert lines_of(read(path)) == {0: b"a", 1: b"\xef\xbb\xbfb"}


def test_bytes_read_rise_to_the_size_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl.gz"
    path.write_bytes(gzip.compress(os.urandom(1 << 20).hex().encode() + b"\n" + b"a\n" * 5000))
    source = open_sources([str(path)]).sources[0]
    positions = [chunk.amount for chunk in all_chunks(source)]
    assert positions == sorted(positions)
    assert positions[-1] == source.total_bytes == path.stat().st_size


def test_a_directory_stands_for_its_page_files_by_name(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    names = ["b/x.WARC.gz", "c.ndjson", "a.jsonl.zst", "d.warc.wet.gz", "e.json", "f.arc.gz"]
    for name in [*names, "notes.txt", "b/page.html"]:
        (tmp_path / name).write_bytes(b"")
    found = open_sources([str(tmp_path)])
    assert [source.name for source in found.sources] == sorted(str(tmp_path / n) for n in names)
    others = ("b/page.html", "notes.txt")
    assert found.skipped == {str(tmp_path / name): "beside_pages" for name in others}


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"")
    (tmp_path / "link.jsonl").symlink_to(path)
    found = open_sources([str(path), str(tmp_path / "link.jsonl"), str(tmp_path)])
    assert [source.name for source in found.sources] == [str(path)]


def test_what_cannot_be_opened_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "a.doc"
    text.write_bytes(b"")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"missing\.jsonl: no such file; check"):
        open_sources([str(tmp_path / "missing.jsonl")])
    with pytest.raises(InputError, match=r"a\.doc: not a known kind of file; name it"):
        open_sources([str(text)])
    with pytest.raises(InputError, match="is the empty text"):
        open_sources([""])
    with pytest.raises(InputError, match="empty: holds no page files; page files end in"):
        open_sources([str(tmp_path / "empty")])
    pointer = tmp_path / "empty" / "a.parquet"
    pointer.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    for path in (pointer, pointer.parent):
        with pytest.raises(InputError, match=r"a\.parquet: is a pointer .* git lfs pull"):
            open_sources([str(path)])
    (tmp_path / "locked.jsonl").write_bytes(b"")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may read everything
    with pytest.raises(InputError, match=r"locked\.jsonl: no permission to read; change"):
        open_sources([str(tmp_path / "locked.jsonl")])


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst", "a.warc.gz", "a.csv.gz"])
def test_a_compressed_file_without_a_byte_is_not_whole(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    (source,) = open_sources([str(tmp_path / name)]).sources
    assert list(all_chunks(source, ending := Ending())) == []
    assert "is empty, which no compressed file is" in ending.damage


def test_a_file_that_goes_away_before_it_is_read_is_an_input_error(tmp_path: Path) -> None:
    source = Source(str(tmp_path / "gone.jsonl"), is_regular=True)
    with pytest.raises(InputError, match=r"gone\.jsonl: No such file"):
        list(all_chunks(source))
    with pytest.raises(InputError, match=r"gone\.jsonl: No such file"):
        source.identity()


def test_the_digest_covers_no_more_than_the_head(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"x" * HEAD_BYTES_MAX + b"tail")
    identity = identify(str(path))
    assert (identity.size_bytes, identity.head_bytes) == (HEAD_BYTES_MAX + 4, HEAD_BYTES_MAX)
    path.write_bytes(b"x" * HEAD_BYTES_MAX + b"TAIL")
    assert identity.is_continued_by(str(path))
    path.write_bytes(b"x" * HEAD_BYTES_MAX)
    assert not identity.is_continued_by(str(path))


def test_a_pipe_is_told_by_its_content_and_has_no_identity(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    source = open_sources([str(pipe)]).sources[0]
    assert source.identity() is None
    assert source.total_bytes is None
    for content, in_lines in ((b"a\n", 1), (b"WARC/1.0\r\n", 0)):
        writer = threading.Thread(target=pipe.write_bytes, args=(content,))
        writer.start()
        chunks = list(all_chunks(source))
        writer.join()
        assert sum(len(chunk.lines) for chunk in chunks) == in_lines


def test_lines_that_only_begin_as_an_arc_file_are_read_as_lines(path: Path) -> None:
    path.write_bytes(b"filedesc:\n\0\n")
    assert lines_of(read(path)) == {0: b"filedesc:", 1: b"\0"}


def test_stdin_is_read_and_left_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "in"
    path.write_bytes(gzip.compress(b"a\nb\n"))
    with path.open("rb") as file:
        monkeypatch.setattr(sys, "stdin", file)
        chunks = list(all_chunks(open_sources(["-"]).sources[0]))
        assert not file.closed
    assert lines_of(chunks) == {0: b"a", 1: b"b"}


def test_the_first_damage_is_the_one_that_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    member = gzip.compress(b"a\n")
    path.write_bytes(member[:-8] + bytes(8) + member * 3)
    with ByteStream(str(path)) as stream:
        assert stream.reader.read() == b""
        damage = stream.damage
        assert stream.reader.read() == b""
        assert stream.damage == damage
        assert damage is not None
        assert damage.startswith("incorrect data check")


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_a_file_begins_with_its_first_member_that_is_not_empty(pack: type[bytes]) -> None:
    assert expanded(pack(b"") + bytes(3) + pack(b"") + pack(b"abc") + pack(b"def"), 9) == b"abc"
    assert expanded(pack(b"") + b"abc", 9) == expanded(pack(b""), 9) == b""
