"""What users install, in environments of their own: a wheel, an sdist, the locks; by any Python."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamer.kernel import FOLDER

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


def ran(*command: object, **options: Any) -> str:
    """Return what a program prints, which must end well."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def checkout(folder: Path) -> Path:
    """Write a copy of what is installed from, with all that is not committed."""
    folder.mkdir()
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in NEEDED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=unwanted)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def make_dist(folder: Path) -> bytes:
    """Make a clone in a folder, build its wheel, and return the bytes."""
    git = "git", "-c", f"safe.directory={ROOT}", "-c", f"safe.directory={ROOT}/.git"
    ran(*git, "clone", "--quiet", ROOT, folder)
    (folder / ".venv").symlink_to(sys.prefix)
    for name in (".made", ".dev"):
        assert (folder / ".venv" / name).exists(), f"make .venv/{name} first"
    ran("make", "dist", *(f"--old-file=.venv/{name}" for name in (".made", ".dev")), cwd=folder)
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
    ran(sys.executable, "-m", "venv", tmp_path / "venv")
    path = f"{tmp_path / 'venv/bin'}:{os.environ['PATH']}"
    own = {**os.environ, "PATH": path, "PIP_CONSTRAINT": str(tmp_path / "pins"), "PIP_COMPILE": "0"}
    run = partial(ran, cwd=clone, env=own)
    run(*shlex.split(line))
    assert run("streamer", "--version").strip()
    for extra in re.findall(r"[\w-]+", "".join(re.findall(r"\[(.*)\]", line))):
        run("python", "-c", f"import {MODULES[extra]}")
    run("pip", "check")
    shutil.rmtree(tmp_path / "venv")


OTHER_USER = 65533
PROGRAM = """
from streamer import Deduplicator
text = "one two three four five six seven eight " * 9
with Deduplicator() as dedup:
    print([verdict.is_duplicate for verdict in dedup.add([("u", text), ("v", text)])])
"""


