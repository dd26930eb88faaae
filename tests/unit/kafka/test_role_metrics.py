"""The numbers that signers and shards show of themselves."""

import errno
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import structlog
from structlog.testing import capture_logs

from streamer.errors import StoreUnavailable
from streamer.index.messages import Verdicts
from streamer.kafka.owner import Owner
from streamer.kafka.role_metrics import ShardMetrics, SignMetrics, snapshot_report
from streamer.metrics import Metrics
from streamer.upkeep.snapshots import Snapshot, Taken
from tests.helpers.kafka_doubles import take
from tests.helpers.memory_index import MemoryIndex
from tests.helpers.metric_values import observe, store_of, value, values
from tests.helpers.shard_cases import FAR, SAME, index, shares
from tests.helpers.signed_pages import made_pages
from tests.unit.kafka.test_owner import a_log, owner

HEAD_PAGES = 10


class Shown:
    """An index in memory, and the numbers of its shard."""

    def __init__(self, machine: MemoryIndex | None = None) -> None:
        self.metrics, self.machine = Metrics(), machine or index()
        self.shard = ShardMetrics(self.metrics, self.machine.shard, 0, HEAD_PAGES)

    def __getitem__(self, names: str) -> tuple[float, ...]:
        return tuple(value(self.metrics, f"streamer_shard_{name}", "0") for name in names.split())


# ---- signers -------------------------------------------------------------------------------------


def test_every_record_of_a_chunk_is_counted_as_what_became_of_it() -> None:
    metrics = Metrics()
    signers = SignMetrics(metrics)
    signers.count_chunk(5, Counter({"invalid_json": 2}), Counter({"deletion": 1}))
    signers.count_chunk(1, Counter({"invalid_json": 1, "empty_body": 1}), Counter())
    assert value(metrics, "streamer_records_read_total") == 11
    assert value(metrics, "streamer_pages_signed_total") == 6
    dead = {("invalid_json",): 3, ("empty_body",): 1}
    assert values(metrics, "streamer_dead_letters_total") == dead
    assert values(metrics, "streamer_skipped_records_total") == {("deletion",): 1}


def test_a_partition_that_goes_away_takes_its_lag_with_it() -> None:
    metrics = Metrics()
    signers = SignMetrics(metrics)
    for partition in range(3):
        signers.observe_lag(partition, 100 + partition)
    signers.forget([0, 2, 7])
    assert values(metrics, "streamer_sign_lag_records") == {("1",): 101}


def test_seconds_of_a_pause_count_while_it_lasts() -> None:
    metrics = Metrics()
    now = 0.0
    signers = SignMetrics(metrics, lambda: now)
    moments = [(10, 0, 0), (12, 1, 0), (15, 1, 3), (19, 0, 7), (30, 0, 7)]
    for moment, paused, seconds in moments:
        now = float(moment)
        signers.observe_gauge(7 * moment, paused=bool(paused))
        assert value(metrics, "streamer_signing_paused") == paused
        assert value(metrics, "streamer_signing_paused_seconds_total") == seconds
    assert value(metrics, "streamer_gauge_pages") == 210


# ---- shards --------------------------------------------------------------------------------------


def test_verdicts_are_counted_by_what_they_say_and_rest_on() -> None:
    shown = Shown()
    similarities = np.array([-1, 8_500, 10_000, 10_000, -1, 0], np.int32)
    bases = np.array([0, 0, 1, 2, 2, 0], np.uint8)
    pages = made_pages([[0] * 15] * 6, [SAME] * 6)
    shown.shard.count_verdicts(
        Verdicts(pages, similarities, bases, np.zeros(6, np.uint64), [b""] * 6)
    )
    assert values(shown.metrics, "streamer_verdicts_total") == {
        ("0", "unique", "signature"): 1,
        ("0", "duplicate", "signature"): 2,
        ("0", "unique", "content"): 0,
        ("0", "duplicate", "content"): 1,
        ("0", "unique", "too_short"): 1,
        ("0", "duplicate", "too_short"): 1,
    }


