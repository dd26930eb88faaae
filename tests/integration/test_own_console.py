"""`replay --console`: a console next to the run, which it neither outlives nor holds up."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.helpers.ports import listens
from tests.helpers.wait import wait_until
from tests.integration.test_console import wait_until as wait_for
from tests.unit.test_deduplicator import text_of


@contextmanager
def replaying(folder: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a replay of what is written to its standard input, with a console."""
    command = [sys.executable, "-m", "streamer", "replay", "-", "--verdicts", "v.jsonl"]
    command += ["--index", "index", "--console", *options]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, cwd=folder, stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def address_of(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr
    found = next((line for line in process.stderr if line.startswith(b"Console: ")), b"")
    return found.removeprefix(b"Console: ").decode().strip()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("STREAMER_BROKERS", "away:9092")  # a setting of others


def test_the_console_shows_the_run_and_ends_with_it(tmp_path: Path) -> None:
    with replaying(tmp_path) as process:
        assert process.stdin
        pages = [{"url": f"https://a.example/{n}", "body": text_of(n // 2)} for n in range(20)]
        process.stdin.write(b"\n".join(map(msgspec.json.encode, pages)) + b"\n")
        process.stdin.flush()
        address = address_of(process)
        said = wait_for(lambda said: said["pages"] == 20, address)
        assert (said["duplicates"], said["lags"]) == (10, None)
        process.stdin.close()
        assert process.wait(240) == 0
        assert not listens(urlsplit(address).port or 0)


def test_a_killed_run_takes_its_console_along(tmp_path: Path) -> None:
    with replaying(tmp_path) as process:
        address = address_of(process)
        process.kill()
        wait_until(lambda: not listens(urlsplit(address).port or 0))


@pytest.mark.parametrize("verdicts", ["-", "v.csv"])
def test_verdicts_that_a_console_cannot_read_are_refused(tmp_path: Path, verdicts: str) -> None:
    with replaying(tmp_path, "--verdicts", verdicts) as process:
        _, errors = process.communicate(b"", timeout=300)
        assert process.returncode == 2
        assert b"--console cannot read --verdicts" in errors
