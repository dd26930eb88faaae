"""The locks are installed as they are: by an old pip, and while the index offers newer versions."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
NEWER = "9999.0"
NEEDED = ("Makefile", "LICENSE", "README.md", "pyproject.toml", ".ci", "requirements", "streamer")
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
            wheel.writestr(
                f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {NEWER}\n"
            )
            wheel.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
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
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for name in NEEDED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, checkout / name)
    locks = (ROOT / "requirements" / f"{name}.lock" for name in ("installer", "dev"))
    pinned = {pin for path in locks for pin in locked(path)}
    offer_newer({name for name, _ in pinned}, tmp_path / "newer")
    links = f"{os.environ.get('PIP_FIND_LINKS', '')} {tmp_path / 'newer'}".strip()
    done = subprocess.run(
        ["make", ".venv/.dev", f"PYTHON={python_with_pip(OLD_PIP, tmp_path / 'python')}"],  # noqa: S607 - the system's
        cwd=checkout, env={**os.environ, "PIP_FIND_LINKS": links},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    python = checkout / ".venv/bin/python"
    listed = subprocess.check_output([python, "-m", "pip", "list", "--format=freeze"], text=True)
    pairs = (line.split("==") for line in listed.split())
    installed = {(re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in pairs}
    assert {name for name, _ in installed - pinned} == {"streamer-dedup"}
    assert subprocess.run([python, "-m", "pip", "check"], check=False).returncode == 0
    shutil.rmtree(checkout)  # a gigabyte
