"""Commands that start at once: each is forked from a process that has everything loaded.

A command by itself takes a second or two to import the package and to load its kernels.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from pkgutil import resolve_name
from typing import NamedTuple

_CONTEXT = get_context("forkserver")
_CONTEXT.set_forkserver_preload(["__main__", "tests.helpers.loaded"])

AnyPath = str | os.PathLike[str]
COMMANDS = "streamer.cli.main:run"
"""The program of all commands."""


class Streams(NamedTuple):
    """Where a process reads its input, and where what it prints is appended."""

    stdin: AnyPath = os.devnull
    stdout: AnyPath = os.devnull
    stderr: AnyPath = os.devnull


_NONE = Streams()


class Running:
    """A program in a process of its own, with what of `subprocess.Popen` tests need.

    A program is named by its main function (`module:name`). It has the variables of `environment`
    and no others; but STREAMER_CACHE_DIR is that of the first one's start.
    """

    def __init__(
        self,
        program: str,
        arguments: Sequence[str],
        *,
        cwd: AnyPath,
        environment: Mapping[str, str],
        streams: Streams = _NONE,
    ) -> None:
        self.args = [*arguments]
        self._process = _CONTEXT.Process(
            target=_child, args=(program, self.args, cwd, {**environment}, streams)
        )
        self._process.start()

    def poll(self) -> int | None:
        """Return the exit code, that of a signal as a negative number; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the process has ended; return its exit code.

        Raises:
            subprocess.TimeoutExpired: it still runs after so many seconds.
        """
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, if the process still runs."""
        if self.poll() is None and self._process.pid:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(self._process.pid, number)

    def kill(self) -> None:
        """End the process as `kill -9` does."""
        self.send_signal(signal.SIGKILL)


def run(
    program: str, arguments: Sequence[str], *, cwd: AnyPath, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a program as `Running` does; return its exit code and what it printed."""
    with tempfile.TemporaryDirectory(prefix="streamer-") as folder:
        streams = Streams(os.devnull, Path(folder, "stdout"), Path(folder, "stderr"))
        running = Running(program, arguments, cwd=cwd, environment=environment, streams=streams)
        code = running.wait()
        printed = [
            path.read_text("utf-8") if path.exists() else "" for path in map(Path, streams[1:])
        ]
        return subprocess.CompletedProcess(running.args, code, *printed)


def run_module(
    command: Sequence[str], *, cwd: AnyPath, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run what a replay of `streamer.testing` runs, forked."""
    module, *arguments = command
    program = COMMANDS if module == "streamer" else f"{module}:main"
    return run(program, arguments, cwd=cwd, environment=environment)


def _child(
    program: str,
    arguments: Sequence[str],
    cwd: AnyPath,
    environment: Mapping[str, str],
    streams: Streams,
) -> None:
    """Make this process the program's."""
    for number, path in enumerate(streams):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND if number else os.O_RDONLY
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - multiprocessing has closed it
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    sys.argv = ["streamer", *arguments]
    resolve_name(program)()
