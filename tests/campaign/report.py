"""What campaigns have found: the file of outcomes, one table of them, and docs/reliability.md.

No figure on the page is typed by hand: all come from the file. The page is of one commit, that of
the newest result. A campaign without a result of that commit is named as missing, and an outcome of
fewer rounds than planned as a slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from rich.table import Table

from benchmarks.figures import markdown
from benchmarks.machine import Machine
from tests.campaign.campaign import ELSEWHERE, Campaign, Outcome

FILE = "outcomes.json"
SHOWN = 20  # violations of a campaign, of which there may be thousands
HEAD = """\
# Reliability

Written by `make campaign` from what its campaigns have counted; nothing on this page is typed by
hand. A campaign does something to the system many times over and counts broken promises
([architecture.md](architecture.md)): each one that is counted is a line below. `make campaign` ends
with exit code 1 where there is any, or where a campaign could not be run.
"""


class Result(msgspec.Struct):
    """A campaign's run; `outcome` is None where it could not be run, and `error` says why."""

    name: str
    asked: int
    seed: int
    machine: Machine
    date: str
    seconds: float
    outcome: Outcome | None = None
    error: str = ""

    @property
    def holds(self) -> bool:
        """Return whether it was run and no promise was broken."""
        return self.outcome is not None and not self.outcome.violations


Results = dict[str, Result]


def read(folder: Path) -> Results:
    """Return the results by the campaigns' names.

    Raises:
        msgspec.ValidationError: the file is of another version.
    """
    path = folder / FILE
    if not path.exists():
        return {}
    return msgspec.json.decode(path.read_bytes(), type=Results)


def add(folder: Path, result: Result) -> None:
    """Put a result at the end of the file, which is whole at any moment."""
    results = read(folder)
    results.pop(result.name, None)
    results[result.name] = result
    new = folder / f"{FILE}.new"
    new.write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")
    new.replace(folder / FILE)


def table(results: Iterable[Result]) -> Table:
    """Return the one table: what, rounds, violations, worst pause."""
    made = Table("what")
    for header in ("rounds", "violations", "worst pause", "took"):
        made.add_column(header, justify="right")
    for result in results:
        outcome = result.outcome
        if outcome is None:
            made.add_row(
                result.name, f"0 of {result.asked:,}", "not run", "", _span(result.seconds)
            )
            continue
        pause = outcome.worst_pause_seconds
        made.add_row(
            result.name,
            f"{outcome.rounds:,}",
            f"{len(outcome.violations):,}",
            "" if pause is None else f"{pause:.1f} s",
            _span(result.seconds),
        )
    return made


def complaints(result: Result) -> Iterator[str]:
    """Yield what is broken, a line each; of many the first."""
    if result.outcome is None:
        yield f"could not be run: {result.error}"
        return
    violations = result.outcome.violations
    yield from violations[:SHOWN]
    if len(violations) > SHOWN:
        yield f"{len(violations) - SHOWN:,} more are in {FILE}"


def write_page(results: Results, campaigns: Mapping[str, Campaign], out: Path) -> None:
    """Write the page of all campaigns, of the commit of the newest result."""
    results = _of_one_commit(results)
    there = [results[name] for name in campaigns if name in results]
    missing = [name for name in campaigns if name not in results]
    parts = [HEAD, *_machines(there), markdown([table(there)])]
    if missing:
        parts.append(f"**Missing: {', '.join(missing)}.** Of these nothing is known yet.")
    for name, campaign in campaigns.items():
        parts += [f"## {name.capitalize()}", campaign.what]
        parts += _section(campaign, results[name]) if name in results else ["Not run yet."]
        parts.append(_how(campaign))
    out.write_text("\n\n".join(part.strip() for part in parts if part) + "\n", encoding="utf-8")


def _of_one_commit(results: Results) -> Results:
    """Return the results of the commit that the newest one, the last, is of."""
    commits = {name: result.machine.commit for name, result in results.items()}
    newest = next(reversed(commits.values()), None)
    return {name: result for name, result in results.items() if commits[name] == newest}


def _machines(there: Sequence[Result]) -> Iterator[str]:
    """Yield a line for each machine that the results are of, as a rule one."""
    yield from dict.fromkeys(
        f"Run on {one.processor}, {one.cores} cores, {one.memory_bytes / 2**30:.0f} GiB;"
        f" {one.system}; Python {one.python}; commit {one.commit or 'unknown'}."
        for one in (result.machine for result in there)
    )


def _section(campaign: Campaign, result: Result) -> Iterator[str]:
    """Yield a campaign's conditions, violations and figures."""
    line = f"Run {result.date} in {_span(result.seconds)}, seed {result.seed}."
    if result.asked < campaign.rounds:
        line += f" A slice: {result.asked:,} of {campaign.rounds:,} rounds."
    if result.machine.is_busy:
        line += f" The machine was busy: its load before the run was {result.machine.load:g}."
    yield line
    if not result.holds:
        quoted = "\n".join(complaints(result)).replace("```", "'''")
        yield f"**Violations:**\n\n```\n{quoted}\n```"
    outcome = result.outcome
    if outcome is not None and outcome.figures:
        figures = Table("figure", "measured")
        for name, value in outcome.figures.items():
            figures.add_row(name, _figure(value))
        yield markdown([figures])


def _how(campaign: Campaign) -> str:
    """Say how it is run, and what continuous integration does of it."""
    in_ci = (
        f"{campaign.rounds_in_ci:,} of {campaign.rounds:,} rounds"
        if campaign.rounds_in_ci
        else f"`{ELSEWHERE[campaign.name]}`"
    )
    return f"Command: `python -m tests.campaign build/campaign {campaign.name}`. In CI: {in_ci}."


def _figure(value: float | str) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else value


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
