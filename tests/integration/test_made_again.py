"""Topics that are deleted and made again, and logs that are lost: judged again, or refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamer.kafka.topics import Names
from tests.helpers.fleet import fleet
from tests.integration.made_again import groups_without_logs, one_log_lost, pages_made_again

WORDS = "the quick brown fox jumps over a lazy dog while animals of the farm look on and wonder"


def lines(count: int) -> list[bytes]:
    """Return pages of which every tenth is new, and the others are like one before them."""
    return [
        json.dumps(
            {
                "url": f"http://a.example/{number}",
                "body": " ".join(f"{word}{number % (count // 10)}" for word in WORDS.split()),
            }
        ).encode()
        for number in range(count)
    ]


def test_pages_are_judged_again_where_the_logs_are_lost_and_the_groups_are_not(
    brokers: str, names: Names, tmp_path: Path
) -> None:
    with fleet(tmp_path, brokers, names, 2) as workers:
        groups_without_logs(workers, lines(300))
        assert "offset_ahead_of_index" in workers.log("all")


@pytest.mark.parametrize("shard", [0, 1])
def test_a_log_that_is_lost_while_the_others_are_not_is_refused(
    brokers: str, names: Names, tmp_path: Path, shard: int
) -> None:
    with fleet(tmp_path, brokers, names, 2) as workers:
        said = one_log_lost(workers, lines(100), shard)
    assert f"The log {names.log(shard)} is empty, but {names.log(1 - shard)} has records" in said


def test_a_worker_ends_when_its_topic_of_pages_is_made_again(
    brokers: str, names: Names, tmp_path: Path
) -> None:
    with fleet(tmp_path, brokers, names) as workers:
        said = pages_made_again(workers, lines(200))
    assert f"The topic {names.pages} was deleted and made again" in said
