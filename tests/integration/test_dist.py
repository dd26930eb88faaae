"""`make dist`, and each line of the documents that installs something, in a new environment."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
MODULES = {  # what an extra brings
    "analysis": "snowballstemmer",
    "console": "jinja2",
    "object-store": "obstore",
    "parquet": "pyarrow",
    "plot": "matplotlib",
    "registry": "fastavro",
}
OTHERS = {"duckdb", "pylance", "scrapy"}  # which documents install next to it
# A command ends with its line, its code span or a comment.
INSTALLS = re.compile(r"pip install (?:'[^'\n]*'|[^\s'`#|]+| (?=[^\s#]))+")
FOUND = {found for path in DOCUMENTS for found in INSTALLS.findall(path.read_text("utf-8"))}
LINES = sorted(line for line in FOUND if not OTHERS.issuperset(line.split()[2:]))


def make_dist(folder: Path) -> bytes:
    """Make a clone in a folder, build its wheel, and return the bytes."""
    git = "git", "-c", f"safe.directory={ROOT}", "-c", f"safe.directory={ROOT}/.git"
    subprocess.run([*git, "clone", "--quiet", ROOT, folder], check=True)
    (folder / ".venv").symlink_to(sys.prefix)
    for name in (".made", ".dev"):
        assert (folder / ".venv" / name).exists(), f"make .venv/{name} first"
    known = [f"--old-file=.venv/{name}" for name in (".made", ".dev")]
    done = subprocess.run(
        ["make", "dist", *known],  # noqa: S607 - the system's
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (folder / "build/dist").glob("*")
    return wheel.read_bytes()


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a clone with a wheel in build/dist."""
    folder = tmp_path_factory.mktemp("dist") / "clone"
    make_dist(folder)
    return folder


def test_the_wheel_of_a_commit_has_the_same_bytes_each_time(clone: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        again = make_dist(tmp_path / "other" / "place")
    finally:
        os.umask(before)
    (wheel,) = (clone / "build/dist").glob("*.whl")
    assert wheel.read_bytes() == again


def test_the_documents_install_nothing_from_the_name_on_pypi() -> None:
    assert any(".whl[" in line for line in LINES), LINES
    assert not [line for line in LINES if "streamer-dedup" in line]


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_a_document_installs_what_it_says(line: str, clone: Path, tmp_path: Path) -> None:
    lock = (ROOT / "requirements/dev.lock").read_text("utf-8")
    pins = re.findall(r"^(\S+==\S+(?: ; .*?)?)(?: \\)?$", lock, re.MULTILINE)
    (tmp_path / "pins").write_text("\n".join(pins), encoding="utf-8")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    path = f"{tmp_path / 'venv/bin'}:{os.environ['PATH']}"
    own = {**os.environ, "PATH": path, "PIP_CONSTRAINT": str(tmp_path / "pins"), "PIP_COMPILE": "0"}

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=clone, env=own, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(*shlex.split(line))
    assert run("streamer", "--version").strip()
    extras = re.findall(r"[\w-]+", "".join(re.findall(r"\[(.*)\]", line)))
    for extra in extras:
        run("python", "-c", f"import {MODULES[extra]}")
    run("pip", "check")
    shutil.rmtree(tmp_path / "venv")
