"""`inspect` and `check` fit a screen, and their `--all` has the rest."""

import json
from pathlib import Path

import pytest

from streamer.config import list_settings
from tests.helpers.commands import run
from tests.helpers.place import page

SCREEN = 24  # lines of 100 columns
FILES = 40


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inspected")
    (folder / "pages").mkdir()
    for file in range(FILES):
        lines = map(page, range(3 * file, 3 * file + 3))
        (folder / "pages" / f"{file}.jsonl").write_bytes(b"".join(lines))
    run(
        "replay", folder / "pages", "--verdicts", folder / "v.jsonl", "--index", folder / "index",
        "--threshold", "0.9", "--scope", "host",
    )  # fmt: skip
    return folder / "index"


def rows(*command: object) -> dict[str, str]:
    """Return what a command shows by name; it fits a screen."""
    lines = run(*command, columns=100).splitlines()
    assert len(lines) <= SCREEN
    assert "--all shows" in lines[-1] or "The index" in lines[-1]
    parts = [line.split("  ", 1) for line in lines if "  " in line.strip()]
    return {name: value.strip() for name, value in parts}


def test_an_index_of_many_files_is_shown_in_one_screen(index: Path) -> None:
    shown = rows("inspect", index)
    whole = json.loads(run("inspect", index, "--json"))
    kept = whole["shards"][0]["pages_kept"]
    assert shown["records read"] == f"{3 * FILES} of {FILES} sources"
    assert shown["pages kept"] == f"{kept:,}"
    assert shown["bytes"] == f"{whole['bytes']:,}"
    assert (shown["method"], shown["threshold"], shown["scope"]) == ("minhash", "0.9", "host")
    assert "bucket_max" not in shown
    everything = run("inspect", index, "--all", columns=100)
    assert everything.count("position in ") == FILES == len(whole["position"])
    assert "bucket_max" in everything


def test_check_shows_what_is_no_default_and_by_what_pages_are_judged() -> None:
    assert [*rows("check")] == ["setting", "threshold", "text", "method"]
    shown = rows("check", "--preset", "balanced", "--carry", "language", "--min-shingles", "5")
    assert shown["threshold"].split() == ["0.63", "the", "method's,", "0.8"]
    assert shown["text"].split() == ["main", "visible"]
    assert {"preset", "site_memory", "bands", "rows", "carry"} < shown.keys()
    assert "min_shingles" not in shown, "the default was given"
    said = run("check", columns=100).splitlines()[-1]
    assert said.startswith(f"{len(list_settings()) - 3} other settings have their defaults")


def test_check_says_whether_an_index_fits_below_its_settings(index: Path) -> None:
    same = "--threshold", "0.9", "--scope", "host"
    shown = run("check", "--index", index, *same, columns=200).splitlines()
    assert len(shown) <= SCREEN
    assert shown[-1] == f"The index {index} fits, and nothing changes."
    shown = run("check", "--index", index, "--scope", "host", columns=200).splitlines()
    assert shown[-1] == f"The index {index} fits. From the next page on: threshold 0.9 -> 0.8."
