"""The commands of deploy/README.md for one machine, run as they stand."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.podman import ROOT, environment

README = (ROOT / "deploy" / "README.md").read_text("utf-8")
BUILD = "deploy/image build"  # done already; it would take the sources of the folder that we run in


def commands() -> list[str]:
    section = re.split(r"^## ", README, flags=re.MULTILINE)
    (compose,) = [part for part in section if part.startswith("One machine: compose")]
    blocks = re.findall(r"^```\n(.*?)^```", compose, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[list[str]]:
    """Return what puts a command into a network of its own: its ports are free."""
    space = f"compose-{os.getpid()}"
    inside = ["nsenter", f"--net=/run/netns/{space}"]
    subprocess.run(["ip", "netns", "add", space], check=True)  # noqa: S607
    try:
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
        yield inside
    finally:
        down = [
            "podman-compose",
            "-f",
            str(tmp_path / "deploy" / "compose.yaml"),
            "down",
            "--volumes",
        ]
        subprocess.run([*inside, *down], env=environment(tmp_path), check=False)
        subprocess.run(["ip", "netns", "delete", space], check=True)  # noqa: S607


def test_the_commands_for_one_machine_do_what_they_say(machine: list[str], tmp_path: Path) -> None:
    without_key = shutil.ignore_patterns("secret.key")
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy", ignore=without_key)
    shown: dict[str, str] = {}
    todo = commands()
    assert todo.pop(0) == BUILD
    for command in todo:
        done = subprocess.run(
            [*machine, "bash", "-ec", command], cwd=tmp_path, env=environment(tmp_path),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        shown[command.partition(" exec worker ")[2] or command] = done.stdout
    assert len(re.findall(r'"verdict":', shown["streamer tail --limit 3"])) == 3
    assert "\nstreamer_pages_signed_total " in shown["curl --silent http://127.0.0.1:8080/metrics"]
    volumes = ["podman", "volume", "ls", "--quiet"]
    kept = subprocess.run(
        volumes, env=environment(tmp_path), capture_output=True, text=True, check=True
    ).stdout
    assert {"streamer_index", "streamer_kafka"} <= set(kept.split()), "down keeps the data"
