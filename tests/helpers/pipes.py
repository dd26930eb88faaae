"""A replay as a co-process: pages go in by one pipe, verdicts come out of another."""

import io
import json
import select
import subprocess
import sys
import time

from tests.helpers import forked
from tests.helpers.cdx import warc_record as archived
from tests.helpers.kills import Piped

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
    return archived("response", url_of(number), http_of(number))


def arc_record(number: int) -> bytes:
    """Return the page of `line` as an ARC record."""
    block = http_of(number)
    head = f"{url_of(number)} 10.0.0.1 20260101000000 text/plain {len(block)}\n"
    return head.encode() + block + b"\n"


def piped(data: bytes, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """Run a command with this as its standard input, as a process of its own."""
    command = [sys.executable, "-m", "streamer", *map(str, arguments)]
    return subprocess.run(command, input=data, capture_output=True, check=False)


def coprocess(*options: str) -> Piped:
    """Run a replay of standard input to standard output."""
    return Piped(forked.COMMANDS, ["replay", "-", "--verdicts", "-", *options])


def read_line(stream: io.FileIO) -> bytes:
    """Return the next line of a pipe, or what of it came in time."""
    found, deadline = b"", time.monotonic() + WAIT_SECONDS_MAX
    while not found.endswith(b"\n"):
        ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
        if not ready or not (part := stream.read(1)):
            break
        found += part
    return found


def give(process: Piped, data: bytes) -> None:
    """Write to a process, at once."""
    while data:
        data = data[process.stdin.write(data) :]
