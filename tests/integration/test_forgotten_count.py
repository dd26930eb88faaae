"""What `streamer forget` reports; tests/campaign/forgotten.py looks for what it leaves."""

from pathlib import Path
from random import Random

from tests.campaign.forgotten import write_key, write_pages
from tests.helpers.commands import ended


def test_the_number_of_forgotten_pages_does_not_depend_on_flushes(tmp_path: Path) -> None:
    write_pages(tmp_path / "1.jsonl", 1, Random(7))
    write_pages(tmp_path / "2.jsonl", 2, Random(7))
    key = write_key(tmp_path / "key")
    counts = set()
    for head in (20, 10_000):
        index = tmp_path / f"index{head}"
        code, said = ended(
            "replay", tmp_path / "1.jsonl", tmp_path / "2.jsonl", "--index", index, "--key-file",
            key, "--verdicts", tmp_path / f"{head}.jsonl", "--track-changes",
            "--keep-pages", "150", "--head-pages", head,
        )  # fmt: skip
        assert code == 0, said
        counts.add(ended("forget", index, "--host", ".example", "--dry-run")[1].split()[0])
        counts.add(ended("forget", index, "--host", ".example")[1].split()[0])
    assert len(counts) == 1
    assert counts != {"0"}
