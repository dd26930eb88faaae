"""Commands are imported when they are asked for, and are the same as if all had been."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from streamer.cli.main import COMMANDS, PANELS, _summary
from tests.helpers.commands import ended, run
from tests.helpers.verdict_lines import duplicate, unique

GROUPS = {"", "collection", "dead-letters"}
PARTS = ("collection build", *(f"dead-letters {part}" for part in ("list", "show", "retry")))


@pytest.mark.parametrize("name", [*COMMANDS, *PARTS, ""])
def test_every_command_is_there_with_an_example_and_switches_without_a_type(name: str) -> None:
    shown = run(*name.split(), "--help", columns=120)
    assert f"{name} [OPTIONS]" in shown
    assert name not in COMMANDS or f" {_summary(name)} " in shown
    assert f"Example: streamer {name}" in shown or name in GROUPS
    assert re.search(r"--help\s+Show this message", shown)
    assert "bool" not in shown


def test_the_help_lists_every_command_under_its_panel() -> None:
    lines = run("--help", columns=120).splitlines()
    words = [line.strip("│╭╮─ ").split("  ")[0] for line in lines]
    listed = [word for word in words if word in {*COMMANDS, *PANELS}]
    assert listed == [word for panel, names in PANELS.items() for word in (panel, *names)]


def test_a_mistyped_command_is_an_error_that_names_the_one_meant() -> None:
    code, said = ended("repla")
    assert (code, "replay" in said) == (2, True)


def ended_into(out: int, *arguments: str | Path) -> tuple[int, str]:
    """Return the exit code and the errors of a command with this standard output."""
    command = [sys.executable, "-m", "streamer", *map(str, arguments)]
    done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    os.close(out)
    return done.returncode, done.stderr


def test_standard_output_that_is_closed_or_full_ends_all_commands_alike(tmp_path: Path) -> None:
    (pages := tmp_path / "pages.txt").write_text("a text of a few words")
    (verdicts := tmp_path / "v.jsonl").write_bytes(
        msgspec.json.Encoder().encode_lines([unique(0), duplicate(1, of=0)])
    )
    (letters := tmp_path / "v.dead.jsonl").write_bytes(b"")
    calls = ("clusters", verdicts), ("compare", pages, pages), ("dead-letters", "list", letters)
    for call in calls:
        read, written = os.pipe()
        os.close(read)
        assert ended_into(written, *call) == (141, ""), call
        code, said = ended_into(os.open("/dev/full", os.O_WRONLY), *call)
        assert (code, said.count("\n")) == (1, 1), said
        assert said.startswith("Error: No space is left for standard output."), call
    line = [sys.executable, "-m", "streamer", "clusters", str(verdicts)]
    closed = subprocess.run(  # noqa: S602 - ours
        shlex.join(line) + " >&-", shell=True, stderr=subprocess.PIPE, check=False
    )
    assert (closed.returncode, closed.stderr) == (141, b"")


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1", "/dev/fd/2", "/dev/null"])
def test_what_a_shell_has_opened_gets_verdicts_and_nothing_else(tmp_path: Path, name: str) -> None:
    (pages := tmp_path / "pages.jsonl").write_text('{"url": "http://a.example/", "body": "a"}\nx\n')
    out = tmp_path / "out.jsonl"
    code, said = ended_into(
        os.open(out, os.O_CREAT | os.O_WRONLY), "replay", pages, "--verdicts", name
    )
    assert code == 0, said
    is_standard = name not in {"/dev/fd/2", "/dev/null"}
    assert len(out.read_bytes().splitlines()) == 1 or not is_standard
    assert ("pages judged" in said) == is_standard
    assert said.count('"schema"') == (name == "/dev/fd/2")
    assert not Path(f"{name}.dead.jsonl").exists()


def imported_by(*calls: tuple[str, int]) -> set[str]:
    """Return the modules that are there after calls: each has a command line and its exit code."""
    program = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from streamer.cli.main import app\n"
        f"for line, code in {calls!r}:\n"
        "    assert CliRunner().invoke(app, line.split()).exit_code == code\n"
        "print(*sys.modules)"
    )
    return set(subprocess.check_output([sys.executable, "-c", program], text=True).split())


def test_a_replay_of_files_imports_neither_other_commands_nor_the_kafka_client() -> None:
    modules = imported_by(("replay --help", 0))
    assert "streamer.cli.replay" in modules
    others = {
        "aiokafka", "faust", "streamer.cli.kafka_commands", "streamer.analysis",
        "streamer.kafka.worker",
    }  # fmt: skip
    assert modules.isdisjoint(others)


def test_help_tells_of_all_commands_and_imports_none() -> None:
    modules = imported_by(("--help", 0), ("repla", 2))
    assert modules.isdisjoint({"numba", "numpy", "aiokafka", "streamer.cli.replay"})


@pytest.mark.parametrize(
    ("words", "offered"),
    [("streamer re", "replay restore"), ("streamer replay --thr", "--threshold --threads")],
)
def test_the_shell_completes_commands_and_options(words: str, offered: str) -> None:
    program = "import sys; sys.argv[0] = 'streamer'; from streamer.cli.main import run; run()"
    asked = {
        "_STREAMER_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    command, environment = [sys.executable, "-c", program], {**os.environ, **asked}
    assert subprocess.check_output(command, env=environment, text=True).split() == offered.split()
