"""A judge over a real folder, and its look-ups ahead."""

import contextlib
import itertools
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest

from streamer.errors import StoreUnavailable
from streamer.index.messages import Pages, Verdicts
from streamer.index.settings import IndexSettings
from streamer.run import judge as module
from streamer.run.judge import FlushRule, Judge
from tests.helpers.serial_index import Judged, judged, serial_verdicts
from tests.helpers.signed_pages import BANDS, family_pages, opened
from tests.helpers.wait import Clock


@contextlib.contextmanager
def a_judge(rules: IndexSettings, head_pages: int = 65_536) -> Iterator[Judge]:
    with tempfile.TemporaryDirectory() as folder:
        judge = opened(Path(folder) / "index", rules, head_pages=head_pages)
        yield judge
        judge.close()


def verdicts_of(blocks: Iterable[Verdicts]) -> list[Judged]:
    return [verdict for block in blocks for verdict in judged(block)]


def judge_all(judge: Judge, pages: Pages, random: Random, *, flushes: bool = True) -> list[Judged]:
    """Give all pages, in records of random length; flush when it is due."""
    result: list[Judged] = []
    at = 0
    while at < len(pages):
        end = min(len(pages), at + random.randrange(1, 9))
        result += verdicts_of(judge.judge(0, at, end, pages.take(range(at, end))))
        at = end
        if flushes and judge.flush_is_due:
            judge.flush(b"")
    return result


def test_a_judge_that_is_opened_again_goes_on_at_the_flushed_position(tmp_path: Path) -> None:
    pages, rules = family_pages(Random(3), 90), IndexSettings()
    expected = serial_verdicts(pages, rules)
    first = opened(tmp_path / "index", rules)
    verdicts = judge_all(first, pages.take(range(60)), Random(1), flushes=False)
    first.flush(b"at sixty")
    rest = pages.take(range(60, 90))
    judge_rest = verdicts_of(first.judge(0, 60, 90, rest))
    first.close()  # as a kill would: nothing more is flushed
    assert verdicts + judge_rest == expected
    again = opened(tmp_path / "index", rules)
    assert (again.position(0), again.position(1), again.owner_state) == (60, 0, b"at sixty")
    repeated = verdicts_of(again.judge(0, 60, 90, rest))
    again.close()
    assert repeated == judge_rest


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


def test_new_settings_are_put_into_the_log_once(tmp_path: Path) -> None:
    pages = family_pages(Random(1), 4)
    for at, (threshold, records) in enumerate(((0.8, 1), (0.8, 1), (0.9, 2), (0.9, 2))):
        judge = opened(tmp_path / "index", IndexSettings(threshold=threshold))
        shard = judge.shard
        judge.judge(0, at, at + 1, pages.take([at]))
        assert shard.settings == IndexSettings(threshold=threshold)
        assert shard.positions["config"] == records
        judge.flush(b"")
        judge.close()


@pytest.mark.parametrize("part", ["sweep", "refresh", "flush"])
def test_a_failure_says_whether_the_flush_was_written(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_any: object, **_others: object) -> None:
        raise StoreUnavailable("No room.")

    with a_judge(IndexSettings()) as judge:
        judge_all(judge, family_pages(Random(1), 20), Random(1), flushes=False)
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


@pytest.mark.parametrize("seed", range(4))
def test_verdicts_do_not_depend_on_when_pages_were_looked_up(seed: int) -> None:
    random, rules = Random(seed), IndexSettings()
    pages = family_pages(random, 150)
    verdicts: list[Judged] = []
    with a_judge(rules, head_pages=20) as judge:
        cuts = [*range(0, 150, 7), 150]
        batches = [pages.take(range(*pair)) for pair in itertools.pairwise(cuts)]
        found = [judge.shard.look_up(batch) for batch in batches[:4]]
        at = 0
        for i, batch in enumerate(batches):
            if i + 4 < len(batches):
                found.append(judge.shard.look_up(batches[i + 4]))
            verdicts += verdicts_of(judge.judge(0, at, at + len(batch), batch, found[i]))
            at += len(batch)
            if judge.flush_is_due:
                judge.begin_flush(lambda: b"")
    assert verdicts == serial_verdicts(pages, rules)
