"""The unit of systemd and the manual: what runs a worker on one machine, and says how."""

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from streamer.cli.main import COMMANDS, app
from streamer.errors import SettingsError, StoreDamaged, StoreMismatch
from streamer.kafka.worker import CLOSE_SECONDS_MAX, LEAVE_SECONDS_MAX
from tests.helpers.missing import leave_out

ROOT = Path(__file__).parents[2]
UNIT = (ROOT / "deploy" / "systemd" / "streamer-worker.service").read_text("utf-8")
EXPOSURE_MAX = 2.0  # of 10, as systemd-analyze counts


def tool(name: str, *arguments: object) -> str:
    """Run a tool of the system, which must succeed; return all that it prints."""
    if shutil.which(name) is None:
        leave_out(name, ".ci/tools service, as root")
    done = subprocess.run(
        [name, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def value_of(name: str) -> str:
    (found,) = re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)
    return str(found)


def test_the_manual_is_installed_where_no_other_page_is(tmp_path: Path) -> None:
    text = (ROOT / "deploy" / "README.md").read_text("utf-8")
    (line,) = re.findall(r"^make man && (.+)$", text, re.MULTILINE)
    made = tmp_path / "build" / "man"
    made.mkdir(parents=True)
    pages = {"streamer.1", "streamer-worker.1"}
    for page in pages:
        (made / page).write_text(page)
    tool("sh", "-ec", f"cd {tmp_path}; {line}".replace("/usr/local", str(tmp_path)))
    found = {path.name for path in (tmp_path / "share" / "man" / "man1").iterdir()}
    assert found == pages


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """Return the unit for the program of this environment, which is not in /opt."""
    program = str(Path(sys.executable).with_name("streamer"))
    file = tmp_path / "streamer-worker.service"
    file.write_text(UNIT.replace("/opt/streamer/bin/streamer", program), "utf-8")
    return file


def test_systemd_reads_the_unit_without_a_complaint(unit: Path) -> None:
    assert tool("systemd-analyze", "verify", "--man=no", unit) == ""


def test_the_service_may_do_little(unit: Path) -> None:
    told = tool("systemd-analyze", "security", "--offline=true", "--no-pager", unit)
    found = re.search(r"Overall exposure level for .*: (\d+\.\d+)", told)
    assert found, told
    assert float(found[1]) <= EXPOSURE_MAX


def test_the_service_is_stopped_and_started_as_a_worker_ends() -> None:
    assert int(value_of("TimeoutStopSec")) > LEAVE_SECONDS_MAX + CLOSE_SECONDS_MAX
    lasting = {SettingsError.exit_code, StoreDamaged.exit_code, StoreMismatch.exit_code}
    assert {*map(int, value_of("RestartPreventExitStatus").split())} == lasting
    assert value_of("ExecStart").split()[1:] == ["worker"]


@pytest.fixture(scope="module")
def manual() -> dict[str, str]:
    return dict(runpy.run_path(str(ROOT / "deploy" / "man.py"))["pages"]())


def test_the_manual_has_a_page_for_each_command_with_each_option(manual: dict[str, str]) -> None:
    group = typer.main.get_command(app)
    options = 0
    for name in COMMANDS:
        command = group.get_command(typer.Context(group), name)  # type: ignore[attr-defined]
        for part, own in (getattr(command, "commands", None) or {"": command}).items():
            page = f"streamer-{name}-{part}".rstrip("-")
            assert f"{page}(1)" in manual["streamer"].replace("\\fR", "").replace("\\-", "-")
            text = manual.pop(page).replace("\\-", "-")
            shown = (one for one in own.params if not getattr(one, "hidden", False))
            flags = {flag for one in shown for flag in one.opts if flag.startswith("--")}
            heads = re.findall(r"^\.TP\n(.*)$", text, re.MULTILINE)
            assert flags <= {flag for head in heads for flag in re.findall(r"--[a-z-]+", head)}
            options += len(flags)
    assert [*manual] == ["streamer"]
    assert options > 300


def test_groff_reads_the_manual_without_a_complaint(manual: dict[str, str], tmp_path: Path) -> None:
    for name, text in manual.items():
        page = tmp_path / f"{name}.1"
        page.write_text(text, "utf-8")
        shown = tool("groff", "-man", "-ww", "-Tutf8", "-P-bcou", page)
        assert "NAME" in shown
        assert not re.search(r"^(groff|troff|grotty):", shown, re.MULTILINE), shown
