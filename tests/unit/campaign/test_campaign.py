"""Running campaigns: what is kept, skipped, told, and left out of no exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import machine
from tests.campaign import __main__ as command
from tests.campaign import report
from tests.campaign.campaign import Campaign, Outcome, campaigns
from tests.campaign.one import NotRunError, run_apart


def _never(rounds: int, seed: int, folder: Path) -> Outcome:
    raise AssertionError((rounds, seed, folder))


def _campaign(name: str) -> Campaign:
    return Campaign(name, f"What {name} does.", 100, 20, 3, _never)


Run = Callable[..., int]


class Scripted:
    """Runs campaigns as a script says: an outcome by name, or that it could not be run."""

    def __init__(self, **outcomes: Outcome | NotRunError) -> None:
        self.outcomes = outcomes
        self.ran: list[tuple[str, int]] = []

    def __call__(self, campaign: Campaign, rounds: int, seed: int, folder: Path) -> Outcome:
        del seed, folder
        self.ran.append((campaign.name, rounds))
        outcome = self.outcomes[campaign.name]
        if isinstance(outcome, NotRunError):
            raise outcome
        return outcome


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Return a function that runs the command over scripted campaigns; its exit code."""
    conditions = machine.Machine("cpu", 2, 1 << 34, 0.1, "system", "3.11", {}, "abc")

    def start(scripted: Scripted, *arguments: str) -> int:
        known = {name: _campaign(name) for name in scripted.outcomes}
        monkeypatch.setattr(command, "campaigns", lambda: known)
        monkeypatch.setattr(command, "run_apart", scripted)
        monkeypatch.setattr(machine, "describe", lambda: conditions)
        monkeypatch.setattr(sys, "argv", ["campaign", str(tmp_path), *arguments])
        return command.main()

    return start


def test_what_is_broken_or_could_not_be_run_ends_it_with_1_and_stops_no_other(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Scripted(one=Outcome(100), two=Outcome(100, worst_pause_seconds=2.25))) == 0
    assert "2.2 s" in capsys.readouterr().out
    wrongs: dict[str, Outcome | NotRunError] = {
        "one: round 7: lost": Outcome(100, ["round 7: lost"]),
        "no such program": NotRunError("no such program"),
    }
    for said, wrong in wrongs.items():
        scripted = Scripted(one=wrong, two=Outcome(100))
        assert run(scripted, "--again") == 1
        assert scripted.ran == [("one", 100), ("two", 100)]
        assert said in capsys.readouterr().out


def test_what_has_an_outcome_of_as_many_rounds_is_passed_over_and_still_counts(run: Run) -> None:
    for option, rounds in (("--ci", 3), ("--short", 20)):
        part = Scripted(one=Outcome(rounds), two=Outcome(rounds))
        assert run(part, option) == 0
        assert part.ran == [("one", rounds), ("two", rounds)]
    assert run(Scripted(one=Outcome(100, ["lost"]), two=NotRunError("crashed"))) == 1
    second = Scripted(one=Outcome(100), two=Outcome(100))
    assert run(second) == 1
    assert second.ran == [("two", 100)]


def test_the_page_has_figures_violations_and_what_is_missing(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    found = Outcome(3, ["round 2: lost"], figures={"pages a second": 12_345.6})
    scripted = Scripted(one=found, two=Outcome(100))
    assert run(scripted, "one", "--ci", "--report", str(page)) == 1
    text = page.read_text()
    for part in ("| one | 3 | 1 |", "round 2: lost", "| pages a second | 12,346 |", "commit abc",
                 "**Missing: two.**", "## Two", "What two does.", "A slice: 3 of 100"):  # fmt: skip
        assert part in text, part


def test_the_page_is_of_one_commit_and_says_that_the_machine_was_busy(tmp_path: Path) -> None:
    for name, commit in (("two", "new"), ("one", "old"), ("two", "old"), ("one", "new")):
        conditions = machine.Machine("cpu", 2, 1 << 34, 7.5, "system", "3.11", {}, commit)
        result = report.Result(name, 100, 1, conditions, "2026-01-01", 0, Outcome(100))
        report.add(tmp_path, result)
    known = {name: _campaign(name) for name in ("one", "two")}
    report.write_page(report.read(tmp_path), known, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "commit new" in text
    assert "commit old" not in text
    assert "**Missing: two.**" in text
    assert "load before the run was 7.5" in text


def test_a_campaign_that_crashes_or_hangs_is_told_with_what_it_printed(tmp_path: Path) -> None:
    with pytest.raises(NotRunError, match=r"(?s)exit code 1\n.*KeyError: 'no-such'"):
        run_apart(_campaign("no-such"), 1, 1, tmp_path)
    with pytest.raises(NotRunError, match=r"stopped after 0\.5 s"):
        run_apart(campaigns()["simulator"], 100_000, 1, tmp_path, 0.5)
