"""A shard takes a record by the rule of intervals, whatever records come."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.index.messages import CONFIG, IndexSettings, Record
from streamer.index.shard import Shard
from tests.helpers.memory_index import SOURCE, MemoryLookup
from tests.helpers.signed_pages import made_pages, unlike

intervals = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)), max_size=12)


@settings(max_examples=150, deadline=None)
@given(intervals, st.sets(st.integers(0, 20)))
def test_a_record_is_taken_from_the_position_on_if_that_is_in_its_interval(
    records: list[tuple[int, int]], present: set[int]
) -> None:
    """Items exist at the numbers in `present`; the others are gaps."""
    shard = Shard(1, MemoryLookup())
    shard.apply(Record(CONFIG, 0, 1, np.zeros(1, np.int64), IndexSettings()))
    position = skipped_records = 0
    for start, length in records:
        end = start + length
        numbers = [n for n in range(start, end) if n in present]
        items = made_pages([[2 * n, 2 * n + 1] for n in numbers], [unlike(0)] * len(numbers))
        items.refs[:] = numbers
        if not numbers:
            items.keys = np.empty((0, 2), np.uint64)
        output = shard.apply(Record(SOURCE, start, end, np.array(numbers, np.int64), items))
        expected: list[int] = []
        if start <= position < end:
            expected = [n for n in numbers if n >= position]
            position = end
        else:
            skipped_records += 1
        assert (output.verdicts.pages.refs.tolist() if output else []) == expected
        assert shard.positions.get(SOURCE, 0) == position
        assert shard.skipped_records == skipped_records
