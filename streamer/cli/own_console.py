"""The console of a run: what `replay --console` and `worker --console` start.

It is a process of its own, which the run neither waits for nor depends on. It ends when its
standard input does, and that is a pipe that only the run holds: so it ends with the run, also when
that is killed. Of what the console says, its address is passed on, and at most one warning.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from streamer.config import OTHER_VARIABLES, Settings, list_settings
from streamer.errors import StreamerError
from streamer.panels import SECURITY
from streamer.run.index_folder import shard_folders
from streamer.stored.witness import read_witness

_END_SECONDS = 2.0  # that the end of a run gives to its console
_PREFIX = "STREAMER_"
_PASSWORD = f"{_PREFIX}SASL_PASSWORD"

Say = Callable[[str], None]


def console_of_files(files: Sequence[Path], index: Path | None, settings: Settings) -> list[str]:
    """Return the arguments of a console that shows files of verdicts, and an index if it is there.

    An index that is made by this run has nothing to open yet, as before its first flush.
    """
    return [*map(str, files), *_index(index), *_flags(settings, "key_file", "input_topic", "also")]


def console_of_workers(index: Path, settings: Settings) -> list[str]:
    """Return the arguments of a console that shows the topics of an index."""
    names = ["brokers", "index_name", "input_topic", "key_file"]
    names += [one.name for one in list_settings() if one.panel == SECURITY and one.flag]
    return [*_index(index), *_flags(settings, *names)]


def _index(folder: Path | None) -> list[str]:
    if folder is None or not folder.is_dir():
        return []
    with suppress(StreamerError):  # the run itself says what is wrong with it
        if read_witness(folder / shard_folders(folder)[0]):
            return [str(folder)]
    return []


def _flags(settings: Settings, *names: str) -> list[str]:
    """Return settings as the flags of a command; those without a value are left out."""
    found = []
    for name in names:
        value = getattr(settings, name)
        for each in value if isinstance(value, tuple) else (value,):
            if each is not None:
                found += [f"--{name.replace('_', '-')}", str(each)]
    return found


def environment_of(settings: Settings, own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the console: that of the run, with no other settings than its own.

    The password for the brokers is passed here: other users see command lines.
    """
    found = {
        name: value
        for name, value in own.items()
        if not name.upper().startswith(_PREFIX) or name in OTHER_VARIABLES
    }
    if settings.sasl_password is not None:
        found[_PASSWORD] = settings.sasl_password.get_secret_value()
    return found


@contextmanager
def run_console_beside(
    arguments: Sequence[str], settings: Settings, say: Say, warn: Say
) -> Iterator[None]:
    """Run a console; `say` gets its address, `warn` why there is none any more. Raises nothing.

    Both are called in another thread.
    """
    command = [sys.executable, "-m", "streamer", "console", "--port", "0", "--until-closed"]
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(  # noqa: S603 - this program itself
            [*command, *arguments], stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT,
            env=environment_of(settings, os.environ), start_new_session=True, text=True,
            errors="replace",
        )  # fmt: skip
    except OSError as error:
        warn(f"The console cannot be started: {error.strerror}. The run goes on without it.")
        yield
        return
    ended = threading.Event()
    watching = threading.Thread(target=_watch, args=(process, ended, say, warn), daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        assert process.stdin
        process.stdin.close()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
        watching.join(_END_SECONDS)


def _watch(process: subprocess.Popen[str], ended: threading.Event, say: Say, warn: Say) -> None:
    """Pass on the address, and read all else, so that the console never waits for a reader."""
    last = ""
    assert process.stdout
    with process.stdout:
        for line in process.stdout:
            if line.startswith("http://"):
                say(line.strip())
            else:
                last = line.strip() or last
    code = process.wait()
    if not ended.is_set():
        why = last or f"exit code {code}"
        warn(f"There is no console any more ({why}); the run goes on without it.")
