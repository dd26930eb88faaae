"""Processes that end by SIGKILL: before a given call, or when they have reported enough."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from tests.helpers import forked

ROOT = Path(__file__).parents[2]


def die_before(step: int, *calls: tuple[Any, str]) -> None:
    """Have this process killed before the `step`-th of these calls, an owner and a name each."""
    left = step

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: object, **options: object) -> object:
            nonlocal left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return call

    for owner, name in calls:
        setattr(owner, name, counted(getattr(owner, name)))


def code_of(program: str, *arguments: object) -> int:
    """Run a program; return its exit code, or that of its signal (negative)."""
    return ran(program, *arguments).returncode


def ran(program: str, *arguments: object, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a program in a process in which most is loaded already."""
    given = [program, *map(str, arguments)]
    return forked.run(f"{__name__}:{run.__name__}", given, cwd=cwd, environment=os.environ)


def output_of(program: str, *arguments: object) -> list[str]:
    """Return the lines that a program prints, which must end well."""
    done = ran(program, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def started(
    program: str, *arguments: object, stderr: forked.AnyPath = os.devnull
) -> forked.Running:
    """Start a program in such a process; nobody reads its output, but what it says of errors."""
    given, streams = [program, *map(str, arguments)], forked.Streams(stderr=stderr)
    return forked.Running(
        f"{__name__}:run", given, cwd=ROOT, environment=os.environ, streams=streams
    )


def run() -> None:
    """Run the program that is the first argument, as `python -c` does."""
    exec(sys.argv.pop(1), {"__name__": "__main__"})  # noqa: S102 - programs of these tests


def piped(program: str, *arguments: object) -> Piped:
    """Start a program in such a process, between two pipes."""
    return Piped(f"{__name__}:{run.__name__}", [program, *map(str, arguments)])


def answers_until_killed(
    program: str, *arguments: object, lines: int, pause: float = 0.0
) -> list[int]:
    """Run a program that prints numbers; kill it `pause` seconds after so many; return these."""
    with piped(program, *arguments) as process:
        reported = [int(process.stdout.readline()) for _ in range(lines)]
        time.sleep(pause)
        process.kill()
    return reported


class Piped(forked.Running):
    """A program between two pipes, whose errors go into a file."""

    def __init__(self, program: str, arguments: Sequence[str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="piped-")
        self._errors = Path(self._folder.name, "stderr")
        pipes = [Path(self._folder.name, name) for name in ("stdin", "stdout")]
        for pipe in pipes:
            os.mkfifo(pipe)
        super().__init__(
            program, arguments, cwd=Path.cwd(), environment=os.environ,
            streams=forked.Streams(pipes[0], pipes[1], self._errors),
        )  # fmt: skip
        self.stdin = pipes[0].open("wb", buffering=0)  # waits until the process reads
        self.stdout = pipes[1].open("rb", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait()
        self.stdin.close()
        self.stdout.close()
        self._folder.cleanup()

    def errors(self) -> str:
        """Wait for the end; return what was written to standard error."""
        self.wait()
        return self._errors.read_text()
