"""The distribution, as users install it: wheel and sdist, in an environment of its own."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from streamer.kernel import FOLDER
from tests.integration.test_install import NEEDED, ROOT

OTHER_USER = 65533
PROGRAM = """
from streamer import Deduplicator
texts = [("u", "one two three four five six seven eight " * 9), ("v", "one two three four five six"
         " seven eight " * 9)]
with Deduplicator() as dedup:
    print([verdict.is_duplicate for verdict in dedup.add(texts)])
"""


@dataclass
class Installed:
    """An environment that nobody may write to, for a user who has no home."""

    bin: Path
    folder: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run one of its programs, as another user if this one is root."""
        given = [str(self.bin / command[0]), *command[1:]]
        if os.geteuid() == 0:
            # The interpreter may be in root's home, so the user may read anything: but not write.
            rights = "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"
            who = f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups"
            given = ["setpriv", *who, *rights, "--bounding-set=-all,+dac_read_search", *given]
        own = {"HOME": "/nonexistent", "TMPDIR": str(self.folder), "PATH": os.environ["PATH"]}
        return subprocess.run(
            given, cwd=self.folder, env=own, capture_output=True, text=True, check=False
        )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sdist and the wheel, made from a copy of the checkout."""
    folder = tmp_path_factory.mktemp("built")
    for name in NEEDED:
        if (ROOT / name).is_dir():
            unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, folder / "checkout" / name, ignore=unwanted)
        else:
            (folder / "checkout").mkdir(exist_ok=True)
            shutil.copy(ROOT / name, folder / "checkout" / name)
    uv(
        "build", folder / "checkout", "--out-dir", folder / "dist", "--no-build-isolation",
        "--python", sys.executable,
    )  # fmt: skip
    return folder / "dist"


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    (wheel,) = built.glob("*.whl")
    # Only what the distribution itself asks for, at the versions of the lock.
    pins = "--constraint", ROOT / "requirements" / "run.lock"
    uv("pip", "install", "--quiet", "--python", folder / "venv/bin/python", *pins, wheel)
    (packages,) = (folder / "venv").glob("lib/python*/site-packages")
    if FOLDER:  # whose kernels are of the same sources: compiling them takes minutes
        shutil.copytree(FOLDER, packages / "streamer/__pycache__" / FOLDER.name)
    folders = [packages, *(path for path in packages.rglob("*") if path.is_dir())]
    for path in folders:
        path.chmod(0o555)
    with tempfile.TemporaryDirectory() as temporary:
        Path(temporary).chmod(0o1777)
        yield Installed(folder / "venv" / "bin", Path(temporary))
    for path in folders:
        path.chmod(0o755)
    shutil.rmtree(folder)


def uv(*arguments: str | Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "uv", *map(str, arguments)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_wheel_of_the_sdist_has_the_files_of_the_package(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        packed = {name for name in opened.namelist() if ".dist-info/" not in name}
    files = [path for path in (ROOT / "streamer").rglob("*") if path.is_file()]
    own = {str(path.relative_to(ROOT)) for path in files if "__pycache__" not in path.parts}
    assert packed == own


def test_a_service_user_judges_pages_with_a_read_only_package(installed: Installed) -> None:
    done = installed.run("streamer", "sample", "crawl", "--pages", "300")
    assert done.returncode == 0, done.stderr
    done = installed.run("streamer", "replay", "crawl/pages.jsonl", "--verdicts", "v.jsonl")
    assert done.returncode == 0, done.stderr
    verdicts = (installed.folder / "v.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["verdict"] for line in verdicts} == {"unique", "duplicate"}
    done = installed.run("python", "-c", PROGRAM)
    assert (done.returncode, done.stdout) == (0, "[False, True]\n"), done.stderr


def test_a_command_names_the_extra_that_it_lacks(installed: Installed) -> None:
    (installed.folder / "pages.parquet").write_bytes(b"PAR1")
    done = installed.run("streamer", "replay", "pages.parquet", "--verdicts", "p.jsonl")
    assert done.returncode == 2
    assert "pip install '.[parquet]'" in " ".join(done.stderr.split())
    (installed.folder / "none.jsonl").touch()
    done = installed.run("streamer", "console", "none.jsonl", "--view", "view", "--port", "0")
    assert done.returncode == 2
    assert "pip install '.[console]'" in " ".join(done.stderr.split())
