"""The numbers that signers and shards show of themselves."""

import errno
import shutil
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import structlog
from structlog.testing import capture_logs

from streamer.errors import StoreUnavailable
from streamer.index.messages import Verdicts
from streamer.kafka.role_metrics import ShardMetrics, SignMetrics, snapshot_report
from streamer.kafka.topics import Names
from streamer.metrics import Metrics, Stage
from streamer.upkeep.snapshots import Snapshot, Taken
from tests.helpers.kafka_doubles import take
from tests.helpers.metric_values import metrics_in_use, observe, store_of, value, values
from tests.helpers.shard_cases import FAR, SAME, index, shares
from tests.helpers.signed_pages import made_pages
from tests.unit.kafka.test_owner import a_log, key, owner

__all__ = ["key"]
HEAD_PAGES = 10
NAMES = Names("index", "pages")


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
    seen = []
    for moment, paused in [(10, False), (12, True), (15, True), (19, False), (30, False)]:
        now = float(moment)
        signers.observe_gauge(7 * moment, paused=paused)
        seen.append(
            (
                value(metrics, "streamer_signing_paused"),
                value(metrics, "streamer_signing_paused_seconds_total"),
            )
        )
    assert seen == [(0, 0), (1, 0), (1, 3), (0, 7), (0, 7)]
    assert value(metrics, "streamer_gauge_pages") == 210


def test_stages_are_timed_by_role_and_shard() -> None:
    metrics = Metrics()
    shard = ShardMetrics(metrics, index().shard, 0, HEAD_PAGES)
    with SignMetrics(metrics).stage(Stage.PARSE_SIGN):
        pass
    for _ in range(2):
        with shard.stage(Stage.FLUSH):
            pass
    counts = {("", "parse_sign"): 1, ("0", "flush"): 2}
    assert values(metrics, "streamer_stage_seconds_count") == counts


# ---- shards --------------------------------------------------------------------------------------


def test_work_on_an_index_that_fails_is_counted_by_its_kind() -> None:
    metrics = Metrics()
    shard = ShardMetrics(metrics, index().shard, 0, HEAD_PAGES)
    shard.count_failure("merge")
    counts = {("0", "freeze"): 0, ("0", "merge"): 1, ("0", "sweep"): 0}
    assert values(metrics, "streamer_shard_upkeep_failures_total") == counts


def test_verdicts_are_counted_by_what_they_say_and_rest_on() -> None:
    metrics = Metrics()
    shard = ShardMetrics(metrics, index().shard, 0, HEAD_PAGES)
    pages = made_pages([[0] * 15] * 6, [SAME] * 6)
    shard.count_verdicts(
        Verdicts(
            pages,
            np.array([-1, 8_500, 10_000, 10_000, -1, 0], np.int32),
            np.array([0, 0, 1, 2, 2, 0], np.uint8),
            np.zeros(6, np.uint64),
            [b""] * 6,
        )
    )
    assert values(metrics, "streamer_verdicts_total") == {
        ("0", "unique", "signature"): 1,
        ("0", "duplicate", "signature"): 2,
        ("0", "unique", "content"): 0,
        ("0", "duplicate", "content"): 1,
        ("0", "unique", "too_short"): 1,
        ("0", "duplicate", "too_short"): 1,
    }


def test_the_memtable_shows_its_pages_and_how_near_a_flush_is() -> None:
    metrics, machine = Metrics(), index()
    shard = ShardMetrics(metrics, machine.shard, 0, HEAD_PAGES)
    machine.give(
        made_pages([shares(1, 2, 3, 4)] * 2 + [shares(0, 0, 0, 0)], [SAME, SAME, FAR[1]]), 0, 3
    )
    shard.observe_state()
    assert value(metrics, "streamer_shard_head_entries", "0") == 2
    assert value(metrics, "streamer_shard_head_fill_ratio", "0") == 2 / HEAD_PAGES


