"""Where compiled kernels lie: beside the package, or where its user may write."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOW = "import numba, streamer.kernel; print(numba.config.CACHE_DIR)"
# Stands for a read-only file system: who runs the tests may be root, whom no permission stops.
READ_ONLY = """
import tempfile
def refuse(**_): raise OSError(30, "Read-only file system")
tempfile.TemporaryFile = refuse
"""


def cache_folder(package: Path, home: Path, before: str = "") -> Path:
    """Return where a new process that imports the package there keeps its kernels."""
    environment = {**os.environ, "PYTHONPATH": str(package), "XDG_CACHE_HOME": str(home)}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", before + SHOW]
    done = subprocess.run(
        command, cwd=home, env=environment, capture_output=True, text=True, check=True
    )
    return Path(done.stdout.strip())


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    target = tmp_path / "installed" / "streamer"
    target.mkdir(parents=True)
    for name in ("__init__.py", "kernel.py"):
        shutil.copy(ROOT / "streamer" / name, target)
    return target.parent


def test_kernels_lie_beside_a_package_that_can_be_written(package: Path, tmp_path: Path) -> None:
    assert cache_folder(package, tmp_path / "home").is_relative_to(package)


def test_kernels_of_a_read_only_package_are_copied_to_the_users_cache(
    package: Path, tmp_path: Path
) -> None:
    beside = cache_folder(package, tmp_path / "home")
    beside.mkdir(parents=True, exist_ok=True)
    (beside / "kernel.nbc").write_bytes(b"compiled")
    folder = cache_folder(package, tmp_path / "home", READ_ONLY)
    assert folder.is_relative_to(tmp_path / "home")
    assert (folder / "kernel.nbc").read_bytes() == b"compiled"
    (beside / "kernel.nbc").write_bytes(b"other")
    assert cache_folder(package, tmp_path / "home", READ_ONLY) == folder
    assert (folder / "kernel.nbc").read_bytes() == b"compiled", "the first copy stays"
