"""The statistics of hints: the bound of the error, evidence, and what must still be fetched."""

import pytest

from streamer.analysis.hints.hint import Evidence, HintLimits, error_bound


@pytest.mark.parametrize(
    ("differing", "support", "bound"),
    [(0, 0, 1.0), (0, 10, 0.2130), (0, 25, 0.0977), (1, 27, 0.1501), (5, 10, 0.7307), (9, 9, 1.0)],
)
def test_the_error_is_that_of_wilsons_interval(differing: int, support: int, bound: float) -> None:
    assert error_bound(differing, support) == pytest.approx(bound, abs=1e-4)


def test_single_pages_contradict_nothing_but_many_contents_do() -> None:
    changed, chosen = Evidence({1, 2}, differing=2, extra=2), Evidence(differing=1, extra=25)
    assert not changed.contradicts(HintLimits())
    assert chosen.contradicts(HintLimits())


def test_fetches_that_notice_a_change_are_a_share_of_the_urls() -> None:
    assert HintLimits(0.1).recheck(2900) == pytest.approx(29 / 2900)
    assert 1 - 0.9**29 > 0.95 > 1 - 0.9**28
    assert HintLimits(0.1).recheck(5) == HintLimits(0.1).recheck(0) == 1.0