def test_a_shards_counters_hold_what_this_process_saw_whatever_it_knew_before() -> None:
    metrics, machine = Metrics(), index(bucket_max=1)
    pages = made_pages([shares(1, 0, 0, 0) for _ in FAR], FAR)
    machine.give(pages, 0, 2)
    assert (machine.shard.applied, machine.shard.refused) == (2, 1)
    shard_metrics = ShardMetrics(metrics, machine.shard, 0, HEAD_PAGES)
    machine.give(pages, 2, 4)
    shard_metrics.observe_state()
    machine.give(pages, 4, 5)
    machine.give(pages, 4, 5)
    shard_metrics.observe_state()
    assert value(metrics, "streamer_shard_records_applied_total", "0") == 3
    assert value(metrics, "streamer_shard_records_passed_over_total", "0") == 1
    assert value(metrics, "streamer_shard_postings_refused_total", "0") == 3


def test_dates_that_stay_too_late_are_counted() -> None:
    metrics, machine = Metrics(), index()
    shard = ShardMetrics(metrics, machine.shard, 0, HEAD_PAGES)
    pages = made_pages([shares(1, 2, 3, 4)] * 202, [SAME] * 202)
    pages.times[:] = 1 << 40
    pages.times[100] = 1 << 50
    for end, count in ((201, 0), (202, 1)):
        machine.give(pages, max(0, end - 201), end)
        shard.observe_state()
        assert value(metrics, "streamer_shard_wrong_dates_total", "0") == count


def test_the_log_shows_how_far_it_is_read_and_what_is_left() -> None:
    metrics = Metrics()
    shard_metrics = ShardMetrics(metrics, index().shard, 0, HEAD_PAGES)
    shard_metrics.observe_log(120, 150, None)
    assert values(metrics, "streamer_shard_log_committed_offset") == {}
    shard_metrics.observe_log(120, 150, 117)
    assert value(metrics, "streamer_shard_log_position", "0") == 120
    assert value(metrics, "streamer_shard_lag_records", "0") == 30
    assert value(metrics, "streamer_shard_log_committed_offset", "0") == 117


def test_kept_pages_are_those_on_disk_and_those_in_the_head(tmp_path: Path) -> None:
    metrics, machine = Metrics(), index()
    machine.give(made_pages([shares(0, 0, 0, 0) for _ in FAR], FAR), 0, 6)
    shard_metrics = ShardMetrics(metrics, machine.shard, 0, HEAD_PAGES)
    store = store_of(tmp_path, 30, 40)
    observe(shard_metrics, store)
    assert value(metrics, "streamer_shard_kept_pages", "0") == 30 + 40 + 6
    size = store.size_bytes()
    assert value(metrics, "streamer_shard_index_bytes", "0") == size > 70 * 264
    store.close()


def test_the_key_table_tells_its_postings_and_its_memory(tmp_path: Path) -> None:
    metrics = Metrics()
    shard_metrics = ShardMetrics(metrics, index().shard, 0, HEAD_PAGES)
    store = store_of(tmp_path, 1000)
    observe(shard_metrics, store)
    assert value(metrics, "streamer_shard_key_table_postings", "0") == 3 * 1000
    assert value(metrics, "streamer_shard_frozen_postings", "0") == 0
    assert value(metrics, "streamer_shard_key_table_bytes", "0") > 8 * 3 * 1000
    store.close()


def test_the_disk_tells_how_far_it_has_the_log_and_what_is_left(tmp_path: Path, key: Path) -> None:
    metrics, log = Metrics(), a_log(3)
    one = owner(tmp_path / "index", key)
    for offset in range(2):
        take(one, offset, log[offset])
    one.show_in(ShardMetrics(metrics, one.shard, 0, HEAD_PAGES))
    assert value(metrics, "streamer_shard_flushed_offset", "0") == 0
    one.flush(one.state())
    assert value(metrics, "streamer_shard_flushed_offset", "0") == 2, "a flush tells it"
    free = value(metrics, "streamer_shard_disk_free_bytes", "0")
    assert free == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.1)
    one.close()


