"""`streamer worker` by other methods, main text or rules for sites: a replay's verdicts."""

import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from streamer.analysis.sample.crawl import PAGES_FILE, write_crawl
from streamer.kafka.topics import Names
from tests.helpers.broker import verdicts_of
from tests.helpers.fleet import fleet
from tests.integration.chaos import load

PAGES = 200


RULES = """
[[rule]]
host = "*3.example"
skip = true
[[rule]]
host = "www.site001*"
text = "main"
[[rule]]
host = "*.example"
path = "/articles/*"
threshold = 0.5
"""


@pytest.mark.parametrize(
    "options",
    [
        ("--method", "supershingles", "--canonical", "stem=english"),
        ("--method", "simhash", "--accept", "minhash", "--method-option", "distance=5"),
        ("--text", "main", "--exact", "--near-misses", "0.3"),
        ("--rules", "RULES", "--bands", "40", "--rows", "3"),  # which find pairs at 0.5 too
    ],
    ids=["one method", "two in sequence", "main text", "rules for sites"],
)
def test_verdicts_by_other_methods_texts_and_rules_are_those_of_a_replay(
    brokers: str, names: Names, tmp_path: Path, options: tuple[str, ...]
) -> None:
    (rules := tmp_path / "rules.toml").write_text(RULES)
    options = tuple(str(rules) if option == "RULES" else option for option in options)
    own = options[:2] if str(rules) in options else ()
    write_crawl(tmp_path / "few", PAGES)
    load(brokers, names, tmp_path / "few" / PAGES_FILE, partitions=2)
    with fleet(tmp_path, brokers, names, options=options) as workers:
        workers.settle("all", "--index", tmp_path / "index")
        workers.see_that_all_holds(*own)
        assert workers.kill("all", signal.SIGTERM) == 0
    found = verdicts_of(brokers, names)
    assert sorted(workers.replayed()) == sorted(found)
    verdicts = [json.loads(value) for value in found]
    assert any("3.example/" in each["url"] for each in verdicts) != bool(own)
    said = Counter(each["verdict"] for each in verdicts)
    assert min(said["unique"], said["duplicate"]) > PAGES // 10
