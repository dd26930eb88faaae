"""Workers as processes of their own: started, killed, stopped for a while, and waited for."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import pytest
from aiokafka.errors import KafkaError

from streamer.analysis.audit.verify import left
from streamer.cli.main import run
from streamer.errors import StreamerError
from streamer.kafka.reader import open_reader
from streamer.kafka.topics import Names
from tests.helpers import forked
from tests.helpers.wait import PATIENCE_S

ROOT = Path(__file__).parents[2]
KEY = "5a" * 32
LOADS_KERNELS = "NUMBA_CACHE_DIR"  # a test that names their folder has each process load its own

AnyProcess = forked.Running | subprocess.Popen[bytes]


def streamer(*arguments: object, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a command as a process of its own."""
    environment = {**os.environ, "COLUMNS": "120"}
    given = [*map(str, arguments)]
    if LOADS_KERNELS in os.environ:
        command = [sys.executable, "-m", "streamer", *given]
        return subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
        )
    return forked.run(forked.COMMANDS, given, cwd=cwd, environment=environment)


def exit_code(*arguments: object) -> int:
    """Run a command in this process, as the program does; return its exit code."""
    argv = ["streamer", *map(str, arguments)]
    with patch.object(sys, "argv", argv), pytest.raises(SystemExit) as ended:
        run()
    return ended.value.code if isinstance(ended.value.code, int) else 0


@dataclass
class Fleet:
    """The workers of one index over one topic; each by a name, with its log in `folder`."""

    folder: Path
    brokers: str
    names: Names
    options: tuple[str, ...] = ()
    running: dict[str, AnyProcess] = field(default_factory=dict)
    commands: dict[str, tuple[str, ...]] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)  # where the log of the present one begins

    def start(self, name: str, *options: object) -> AnyProcess:
        """Start a worker; without options, with those that it had before."""
        if options:
            self.commands[name] = tuple(map(str, options))
        key = self.folder / "key"
        if not key.exists():  # or a worker that has just started may find it empty
            key.write_text(KEY)
            key.chmod(0o600)
        command = [
            "worker", "--brokers", self.brokers,
            "--input-topic", self.names.pages, "--index-name", self.names.index,
            "--key-file", str(key), "--health-port", "0",
            "--threads", "1", *self.options, *self.commands[name],
        ]  # fmt: skip
        log = self.folder / f"{name}.log"
        log.touch()
        self.marks[name] = log.stat().st_size
        process: AnyProcess
        if LOADS_KERNELS in os.environ:
            with log.open("ab") as out:
                process = subprocess.Popen(
                    [sys.executable, "-m", "streamer", *command], cwd=ROOT, stdout=out, stderr=out
                )
        else:
            process = forked.Running(
                forked.COMMANDS, command, cwd=ROOT, environment=os.environ,
                streams=forked.Streams(stdout=log, stderr=log),
            )  # fmt: skip
        self.running[name] = process
        return process

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal that ends the worker; return its exit code."""
        process = self.running.pop(name)
        process.send_signal(number)
        return process.wait(timeout=PATIENCE_S)

    def restart_dead(self) -> list[str]:
        """Start again whoever has ended by itself; return their names."""
        dead = [name for name, process in self.running.items() if process.poll() is not None]
        for name in dead:
            self.start(name)
        return dead

    def log(self, name: str) -> str:
        """Return what a worker has printed."""
        return (self.folder / f"{name}.log").read_text()

    def wait_for_log(self, name: str, word: str, seconds: float = PATIENCE_S) -> None:
        """Wait until the worker that now runs under a name has logged an event."""
        deadline = time.monotonic() + seconds
        while word not in self.log(name)[self.marks[name] :]:
            assert self.running[name].poll() is None, self.log(name)
            assert time.monotonic() < deadline, self.tails()
            time.sleep(0.1)

    def close(self) -> None:
        """Kill whoever runs."""
        for process in self.running.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        self.running.clear()

    def left(self) -> int:
        """Return how many records are still to be read and committed, of pages and of all logs.

        It is 1 where it cannot be asked now.
        """
        try:
            return asyncio.run(_left(self.brokers, self.names))
        except (StreamerError, KafkaError):
            return 1

    def reported(self) -> int:
        """Return how many verdicts there are."""
        return asyncio.run(_length(self.brokers, self.names.verdicts))

    def wait_until_settled(self, seconds: float = 2 * PATIENCE_S) -> None:
        """Wait until everything is judged and committed; restart whoever has ended meanwhile."""
        deadline = time.monotonic() + seconds
        quiet = 0
        while quiet < 2:
            self.restart_dead()
            left = self.left()
            quiet = quiet + 1 if left == 0 else 0
            assert time.monotonic() < deadline, (left, self.tails())
            time.sleep(0.3)

    def settle(self, name: str, *options: object) -> None:
        """Start a worker, and wait until everything is judged and committed."""
        self.start(name, *options)
        self.wait_until_settled()

    def see_that_all_holds(self, *options: str) -> None:
        """Have `streamer verify` find nothing wrong, and nothing left to be judged."""
        done = self.verify("--settled", *options)
        assert done.returncode == 0, (done.stdout, done.stderr, self.tails())

    def tails(self) -> dict[str, str]:
        """Return the ends of all logs, for a failure's message."""
        return {path.stem: path.read_text()[-1500:] for path in self.folder.glob("*.log")}

    def replayed(self) -> list[bytes]:
        """Return the lines of a replay in one process, in the order of the log."""
        lines = self.folder / "replayed.jsonl"
        done = streamer(
            "replay", "--from-topic", self.names.pages, "--brokers", self.brokers, "--order-of",
            self.names.index, "--verdicts", lines, "--key-file", self.folder / "key",
            *self.options,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return lines.read_bytes().splitlines()

    def verify(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run `streamer verify` on the index."""
        return streamer(
            "verify", "--brokers", self.brokers, "--input-topic", self.names.pages,
            "--index-name", self.names.index, *options,
        )  # fmt: skip


@contextmanager
def fleet(
    folder: Path, brokers: str, names: Names, options: tuple[str, ...] = ()
) -> Iterator[Fleet]:
    """Provide a fleet; nobody of it runs any more at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Fleet(folder, brokers, names, options)
    try:
        yield made
    finally:
        made.close()


async def _length(brokers: str, topic: str) -> int:
    async with open_reader({"bootstrap_servers": brokers}) as reader:
        return sum([(await reader.bounds(topic, i))[1] for i in await reader.partitions(topic)])


async def _left(brokers: str, names: Names) -> int:
    async with open_reader({"bootstrap_servers": brokers}) as reader:
        return await left(reader, names)