def test_a_flush_goes_on_when_the_disk_cannot_be_measured(
    tmp_path: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_descriptor(_path: Path) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    structlog.reset_defaults()
    one = owner(tmp_path / "index", key)
    one.show_in(ShardMetrics(Metrics(), one.shard, 0, HEAD_PAGES))
    take(one, 0, a_log(3)[0])
    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr(shutil, "disk_usage", no_descriptor)
        one.flush(one.state())
    assert one.stored_offset == 1
    assert [(each["event"], "Too many open" in each["reason"]) for each in logs] == [
        ("metrics_incomplete", True)
    ]
    one.close()


# ---- latency -------------------------------------------------------------------------------------


def test_latency_is_from_the_pages_timestamp_to_now_and_never_negative() -> None:
    metrics = Metrics()
    shard_metrics = ShardMetrics(metrics, index().shard, 0, HEAD_PAGES)
    timestamps = np.array([10_000, 9_995, 4_000, -1, 10_500])
    shard_metrics.count_latency(timestamps, np.array([3, 2, 1, 100, 4]), 10_000)
    buckets = values(metrics, "streamer_verdict_latency_seconds_bucket")
    assert [buckets[edge,] for edge in ("0.005", "5.0", "10.0", "+Inf")] == [9, 9, 10, 10]
    assert value(metrics, "streamer_verdict_latency_seconds_sum") == pytest.approx(6.01)


def test_snapshots_that_fail_are_counted_until_one_is_taken() -> None:
    metrics = Metrics()
    report = snapshot_report(metrics, 2, "s3://bucket/index/shard-2")
    for expected in (1, 2):
        report(StoreUnavailable("there is no such bucket"))
        assert value(metrics, "streamer_shard_snapshot_failures", "2") == expected
    made = datetime(2026, 1, 2, tzinfo=UTC)
    report(Taken(Snapshot(1, made, 7, 3, []), 0, 0))
    assert value(metrics, "streamer_shard_snapshot_failures", "2") == 0
    assert value(metrics, "streamer_shard_snapshot_timestamp_seconds", "2") == made.timestamp()


def test_changes_of_urls_are_counted() -> None:
    metrics, machine = Metrics(), index(track_changes=True)
    shard = ShardMetrics(metrics, machine.shard, 0, HEAD_PAGES)
    pages = made_pages([shares(1, 2, 3, 4)] * 3, [SAME] * 3)
    pages.urls = [b"a", b"a", b"b"]
    machine.give(pages, 0, 3)
    for output in machine.outputs:
        shard.count_verdicts(output.verdicts)
    told = values(metrics, "streamer_changes_total")
    assert (told["0", "new"], told["0", "unchanged"]) == (2, 1)


def test_a_hole_in_the_log_shows_until_it_is_filled() -> None:
    metrics, machine = Metrics(), index()
    pages = made_pages([shares(0, 0, 0, 0) for _ in FAR], FAR)
    shard_metrics = ShardMetrics(metrics, machine.shard, 0, HEAD_PAGES)
    for start, end, holes in ((0, 1, 0), (2, 3, 1), (1, 3, 0)):
        machine.give(pages, start, end)
        shard_metrics.observe_state()
        assert value(metrics, "streamer_shard_holes", "0") == holes


def test_what_a_worker_logs_counts_what_its_metrics_count(tmp_path: Path) -> None:
    metrics = metrics_in_use(tmp_path)
    SignMetrics(metrics).observe_lag(3, 9)
    SignMetrics(metrics).forget([3])
    shard = ShardMetrics(metrics, index().shard, 1, HEAD_PAGES)
    shard.observe_log(5, 12, None)
    counts = metrics.counts
    assert (counts.read, counts.signed, counts.is_paused) == (3, 1, False)
    assert (counts.dead, counts.skipped) == ({"invalid_json": 1}, {"deletion": 1})
    by_name = {
        "sign_lag_records": counts.lag, "verdicts_total": counts.judged,
        "shard_kept_pages": counts.kept, "shard_records_applied_total": counts.applied,
        "shard_lag_records": counts.log_lag,
    }  # fmt: skip
    for name, own in by_name.items():
        assert own.total() == sum(values(metrics, f"streamer_{name}").values()) > 0, name
