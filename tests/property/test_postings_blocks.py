"""Postings, rows and keys as a run holds them."""

from __future__ import annotations

import itertools
import operator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.index.codec import (
    NUMBERS,
    POSTINGS,
    ROWS,
    entry_key,
    entry_prefix,
    is_meta_key,
    meta_key,
)
from streamer.index.postings import (
    BLOCK_POSTINGS,
    Keys,
    Rows,
    block_bits,
    block_starts,
    joined_blocks,
    merge_postings,
    own_postings,
    search_blocks,
    sort_postings,
    split_blocks,
)

U64 = st.integers(0, 2**64 - 1)
U32 = st.integers(0, 2**32 - 1)
few_keys = st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 7 << 60])
posting_lists = st.lists(st.tuples(few_keys | U64, U32), max_size=60)
Posting = tuple[int, int]


def columns(postings: list[Posting]) -> tuple[Keys, Rows]:
    return (
        np.array([key for key, _ in postings], np.uint64),
        np.array([row for _, row in postings], np.uint32),
    )


def listed(keys: Keys, rows: Rows) -> list[Posting]:
    return list(zip(keys.tolist(), rows.tolist(), strict=True))


def by_key(posting: Posting) -> int:
    return posting[0]


@settings(max_examples=300, deadline=None)
@given(posting_lists)
def test_postings_are_sorted_by_key_and_equal_keys_keep_their_order(
    postings: list[Posting],
) -> None:
    assert listed(*sort_postings(*columns(postings))) == sorted(postings, key=by_key)


def test_many_postings_are_sorted_too() -> None:
    random = np.random.default_rng(5)
    keys = random.integers(0, 2**64, 50_000, np.uint64)
    keys[::7] = keys[:100].repeat(100)[: len(keys[::7])]
    rows = np.arange(50_000, dtype=np.uint32)
    order = np.argsort(keys, kind="stable")
    found_keys, found_rows = sort_postings(keys, rows)
    assert (found_keys == keys[order]).all()
    assert (found_rows == rows[order]).all()


@settings(max_examples=200, deadline=None)
@given(st.lists(posting_lists, min_size=1, max_size=5))
def test_merged_runs_are_their_sorted_concatenation(runs: list[list[Posting]]) -> None:
    parts = [columns(sorted(run, key=by_key)) for run in runs]
    everything = [posting for run in runs for posting in sorted(run, key=by_key)]
    assert listed(*merge_postings(parts)) == sorted(everything, key=by_key)


@settings(max_examples=200, deadline=None)
@given(posting_lists, st.integers(1, 12))
def test_blocks_part_the_keys_by_their_top_bits(postings: list[Posting], bits: int) -> None:
    keys, _ = columns(sorted(postings, key=by_key))
    starts = block_starts(keys, bits).tolist()
    assert len(starts) == 2**bits + 1
    assert (starts[0], starts[-1]) == (0, len(keys))
    for block, (start, end) in enumerate(itertools.pairwise(starts)):
        assert all(key >> (64 - bits) == block for key in keys[start:end].tolist())


@given(st.integers(0, 2**32))
def test_a_block_holds_about_as_many_postings_as_it_should(postings: int) -> None:
    blocks = 2 ** block_bits(postings)
    assert postings / blocks <= BLOCK_POSTINGS
    assert blocks == 2 or postings / blocks >= BLOCK_POSTINGS / 2


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(posting_lists, few_keys | U64), max_size=6))
def test_a_search_finds_each_key_with_all_its_postings(
    asked: list[tuple[list[Posting], int]],
) -> None:
    blocks = [columns(sorted(postings, key=by_key)) for postings, _ in asked]
    values = [keys.tobytes() + rows.tobytes() for keys, rows in blocks]
    limits = np.cumsum([0, *map(len, values)]).astype(np.int64)
    first, size = np.full((2, len(asked)), -7, np.int64)
    data = np.frombuffer(b"".join(values), np.uint8)
    search_blocks(data, limits, np.array([key for _, key in asked], np.uint64), first, size)
    for i, ((keys, _), (_, key)) in enumerate(zip(blocks, asked, strict=True)):
        assert size[i] == np.count_nonzero(keys == np.uint64(key))
        assert (keys[first[i] : first[i] + size[i]] == np.uint64(key)).all()


@settings(max_examples=200, deadline=None)
@given(st.lists(posting_lists, max_size=6))
def test_blocks_that_are_read_give_the_postings_that_were_written(
    blocks: list[list[Posting]],
) -> None:
    values = [keys.tobytes() + rows.tobytes() for keys, rows in map(columns, blocks)]
    everything = [posting for block in blocks for posting in block]
    keys, rows = columns([(0, 0)] * len(everything))
    assert split_blocks(*joined_blocks(values), keys, rows) == len(everything)
    assert listed(keys, rows) == everything


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.lists(U64, min_size=3, max_size=3), st.integers(0, 7), U32), max_size=20)
)
def test_entries_are_listed_with_the_postings_of_their_masks(
    entries: list[tuple[list[int], int, int]],
) -> None:
    expected = [
        (key, row) for keys, mask, row in entries for bit, key in enumerate(keys) if mask >> bit & 1
    ]
    out_keys, out_rows = columns([(0, 0)] * len(expected))
    count = own_postings(
        np.array([keys for keys, _, _ in entries], np.uint64).reshape(-1, 3),
        np.array([mask for _, mask, _ in entries], np.uint64),
        np.array([row for _, _, row in entries], np.int64),
        out_keys,
        out_rows,
    )
    assert count == len(expected)
    assert listed(out_keys, out_rows) == expected


places = st.tuples(
    st.integers(1, 2**63),
    st.integers(0, 63),
    st.sampled_from([POSTINGS, ROWS, NUMBERS]),
    st.integers(0, 2**32 - 1),
)


@given(places, places)
def test_keys_of_blocks_sort_by_step_kind_shard_and_number(
    one: tuple[int, int, int, int], other: tuple[int, int, int, int]
) -> None:
    sorted_by = operator.itemgetter(0, 2, 1, 3)
    assert (entry_key(*one) < entry_key(*other)) == (sorted_by(one) < sorted_by(other))
    assert entry_key(*one).startswith(entry_prefix(*one[:3]))
    assert entry_key(*one).startswith(entry_prefix(*other[:3])) == (one[:3] == other[:3])


@given(places, st.integers(1, 2**63))
def test_a_meta_record_comes_last_in_its_file_and_before_the_next_one(
    place: tuple[int, int, int, int], seq: int
) -> None:
    assert (entry_key(*place) < meta_key(seq)) == (place[0] <= seq)
    assert is_meta_key(meta_key(seq))
    assert not is_meta_key(entry_key(*place))
