"""One campaign in a process of its own: its memory is its own, and its crash stops no other.

python -m tests.campaign.one NAME ROUNDS SEED FOLDER
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

from tests.campaign.campaign import Campaign, Outcome, campaigns

ROOT = Path(__file__).parents[2]
OUTCOME = "outcome.json"
LOG = "campaign.log"
ERROR_CHARACTERS = 2_000
INTERRUPT_SECONDS = 120


class NotRunError(Exception):
    """Say why a campaign could not be run; the message ends with what it printed last."""


def run_apart(
    campaign: Campaign, rounds: int, seed: int, folder: Path, seconds: float | None = None
) -> Outcome:
    """Run a campaign in a new process, in `folder`, which is made empty first.

    It works in `folder`/work, which is removed where all holds; what it prints goes to
    `folder`/campaign.log.

    Raises:
        NotRunError: it has crashed, did fewer rounds than it was asked for, or took too long.
    """
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "work").mkdir(parents=True)
    log = folder / LOG
    command = [sys.executable, "-m", "tests.campaign.one", campaign.name, rounds, seed, folder]
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=ROOT,
            stdout=output,
            stderr=output,
            start_new_session=True,  # an interruption reaches it once, from here
        )
    try:
        code = process.wait(seconds)
    except (KeyboardInterrupt, subprocess.TimeoutExpired) as error:
        _interrupt(process)
        if isinstance(error, KeyboardInterrupt):
            raise
        raise NotRunError(f"it was stopped after {seconds} s\n{_end(log)}") from error
    if code:
        raise NotRunError(f"it ended with exit code {code}\n{_end(log)}")
    outcome = msgspec.json.decode((folder / OUTCOME).read_bytes(), type=Outcome)
    if outcome.rounds < rounds:
        raise NotRunError(f"it did {outcome.rounds:,} of {rounds:,} rounds: {outcome}")
    if not outcome.violations:
        shutil.rmtree(folder / "work")
    return outcome


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Let a campaign end what it has started; kill it where it does not come to an end."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(INTERRUPT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _end(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-ERROR_CHARACTERS:].strip()


def main(name: str, rounds: str, seed: str, folder: str) -> None:
    """Run the campaign; leave its outcome in the folder."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    outcome = campaigns()[name].run(int(rounds), int(seed), Path(folder, "work"))
    Path(folder, OUTCOME).write_bytes(msgspec.json.encode(outcome))


if __name__ == "__main__":
    main(*sys.argv[1:])
