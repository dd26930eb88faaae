"""A judge over a real folder: when a flush is due, and what is left of it."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest

from streamer.errors import StoreUnavailable
from streamer.index.messages import IndexSettings, Pages
from streamer.run import judge as module
from streamer.run.judge import FlushRule, Judge
from tests.helpers.signed_pages import BANDS, family_pages, opened
from tests.helpers.wait import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def judge(tmp_path: Path, clock: Clock) -> Iterator[Judge]:
    result = opened(tmp_path / "index", head_pages=8, clock=clock)
    yield result
    result.close()


def unique_pages(count: int, first: int = 0) -> Pages:
    pages = family_pages(Random(9), first + count).take(range(first, first + count))
    pages.keys[:] = np.arange(first, first + count)[:, None] * 1000 + np.arange(BANDS + 1)
    pages.distinct[:], pages.tokens[:] = 32, 100
    return pages


def test_a_flush_is_due_when_the_head_is_full(judge: Judge) -> None:
    judge.judge(0, 0, 7, unique_pages(7))
    assert not judge.flush_is_due
    judge.judge(0, 7, 8, unique_pages(1, 7))
    assert judge.flush_is_due
    judge.flush(b"")
    assert not judge.flush_is_due


def test_a_flush_is_due_after_so_many_records_whatever_became_of_them(tmp_path: Path) -> None:
    rule = FlushRule(records=100, seconds=600)
    judge = opened(tmp_path / "index", IndexSettings(), flushes=rule)
    judge.judge(0, 0, 99, unique_pages(1))
    assert not judge.flush_is_due
    judge.judge(0, 99, 100, unique_pages(0))
    assert judge.flush_is_due
    judge.flush(b"")
    assert not judge.flush_is_due


def test_a_flush_is_due_after_seconds_if_there_is_work_to_do(judge: Judge, clock: Clock) -> None:
    clock.now += module.REPLAY_FLUSHES.seconds + 1
    assert not judge.flush_is_due
    judge.judge(0, 0, 1, unique_pages(1))
    assert judge.flush_is_due
    judge.flush(b"")
    judge.judge(0, 1, 2, unique_pages(1, 1))
    clock.now += module.REPLAY_FLUSHES.seconds - 1
    assert not judge.flush_is_due
    clock.now += 1
    assert judge.flush_is_due


def test_new_settings_are_logged_once_and_what_was_flushed_comes_back(tmp_path: Path) -> None:
    pages = family_pages(Random(1), 4)
    for at, (threshold, records) in enumerate(((0.8, 1), (0.8, 1), (0.9, 2), (0.9, 2))):
        judge = opened(tmp_path / "index", IndexSettings(threshold=threshold))
        shard, meta = judge.shard, judge.store.meta
        assert (judge.position(0), meta and meta.owner) == (at, b"%d" % at if at else None)
        judge.judge(0, at, at + 1, pages.take([at]))
        assert shard.settings == IndexSettings(threshold=threshold)
        assert shard.positions["config"] == records
        judge.flush(b"%d" % (at + 1))
        judge.close()


@pytest.mark.parametrize("part", ["sweep", "refresh", "flush"])
def test_a_failure_says_whether_the_flush_was_written(
    judge: Judge, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_any: object, **_others: object) -> None:
        raise StoreUnavailable("No room.")

    judge.judge(0, 0, 3, unique_pages(3))
    if part == "sweep":
        monkeypatch.setattr(module, "sweep", fail)
        monkeypatch.setattr(Judge, "_sweep_is_due", True)
    else:
        monkeypatch.setattr(judge.store if part == "flush" else judge.lookup, part, fail)
    failed: list[str] = []
    judge.store.failed = failed.append
    said = r"^No room\.$" if part == "flush" else r"^A flush was written, but .* No room\."
    with pytest.raises(StoreUnavailable, match=said):
        judge.flush(b"new")
    assert failed == (["sweep"] if part == "sweep" else [])
    if part != "flush":
        assert (judge.store.meta and judge.store.meta.owner) == b"new"
