"""Runs campaigns one after the other, prints one table, and writes docs/reliability.md.

A campaign's outcome is kept as soon as it is there, so that a run that was cut off goes on: what
has an outcome with the same commit, rounds and seed is skipped.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from benchmarks import machine
from tests.campaign import report
from tests.campaign.campaign import ELSEWHERE, Campaign, campaigns
from tests.campaign.one import LOG, NotRunError, run_apart

EXAMPLES = """\
examples:
  python -m tests.campaign build/campaign                  all of them, as `make campaign` does
  python -m tests.campaign build/campaign crowd soak --ci  two, as in continuous integration
  python -m tests.campaign build/campaign --short          all of them in half an hour
  CAMPAIGN_FILES=100000 python -m tests.campaign build/campaign strangers --rounds 3
                                                           a run over so many files
  python -m tests.campaign build/campaign simulator --seed 10000 --again

exit codes: 0 all promises hold, 1 one is broken or a campaign could not be run, 130 interrupted.
"""


def main() -> int:
    """Run what was asked for; return the exit code."""
    known = campaigns()
    asked = _asked(known)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder: Path = asked.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    console = Console(highlight=False, soft_wrap=True)
    chosen = [known[name] for name in asked.names or known]
    if not asked.report_only:
        _run(chosen, folder, asked, console)
    found = report.read(folder)
    shown = [found[campaign.name] for campaign in chosen if campaign.name in found]
    console.print(report.table(shown))
    for result in shown:
        for line in () if result.holds else report.complaints(result):
            console.print(f"{result.name}: {line}", markup=False)
    if asked.report:
        report.write_page(found, known, asked.report)
        console.print(f"The page is {asked.report}.")
    return 0 if all(result.holds for result in shown) else 1


def _asked(known: dict[str, Campaign]) -> argparse.Namespace:
    """Return what the command line asks for."""
    listed = "\n".join(f"  {one.name:14} {one.what}" for one in known.values())
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaign",
        description="Do things to the system many times over, and count broken promises.",
        epilog=f"campaigns:\n{listed}\n\n{EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="where outcomes, logs and working folders lie")
    parser.add_argument("names", nargs="*", metavar="NAME", help="campaigns; all if none is named")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--ci", action="store_true", help="the rounds of continuous integration")
    sizes.add_argument("--short", action="store_true", help="fewer rounds: all in half an hour")
    sizes.add_argument("--rounds", type=int, help="so many rounds of each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="also what has an outcome already")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the page")
    parser.add_argument("--report-only", action="store_true", help="run nothing")
    asked = parser.parse_args()
    if unknown := [name for name in asked.names if name not in known]:
        parser.error(f"no such campaign: {', '.join(unknown)}; there are {', '.join(known)}")
    return asked


def _run(chosen: list[Campaign], folder: Path, asked: argparse.Namespace, console: Console) -> None:
    """Run campaigns, and keep what each has found."""
    conditions = machine.describe()
    for number, (campaign, rounds) in enumerate(_rounds(chosen, asked, console), 1):
        old = report.read(folder).get(campaign.name)
        if old and not asked.again and _same(old, rounds, asked.seed, conditions):
            console.print(f"{campaign.name}: has an outcome of this commit already")
            continue
        where = folder / campaign.name
        began, date = time.monotonic(), datetime.now(UTC).date().isoformat()
        result = report.Result(campaign.name, rounds, asked.seed, conditions, date, 0)
        console.print(f"{campaign.name}: {rounds:,} rounds; it writes to {where / LOG}")
        with console.status(f"{campaign.name}, {number} of {len(chosen)}"):
            try:
                result.outcome = run_apart(campaign, rounds, asked.seed, where)
            except NotRunError as error:
                result.error = str(error)
        result.seconds = time.monotonic() - began
        report.add(folder, result)
        _tell(result, where, console)


def _rounds(
    chosen: list[Campaign], asked: argparse.Namespace, console: Console
) -> Iterator[tuple[Campaign, int]]:
    """Yield campaigns with how many rounds each is to do."""
    for campaign in chosen:
        rounds = campaign.rounds_in_short if asked.short else campaign.rounds
        rounds = campaign.rounds_in_ci if asked.ci else rounds
        if asked.rounds or rounds:
            yield campaign, asked.rounds or rounds
        else:
            console.print(f"{campaign.name}: its slice is {ELSEWHERE[campaign.name]}")


def _same(old: report.Result, rounds: int, seed: int, now: machine.Machine) -> bool:
    """Return whether an outcome is that of an equal run; a changed checkout equals no other."""
    commit = now.commit
    named = commit is not None and not commit.endswith("+") and commit == old.machine.commit
    return named and old.outcome is not None and (old.asked, old.seed) == (rounds, seed)


def _tell(result: report.Result, where: Path, console: Console) -> None:
    """Print what has come out."""
    found = "not run" if result.outcome is None else f"{len(result.outcome.violations)} violations"
    console.print(f"{result.name}: {found} after {result.seconds:.0f} s")
    if not result.holds:
        console.print(f"{result.name}: what it left is in {where}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted. The same command goes on after the last outcome.\n")
        sys.exit(130)