def ran_by_another(bin_folder: Path, folder: Path, *command: str) -> str:
    """Return what a program of an environment prints for a user without a home."""
    given = [str(bin_folder / command[0]), *command[1:]]
    if os.geteuid() == 0:
        # The interpreter may be in root's home, so the user may read anything: but not write.
        rights = "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"
        who = f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups"
        given = ["setpriv", *who, *rights, "--bounding-set=-all,+dac_read_search", *given]
    own = {"HOME": "/nonexistent", "TMPDIR": str(folder), "PATH": os.environ["PATH"]}
    return ran(*given, cwd=folder, env=own)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sdist and the wheel, made from a copy of the checkout."""
    folder = tmp_path_factory.mktemp("built")
    out = ("--out-dir", folder / "dist", "--no-build-isolation", "--python", sys.executable)
    uv("build", checkout(folder / "checkout"), *out)
    return folder / "dist"


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """Yield the programs of an environment that nobody may write to, and a folder to work in."""
    folder = tmp_path_factory.mktemp("installed")
    ran(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
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
        yield folder / "venv" / "bin", Path(temporary)
    for path in folders:
        path.chmod(0o755)
    shutil.rmtree(folder)


def uv(*arguments: object) -> None:
    ran(sys.executable, "-m", "uv", *arguments)


def test_the_wheel_of_the_sdist_has_the_files_of_the_package(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        packed = {name for name in opened.namelist() if ".dist-info/" not in name}
    files = [path for path in (ROOT / "streamer").rglob("*") if path.is_file()]
    own = {str(path.relative_to(ROOT)) for path in files if "__pycache__" not in path.parts}
    assert packed == own


def test_a_service_user_judges_pages_with_a_read_only_package(installed: tuple[Path, Path]) -> None:
    run = partial(ran_by_another, *installed)
    run("streamer", "sample", "crawl", "--pages", "300")
    run("streamer", "replay", "crawl/pages.jsonl", "--verdicts", "v.jsonl")
    verdicts = (installed[1] / "v.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["verdict"] for line in verdicts} == {"unique", "duplicate"}
    assert run("python", "-c", PROGRAM) == "[False, True]\n"


NEWER = "9999.0"
NEEDED = (
    "Makefile", "LICENSE", "NOTICE", "README.md", "pyproject.toml", ".ci", "requirements",
    "streamer",
)  # fmt: skip
OLD_PIP = "22.3"  # the oldest that a Python from 3.11 on bundles: left alone, it takes a newer
# version of coverage for the extra coverage[toml], and refuses it


def locked(lock: Path) -> set[tuple[str, str]]:
    """Return (name, version) of what a lock pins, for all versions of Python and systems."""
    pins = re.findall(r"^(\S+)==(\S+)", lock.read_text(encoding="utf-8"), re.MULTILINE)
    return {(re.sub(r"[-_.]+", "-", name), version) for name, version in pins}


def offer_newer(names: set[str], folder: Path) -> None:
    """Write a wheel of each name that is newer than any other and needs nothing."""
    folder.mkdir()
    for name in names:
        plain = name.replace("-", "_").replace(".", "_")
        info = f"{plain}-{NEWER}.dist-info"
        with zipfile.ZipFile(folder / f"{plain}-{NEWER}-py3-none-any.whl", "w") as wheel:
            about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {NEWER}\n"
            wheel.writestr(f"{info}/METADATA", about)
            tagged = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            wheel.writestr(f"{info}/WHEEL", tagged)
            wheel.writestr(f"{info}/RECORD", "")


def python_with_pip(version: str, path: Path) -> Path:
    """Write a program that is this Python, but makes environments with another pip."""
    path.write_text(
        f'#!/bin/sh\n{sys.executable} "$@" || exit\n'
        f'[ "$2" != venv ] || "$3/bin/python" -m pip install --quiet pip=={version}\n'
    )
    path.chmod(0o755)
    return path


def test_an_old_pip_installs_the_lock_while_newer_versions_are_offered(tmp_path: Path) -> None:
    copy = checkout(tmp_path / "checkout")
    locks = (ROOT / "requirements" / f"{name}.lock" for name in ("installer", "dev"))
    pinned = {pin for path in locks for pin in locked(path)}
    offer_newer({name for name, _ in pinned}, tmp_path / "newer")
    links = f"{os.environ.get('PIP_FIND_LINKS', '')} {tmp_path / 'newer'}".strip()
    python = f"PYTHON={python_with_pip(OLD_PIP, tmp_path / 'python')}"
    ran("make", ".venv/.dev", python, cwd=copy, env={**os.environ, "PIP_FIND_LINKS": links})
    pip = copy / ".venv/bin/python", "-m", "pip"
    listed = ran(*pip, "list", "--format=freeze")
    pairs = (line.split("==") for line in listed.split())
    installed = {(re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in pairs}
    assert {name for name, _ in installed - pinned} == {"streamer-dedup"}
    ran(*pip, "check")
    shutil.rmtree(copy)  # a gigabyte


VERSIONS = ("3.11", "3.12", "3.13", "3.14")
HERE = "{}.{}".format(*sys.version_info)


def python_of(version: str) -> str | None:
    """Return this version of Python, among those of pyenv or on the path."""
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return str(pyenv[-1]) if pyenv else shutil.which(f"python{version}")


def judge(python: Path | str, pages: Path, folder: Path, cache: Path | None = None) -> None:
    """Judge pages with the index of a folder, and append their verdicts."""
    own = {**os.environ, "NUMBA_CACHE_DIR": str(cache)} if cache else None
    options = "--index", folder, "--verdicts", folder.with_suffix(".jsonl")
    key = "--key-file", folder.with_name("key")
    ran(python, "-m", "streamer", "replay", pages, *options, *key, cwd=ROOT, env=own)


@pytest.mark.parametrize("version", [each for each in VERSIONS if each != HERE])
def test_another_python_goes_on_in_it_with_equal_verdicts(version: str, tmp_path: Path) -> None:
    other = python_of(version)
    if other is None:
        pytest.skip(f"Python {version} is not installed here")
    python = tmp_path / "venv/bin/python"
    lock = "--no-deps", "--require-hashes", "--requirement", ROOT / "requirements/run.lock"
    uv("venv", "--quiet", "--python", other, tmp_path / "venv")
    uv("pip", "install", "--quiet", "--python", python, *lock)
    ran(sys.executable, "-m", "streamer", "sample", tmp_path, "--pages", "400")
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
