"""A batch of pages: which keys they have, which rows are fetched for them, and their verdicts."""

import numpy as np
import numpy.typing as npt
import pytest

from streamer.index.batch import fetch_candidates, key_masks
from streamer.index.ports import Hits, KeptRows
from tests.helpers.shard_cases import SAME, shares
from tests.helpers.signed_pages import made_pages

OWN_KEYS = 4


@pytest.mark.parametrize(
    ("distinct", "tokens", "mask", "is_short"),
    [(5, 9, 0b1111, False), (4, 9, 0b1000, True), (4, 0, 0, True)],
    ids=["enough", "short: its content only", "empty: none"],
)
def test_which_keys_a_page_has(distinct: int, tokens: int, mask: int, is_short: bool) -> None:
    pages = made_pages([shares(1, 2, 3, 4)], [SAME], distinct=distinct, tokens=tokens)
    masks, short = key_masks(pages, np.array([5], np.int32))
    assert (masks.tolist(), short.tolist()) == ([mask], [is_short])


def fetched(rows: list[list[int]], limit: int, mask: int = 0b1111) -> tuple[list[int], list[int]]:
    """Return which rows are fetched for a page with hits under its keys, and the hits' places."""
    asked: list[int] = []

    def fetch(numbers: npt.NDArray[np.int64]) -> KeptRows:
        asked.extend(numbers.tolist())
        return KeptRows(np.empty((0, 33), np.uint64), [], [], np.empty(0, np.int64))

    starts, hit = np.cumsum([0, *map(len, rows)]), np.array([each for own in rows for each in own])
    hits = Hits(np.arange(len(rows)), starts, hit, 0)
    masks = np.array([mask], np.uint64)
    return asked, fetch_candidates(fetch, hits, masks, OWN_KEYS, limit)[1].tolist()


def test_each_row_is_fetched_once_and_each_hit_knows_its_place() -> None:
    assert fetched([[3, 8], [5], [3, 8]], 9) == ([3, 5, 8], [0, 2, 1, 0, 2])


def test_hits_under_keys_that_a_page_does_not_have_are_not_fetched() -> None:
    assert fetched([[3, 8], [5]], 9, mask=0b0010) == ([5], [-1, -1, 0])


def test_of_more_rows_than_the_limit_the_earliest_are_fetched() -> None:
    assert fetched([[3, 8], [5], [9]], 2) == ([3, 5], [0, -1, 1, -1])
    assert fetched([[3, 8], [5], [3]], 3) == ([3, 5, 8], [0, 2, 1, 0])
