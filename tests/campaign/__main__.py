"""Runs campaigns, prints what was broken, and writes the table of docs/reliability.md.

    python -m tests.campaign build/campaign                     all, as `make campaign` does
    python -m tests.campaign build/campaign chaos damage/bombs  one campaign, and a row of another
    python -m tests.campaign build/campaign --short             few rounds, as in CI

The exit code is 0 if all promises hold, 1 if one is broken.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import machine
from tests.campaign.campaign import CAMPAIGNS, Row, rows_of

BEGIN, END = "<!-- written by make campaign -->\n", "<!-- until here -->\n"
SHOWN = 20  # violations of a row


def main() -> int:
    """Run what was asked for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where rows work")
    parser.add_argument("names", nargs="*", help="CAMPAIGN or CAMPAIGN/ROW; all if none is named")
    parser.add_argument("--short", action="store_true", help="the rounds of continuous integration")
    parser.add_argument("--rounds", type=int, help="so many rounds of each row")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path, help="the page whose table is written")
    asked = parser.parse_args()
    lines, broken = [], False
    for campaign, row in _chosen(asked.names, parser):
        rounds = asked.rounds or (row.short if asked.short else row.rounds)
        work = asked.folder.absolute() / campaign / row.name
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        began = time.monotonic()
        try:
            violations = row.run(rounds, asked.seed, work)
        except Exception as error:  # noqa: BLE001 - a row that crashes stops no other
            violations = [f"crashed: {type(error).__name__}: {error}"]
        seconds = time.monotonic() - began
        said = f"{rounds:,} rounds, {len(violations):,} broken, {seconds:.0f} s"
        parts = [f"{campaign}/{row.name}: {said}", *violations[:SHOWN]]
        sys.stdout.write("\n  ".join(parts) + "\n")
        sys.stdout.flush()
        lines.append(f"| {campaign} | {row.name} | {row.what} | {rounds:,} | {len(violations):,} |")
        broken = broken or bool(violations)
    if asked.report:
        _write(asked.report, lines)
    return int(broken)


def _chosen(names: list[str], parser: argparse.ArgumentParser) -> Iterator[tuple[str, Row]]:
    """Yield the rows that are named, with their campaigns."""
    known = {name: rows_of(name) for name in CAMPAIGNS}
    every = {f"{name}/{row.name}" for name, rows in known.items() for row in rows}
    if unknown := set(names) - every - set(CAMPAIGNS):
        parser.error(f"no such campaign: {', '.join(sorted(unknown))}")
    for name, rows in known.items():
        for row in rows:
            if not names or {name, f"{name}/{row.name}"} & set(names):
                yield name, row


def _write(page: Path, lines: list[str]) -> None:
    """Put the table between its marks on the page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    head = "| campaign | row | what is done, and what must hold | rounds | broken |"
    table = "\n".join([head, "|---|---|---|---:|---:|", *lines])
    where = f"Run on {machine.describe().line()}."
    text = f"{before}{BEGIN}\n{where}\n\n{table}\n\n{END}{after}"
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
