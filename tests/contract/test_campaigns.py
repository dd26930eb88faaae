"""docs/reliability.md has a line for each row of the campaigns."""

from pathlib import Path

from tests.campaign.campaign import CAMPAIGNS, rows_of

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"


def test_the_page_has_every_row() -> None:
    text = PAGE.read_text(encoding="utf-8")
    missing = [
        f"{name}/{row.name}"
        for name in CAMPAIGNS
        for row in rows_of(name)
        if f"| {name} | {row.name} | {row.what} |" not in text
    ]
    assert missing == [], "make campaign writes the table"
