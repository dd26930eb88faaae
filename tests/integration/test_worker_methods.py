"""`streamer worker` by other methods than the default: the verdicts of a replay."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from streamer.kafka.topics import Names
from streamer.lab.sample.truth import PAGES_FILE, write_crawl
from tests.helpers.broker import messages_of
from tests.helpers.fleet import fleet
from tests.integration.chaos import load

PAGES = 200


@pytest.fixture
def few(tmp_path: Path) -> Path:
    write_crawl(tmp_path / "few", PAGES)
    return tmp_path / "few" / PAGES_FILE


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
    load(brokers, names, few, partitions=2)
    with fleet(tmp_path, brokers, names, shards=2, options=options) as workers:
        workers.start("all", "--index", tmp_path / "index")
        workers.wait_until_settled()
        checked = workers.verify("--settled")
        assert checked.returncode == 0, (checked.stdout, checked.stderr)
        assert workers.kill("all", signal.SIGTERM) == 0
    held = messages_of(brokers, names.verdicts)
    found = [message.value for messages in held.values() for message in messages]
    assert sorted(workers.replayed()) == sorted(found)
    kinds = [json.loads(value)["verdict"] for value in found]
    assert min(kinds.count("unique"), kinds.count("duplicate")) > PAGES // 10
