"""How many edits lie between two pages and another verdict."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamer.lab.exact import Edits, edits_needed, expected_sets

sizes = st.integers(1, 400)
thresholds = st.integers(1, 100).map(lambda percent: percent / 100)


@given(sizes, sizes, thresholds, st.integers(1, 10))
def test_so_many_shingles_cross_the_threshold_and_one_less_does_not(
    common: int, more: int, threshold: float, width: int
) -> None:
    union = common + more
    edits = edits_needed(common, union, threshold, width)
    reaches = [_after(common, union, x, differ=edits.differ) >= threshold - 1e-9 for x in
               (0, edits.shingles - 1, edits.shingles)]  # fmt: skip
    assert reaches == [edits.differ, edits.differ, not edits.differ]
    assert edits.shingles > 0
    assert (edits.words - 1) * width < edits.shingles <= edits.words * width


def _after(common: int, union: int, changed: int, *, differ: bool) -> float:
    """Return the resemblance after so many shingles of one page have become others."""
    step = -changed if differ else changed
    return (common + step) / (union - step)


def test_at_the_threshold_itself_one_shingle_more_must_differ() -> None:
    assert edits_needed(4, 5, 0.8, 5) == Edits(differ=True, shingles=1, words=1)


@given(st.sets(st.integers(0, 30), min_size=1), st.sets(st.integers(0, 30), min_size=1))
def test_expected_sets_are_the_sets_where_the_resemblance_is_exact(
    one: set[int], other: set[int]
) -> None:
    resemblance = len(one & other) / len(one | other)
    common, union = expected_sets(resemblance, len(one), len(other))
    assert abs(common - len(one & other)) < 1e-9
    assert abs(union - len(one | other)) < 1e-9


def test_no_more_is_in_common_than_the_smaller_set_has() -> None:
    assert expected_sets(0.9, 10, 100) == (10, 100)
