"""A folder in which a test replays files: pages to write there, and what a run has left."""

import json
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.fleet import exit_code
from tests.helpers.kills import code_of

PROSE = "the quick brown fox {0} jumps over a lazy dog while {0} animals of farm {0} look on "
KILLED = """
import sys
from streamer.cli.main import app
from streamer.pages import chunk
from streamer.run import outputs, replay, small_files
from streamer.stored.store import Store
from tests.helpers.kills import die_before
chunk.CHUNK_RECORDS_MAX = 20
small_files.FILES_MAX = 7
if int(sys.argv[1]):
    owners = dict.fromkeys(("_judge_chunk", "_begin_flush"), replay.Replay) | {"flush": Store}
    owners |= dict.fromkeys(("_write", "sync", "start"), outputs.OutputFile)
    die_before(int(sys.argv[1]), (owners[sys.argv[2]], sys.argv[2]))
sys.argv = ["streamer", "replay", *sys.argv[3:]]
app(standalone_mode=False)
"""


def page(number: int, **more: Any) -> bytes:
    """Return a page whose text shares little with those of other numbers."""
    text = " ".join(f"{word}{number}" for word in (PROSE * 3).format(number).split())
    message = {"url": f"http://a.example/{number}", "body": text, **more}
    return json.dumps(message).encode() + b"\n"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def said(captured: pytest.CaptureFixture[str]) -> str:
    """Return what went to standard error, on one line."""
    return " ".join(captured.readouterr().err.split())


def killed_replay(step: int, call: str, *arguments: object) -> int:
    """Replay in small chunks, killed before the `step`-th such call; 0: not at all."""
    return code_of(KILLED, step, call, *arguments)


def replay_through_kills(kills: Iterable[tuple[int, str]], *arguments: object) -> None:
    """Replay in small chunks, killed before each of these calls, and then to the end."""
    for step, call in (*kills, (0, "")):
        code = killed_replay(step, call, *arguments)
        assert code == (-signal.SIGKILL if step else 0), (step, call)


class Place:
    """A folder to run in; `streamer` returns the exit code."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = ("--key-file", folder / "key")
        self.write("key", b"7" * 64).chmod(0o600)

    def streamer(self, *arguments: str | Path) -> int:
        return exit_code(*arguments)

    def write(self, name: str, *records: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(b"".join(records))
        return path

    def replay(self, *arguments: str | Path) -> int:
        return self.streamer(
            "replay", *arguments, "--verdicts", self.verdicts, "--index", self.index
        )

    def judged(self, name: str, *pages: str | Path) -> bytes:
        """Return the verdicts on pages under the key, from an index of their own."""
        own, index = self.folder / f"{name}.jsonl", self.folder / f"{name}-index"
        outputs = ("--verdicts", own, "--index", index, *self.key, "--complete")
        assert self.streamer("replay", *pages, *outputs) == 0
        return own.read_bytes()

    @property
    def verdicts(self) -> Path:
        return self.folder / "verdicts.jsonl"

    @property
    def index(self) -> Path:
        return self.folder / "index"
