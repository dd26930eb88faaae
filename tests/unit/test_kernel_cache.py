"""Where compiled kernels lie, what they are taken for, and that indices can be checked."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.helpers.missing import leave_out

ROOT = Path(__file__).parents[2]
SHOW = "import numba, streamer.kernel; print(numba.config.CACHE_DIR)"
# Stands for a read-only file system: who runs the tests may be root, whom no permission stops.
READ_ONLY = """
import tempfile
write = tempfile.TemporaryFile
def refuse(dir):
    if "installed" in str(dir): raise OSError(30, "Read-only file system")
    return write(dir=dir)
tempfile.TemporaryFile = refuse
"""
DAY = 24 * 3600
KERNELS = """
from streamer.kernel import kernel
from streamer.machine import load_u64, store_u64

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
    own = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("NUMBA_", "STREAMER_"))
    }
    own |= {"PYTHONPATH": str(package), "XDG_CACHE_HOME": str(home)}
    # What Python writes next to a module is none of the kernels that a test looks for.
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
    for name in ("__init__.py", "kernel.py", "machine.py"):
        shutil.copy(ROOT / "streamer" / name, target)
    (target / "some.py").write_text(KERNELS)
    return target.parent


def test_kernels_of_a_read_only_package_are_copied_to_the_cache(package: Path, home: Path) -> None:
    beside = cache_folder(package, home)
    assert beside.is_relative_to(package)
    (beside / "kernel.nbc").write_bytes(b"compiled")
    folder = cache_folder(package, home, READ_ONLY)
    assert folder.is_relative_to(home)
    assert (folder / "kernel.nbc").read_bytes() == b"compiled"
    (beside / "kernel.nbc").write_bytes(b"other")
    assert cache_folder(package, home, READ_ONLY) == folder
    assert (folder / "kernel.nbc").read_bytes() == b"compiled", "the first copy stays"


