"""Where compiled kernels lie, what they are taken for, and that indices can be checked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
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
DAY = 24 * 3600
KERNELS = """
from streamer.kernel import kernel, load_u64, store_u64

@kernel
def element(array, index):
    return array[index]

@kernel
def word(array, index):
    return load_u64(array, index)

@kernel
def write(array, index):
    store_u64(array, index, load_u64(array, 0))
    return 0

@kernel
def with_constants(array):
    return element(array, 0) + element(array, 1) + element(array, array.shape[0] - 1)
"""


def run(package: Path, home: Path, program: str, **environment: str) -> str:
    """Return what a new process prints that imports the package there."""
    own = {name: text for name, text in os.environ.items() if not name.startswith("NUMBA_")}
    own |= {"PYTHONPATH": str(package), "XDG_CACHE_HOME": str(home)}
    # What Python writes beside a module is none of the kernels that a test looks for.
    own |= {"PYTHONDONTWRITEBYTECODE": "1", **environment}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=home, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def cache_folder(package: Path, home: Path, before: str = "", **environment: str) -> Path:
    """Return where a new process that imports the package there keeps its kernels."""
    return Path(run(package, home, before + SHOW, **environment))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def package(tmp_path: Path) -> Path:
    target = tmp_path / "installed" / "streamer"
    target.mkdir(parents=True)
    for name in ("__init__.py", "kernel.py"):
        shutil.copy(ROOT / "streamer" / name, target)
    return target.parent


def test_kernels_lie_where_the_environment_says(package: Path, home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "given"
    assert cache_folder(package, home, NUMBA_CACHE_DIR=str(folder)).parent == folder


def test_kernels_lie_beside_a_package_or_if_it_is_read_only_as_copies_in_the_users_cache(
    package: Path, home: Path
) -> None:
    beside = cache_folder(package, home)
    assert beside.is_relative_to(package)
    (beside / "kernel.nbc").write_bytes(b"compiled")
    folder = cache_folder(package, home, READ_ONLY)
    assert folder.is_relative_to(home)
    assert (folder / "kernel.nbc").read_bytes() == b"compiled"
    (beside / "kernel.nbc").write_bytes(b"other")
    assert cache_folder(package, home, READ_ONLY) == folder
    assert (folder / "kernel.nbc").read_bytes() == b"compiled", "the first copy stays"


def test_a_folder_is_of_all_that_kernels_are_made_of(package: Path, home: Path) -> None:
    files = {
        "stream/other.py": "A = 1\n",
        "stream/has_one.py": "@kernel\ndef f(): ...\n",
        "text/table.py": "A = 1\n",
        "model.py": "A = 1\n",
    }
    for name, text in files.items():
        path = package / "streamer" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    first = cache_folder(package, home)
    assert cache_folder(package, home) == first
    for name, text in files.items():
        path = package / "streamer" / name
        path.write_text(text + "B = 2\n")
        assert (cache_folder(package, home) != first) == (name != "stream/other.py"), name
        path.write_text(text)
    assert cache_folder(package, home) == first, "the same sources, written later"
    assert cache_folder(package, home, NUMBA_CPU_NAME="generic") != first
    assert cache_folder(package, home, NUMBA_BOUNDSCHECK="1") != first


@pytest.mark.parametrize("before", ["", READ_ONLY])
def test_folders_that_nobody_uses_any_more_are_removed(
    package: Path, home: Path, before: str
) -> None:
    parent = cache_folder(package, home, before).parent
    shutil.rmtree(parent)
    ages = {"kernels-0": 0.04, "kernels-1": 0.5, "kernels-2": 0.9, "kernels-3": 2, "other": 9}
    for name, days in ages.items():
        (parent / name / "text_0").mkdir(parents=True)
        os.utime(parent / name, (time.time() - DAY * days,) * 2)
    new = cache_folder(package, home, before)
    assert {path.name for path in parent.iterdir()} == {*ages, new.name} - {"kernels-3"}
    shutil.rmtree(new)
    for name, days in ages.items():
        if days < 1:
            os.utime(parent / name, (time.time() - DAY * 9 * days - DAY,) * 2)
    cache_folder(package, home, before)
    left = {path.name for path in parent.iterdir()}
    assert left == {"kernels-0", "kernels-1", "other", new.name}, "two of other versions stay"


def test_a_folder_that_is_removed_meanwhile_is_made_again_and_a_constant_makes_no_other_kernel(
    package: Path, home: Path
) -> None:
    (package / "streamer" / "some.py").write_text(KERNELS)
    program = (
        "import shutil, numpy as np; from streamer import some, kernel\n"
        "a = np.arange(9, dtype=np.uint8); some.element(a, 1); shutil.rmtree(kernel.FOLDER)\n"
        "print(some.word(a, 0), some.with_constants(a), kernel.kernels_on_disk())\n"
        "print(len(some.element.signatures))"
    )
    assert run(package, home, program) == f"{int.from_bytes(range(8), 'little')} 9 2\n1"


def test_indices_are_checked_where_the_environment_says_so(package: Path, home: Path) -> None:
    (package / "streamer" / "some.py").write_text(KERNELS)
    program = (
        "import numpy as np; from streamer import some\n"
        "a = np.arange(9, dtype=np.uint8)\n"
        "def tell(call, index):\n"
        "    try: return call(a, index) >= 0\n"
        "    except IndexError: return 'refused'\n"
        "print(*(tell(some.element, i) for i in (8, 9)), end=' ')\n"
        "print(*(tell(each, i) for each in (some.word, some.write) for i in (1, 2, -1)))"
    )
    words = "True refused refused"
    assert run(package, home, program, NUMBA_BOUNDSCHECK="1") == f"True refused {words} {words}"
