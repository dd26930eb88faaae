"""How long a line of a pipe waits for its verdict: `python -m benchmarks.pipe_latency`.

`streamer replay -` is a process of its own. Lines go in at a rate, each at its own time, and the
time until its verdict comes out is taken. Chunks end after a second (`--chunk-seconds`), so a line
waits for half of one in the middle, and for little more than one at worst.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.corpus_file import obtain

if TYPE_CHECKING:
    from collections.abc import Iterator

RATES = (1, 100, 2_000, 20_000)  # lines a second
SECONDS = 10.0
TARGET_S = 1.5  # for 99 of 100 lines
WARM_LINES = 5
TICK_SECONDS = 0.005


class Latency(msgspec.Struct, frozen=True):
    """Seconds from a line to its verdict, at `rate` lines a second."""

    rate: int
    lines: int
    median_s: float
    p99_s: float
    max_s: float


def measure(folder: Path, rate: int, seconds: float = SECONDS) -> Latency:
    """Feed lines at a rate for so many seconds, after some that start everything.

    Raises:
        RuntimeError: there are not as many verdicts as lines.
    """
    count = max(2, int(rate * seconds))
    with obtain(folder, count + WARM_LINES).path.open("rb") as file:
        lines = [next(file) for _ in range(count + WARM_LINES)]
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        command = [sys.executable, "-m", "streamer", "replay", "-", "--verdicts", "-"]
        process = subprocess.Popen(
            [*command, "--dead-letters", str(Path(scratch, "dead.jsonl"))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        came: list[float] = []
        reader = threading.Thread(target=_note_times, args=(process.stdout, came))
        reader.start()
        process.stdin.write(b"".join(lines[:WARM_LINES]))
        process.stdin.flush()
        while len(came) < WARM_LINES and process.poll() is None:
            time.sleep(TICK_SECONDS)
        went = [*_feed(process.stdin, lines[WARM_LINES:], rate)]
        process.stdin.close()
        reader.join()
        process.stdout.close()
        process.wait()
    if len(came) != len(lines):
        raise RuntimeError(f"{len(lines)} lines have {len(came)} verdicts")
    waits = np.array(came[WARM_LINES:]) - np.array(went)
    median, p99 = np.percentile(waits, [50, 99]).tolist()
    return Latency(rate, count, median, p99, float(waits.max()))


def _feed(pipe: IO[bytes], lines: list[bytes], rate: int) -> Iterator[float]:
    """Write each line at its time, those of a tick together; yield when each was written."""
    begin, sent = time.monotonic(), 0
    while sent < len(lines):
        due = min(len(lines), int((time.monotonic() - begin) * rate) + 1)
        now = time.monotonic()
        pipe.write(b"".join(lines[sent:due]))
        pipe.flush()
        yield from [now] * (due - sent)
        sent = due
        time.sleep(max(TICK_SECONDS, begin + sent / rate - time.monotonic()))


def _note_times(pipe: IO[bytes], came: list[float]) -> None:
    for _ in pipe:
        came.append(time.monotonic())  # noqa: PERF401 - it is read meanwhile


def table(found: list[Latency]) -> Table:
    """Return what was measured, in milliseconds."""
    shown = Table("lines a second", "lines", "median", "p99", "longest", title="ms to the verdict")
    for each in found:
        times = (f"{1000 * s:,.0f}" for s in (each.median_s, each.p99_s, each.max_s))
        shown.add_row(f"{each.rate:,}", f"{each.lines:,}", *times)
    return shown


def main() -> int:
    """Measure all rates; return 1 if one misses the target."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("build/benchmarks"))
    parser.add_argument("--seconds", type=float, default=SECONDS)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    found = [measure(given.folder, rate, given.seconds) for rate in RATES]
    Console().print(table(found))
    return int(any(each.p99_s > TARGET_S for each in found))


if __name__ == "__main__":
    sys.exit(main())
