"""The kernels of the rule at their bounds; test_shard.py has what they make of pages."""

import numpy as np
import pytest

from streamer.index import rule
from streamer.index.pairs import find_doubtful, matching_pairs, nearest_rows
from streamer.index.rule import _insert_sorted
from streamer.sketch.method import Measure
from tests.helpers.shard_cases import FAR, SAME, apart

MEASURE = int(Measure.RESEMBLANCE)
NEVER = 1 << 62
SCORE = 8007  # of SAME and apart(136)


def pairs_of(
    rows: list[int],
    *,
    times: tuple[int, ...] = (0, 0, 0, 0),
    gone: tuple[int, ...] = (NEVER,) * 4,
    least: int = SCORE,
    limits: tuple[int, int, int] = (64, NEVER, NEVER),
    room: int = 9,
) -> tuple[list[list[int]], tuple[int, int], list[int]]:
    """Return the matching pairs of a bucket, what is returned, and how often each was compared."""
    sketches = np.array([SAME, apart(136), SAME, SAME], np.uint64)
    lives = np.array([times, gone, [least] * 4], np.int64).T.copy()
    met, pairs = np.zeros(4, np.int64), np.zeros((room, 2), np.int64)
    bucket_max, age, newest = limits
    found = matching_pairs(
        np.array([*rows, 3]), np.array([0, len(rows)]), sketches, lives,
        (bucket_max, MEASURE, age, newest), met, pairs, np.zeros(bucket_max, np.int64),
    )  # fmt: skip
    return pairs[: found[1]].tolist(), found, met.tolist()


@pytest.mark.parametrize(("least", "pairs"), [(SCORE, [[0, 1]]), (SCORE + 1, [])])
def test_a_pair_matches_at_its_threshold(least: int, pairs: list[list[int]]) -> None:
    assert pairs_of([0, 1], least=least) == (pairs, (1, len(pairs)), [0, 1, 0, 0])


@pytest.mark.parametrize(("age", "compared"), [(7, 1), (6, 0)])
def test_a_row_as_old_as_the_age_answers(age: int, compared: int) -> None:
    assert pairs_of([0, 1], times=(1, 8, 0, 0), limits=(64, age, NEVER))[1][0] == compared


@pytest.mark.parametrize(("newest", "compared"), [(2, 1), (1, 0)])
def test_a_row_answers_as_many_rows_as_are_kept(newest: int, compared: int) -> None:
    assert pairs_of([0, 2], limits=(64, NEVER, newest))[1][0] == compared


@pytest.mark.parametrize(("gone", "compared"), [(2, 1), (1, 0)])
def test_a_row_answers_until_it_is_forgotten(gone: int, compared: int) -> None:
    assert pairs_of([0, 1], gone=(gone, NEVER, NEVER, NEVER))[1][0] == compared


@pytest.mark.parametrize(("bucket_max", "compared"), [(1, 2), (2, 3), (3, 3)])
def test_a_bucket_has_so_many_rows(bucket_max: int, compared: int) -> None:
    pairs, counts, met = pairs_of([0, 1, 2], limits=(bucket_max, NEVER, NEVER))
    assert counts == (compared, compared)
    assert (pairs, met[2]) == ([[0, 1], [0, 2], [1, 2]][:compared], compared - 1)


def test_pairs_for_which_there_is_no_room_are_counted() -> None:
    pairs, counts, _ = pairs_of([0, 1, 2], room=2)
    assert (pairs, counts) == ([[0, 1], [0, 2]], (3, 3))


def nearest(known: list[int], least: int, scores: int = -1) -> tuple[int, int]:
    """Return the row that is nearest to a page of SAME among the two others, and its score."""
    rows = np.array([apart(136), apart(136)], np.uint64)
    best, score = np.full(1, -1), np.full(1, scores, np.int32)
    nearest_rows(
        np.array([[0, 0], [0, 1]]), np.array([SAME], np.uint64), rows, MEASURE,
        np.array([least], np.int32), np.array(known), best, score,
    )  # fmt: skip
    return int(best[0]), int(score[0])


def test_the_first_of_equally_near_rows_counts_from_the_threshold_on() -> None:
    assert nearest([rule.UNKNOWN, rule.UNKNOWN], SCORE) == (0, SCORE)
    assert nearest([rule.UNKNOWN, rule.UNKNOWN], SCORE + 1) == (-1, -1)
    assert nearest([rule.UNKNOWN, rule.UNKNOWN], SCORE, SCORE) == (-1, SCORE)
    assert nearest([rule.UNKNOWN, SCORE + 1], SCORE) == (1, SCORE + 1)
    assert nearest([0, rule.UNKNOWN], 0) == (1, SCORE)
    assert nearest([0, 0], 0) == (0, 0)


def test_what_sketches_leave_in_doubt_is_marked() -> None:
    rows, known = np.array([apart(136), FAR[1]], np.uint64), np.full(2, rule.UNKNOWN)
    pairs, least = np.array([[0, 0], [0, 1]]), np.array([SCORE], np.int32)
    find_doubtful(pairs, np.array([SAME], np.uint64), rows, least, known)
    assert known.tolist() == [rule.IN_DOUBT, rule.UNKNOWN]


def test_candidates_are_in_the_order_of_their_rows_and_of_too_many_the_lowest_stay() -> None:
    rows, places, count = np.zeros(4, np.int64), np.zeros(4, np.int64), 0
    counts = []
    for row in (5, 3, 9, 3, 7, 1, 8, 4, 4):
        count = _insert_sorted(rows, places, count, row, 10 * row)
        counts.append(count)
    assert counts == [1, 2, 3, 3, 4, 4, 4, 4, 4]
    assert (rows.tolist(), places.tolist()) == ([1, 3, 4, 5], [10, 30, 40, 50])
