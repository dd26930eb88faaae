"""Whole files of bad input: every record ends somewhere, and memory stays bounded.

The bound is on the peak of a process that reads and parses one file: what the interpreter and the
libraries take when idle, and 96 MiB.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from streamer.compression import zstd
from streamer.pages.bytestream import GZIP_MAGIC, ZSTD_MAGIC
from streamer.pages.chunk import PageBatch
from streamer.pages.files import Source, open_sources
from streamer.pages.parse import PageParser
from streamer.text.visible import ESCAPED
from tests.helpers.chunks import all_chunks

MIB = 1 << 20
PEAK_MIB_MAX = 96  # above idle
GOOD = b'{"url": "http://a.example/", "body": "words"}\n'

READ_AND_REPORT = """
import json, resource, sys
from streamer.pages.files import open_sources
from streamer.pages.parse import PageParser
from tests.helpers.chunks import all_chunks

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

parser = PageParser()
parser.parse_messages(0, 1, [(0, None, b'{"url": "u", "body_base64": "YQ=="}')])
idle = peak()
codes, pages = [], 0
for source in open_sources(sys.argv[1:]).sources:
    for chunk in all_chunks(source):
        batch = parser.parse(chunk)
        pages += len(batch)
        codes += [dead.code for dead in batch.dead]
