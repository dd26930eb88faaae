"""Postings as words, rows and keys as the store holds them."""

from __future__ import annotations

import itertools
import operator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.index.codec import (
    BLOCKS,
    NUMBERS,
    POSTINGS,
    entry_key,
    is_meta_key,
    meta_key,
)
from streamer.index.postings import (
    PARTS,
    SEGMENTS,
    Keys,
    Rows,
    own_postings,
    pack_postings,
    segments_of,
    sort_postings,
    unpack_postings,
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


@settings(max_examples=300, deadline=None)
@given(posting_lists)
def test_postings_are_sorted_by_segment_then_key_then_row(postings: list[Posting]) -> None:
    words, starts = sort_postings(*columns(postings))
    assert (len(starts), starts[0], starts[-1]) == (SEGMENTS + 1, 0, len(postings))
    found = [
        (segment, *divmod(word, 1 << 32))
        for segment, (start, end) in enumerate(itertools.pairwise(starts.tolist()))
        for word in words[start:end].tolist()
    ]
    assert found == sorted((key >> 56, key >> 24 & 0xFFFFFFFF, row) for key, row in postings)


@settings(max_examples=100, deadline=None)
@given(posting_lists)
def test_packed_postings_come_back(postings: list[Posting]) -> None:
    written = sort_postings(*columns(postings))
    parts = [unpack_postings(part, data) for part, data in enumerate(pack_postings(written))]
    assert len(parts) == PARTS
    counts = [np.diff(part.starts) for part in parts]
    assert np.concatenate([part.words for part in parts]).tolist() == written.words.tolist()
    assert np.sum(counts, axis=0).tolist() == np.diff(written.starts).tolist()
    for part, own in enumerate(counts):
        assert {*np.flatnonzero(own).tolist()} <= {*segments_of(part)}


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
    st.sampled_from([POSTINGS, BLOCKS, NUMBERS]),
    st.integers(0, 2**32 - 1),
)


@given(places, places)
def test_keys_of_blocks_sort_by_step_kind_shard_and_number(
    one: tuple[int, int, int, int], other: tuple[int, int, int, int]
) -> None:
    sorted_by = operator.itemgetter(0, 2, 1, 3)
    assert (entry_key(*one) < entry_key(*other)) == (sorted_by(one) < sorted_by(other))


@given(places, st.integers(1, 2**63))
def test_a_meta_record_comes_last_in_its_file_and_before_the_next_one(
    place: tuple[int, int, int, int], seq: int
) -> None:
    assert (entry_key(*place) < meta_key(seq)) == (place[0] <= seq)
    assert is_meta_key(meta_key(seq))
    assert not is_meta_key(entry_key(*place))
