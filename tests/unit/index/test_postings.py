"""Postings as words, rows and keys as the store holds them."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.index.codec import KEYS, ROWS, STATE_KEY, entry_key
from streamer.index.postings import (
    NO_POSTINGS,
    ROWS_MAX,
    SEGMENTS,
    Postings,
    part_postings,
    rows_before,
    sort_postings,
)

U64 = st.integers(0, 2**64 - 1)
U32 = st.integers(0, 2**32 - 1)
few_keys = st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 7 << 60])
rows = U32 | st.integers(0, 2**40)
posting_lists = st.lists(st.tuples(few_keys | U64, rows), max_size=60)
Posting = tuple[int, int]


def sorted_postings(postings: list[Posting]) -> Postings:
    keys = np.array([key for key, _ in postings], np.uint64).reshape(-1, 1)
    rows = np.array([row for _, row in postings], np.int64)
    return sort_postings(keys, np.ones(len(rows), np.uint64), rows)


def in_order(postings: Postings) -> list[tuple[int, int, int]]:
    """Return segment, tag and row of each posting, in its order."""
    return [
        (segment, *divmod(word, 1 << 32))
        for segment, (start, end) in enumerate(itertools.pairwise(postings.starts.tolist()))
        for word in postings.words[start:end].tolist()
    ]


def expected(postings: list[Posting]) -> list[tuple[int, int, int]]:
    return sorted((key >> 56, key >> 24 & 0xFFFFFFFF, row % ROWS_MAX) for key, row in postings)


@given(st.integers(0, 2**40), st.lists(st.integers(1, ROWS_MAX), min_size=1))
def test_a_row_is_found_by_its_number_in_a_word(end: int, ages: list[int]) -> None:
    rows = [end - age for age in ages]
    numbers = np.array([row % ROWS_MAX for row in rows])
    assert rows_before(end, numbers).tolist() == [max(row, -1) for row in rows]


@settings(max_examples=300, deadline=None)
@given(posting_lists)
def test_postings_are_sorted_by_segment_then_key_then_row(postings: list[Posting]) -> None:
    found = sorted_postings(postings)
    starts = found.starts
    assert (len(starts), starts[0], starts[-1]) == (SEGMENTS + 1, 0, len(postings))
    assert in_order(found) == expected(postings)


@given(posting_lists)
def test_postings_that_are_parted_only_are_those_in_another_order(postings: list[Posting]) -> None:
    keys = np.array([key for key, _ in postings], np.uint64).reshape(-1, 1)
    rows = np.array([row for _, row in postings], np.int64)
    parted = part_postings(keys, np.ones(len(rows), np.uint64), rows)
    assert parted.starts.tolist() == sorted_postings(postings).starts.tolist()
    assert sorted(in_order(parted)) == expected(postings)


@given(
    st.lists(st.tuples(st.lists(U64, min_size=3, max_size=3), st.integers(0, 7), U32), max_size=20)
)
def test_rows_are_posted_under_keys_of_masks(entries: list[tuple[list[int], int, int]]) -> None:
    found = sort_postings(
        np.array([keys for keys, _, _ in entries], np.uint64).reshape(-1, 3),
        np.array([mask for _, mask, _ in entries], np.uint64),
        np.array([row for _, _, row in entries], np.int64),
    )
    assert in_order(found) == expected(
        [
            (key, row)
            for keys, mask, row in entries
            for bit, key in enumerate(keys)
            if mask >> bit & 1
        ]
    )


blocks = st.tuples(st.sampled_from([KEYS, ROWS]), st.integers(0, 2**64 - 1))


@given(blocks, blocks)
def test_keys_of_entries_sort_by_family_and_block_and_the_state_comes_last(
    one: tuple[bytes, int], other: tuple[bytes, int]
) -> None:
    assert (entry_key(*one) < entry_key(*other)) == (one < other)
    assert entry_key(*one) < STATE_KEY


def test_no_postings_are_those_of_no_rows() -> None:
    assert [*map(list, NO_POSTINGS)] == [*map(list, sorted_postings([]))]
