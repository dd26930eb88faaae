"""Pipes in real time: a page's verdict comes soon after the page, though the pipe stays open."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.fleet import exit_code
from tests.helpers.pipes import WAIT_SECONDS_MAX, coprocess, give, line, read_line


def members(count: int) -> list[bytes]:
    return [gzip.compress(line(i)) for i in range(count)]


def one_member(count: int) -> list[bytes]:
    packer = zlib.compressobj(wbits=31)
    return [
        packer.compress(line(i)) + packer.flush(zlib.Z_SYNC_FLUSH) for i in range(count)
    ]  # and its end never comes


def plain(count: int) -> list[bytes]:
    return [line(i) for i in range(count)]


@pytest.mark.parametrize("make", [plain, members, one_member])
def test_a_verdict_comes_before_the_next_page_is_written(make: Any, tmp_path: Path) -> None:
    whole, verdicts = tmp_path / "pages.jsonl", tmp_path / "verdicts"
    whole.write_bytes(b"".join(plain(6)))
    assert exit_code("replay", whole, "--verdicts", verdicts) == 0
    found = []
    with coprocess("--chunk-seconds", "0.1") as process:
        for data in make(6):
            give(process, data)
            found.append(json.loads(read_line(process.stdout)))
    expected = [json.loads(each) for each in verdicts.read_bytes().splitlines()]
    for verdict in (*found, *expected):
        del verdict["index"], verdict["page"]["topic"]
        if verdict["representative"]:
            del verdict["representative"]["page"]["topic"]
    assert found == expected


def test_a_verdict_file_grows_while_its_pipe_is_open(tmp_path: Path) -> None:
    out = tmp_path / "verdicts.jsonl"
    with coprocess("--chunk-seconds", "0.1", "--verdicts", str(out)) as process:
        give(process, line(0))
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not (out.exists() and out.read_bytes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert json.loads(out.read_bytes())["url"] == "http://a.example/0"


def test_pages_of_a_file_are_judged_while_the_pipe_after_it_is_silent(tmp_path: Path) -> None:
    pages = tmp_path / "pages.jsonl"
    pages.write_bytes(line(0))
    command = [sys.executable, "-m", "streamer", "replay", str(pages), "-", "--verdicts", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        verdict = read_line(process.stdout)
        process.kill()
    assert json.loads(verdict)["url"] == "http://a.example/0"


def test_a_pipe_whose_reader_has_gone_ends_the_run_in_silence(tmp_path: Path) -> None:
    with coprocess("--chunk-seconds", "0.1", "--summary", str(tmp_path / "summary")) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        give(process, line(0))
        read_line(process.stdout)
        process.stdout.close()
        give(process, line(1))
        said = process.stderr.read().decode()
        assert process.wait(WAIT_SECONDS_MAX) == 141
    assert "rror" not in said
    assert not (tmp_path / "summary").exists() or not (tmp_path / "summary").read_bytes()
