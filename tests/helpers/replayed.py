"""A replay as a process of its own that gets its pages through a pipe, and is watched meanwhile."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.resident import resident

ROOT = Path(__file__).parents[2]
LINES_A_WRITE = 64
WATCH_SECONDS = 0.05


@dataclass
class Replayed:
    """What a replay has said: its summary and verdicts; `memory` is (lines fed, bytes resident)."""

    summary: dict[str, Any] = field(default_factory=dict)
    verdicts: Path = Path()
    memory: list[tuple[int, int]] = field(default_factory=list)
    cpu_seconds: float = 0.0

    def rate(self) -> float:
        """Return pages a second by the clock on the wall."""
        return float(self.summary["pages_per_second"])

    def cpu_us(self, start_seconds: float) -> float:
        """Return microseconds of CPU a page without the start; other work hardly changes them."""
        return 1e6 * (self.cpu_seconds - start_seconds) / float(self.summary["pages"])


def replay(folder: Path, lines: Iterable[bytes], seed: int) -> Replayed:
    """Judge JSON lines with a new index in `folder`, under the key of a seed.

    Raises:
        AssertionError: the command has failed; the message is what it printed.
    """
    folder.mkdir(parents=True)
    key = folder / "key"
    key.write_text(random.Random(seed).randbytes(32).hex())
    done = Replayed(verdicts=folder / "verdicts.jsonl")
    command = [
        sys.executable, "-m", "streamer", "replay", "-", "--verdicts", done.verdicts,
        "--index", folder / "index", "--key-file", key, "--summary", folder / "summary.json",
    ]  # fmt: skip
    log = folder / "log"
    before = _children_seconds()
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(map(str, command)), cwd=ROOT, stdin=subprocess.PIPE, stdout=output, stderr=output
        )
        try:
            _feed(process, iter(lines), done.memory)
        finally:
            process.kill()
    assert process.returncode == 0, log.read_text(encoding="utf-8")
    done.cpu_seconds = _children_seconds() - before
    done.summary = msgspec.json.decode((folder / "summary.json").read_bytes())
    return done


def _children_seconds() -> float:
    """Return the CPU time of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _feed(
    process: subprocess.Popen[bytes], lines: Iterator[bytes], memory: list[tuple[int, int]]
) -> None:
    """Write the lines, and wait for the end; note the memory meanwhile."""
    fed, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(WATCH_SECONDS):
            try:
                memory.append((fed[0], resident(process.pid).total_bytes))
            except (OSError, KeyError):  # it has ended just now
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        assert process.stdin is not None
        with process.stdin:
            while block := list(islice(lines, LINES_A_WRITE)):
                process.stdin.write(b"".join(block))
                fed[0] += len(block)
        process.wait()
    except BrokenPipeError:
        process.wait()
    finally:
        ended.set()
        watcher.join()
