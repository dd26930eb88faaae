"""Pipes in real time: a page's verdict comes soon after the page, though the pipe stays open."""

import gzip
import json
import select
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import forked, pipes
from tests.helpers.fleet import exit_code
from tests.helpers.kills import Piped
from tests.helpers.pipes import WAIT_SECONDS_MAX, coprocess, give, line, read_line, warc_record
from tests.helpers.wait import wait_until


def members(count: int) -> list[bytes]:
    return [gzip.compress(line(i)) for i in range(count)]


def one_member(count: int) -> list[bytes]:
    packer = zlib.compressobj(wbits=31)
    return [
        packer.compress(line(i)) + packer.flush(zlib.Z_SYNC_FLUSH) for i in range(count)
    ]  # and its end never comes


def plain(count: int) -> list[bytes]:
    return [line(i) for i in range(count)]


def warc(count: int) -> list[bytes]:
    return [warc_record(i) for i in range(count)]


def warc_members(count: int) -> list[bytes]:
    return [gzip.compress(each) for each in warc(count)]


def arc(count: int) -> list[bytes]:
    first = b"filedesc://a.arc 0.0.0.0 20260101000000 text/plain 10\n1 0 a\n\nURL\n"
    return [(b"" if i else first) + pipes.arc_record(i) for i in range(count)]


def long_and_malformed(count: int) -> list[bytes]:
    """Return records after which one over the page limit, or garbage, begins and stays open."""
    long = b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 3000\r\n\r\n"
    ends = [b"", b"x" * 3000 + b"\r\n\r\n", b"\r\n\r\n"]
    begins = [long, b"no record\r\n", b""]
    return [
        ends[i % 3] + each + begins[i % 3] for i, each in enumerate(warc(count))
    ]  # each third one ends the garbage by itself


def said(line: bytes) -> tuple[object, ...]:
    """Return what a verdict says; the index and the names of sources are others in a pipe."""
    verdict = json.loads(line)
    names = "url", "verdict", "basis", "similarity", "text_bytes"
    other = verdict["representative"] or {"page": {"offset": None}}
    return *map(verdict.get, names), verdict["page"]["offset"], other["page"]["offset"]


def judged_at_once(path: Path, data: list[bytes], *options: str) -> list[tuple[object, ...]]:
    path.write_bytes(b"".join(data))
    verdicts = path.with_name("verdicts")
    assert exit_code("replay", path, "--verdicts", verdicts, *options) == 0
    return [*map(said, verdicts.read_bytes().splitlines())]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (plain, "pages.jsonl"),
        (members, "pages.jsonl.gz"),
        (one_member, "pages.jsonl.gz"),
        (warc, "pages.warc"),
        (warc_members, "pages.warc.gz"),
        (arc, "pages.arc"),
        (long_and_malformed, "pages.warc"),
    ],
)
def test_a_verdict_comes_before_the_next_page_does(make: Any, name: str, tmp_path: Path) -> None:
    found, options = [], ("--page-bytes-max", "2000")
    with coprocess("--chunk-seconds", "0.1", *options) as process:
        for data in make(6):
            give(process, data)
            found.append(said(read_line(process.stdout)))
    whole = [gzip.compress(b"".join(plain(6)))] if make is one_member else make(6)
    assert found == judged_at_once(tmp_path / name, whole, *options)


def test_a_verdict_comes_before_what_is_behind_damage_is_written() -> None:
    first, second = warc_members(2)
    with coprocess("--chunk-seconds", "0.1") as process:
        give(process, first + second[:-8] + bytes(8))
        assert json.loads(read_line(process.stdout))["url"] == "http://a.example/0"


def test_a_record_that_may_hold_another_waits_for_what_follows(tmp_path: Path) -> None:
    """Its length is believed if a record follows, so nothing can be said before."""
    inner, outer = warc_record(1), pipes.http_of(0) + b"\n" + warc_record(1)
    head = b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.example/0\r\n"
    whole = head + b"Content-Length: %d\r\n\r\n" % len(outer) + outer + b"\r\n\r\n"
    with coprocess("--chunk-seconds", "0.1") as process:
        give(process, warc_record(3) + whole)
        found = [said(read_line(process.stdout))]
        ready, _, _ = select.select([process.stdout], [], [], 1.0)
        assert not ready
        give(process, b"no record\n" + inner)
        process.stdin.close()
        found += map(said, process.stdout)
    data = [warc_record(3), whole, b"no record\n", inner]
    assert found == judged_at_once(tmp_path / "a.warc", data)


@pytest.mark.parametrize("make", [members, warc, warc_members])
def test_a_pipe_that_never_pauses_for_long_gives_verdicts_in_time(make: Any) -> None:
    with coprocess("--chunk-seconds", "0.2") as process:
        give(process, make(1)[0])
        read_line(process.stdout)  # the program has started
        for data in make(100):  # within a tick of each other, for two seconds
            give(process, data)
            time.sleep(0.02)
        ready, _, _ = select.select([process.stdout], [], [], 0)
        assert ready


def test_a_verdict_file_grows_while_the_pipe_after_a_file_is_open(tmp_path: Path) -> None:
    pages, out = tmp_path / "pages.jsonl", tmp_path / "verdicts.jsonl"
    pages.write_bytes(line(0))
    with Piped(forked.COMMANDS, ["replay", str(pages), "-", "--verdicts", str(out)]):
        wait_until(lambda: out.exists() and bool(out.read_bytes()))
    assert json.loads(out.read_bytes())["url"] == "http://a.example/0"


def test_a_pipe_whose_reader_has_gone_ends_the_run_in_silence(tmp_path: Path) -> None:
    with coprocess("--chunk-seconds", "0.1", "--summary", str(tmp_path / "summary")) as process:
        give(process, line(0))
        read_line(process.stdout)
        process.stdout.close()
        give(process, line(1))
        assert process.wait(WAIT_SECONDS_MAX) == 141
        errors = process.errors()
    assert "rror" not in errors
    assert not (tmp_path / "summary").exists() or not (tmp_path / "summary").read_bytes()
