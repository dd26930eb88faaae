"""Replays for tests: each is a process of its own, with a new index and a key that never changes.

The key and the settings are all that verdicts depend on besides the pages. So a replay reads no
settings from the environment, and names a file as seen from its own folder: the same pages get the
same bytes on each machine.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamer.testing.verdicts import (
    DEAD_LETTERS,
    INDEX,
    VERDICTS,
    ReplayVerdicts,
    check_same_files,
)

if TYPE_CHECKING:  # they import numba
    from streamer import AnyPage, Settings

KEY = b"streamer.testing".hex() * 2
"""The secret of all hashes in a test, as a key file has it."""

_CACHE = "STREAMER_CACHE_DIR"  # the one variable that is no setting of a replay
_SERVER = "from streamer.testing.server import main; main()"


class KillMarker(Enum):
    """What stands between two pages where the replay is to be killed."""

    KILL = "KILL"


KILL = KillMarker.KILL
Pages = list["AnyPage | bytes | KillMarker"]
"""Pages as `Deduplicator.add` takes them, records as bytes, and kill markers, in their order."""


class Replayer:
    """The fixture `streamer_replay`: judge pages with a new index, and return the verdicts."""

    def __init__(self, new_folder: Callable[[], Path], brokers: Callable[[], str]) -> None:
        self._new_folder = new_folder
        self._brokers = brokers
        self._server: subprocess.Popen[str] | None = None

    def close(self) -> None:
        """End the process that replays are forked off."""
        if self._server is not None:
            with self._server:  # it ends at the end of its standard input
                pass

    def __call__(
        self,
        pages: str | os.PathLike[str] | Iterable[AnyPage | bytes | KillMarker] | None = None,
        *,
        topic: str | None = None,
        order_of: str | None = None,
        settings: Settings | None = None,
        **options: Any,
    ) -> ReplayVerdicts:
        """Judge a file, a folder of files, a list of pages, or a topic.

        Of a topic the brokers are those of the fixture `streamer_broker`, unless `brokers` names
        others; with `order_of`, an index's name, verdicts are those of its worker, whose `key_file`
        is to be given. Options are settings by their names, as `threshold=0.9`; paths among them
        are `Path`, or absolute.

        With KILL among the pages, they are judged twice: once in peace, and once by a process that
        is killed at each marker and started again.

        Raises:
            AssertionError: the replay failed, with what it printed; or a kill changed a byte.
            TypeError: the arguments do not go together.
        """
        __tracebackhide__ = True
        if (pages is None) == (topic is None):
            raise TypeError("Give pages or topic=, one of the two.")
        if settings is not None and options:
            raise TypeError(f"Give settings or {next(iter(options))}=, not both.")
        given = options if settings is None else settings.model_dump(exclude_unset=True)
        folder, where, kills = self._new_folder(), None, []
        if topic is not None:
            given = given if "brokers" in given else {"brokers": self._brokers(), **given}
            source = ["--from-topic", topic, *(["--order-of", order_of] if order_of else [])]
        elif isinstance(pages, str | os.PathLike):
            path = Path(pages).absolute()
            source, where = ["--complete", path.name], path.parent
        else:
            kills = _write_pages(folder / "pages.jsonl", pages or ())
            source = ["--complete", "pages.jsonl"]
        cut = math.gcd(*kills) or 1 if kills else 0  # so that some records end at each marker
        quiet, killed = folder / "quiet", folder / "killed"
        _prepare(quiet, given)
        self._run(quiet, source, where or folder, cut)
        if kills:
            _prepare(killed, {"head_pages": 1, **given})
            for at in (*kills, None):
                self._run(killed, source, folder, cut, at)
            check_same_files(killed, quiet)
        return ReplayVerdicts(quiet)

    def _run(
        self, own: Path, source: Sequence[str], where: Path, cut: int, kill_at: int | None = None
    ) -> None:
        """Run a replay in `where`, with all that it writes in its `own` folder."""
        __tracebackhide__ = True
        self._server = self._server or _start_server()
        output = own / "output"
        request = {
            "arguments": [
                *source, "--config", own / "settings.toml", "--index", own / INDEX,
                "--verdicts", own / VERDICTS, "--dead-letters", own / DEAD_LETTERS,
            ],
            "folder": where, "output": output, "cut": cut, "kill_at": kill_at,
        }  # fmt: skip
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request, default=str) + "\n")
        self._server.stdin.flush()
        if not (answer := self._server.stdout.readline()):
            raise RuntimeError("The process that runs replays has ended; its errors are on stderr.")
        code = int(answer)
        expected = 0 if kill_at is None else -signal.SIGKILL
        said = output.read_text(encoding="utf-8")
        if code != expected:
            raise AssertionError(f"The replay ended with exit code {code}, not {expected}:\n{said}")
        sys.stdout.write(said)


def _start_server() -> subprocess.Popen[str]:
    """Start the process that replays are forked off; it knows no settings of the environment."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name == _CACHE or not name.upper().startswith("STREAMER_")
    }
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _SERVER], env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def _prepare(folder: Path, options: Mapping[str, Any]) -> None:
    """Write the settings of a replay, and the key of its index."""
    key = folder / INDEX / "secret.key"
    key.parent.mkdir(parents=True)
    key.touch(0o600)
    key.write_text(Path(options["key_file"]).read_text() if "key_file" in options else KEY)
    lines = [f"{k} = {_toml(v)}\n" for k, v in options.items() if k != "key_file" and v is not None]
    (folder / "settings.toml").write_text("".join(lines), encoding="utf-8")


def _write_pages(path: Path, pages: Iterable[AnyPage | bytes | KillMarker]) -> list[int]:
    """Write pages as JSON lines; return at which records the replay is to be killed."""
    from streamer.deduplicator import message_of  # noqa: PLC0415 - imports numba

    kills, count = [], 0
    with path.open("wb") as file:
        for page in pages:
            if isinstance(page, KillMarker):
                kills.append(count)
                continue
            record = page if isinstance(page, bytes) else message_of(page)
            if b"\n" in record:
                raise TypeError(f"A record is one line, without its end: {record[:80]!r}")
            file.write(record + b"\n")
            count += 1
    return kills


def _toml(value: object) -> str:
    """Return a setting's value as TOML has it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Path):
        value = str(value.absolute())
    return json.dumps(value, ensure_ascii=False)
