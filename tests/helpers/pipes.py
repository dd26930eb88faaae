"""A replay as a co-process: pages go in by one pipe, verdicts come out of another."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

WAIT_SECONDS_MAX = 240.0  # a machine may be slow; what waits for the end of the pipe never comes


def line(number: int) -> bytes:
    """Return a page; each third one is a copy of the one before it."""
    return json.dumps({"url": url_of(number), "body": text_of(number)}).encode() + b"\n"


def url_of(number: int) -> str:
    return f"http://a.example/{number}"


def text_of(number: int) -> str:
    return " ".join(f"word{number - (number % 3 == 2)}x{at}" for at in range(40))


def http_of(number: int) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n" + text_of(number).encode()


def warc_record(number: int) -> bytes:
    """Return the page of `line` as a WARC record."""
    block = http_of(number)
    head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url_of(number)}\r\n"
    return f"{head}Content-Length: {len(block)}\r\n\r\n".encode() + block + b"\r\n\r\n"


def arc_record(number: int) -> bytes:
    """Return the page of `line` as an ARC record."""
    block = http_of(number)
    head = f"{url_of(number)} 10.0.0.1 20260101000000 text/plain {len(block)}\n"
    return head.encode() + block + b"\n"


@contextmanager
def coprocess(*options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a replay of standard input to standard output."""
    command = [sys.executable, "-m", "streamer", "replay", "-", "--verdicts", "-", *options]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_line(stream: IO[bytes] | None) -> bytes:
    """Return the next line of a pipe, or what of it came in time."""
    assert stream is not None
    found, deadline = b"", time.monotonic() + WAIT_SECONDS_MAX
    while not found.endswith(b"\n"):
        ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
        if not ready or not (part := stream.raw.read(1)):  # type: ignore[attr-defined]
            break
        found += part
    return found


def give(process: subprocess.Popen[bytes], data: bytes) -> None:
    """Write to a process, at once."""
    assert process.stdin is not None
    process.stdin.write(data)
    process.stdin.flush()