@dataclass
class Service:
    """A user without a home, who can read a package but not write to it."""

    package: Path
    user: int

    def run(self, program: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a program that imports the package; root does so as the other user."""
        own = {"PYTHONPATH": str(self.package), "HOME": "/nonexistent", **environment}
        command = [sys.executable, "-c", program]
        if os.geteuid() == 0:
            # The interpreter may be in root's home, so the user may read anything: but not write.
            rights = "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"
            who = f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"
            command = ["setpriv", *who, *rights, "--bounding-set=-all,+dac_read_search", *command]
        return subprocess.run(
            command, cwd="/", env=own, capture_output=True, text=True, check=False
        )


@pytest.fixture
def service(package: Path) -> Iterator[Service]:
    folders = [package, package / "streamer"]
    for folder in folders:
        folder.chmod(0o555)
    yield Service(package, 65533 if os.geteuid() == 0 else os.geteuid())
    for folder in folders:
        folder.chmod(0o755)


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for temporary files as a system has it: each user can write to it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o1777)
        yield Path(folder)


CALL = (
    "import numpy as np; from streamer import some, kernel\n"
    "print(some.element(np.arange(9, dtype=np.uint8), 1), kernel.FOLDER, kernel.kernels_on_disk())"
)


def test_kernels_of_a_user_without_a_home_are_in_a_private_folder_for_temporary_files(
    service: Service, temporary: Path
) -> None:
    users = [service, replace(service, user=65532)] if os.geteuid() == 0 else [service]
    for each in users:
        for _ in range(2):
            done = each.run(CALL, TMPDIR=str(temporary))
            assert (done.returncode, done.stderr) == (0, "")
            value, folder, count = done.stdout.split()
            private = temporary / f"streamer-{each.user}"
            assert (value, Path(folder).parent, count) == ("1", private, "1")
            found = private.stat()
            assert (found.st_uid, found.st_mode & 0o777) == (each.user, 0o700)


@pytest.mark.parametrize("hostile", ["open", "link", "file", "foreign"])
def test_kernels_are_not_stored_where_another_user_could_have_put_code(
    service: Service, temporary: Path, hostile: str
) -> None:
    folder, elsewhere = temporary / f"streamer-{service.user}", temporary / "elsewhere"
    elsewhere.mkdir()
    elsewhere.chmod(0o777)
    if hostile == "link":
        folder.symlink_to(elsewhere)
    elif hostile == "file":
        folder.touch()
    elif hostile == "foreign":
        if os.geteuid() != 0:
            leave_out("rights of root", "run as root")
        folder.mkdir(mode=0o700)
        os.chown(folder, 65532, 65532)
    else:
        folder.mkdir()
        folder.chmod(0o777)
    done = service.run(CALL, TMPDIR=str(temporary))
    assert (done.returncode, done.stdout) == (0, "1 None 0\n"), done.stderr
    (line,) = done.stderr.splitlines()
    assert str(folder) in line
    assert "STREAMER_CACHE_DIR" in line
    assert not any(elsewhere.iterdir())
    assert folder.is_file() or not any(folder.iterdir())


@pytest.mark.parametrize("variable", ["STREAMER_CACHE_DIR", "NUMBA_CACHE_DIR"])
def test_kernels_are_compiled_in_memory_where_the_named_folder_cannot_be_written(
    service: Service, variable: str
) -> None:
    named = service.package / "named"
    done = service.run(CALL, **{variable: str(named)})
    assert (done.returncode, done.stdout) == (0, "1 None 0\n"), done.stderr
    (line,) = done.stderr.splitlines()
    assert str(named) in line


def test_kernels_of_a_full_folder_are_compiled_in_memory(service: Service, temporary: Path) -> None:
    full = (
        "from numba.core import caching\n"
        "def refuse(*_): raise OSError(28, 'No space left on device')\n"
        "caching.IndexDataCacheFile.save = refuse\n"
    )
    done = service.run(full + CALL, TMPDIR=str(temporary))
    assert (done.returncode, done.stdout.split()[::2]) == (0, ["1", "0"]), done.stderr


SHIP = """
import pickle, sys
from pathlib import Path
from streamer import kernel
from streamer.some import call
call(0)
kernel.note_all_compiled()
Path("work").write_bytes(pickle.dumps(kernel.ship_with_kernels(pickle.dumps(call))))
"""
ARRIVE = """
import pickle
from pathlib import Path
from streamer import kernel
work = pickle.loads(Path("work").read_bytes())
{before}
print(work(2), kernel.has_all_compiled(), kernel.kernels_on_disk())
"""


def test_compiled_code_is_placed_where_it_fits_and_none_is(package: Path, home: Path) -> None:
    call = "\n\ndef call(index):\n    import numpy\n    return element(numpy.arange(9), index)\n"
    (package / "streamer" / "some.py").write_text(KERNELS + call)
    run(package, home, SHIP, STREAMER_CACHE_DIR=str(home / "driver"))
    for machine, before, wanted in (
        ("empty", "", "2 True 1"),
        ("another", "work = type(work)(work.func, 'else', *work.args[1:])", "2 False 1"),
        ("has some", "(kernel.FOLDER / 'some').touch()", "2 False 1"),
        ("read-only", "kernel.FOLDER = None", "2 False 0"),
    ):
        program, folder = ARRIVE.format(before=before), str(home / machine)
        assert run(package, home, program, STREAMER_CACHE_DIR=folder) == wanted, machine


def test_a_named_folder_comes_before_numbas(package: Path, home: Path, tmp_path: Path) -> None:
    names = {"STREAMER_CACHE_DIR": str(tmp_path / "a"), "NUMBA_CACHE_DIR": str(tmp_path / "b")}
    assert cache_folder(package, home, **names).parent == tmp_path / "a"
    del names["STREAMER_CACHE_DIR"]
    assert cache_folder(package, home, **names).parent == tmp_path / "b"


def test_a_folder_is_of_all_that_kernels_are_made_of(package: Path, home: Path) -> None:
    files = {
        "stream/other.py": "A = 1\n", "stream/has_one.py": "@kernel\ndef f(): ...\n",
        "text/table.py": "A = 1\n", "model.py": "A = 1\n",
    }  # fmt: skip
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
def test_folders_that_nobody_uses_are_removed(package: Path, home: Path, before: str) -> None:
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


def test_a_folder_that_is_removed_meanwhile_is_made_again(package: Path, home: Path) -> None:
    program = (
        "import shutil, numpy as np; from streamer import some, kernel\n"
        "a = np.arange(9, dtype=np.uint8); some.element(a, 1); shutil.rmtree(kernel.FOLDER)\n"
        "print(some.word(a, 0), some.with_constants(a), kernel.kernels_on_disk())\n"
        "print(len(some.element.signatures))"
    )
    assert run(package, home, program) == f"{int.from_bytes(range(8), 'little')} 9 2\n1"


def test_indices_are_checked_where_the_environment_says_so(package: Path, home: Path) -> None:
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
