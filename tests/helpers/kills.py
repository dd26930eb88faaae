"""Processes that end by SIGKILL: before a given call, or when they have told enough."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    """Run a program; return its exit code, or that of its signal."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode


def answers_until_killed(
    program: str, *arguments: object, lines: int, pause: float = 0.0
) -> list[int]:
    """Run a program that prints numbers; kill it `pause` seconds after so many; return these."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(lines)]
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
    return told
