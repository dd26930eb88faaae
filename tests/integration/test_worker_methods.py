"""`streamer worker` by other methods than the default, or by main text: a replay's verdicts."""

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from streamer.analysis.sample.crawl import PAGES_FILE, write_crawl
from streamer.kafka.topics import Names
from tests.helpers.broker import verdicts_of
from tests.helpers.fleet import Fleet, fleet
from tests.integration.chaos import load

PAGES = 200


@pytest.fixture
def few(tmp_path: Path) -> Path:
    write_crawl(tmp_path / "few", PAGES)
    return tmp_path / "few" / PAGES_FILE


def judged(
    brokers: str,
    names: Names,
    pages: Path,
    folder: Path,
    *options: str,
    verifying: tuple[str, ...] = (),
) -> list[dict[str, Any]]:
    """Return a worker's verdicts, which are those of a replay byte by byte."""
    load(brokers, names, pages, partitions=2)
    with fleet(folder, brokers, names, options=options) as workers:
        workers.settle("all", "--index", folder / "index")
        workers.see_that_all_holds(*verifying)
        assert workers.kill("all", signal.SIGTERM) == 0
    found = verdicts_of(brokers, names)
    assert sorted(workers.replayed()) == sorted(found)
    return [json.loads(value) for value in found]


@pytest.mark.parametrize(
    "options",
    [
        ("--method", "supershingles", "--canonical", "stem=english"),
        ("--method", "simhash", "--accept", "minhash", "--method-option", "distance=5"),
    ],
    ids=["one", "two in sequence"],
)
def test_verdicts_of_another_method_are_those_of_a_replay(
    brokers: str, names: Names, few: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    said = Counter(each["verdict"] for each in judged(brokers, names, few, tmp_path, *options))
    assert min(said["unique"], said["duplicate"]) > PAGES // 10


def test_verdicts_by_main_text_exact_with_near_misses_are_those_of_a_replay_and_say_so(
    brokers: str, names: Names, few: Path, tmp_path: Path
) -> None:
    options = ("--text", "main", "--exact", "--threshold", "0.9", "--near-misses", "0.3")
    verdicts = judged(brokers, names, few, tmp_path, *options)
    said = Counter((each["text"], each["verdict"]) for each in verdicts)
    assert min(said["main", "unique"], said["main", "duplicate"], said["visible", "unique"]) > 3
    exact = Counter(each["exact"] for each in verdicts if each["verdict"] == "duplicate")
    assert min(exact[True], exact[False]) > 3
    unique = [each for each in verdicts if each["verdict"] == "unique"]
    near = [each["nearest"] for each in unique if each.get("nearest")]
    assert len(near) > PAGES // 20
    kept = {json.dumps(each["page"]): each["url"] for each in unique}
    assert all(kept[json.dumps(each["page"])] == each["url"] for each in near)
    assert all(0.6 <= each["similarity"] < 0.9 for each in near)
    assert {each.get("nearest_min") for each in unique} == {0.6}
    assert not any("nearest" in each for each in verdicts if each["verdict"] == "duplicate")


def test_verdicts_under_rules_for_sites_are_those_of_a_replay(
    brokers: str, names: Names, few: Path, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[rule]]\nhost = "*3.example"\nskip = true\n'
        '[[rule]]\nhost = "www.site001*"\ntext = "main"\n'
        '[[rule]]\nhost = "*.example"\npath = "/articles/*"\nthreshold = 0.5\n'
    )
    own = ("--rules", str(rules))
    bands = ("--bands", "40", "--rows", "3")  # which find pairs at 0.5 too
    verdicts = judged(brokers, names, few, tmp_path, *own, *bands, verifying=own)
    missing = Fleet(tmp_path, brokers, names).verify("--settled")
    assert missing.returncode == 1, "pages that were skipped are missed"
    assert not [one["url"] for one in verdicts if "3.example/" in one["url"]]
    assert {one["text"] for one in verdicts} == {"main", "visible"}
    assert min(one["similarity"] or 1 for one in verdicts) < 0.8
