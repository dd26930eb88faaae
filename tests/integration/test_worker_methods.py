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
        ("--text", "main", "--exact", "--near-misses", "0.3"),
    ],
    ids=["one method", "two in sequence", "main text"],
)
def test_verdicts_of_another_method_or_text_are_those_of_a_replay(
    brokers: str, names: Names, few: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    said = Counter(each["verdict"] for each in judged(brokers, names, few, tmp_path, *options))
    assert min(said["unique"], said["duplicate"]) > PAGES // 10


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
