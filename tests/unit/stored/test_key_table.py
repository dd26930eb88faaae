"""The key table finds every posting of a key and no other, however it has grown."""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamer.index.postings import SEGMENTS, Keys, Places, Postings, part_postings, sort_postings
from streamer.stored import key_table
from streamer.stored.key_table import KeyTable, slots_for

WHOLE = range(SEGMENTS)
SHARED_BITS = 24  # of a key that its words do not have
ROW_MAX = 2**32 - 2
Posting = tuple[int, int]

few_keys = st.sampled_from([0, 1 << SHARED_BITS, 2**63, 2**64 - 1, (1 << 56) - 1, 7 << 60])
rows = st.integers(0, 20) | st.integers(0, ROW_MAX)
flushes = st.lists(
    st.lists(st.tuples(few_keys | st.integers(0, 2**64 - 1), rows), max_size=60), max_size=6
)


@pytest.fixture(autouse=True, scope="module")
def _small_segments() -> Iterator[None]:
    """Have segments that grow at the second word, and that have no room behind the last home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_table, "_SLOTS_MIN", 1)
        patch.setattr(key_table, "_MARGIN", 2)
        yield


def add(table: KeyTable, postings: list[Posting], parts: list[range] | None = None) -> None:
    for part in parts or [WHOLE]:
        table.add(packed(postings), part)


def packed(postings: list[Posting], *, in_order: bool = True) -> Postings:
    keys = np.array([key for key, _ in postings], np.uint64)
    return posted(keys, np.array([row for _, row in postings], np.int64), in_order=in_order)


def posted(keys: Keys, rows: Places | int, *, in_order: bool = True) -> Postings:
    """Return the postings of keys[i] and its row, or the row of all."""
    make, one = sort_postings if in_order else part_postings, np.ones(len(keys), np.uint64)
    return make(keys[:, None], one, np.broadcast_to(rows, len(keys)).astype(np.int64))


def found(table: KeyTable, keys: Keys) -> dict[int, list[int]]:
    """Return the rows under each place of a key that has any."""
    result = defaultdict(list)
    places, numbers = table.find(keys)
    assert (np.diff(places) >= 0).all()
    for place, row in zip(places.tolist(), numbers.tolist(), strict=True):
        result[place].append(row)
    return dict(result)


def expected(postings: list[Posting], keys: list[int]) -> dict[int, list[int]]:
    """Return the same by looking at every posting."""
    lists = [
        sorted(row for key, row in postings if key >> SHARED_BITS == asked >> SHARED_BITS)
        for asked in keys
    ]
    return {place: numbers for place, numbers in enumerate(lists) if numbers}


@settings(max_examples=200, deadline=None)
@given(
    flushes,
    st.lists(few_keys | st.integers(0, 2**64 - 1), max_size=20),
    st.integers(0, 6),
    st.integers(0, 900),
)
@example([[(2**64 - 1, ROW_MAX)] * 9], [2**64 - 1], 0, 0)
@example([[(2**64 - 1, ROW_MAX)] * 9, [(2**64 - 1, 3)] * 9], [2**64 - 1], 2, 18)
@example([[(0, 0)], [(0, 0)]], [0, 0, 1], 0, 2)
def test_all_postings_of_a_key_are_found_in_the_order_of_rows(
    parts: list[list[Posting]], others: list[int], filled: int, expected_postings: int
) -> None:
    table = KeyTable()
    if parts[:filled]:
        rounds = [packed(part, in_order=False) for part in parts[:filled]]
        for each in (rounds[: filled // 2], rounds[filled // 2 :]):
            if each:
                table.fill(each, WHOLE, expected_postings)
    for part in parts[filled:]:
        add(table, part)
    everything = [posting for part in parts for posting in part]
    asked = [key for key, _ in everything] + others
    assert found(table, np.array(asked, np.uint64)) == expected(everything, asked)
    assert table.count == len(everything)


@pytest.mark.parametrize("top", [0, 0x7F, 0xFF])
def test_a_crowd_under_one_tag_at_the_end_of_a_segment_has_room(top: int) -> None:
    key = top << 56 | (1 << 56) - 1
    table = KeyTable()
    for row in range(0, 3000, 30):
        add(table, [(key, each) for each in range(row, row + 30)])
    assert found(table, np.array([key], np.uint64)) == {0: list(range(3000))}
    assert found(table, np.array([key - (1 << SHARED_BITS)], np.uint64)) == {}


def test_many_postings_are_found_after_much_growth() -> None:
    drawn = np.random.default_rng(1).integers(0, 2**64, (40, 10_000), np.uint64)
    table = KeyTable()
    for number, keys in enumerate(drawn):
        table.add(posted(keys, number), WHOLE)
    places, numbers = table.find(drawn.reshape(-1))
    first = np.flatnonzero(np.diff(places, prepend=-1))
    assert places[first].tolist() == list(range(drawn.size)), "every key has a posting"
    right = numbers == places // drawn.shape[1]
    assert right.sum() == drawn.size, "among its postings is its own"
    assert (~right).sum() < 10, "others agree with it in 40 bits by chance"


@pytest.mark.parametrize("words", [0, 1, 100, 30_000, 470_000])
def test_segments_have_sizes_between_a_fifth_more_and_a_tenth_more_than_words(words: int) -> None:
    sizes = [slots_for(segment, words) for segment in range(SEGMENTS)]
    assert min(sizes) >= words / key_table._LOAD_MAX  # noqa: SLF001 - no load is greater
    assert max(sizes) <= key_table._GROWTH * words / key_table._LOAD_MAX + 2  # noqa: SLF001 - as above
    assert len(set(sizes)) > SEGMENTS / 2 or words <= 100, "so they do not all grow at once"
