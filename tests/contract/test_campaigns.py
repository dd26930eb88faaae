"""The campaigns: all are listed, all stand in the report, and each has a slice in CI."""

from __future__ import annotations

from pathlib import Path

from tests.campaign.campaign import ELSEWHERE, MODULES, campaigns

ROOT = Path(__file__).parents[2]
RELIABILITY = ROOT / "docs" / "reliability.md"


def test_every_campaign_that_is_there_is_listed_once() -> None:
    there = {
        path.stem
        for path in (ROOT / "tests" / "campaign").glob("*.py")
        if "\nCAMPAIGN = " in path.read_text(encoding="utf-8")
    }
    assert sorted(MODULES) == sorted(there)


def test_the_report_has_every_campaign() -> None:
    lines = RELIABILITY.read_text(encoding="utf-8").splitlines()
    assert [one for one in campaigns() if f"## {one.capitalize()}" not in lines] == []


def test_a_campaign_without_a_slice_has_it_in_a_test_of_the_suite() -> None:
    without = {one.name for one in campaigns().values() if not one.rounds_in_ci}
    assert without - set(ELSEWHERE) == set()
    for place in ELSEWHERE.values():
        file, _, name = place.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), place
