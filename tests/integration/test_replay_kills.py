"""A replay that is killed at any moment and run again gives the verdicts of one that was not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("killed_replays.py")
KILLS = int(os.environ.get("REPLAY_KILLS", "30"))


@pytest.mark.parametrize("form", ["lines", "tables"])
def test_killed_replays_end_with_the_verdicts_of_a_quiet_one(form: str, tmp_path: Path) -> None:
    kills = KILLS if form == "lines" else max(KILLS // 3, 1)
    command = [sys.executable, str(SCRIPT), str(tmp_path), form, "--kills", str(kills)]
    where = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[2])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=where)
    assert done.returncode == 0, done.stderr
    assert "all equal to the quiet one" in done.stdout
