"""Input that is damaged, cut off, repaired, changed or not what its name says, by the real command.

Each input record must end in exactly one verdict or dead letter, or the run must say what is wrong.
"""

import contextlib
import gzip
import io
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamer.compression import zstd
from tests.helpers.cdx import warc_record
from tests.helpers.place import Place, lines, page

# As the tool compresses; the library adds no checksum by itself.
CHECKED = partial(zstd.compress, options={zstd.CompressionParameter.checksum_flag: 1})
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"


def record(number: int, length: int | None = None) -> bytes:
    """Return a WARC record; `length` is what it says of its own."""
    block = HEAD + page(number)
    said = len(block) if length is None else length
    head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.example/{number}\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % said + block + b"\r\n\r\n"


class HalfRead(Place):
    """A folder in which pages come by a pipe, too."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(folder)
        self._monkeypatch = monkeypatch
        self.said = ""

    def replay(self, *arguments: str | Path, piped: bytes = b"") -> int:
        """Run the command; return its exit code. `said` is what it printed."""
        read, write = os.pipe()
        os.write(write, piped[: 60 << 10])  # what a pipe holds
        os.close(write)
        with io.StringIO() as said, os.fdopen(read, "rb") as stdin:
            self._monkeypatch.setattr(sys, "stdin", stdin)
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                code = super().replay(*arguments, "--summary", self.folder / "summary")
            self.said = " ".join(said.getvalue().split())
        return code

    @property
    def summary(self) -> Any:
        return json.loads((self.folder / "summary").read_bytes())

    def places(self) -> list[tuple[str, int, str]]:
        """Return the name of the source, the ordinal and the end of the URL of each verdict."""
        said = [(each["page"], each["url"]) for each in lines(self.verdicts)]
        return [(Path(p["topic"]).name, p["offset"], url.rpartition("/")[2]) for p, url in said]

    def dead(self) -> list[tuple[int, str, str]]:
        letters = lines(Path(f"{self.verdicts}.dead.jsonl"))
        return [(each["page"]["offset"], each["code"], each["detail"]) for each in letters]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HalfRead:
    return HalfRead(tmp_path, monkeypatch)


def all_of(name: str, count: int) -> list[tuple[str, int, str]]:
    return [(name, number, str(number)) for number in range(count)]


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 16]) + content[middle + 1 :]


def zeroed(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes(3000) + content[middle + 3000 :]


def in_members(content: bytes) -> bytes:
    return b"".join(gzip.compress(content[at : at + 7000]) for at in range(0, len(content), 7000))


@pytest.mark.parametrize("damage", [cut, flipped, zeroed])
@pytest.mark.parametrize(
    ("name", "pack", "repair"),
    [
        ("a.jsonl.gz", gzip.compress, gzip.compress), ("a.jsonl.gz", in_members, in_members),
        ("a.jsonl.zst", CHECKED, CHECKED), ("a.jsonl.gz", gzip.compress, zstd.compress),
    ],
)  # fmt: skip
def test_a_damaged_file_is_judged_up_to_there_and_repaired_goes_on(
    place: HalfRead, name: str, pack: Any, repair: Any, damage: Any
) -> None:
    content = b"".join(map(page, range(300)))
    path, other = place.write(name, damage(pack(content))), place.write("b.jsonl", page(1000))
    assert place.replay(path, other) == 1
    assert f"Not read to the end: {path} (" in place.said
    assert "Put whole files in their place; the same command then goes on" in place.said
    assert place.summary["sources_incomplete"].keys() == {str(path)}
    first = place.places()
    assert first == [*all_of(name, len(first) - 1), ("b.jsonl", 0, "1000")]
    assert len(first) > 1 or pack is not in_members
    assert place.replay(path, other) == 1, "the same file, damaged as before"
    assert place.places() == first
    path.write_bytes(repair(content))
    assert place.replay(path, other) == 0
    assert sorted(place.places()) == [*all_of(name, 300), ("b.jsonl", 0, "1000")]
    assert place.dead() == []
    assert place.replay(path, other) == 0
    assert "Nothing new" in place.said


def test_a_pipe_that_is_given_again_goes_on(place: HalfRead) -> None:
    for count in (10, 30, 25, 40):
        code = place.replay("-", piped=b"".join(map(page, range(count))))
        assert code == (3 if count == 25 else 0)
        if code:
            assert "and ends within the 30 that were judged" in place.said
    assert place.places() == all_of("-", 40)


def test_a_pipe_that_begins_alike_and_goes_on_otherwise_is_refused(place: HalfRead) -> None:
    pages = [*map(page, range(80))]
    assert place.replay("-", piped=b"".join(pages)) == 0
    before = place.verdicts.read_bytes()
    assert place.replay("-", piped=b"".join([*pages[:70], page(170), *pages[71:]])) == 3
    assert "goes on with others" in place.said
    assert place.verdicts.read_bytes() == before


def test_a_pipe_that_ends_within_a_line_is_not_done(place: HalfRead) -> None:
    pages = b"".join(map(page, range(20)))
    assert place.replay("-", piped=pages[:-30]) == 1
    assert "it ends within a line, after 19 records" in place.said
    assert place.replay("-", piped=pages) == 0
    assert place.places() == all_of("-", 20)
    assert place.dead() == []


@pytest.mark.parametrize("keep_time", [True, False])
def test_an_edit_in_the_middle_of_a_file_is_refused_and_a_touch_is_nothing(
    place: HalfRead, keep_time: bool
) -> None:
    pages = [*map(page, range(500))]
    path = place.write("a.jsonl", b"".join(pages))
    assert place.replay(path) == 0
    before = place.verdicts.read_bytes()
    os.utime(path, (1, 1))
    assert place.replay(path) == 0
    assert "Nothing new" in place.said
    pages[400] = pages[400].replace(b"quick400", b"quack400")
    path.write_bytes(b"".join(pages))
    if keep_time:
        os.utime(path, (1, 1))
    assert place.replay(path) == 3
    assert "records that were judged are others now" in place.said
    assert place.verdicts.read_bytes() == before


def test_a_line_without_an_end_waits_for_it(place: HalfRead) -> None:
    whole = page(0) + page(1)
    path = place.write("a.jsonl", whole[:-50])
    for _ in range(2):
        assert place.replay(path) == 0
        assert f"The last line has no end, and is left for the next run: {path}" in place.said
        assert "Add --complete" in place.said
    assert place.places() == all_of("a.jsonl", 1)
    path.write_bytes(whole + page(2).rstrip())
    assert place.replay(path) == 0
    assert place.places() == all_of("a.jsonl", 2)
    assert place.replay(path, "--complete") == 0
    assert place.places() == all_of("a.jsonl", 3)
    path.write_bytes(whole + page(2) + page(3))
    assert place.replay(path) == 0
    assert place.places() == all_of("a.jsonl", 4)
    assert place.dead() == []


@pytest.mark.parametrize(("name", "pack"), [("a.warc.gz", gzip.compress), ("a.warc.zst", CHECKED)])
def test_a_flipped_byte_in_a_warc_costs_its_member(place: HalfRead, name: str, pack: Any) -> None:
    members = [pack(record(number)) for number in range(10)]
    start = sum(map(len, members[:4]))
    broken = b"".join([*members[:4], flipped(members[4]), *members[5:]])
    path = place.write(name, broken)
    assert place.replay(path) == 0
    wanted = [each for each in all_of(name, 10) if each[1] != 4]
    assert place.places() == wanted
    ((ordinal, code, detail),) = place.dead()
    assert (ordinal, code) == (4, "damaged_member")
    assert f"bytes {start} to {start + len(members[4])} of the file" in detail
    with path.open("ab") as file:
        file.write(b"".join(map(pack, map(record, range(10, 12)))))
    assert place.replay(path) == 0
    assert place.places() == [*wanted, (name, 10, "10"), (name, 11, "11")]
    path.write_bytes(b"".join(members) + pack(record(10)) * 3)
    assert place.replay(path) == 3, "the damaged record has its dead letter: it cannot come now"


@pytest.mark.parametrize("said", [10_000, 20_000_000, 10**14])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_too_large_a_length_costs_its_record_only(place: HalfRead, said: int, pack: Any) -> None:
    records = [record(number, said if number == 3 else None) for number in range(60)]
    assert place.replay(place.write("a.warc", b"".join(map(pack, records)))) == 0
    assert place.places() == [each for each in all_of("a.warc", 60) if each[1] != 3]
    begin = sum(map(len, records[:3]))
    ((ordinal, code, detail),) = place.dead()
    assert (ordinal, code) == (3, "bad_warc_record")
    assert f"bytes {begin} to {begin + len(records[3])} of the records" in detail


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_warc_that_is_cut_off_goes_on_once_it_is_whole(place: HalfRead, pack: Any) -> None:
    whole = b"".join(pack(record(number)) for number in range(20))
    path = place.write("a.warc", whole[:-200])
    assert place.replay(path) == 1
    assert f"Not read to the end: {path} (it ends" in place.said
    assert place.places() == all_of("a.warc", 19)
    path.write_bytes(whole)
    assert place.replay(path) == 0
    assert place.places() == all_of("a.warc", 20)
    assert place.dead() == []


def test_responses_without_http_headers_are_pages(place: HalfRead) -> None:
    body = b"<html><body><p>Bread at five and cake at six.</p></body></html>"
    types = ["application/http; msgtype=response", "text/html", "text/dns"]
    records = [
        warc_record("response", f"http://a.example/{number}", body, ("Content-Type", kind))
        for number, kind in enumerate(types)
    ]
    assert place.replay(place.write("a.warc", b"".join(records))) == 0
    assert place.places() == all_of("a.warc", 2)
    assert place.summary["skipped"] == {"response_not_http": 1}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"ORC" + bytes(100), "is an ORC file, which is not read; write its rows as JSON"),
        (b"PK\x03\x04" + bytes(100), "is a ZIP archive, which is not read; unpack it"),
        (bytes(257) + b"ustar" + bytes(250), "is a tar archive"),
        (b"\xfd7zXZ\x00" + bytes(99), "is compressed with xz, which is not read; decompress it"),
        (b"BZh91AY" + bytes(99), "is compressed with bzip2"),
        (gzip.compress(gzip.compress(page(1))), "is compressed twice"),
        ('{"url": "u"}\n'.encode("utf-16"), "is text in UTF-16"),
    ],
)
def test_what_is_no_page_file_has_a_remedy(place: HalfRead, content: bytes, words: str) -> None:
    for name in ("a.parquet", "a.jsonl"):
        assert place.replay(place.write(name, content)) == 1
        assert words in place.said
    assert place.replay("-", piped=content) == 1
    assert f"-: {words}" in place.said
    assert not place.verdicts.exists() or not place.verdicts.read_bytes()


def test_binary_data_in_a_pipe_is_refused(place: HalfRead) -> None:
    assert place.replay("-", piped=b"\x89HDF\r\n\x1a\n" + bytes(range(200))) == 1
    assert "is binary data (byte 6 is 0x1a) and neither JSON lines nor WARC nor ARC" in place.said


def test_an_empty_file_is_called_empty(place: HalfRead) -> None:
    path = place.write("a.jsonl", b"")
    for _ in range(2):
        assert place.replay(path) == 0
        assert f"Empty: {path}. Nothing new: the input holds no record." in place.said
    assert place.summary["sources_empty"] == [str(path)]
    assert place.replay("-") == 0
    assert "Empty: -. Nothing new: the input holds no record." in place.said