def test_a_shard_shows_its_head_its_holes_and_its_place_in_the_log() -> None:
    shown = Shown(index(track_changes=True))
    pages = made_pages([shares(1, 2, 3, 4)] * 2 + [shares(0, 0, 0, 0)], [SAME, SAME, FAR[1]])
    pages.urls = [b"a", b"a", b"b"]
    for start, end, holes in ((0, 1, 0), (2, 3, 1), (1, 3, 0)):
        shown.machine.give(pages, start, end)
        shown.shard.observe_state()
        assert shown["holes"] == (holes,), "until it is filled"
    assert shown["head_entries head_fill_ratio"] == (2, 2 / HEAD_PAGES)
    for output in shown.machine.outputs:
        shown.shard.count_verdicts(output.verdicts)
    reported = values(shown.metrics, "streamer_changes_total")
    assert (reported["0", "new"], reported["0", "unchanged"]) == (2, 1)
    shown.shard.observe_log(120, 150, None)
    assert values(shown.metrics, "streamer_shard_log_committed_offset") == {}
    shown.shard.observe_log(120, 150, 117)
    assert shown["log_position lag_records log_committed_offset"] == (120, 30, 117)
    shown.shard.count_failure("merge")
    counts = {("0", "freeze"): 0, ("0", "merge"): 1, ("0", "sweep"): 0}
    assert values(shown.metrics, "streamer_shard_upkeep_failures_total") == counts


def test_a_shards_counters_hold_what_this_process_saw_whatever_it_knew_before() -> None:
    machine = index(bucket_max=1)
    pages = made_pages([shares(1, 0, 0, 0) for _ in FAR], FAR)
    machine.give(pages, 0, 2)
    assert (machine.shard.applied, machine.shard.refused) == (2, 1)
    shown = Shown(machine)
    machine.give(pages, 2, 4)
    shown.shard.observe_state()
    machine.give(pages, 4, 5)
    machine.give(pages, 4, 5)
    shown.shard.observe_state()
    counted = shown["records_applied_total records_passed_over_total postings_refused_total"]
    assert counted == (3, 1, 3)


def test_a_store_shows_its_pages_with_those_in_the_head_and_what_it_takes(tmp_path: Path) -> None:
    shown, store = Shown(), store_of(tmp_path, 300, 700)
    shown.machine.give(made_pages([shares(0, 0, 0, 0) for _ in FAR], FAR), 0, 6)
    observe(shown.shard, store)
    assert shown["kept_pages key_table_postings frozen_postings"] == (1006, 3 * 1000, 0)
    assert shown["index_bytes"] == (store.size_bytes(),)
    assert store.size_bytes() > 1000 * 264
    assert shown["key_table_bytes"] > (8 * 3 * 1000,)
    store.close()


@pytest.fixture
def one(tmp_path: Path, key_file: Path) -> Iterator[Owner]:
    """Make an owner of a shard on disk."""
    with closing(owner(tmp_path / "index", key_file)) as one:
        yield one


def test_the_disk_tells_how_far_it_has_the_log_and_what_is_left(one: Owner, tmp_path: Path) -> None:
    shown = Shown()
    for offset, record in enumerate(a_log(1)):
        take(one, offset, record)
    one.show_in(shown.shard)
    assert shown["flushed_offset"] == (0,)
    one.flush(one.state())
    assert shown["flushed_offset"] == (2,), "a flush tells it"
    free = shutil.disk_usage(tmp_path).free
    assert shown["disk_free_bytes"] == pytest.approx((free,), rel=0.1)


def test_a_flush_goes_on_if_disks_say_nothing(one: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    structlog.reset_defaults()
    one.show_in(Shown().shard)
    take(one, 0, a_log(1)[0])
    failing = Mock(side_effect=OSError(errno.EMFILE, "Too many open files"))
    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr(shutil, "disk_usage", failing)
        one.flush(one.state())
    assert one.stored_offset == 1
    reported = [(each["event"], "Too many open" in each["reason"]) for each in logs]
    assert reported == [("metrics_incomplete", True)]


# ---- latency -------------------------------------------------------------------------------------


def test_latency_is_from_the_pages_timestamp_to_now_and_never_negative() -> None:
    shown = Shown()
    timestamps = np.array([10_000, 9_995, 4_000, -1, 10_500])
    shown.shard.count_latency(timestamps, np.array([3, 2, 1, 100, 4]), 10_000)
    buckets = values(shown.metrics, "streamer_verdict_latency_seconds_bucket")
    assert [buckets[edge,] for edge in ("0.005", "5.0", "10.0", "+Inf")] == [9, 9, 10, 10]
    assert value(shown.metrics, "streamer_verdict_latency_seconds_sum") == pytest.approx(6.01)


def test_snapshots_that_fail_are_counted_until_one_is_taken() -> None:
    shown = Shown()
    report = snapshot_report(shown.metrics, 0, "s3://bucket/index/shard-0")
    for expected in (1, 2):
        report(StoreUnavailable("there is no such bucket"))
        assert shown["snapshot_failures"] == (expected,)
    made = datetime(2026, 1, 2, tzinfo=UTC)
    report(Taken(Snapshot(1, made, 7, 3, "", []), 0, 0))
    assert shown["snapshot_failures snapshot_timestamp_seconds"] == (0, made.timestamp())