print(json.dumps({"pages": pages, "codes": codes, "above_idle_mib": peak() - idle}))
"""


def read_in_subprocess(*paths: Path) -> dict[str, object]:
    """Return what a process of its own reads, and its peak of memory above idle."""
    done = subprocess.run(
        [sys.executable, "-c", READ_AND_REPORT, *map(str, paths)],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=60,
    )
    result: dict[str, object] = json.loads(done.stdout)
    return result


def parse(path: Path) -> list[PageBatch]:
    parser = PageParser()
    return [parser.parse(chunk) for chunk in all_chunks(open_sources([str(path)]).sources[0])]


def write_repeated(path: Path, head: bytes, piece: bytes, mebibytes: int, tail: bytes) -> None:
    """Write a large file without holding it."""
    opened = {".gz": gzip.open, ".zst": zstd.open}.get(path.suffix, open)
    with opened(path, "wb") as file:  # type: ignore[operator]
        file.write(head)
        for _ in range(mebibytes):
            file.write(piece * (MIB // len(piece)))
        file.write(tail)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst"])
def test_one_line_of_100_mib_is_read_in_bounded_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_repeated(path, GOOD + b'{"body": "', b"x", 100, b'"}\n' + GOOD)
    result = read_in_subprocess(path)
    assert (result["pages"], result["codes"]) == (2, ["record_too_large"])
    assert result["above_idle_mib"] < PEAK_MIB_MAX  # type: ignore[operator]


def test_a_warc_record_and_garbage_of_100_mib_are_read_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    head = b"WARC/1.0\r\nWARC-Type: resource\r\nContent-Length: %d\r\n\r\n" % (100 * MIB)
    write_repeated(path, head, b"x", 100, b"\r\n\r\n")
    garbage = tmp_path / "b.warc.gz"
    write_repeated(garbage, b"WARC/1.0\r\n", b"x", 100, b"")
    result = read_in_subprocess(path, garbage)
    assert result["codes"] == ["record_too_large", "bad_warc_record"]
    assert result["above_idle_mib"] < PEAK_MIB_MAX  # type: ignore[operator]


def test_gzip_bombs_in_warc_records_are_opened_in_bounded_memory(tmp_path: Path) -> None:
    bomb = gzip.compress(gzip.compress(bytes(200 * MIB), 1), 1)
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + bomb
    head = (
        b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.example/\r\n"
        b"Content-Length: %d\r\n\r\n"
    )
    path = tmp_path / "a.warc"
    path.write_bytes((head % len(block) + block + b"\r\n\r\n") * 3)
    result = read_in_subprocess(path)
    assert result["codes"] == ["decompressed_too_large"] * 3
    assert result["above_idle_mib"] < PEAK_MIB_MAX  # type: ignore[operator]


def forged_members() -> bytes:
    """Return members that begin with a record, each of which expands to the end of the file."""
    head = GZIP_MAGIC + b"\x08\x00\x00\x00\x00\x00\x00\x03" + b"\x00\xff\xff\x00\x00WARC/1.0\r\n"
    # A stored block is 65,535 bytes behind its 5: the next one's head lies where this one's does.
    unit = head.ljust(58, b"z")
    return unit * 10_000


@pytest.mark.parametrize(
    "content",
    [
        (GZIP_MAGIC + b"\x08\x00\x00\x00\x00\x00\x00\x03") * 100_000,
        forged_members(),
        b"WARC/1.0\r\nWARC-Type: resource\r\nContent-Length: 16000000\r\n\r\n" * 10_000,
        b"WARC/1.0\r\nWARC-Type: resource\r\nContent-Length: 99999999999\r\n\r\n" * 10_000,
        b"WARC/1.0\r\n" * 100_000,
        b"filedesc://a 0.0.0.0 20080430 text/plain 9\n"
        + b"a:b 1.1.1.1 20080430 t 9000000\n" * 9999,
    ],
    ids=range(6),
)
def test_forged_members_and_records_cost_time_by_their_size(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.warc"
    good = gzip.compress(b"WARC/1.0\r\nWARC-Type: resource\r\nContent-Length: 1\r\n\r\nx\r\n\r\n")

    def seconds(size: int) -> float:
        began = time.process_time()
        for part in (content[:size], good + content[:size]):
            path.write_bytes(part)
            for chunk in all_chunks(Source(str(path), is_regular=True)):
                assert chunk.end > chunk.start
        return time.process_time() - began

    quarter = seconds(len(content) // 4)
    assert seconds(len(content)) < 8 * quarter + 0.2, "16 times, were it the square"


def test_the_memory_check_sees_a_file_that_is_held_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_repeated(path, b"", b"x", 100, b"")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    code = f"len(open({str(path)!r}, 'rb').read())"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert max(before, after) > PEAK_MIB_MAX * 1024


def test_a_page_of_20_mib_is_refused_and_one_of_15_mib_passes(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        for mebibytes in (20, 15):
            file.write(b'{"url": "u", "body": "' + b"x" * (mebibytes * MIB) + b'"}\n')
    batches = parse(path)
    assert [(dead.sequence, dead.code) for batch in batches for dead in batch.dead] == [
        (0, "record_too_large")
    ]
    assert [sequence for batch in batches for sequence in batch.sequences] == [1]


@pytest.mark.parametrize("charset", ["klingon-8", "utf-8", "windows-1252", "\x00", "x" * 9999])
def test_an_unknown_or_wrong_charset_still_gives_a_page_in_utf8(charset: str) -> None:
    body = "<p>Добрый день, как дела</p>".encode("koi8-r")
    message = {"url": "u", "body_base64": base64.b64encode(body).decode(), "charset": charset}
    batch = PageParser().parse_messages(0, 1, [(0, None, json.dumps(message).encode())])
    (text,) = batch.bodies
    assert bytes(text).decode().startswith("<p>")


@pytest.mark.parametrize("name", ["a.jsonl", "a.warc", "a.jsonl.gz", "a.warc.gz"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"\x00" * 5000,
        bytes(range(256)) * 40,
        b"\x1f\x8b\x08\x00garbage",
        b"\x28\xb5\x2f\xfdgarbage",
        gzip.compress(b"", mtime=0),
    ],
)
def test_garbage_files_end_in_dead_letters_and_counts(
    tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    at = 0
    for batch in parse(path):
        assert batch.start == at
        at = batch.end
        assert len(batch) == 0
        assert len(batch.dead) + batch.skipped.total() == batch.end - batch.start
    if len(content) > 100:
        assert at > 0


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
NAMES = st.sampled_from(["url", "body", "body_base64", "content_type", "charset", "fetched_at"])
MESSAGES = st.dictionaries(NAMES, JSON_VALUES).map(lambda message: json.dumps(message).encode())


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("any") / "any.jsonl"


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.binary(max_size=40) | MESSAGES, max_size=12), st.booleans())
@example([b'{"url": "u", "body": "\\ud800"}', b"", GOOD], True)
def test_any_bytes_as_lines_end_in_exactly_one_of_pages_dead_letters_and_counts(
    scratch: Path,
    lines: list[bytes],
    carrying: bool,  # noqa: FBT001 - drawn by Hypothesis
) -> None:
    content = b"\n".join(lines)
    assume(not content.startswith((GZIP_MAGIC, ZSTD_MAGIC)))  # that would be another kind of file
    scratch.write_bytes(content)
    parser = PageParser(carry=["fetched_at", "/charset", "url"] if carrying else [])
    at = 0
    for chunk in all_chunks(Source(str(scratch), is_regular=True)):
        batch = parser.parse(chunk)
        assert (batch.start, batch.end) == (at, chunk.end)
        at = batch.end
        dead = [letter.sequence for letter in batch.dead]
        placed = sorted(batch.sequences + dead)
        assert placed == sorted(set(placed))
        assert all(batch.start <= sequence < batch.end for sequence in placed)
        assert len(placed) + batch.skipped.total() == batch.end - batch.start
        assert dead == sorted(dead)
        check_pages(batch)
    assert at == len(list(io.BytesIO(content)))


def check_pages(batch: PageBatch) -> None:
    """Check what the later stages rely on."""
    columns = (batch.keys, batch.urls, batch.bodies, batch.flags, batch.carried)
    assert {len(column) for column in columns} == {len(batch)}
    for url, body, flags, carried in zip(*columns[1:], strict=True):
        assert url.decode()
        assert b"\n" not in url
        if flags & ESCAPED:
            json.loads(b'"' + bytes(body).decode(errors="replace").encode() + b'"')
        else:
            assert bytes(body).decode().strip(" \t\r\n\f\v")
        assert carried == b"" or isinstance(json.loads(carried), dict)
