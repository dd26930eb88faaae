"""An index outlives Python: each version that is installed here gives the same verdicts."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.test_install import ROOT

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
HERE = "{}.{}".format(*sys.version_info)


def python_of(version: str) -> str | None:
    """Return this version of Python, among those of pyenv or on the path."""
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return str(pyenv[-1]) if pyenv else shutil.which(f"python{version}")


def judge(python: Path | str, pages: Path, folder: Path, cache: Path | None = None) -> None:
    """Judge pages with the index of a folder, and append their verdicts."""
    command = [python, "-m", "streamer", "replay", pages, "--key-file", folder.with_name("key")]
    command += ["--index", folder, "--verdicts", folder.with_suffix(".jsonl")]
    own = {**os.environ, "NUMBA_CACHE_DIR": str(cache)} if cache else None
    subprocess.run(command, cwd=ROOT, env=own, check=True)


@pytest.mark.parametrize("version", [each for each in VERSIONS if each != HERE])
def test_another_python_goes_on_in_it_with_equal_verdicts(version: str, tmp_path: Path) -> None:
    other = python_of(version)
    if other is None:
        pytest.skip(f"Python {version} is not installed here")
    python = tmp_path / "venv/bin/python"
    uv = sys.executable, "-m", "uv"
    lock = "--no-deps", "--require-hashes", "--requirement", ROOT / "requirements/run.lock"
    subprocess.run([*uv, "venv", "--quiet", "--python", other, tmp_path / "venv"], check=True)
    subprocess.run([*uv, "pip", "install", "--quiet", "--python", python, *lock], check=True)
    subprocess.run(
        [sys.executable, "-m", "streamer", "sample", tmp_path, "--pages", "400"], check=True
    )
    first, later = tmp_path / "pages.jsonl", tmp_path / "later.jsonl"
    lines = first.read_bytes().splitlines(keepends=True)
    later.write_bytes(b"".join(lines[200:]) + _signs())
    first.write_bytes(b"".join(lines[:200]))
    (tmp_path / "key").write_text("5a" * 32)
    index, verdicts = tmp_path / "index", tmp_path / "index.jsonl"
    judge(sys.executable, first, index)
    shutil.copytree(index, tmp_path / "before/index")
    shutil.copy(verdicts, tmp_path / "before")
    judge(sys.executable, later, index)
    own = verdicts.read_bytes()
    assert own.count(b"\n") > 350
    assert own.count(b'"duplicate"') > 10
    shutil.rmtree(index)
    shutil.copytree(tmp_path / "before", tmp_path, dirs_exist_ok=True)
    assert verdicts.read_bytes() != own
    judge(python, later, index, tmp_path / "kernels")
    assert verdicts.read_bytes() == own
    shutil.rmtree(tmp_path / "venv")  # half a gigabyte


def _signs() -> bytes:
    """Return a page of characters that Unicode has had since 15.0 and 16.0, and a copy."""
    text = "\U0001e4d0\U0001e4d1\U00010d50 \U00031350\U00031351 \U0001ccd6"
    line = '{{"url":"https://signs.example/{}","content_type":"text/plain","body":"{}"}}\n'
    return "".join(line.format(number, text) for number in range(2)).encode()
