"""A worker's log says each minute what was done, what is left, and what looks wrong."""

from collections import Counter
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from streamer.kafka.role_metrics import ProgressLog, SignMetrics
from streamer.metrics import Metrics
from tests.helpers.wait import Clock


class Worker:
    """A worker's metrics, and its log of them; `look` lets a minute pass."""

    def __init__(self, *, signs: bool = True, owns: bool = True) -> None:
        structlog.reset_defaults()
        self.metrics = Metrics()
        self.signing = SignMetrics(self.metrics)
        self.clock = Clock()
        self.shards = self.metrics.shards
        self.log = ProgressLog(self.metrics, signs=signs, owns=owns, clock=self.clock)

    def judge(self, pages: int) -> None:
        self.signing.count_chunk(pages, Counter(), Counter())
        self.shards.verdicts.labels("0", "unique", "signature").inc(pages)

    def look(self, seconds: float = 60) -> list[Any]:
        self.clock.now += seconds
        with capture_logs() as lines:
            self.log.log()
        return lines


def test_a_line_a_minute_tells_what_was_done_and_what_is_left() -> None:
    worker = Worker()
    worker.judge(1_200)
    worker.signing.count_chunk(0, Counter(empty_body=3), Counter(deletion=2))
    worker.signing.observe_lag(0, 70)
    worker.signing.observe_lag(1, 7)
    for shard, kept in (("0", 900), ("1", 100)):
        worker.shards.kept_pages.labels(shard).set(kept)
    assert worker.look() == [
        {
            "event": "worker_progress", "log_level": "info", "pages_per_second": 20.0,
            "judged": 1_200, "kept": 1_000, "log_lag_records": 0,
            "signed": 1_200, "dead_letters": 3, "skipped": 2, "lag_records": 77,
        }
    ]  # fmt: skip
    worker.judge(600)
    assert worker.look()[0]["pages_per_second"] == 10.0, "since the line before"


def test_a_minute_without_any_change_has_no_line_and_ten_of_them_have_one() -> None:
    worker = Worker()
    worker.judge(1)
    assert len(worker.look()) == 1
    assert [len(worker.look()) for _ in range(20)] == [*[0] * 9, 1, *[0] * 9, 1]
    assert worker.look() == []
    worker.judge(1)
    assert worker.look()[0]["pages_per_second"] == round(1 / 60, 1)


@pytest.mark.parametrize(("signs", "names"), [(True, "signed"), (False, "judged")])
def test_a_worker_tells_of_its_own_part_only(*, signs: bool, names: str) -> None:
    worker = Worker(signs=signs, owns=not signs)
    worker.judge(60)
    (line,) = worker.look()
    assert names in line
    assert ("signed" in line, "judged" in line) == (signs, not signs)
    assert line["pages_per_second"] == 1.0


def test_mostly_dead_letters_are_warned_of_with_the_code_and_an_example() -> None:
    worker = Worker()
    worker.metrics.newest_dead["missing_url"] = "pages/1@77"
    worker.signing.count_chunk(40, Counter(missing_url=60, empty_body=1), Counter())
    _, warning = worker.look()
    assert (warning["event"], warning["log_level"]) == ("mostly_dead_letters", "warning")
    assert (warning["code"], warning["example"]) == ("missing_url", "pages/1@77")
    assert "61 of 101 records" in warning["reason"]
    assert "60 of them for missing_url" in warning["reason"]
    worker.signing.count_chunk(51, Counter(missing_url=50), Counter())
    assert [line["event"] for line in worker.look()] == ["worker_progress"], "of this minute alone"


def test_records_of_which_none_is_a_page_are_warned_of() -> None:
    worker = Worker()
    worker.signing.count_chunk(0, Counter(), Counter(status_not_2xx=20, deletion=1))
    _, warning = worker.look()
    assert (warning["event"], warning["code"]) == ("nothing_judged", "status_not_2xx")


@pytest.mark.parametrize("paused", [True, False])
def test_a_signer_that_reads_nothing_of_what_there_is_is_warned_of(*, paused: bool) -> None:
    worker = Worker(owns=False)
    worker.signing.observe_lag(0, 500)
    assert [line["event"] for line in worker.look()] == ["worker_progress"], "it may have just come"
    worker.signing.observe_gauge(0, paused=paused)
    (warning,) = worker.look()
    assert warning["event"] == "nothing_judged"
    assert ("wait for a shard" in warning["reason"]) == paused


def test_a_shard_that_stands_still_is_warned_of_but_not_one_that_folds() -> None:
    worker = Worker(signs=False)
    worker.shards.lag_records.labels("0").set(9)
    worker.look()
    assert [line["event"] for line in worker.look()] == ["nothing_judged"]
    worker.shards.records_applied.labels("0").inc()
    assert [line["event"] for line in worker.look()] == ["worker_progress"]
