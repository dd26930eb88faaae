"""The fold in its own process: what it tells, how it ends, and that it goes on after a kill."""

import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamer.console.fold_process import FoldProcess, FoldTask
from streamer.console.view import VerdictView
from streamer.errors import StoreUnavailable
from streamer.kafka.connection import Connection
from streamer.kafka.topics import Names
from tests.helpers.verdict_lines import unique, written
from tests.helpers.wait import wait_until

# A console that is killed while its fold waits for lines.
KILLED = """
import os, signal, sys, time
from streamer.console.fold_process import FoldProcess, FoldTask
fold = FoldProcess(FoldTask(sys.argv[1], sys.argv[2:]))
while not (fold.process and fold.state.is_done):
    time.sleep(0.02)
print(fold.process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def pages(folder: Path) -> int:
    with closing(VerdictView(folder, "another.lock")) as view, view.read(5) as connection:
        found: int = connection.execute("SELECT count(*) FROM page").fetchone()[0]
    return found


def test_a_fold_that_is_killed_is_started_again_and_goes_on(tmp_path: Path) -> None:
    file = written(tmp_path / "v.jsonl", unique(0))
    with closing(FoldProcess(FoldTask(str(tmp_path / "view"), [str(file)]))) as fold:
        wait_until(lambda: fold.state.is_done)
        assert pages(tmp_path / "view") == 1
        assert fold.process
        fold.process.kill()
        wait_until(lambda: "exit code -9" in fold.state.trouble)
        written(tmp_path / "v.jsonl", unique(0), unique(1))
        wait_until(lambda: fold.state.is_done and not fold.state.trouble)
        wait_until(lambda: pages(tmp_path / "view") == 2)
    assert fold.process.poll() == -signal.SIGKILL


def test_a_batch_in_hand_is_undone_with_a_console_and_folded_by_the_next(tmp_path: Path) -> None:
    file = written(tmp_path / "v.jsonl", *(unique(n) for n in range(50_000)))
    fold = FoldProcess(FoldTask(str(tmp_path / "view"), [str(file)]))
    wait_until(lambda: any((tmp_path / "view").glob("*-wal")))
    fold.close()
    assert pages(tmp_path / "view") % 10_000 == 0, "batches are whole"
    with closing(FoldProcess(FoldTask(str(tmp_path / "view"), [str(file)]))) as fold:
        wait_until(lambda: fold.state.is_done)
    assert pages(tmp_path / "view") == 50_000


def test_a_fold_ends_with_its_console_and_the_next_one_goes_on(tmp_path: Path) -> None:
    file = written(tmp_path / "v.jsonl", unique(0))
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path / "view", file], capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    written(file, unique(0), unique(1))
    with closing(FoldProcess(FoldTask(str(tmp_path / "view"), [str(file)]))) as fold:
        wait_until(lambda: fold.state.is_done)
        assert pages(tmp_path / "view") == 2
        wait_until(lambda: not Path("/proc", killed.stdout.decode().strip()).exists())


def test_a_view_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    (tmp_path / "view-1.sqlite").mkdir()
    with (
        closing(VerdictView(tmp_path)) as view,
        pytest.raises(StoreUnavailable, match="unable to open"),
    ):
        view.open_to_fold()
    with closing(FoldProcess(FoldTask(str(tmp_path)))) as fold:
        wait_until(lambda: "unable to open" in fold.state.trouble)


def test_nothing_waits_for_a_starting_fold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("true"))
    monkeypatch.setattr(subprocess, "Popen", partial(_slowly, subprocess.Popen))
    began = time.monotonic()
    fold = FoldProcess(FoldTask(str(tmp_path)))
    assert time.monotonic() - began < 1.8  # of two
    fold.close()


def _slowly(start: Any, *arguments: Any, **options: Any) -> Any:
    time.sleep(2)
    return start(*arguments, **options)


def test_a_task_keeps_the_connection(tmp_path: Path) -> None:
    secret = "b"  # noqa: S105 - of nobody
    connection = Connection(
        "host:1", "SASL_SSL", sasl_mechanism="PLAIN", sasl_username="a", sasl_password=secret
    )
    task = FoldTask.of_topics(tmp_path, connection, Names("index", "pages"))
    again = msgspec.json.decode(msgspec.json.encode(task), type=FoldTask)
    assert Connection(**again.connection) == connection  # type: ignore[arg-type]  # its own fields
    assert Names(**again.topics) == Names("index", "pages")  # type: ignore[arg-type]  # as above


def test_a_fold_of_files_does_without_kernels_and_clients() -> None:
    """It has but half of the console's memory; Parquet and topics need more."""
    code = "import sys, streamer.console.fold_process; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    heavy = {"numpy", "numba", "pyarrow", "aiohttp", "aiokafka", "pydantic", "rocksdict"}
    assert heavy.isdisjoint(found.stdout.split())
