"""The parts of an audit: the table of pages, the reading of a log, columns and examples."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamer.analysis.audit.facts import LogReading, PageTable, digest
from streamer.index.messages import Forget, Record
from streamer.model import page_ref

ENDS = st.dictionaries(st.integers(0, 6), st.integers(0, 5))


@given(ENDS)
def test_each_record_has_a_place_of_its_own_and_is_found_by_it(ends: dict[int, int]) -> None:
    table = PageTable(ends)
    refs = [page_ref(p, offset) for p in sorted(ends) for offset in range(ends[p])]
    assert len(table.flags) == len(table.arrivals) == len(refs)
    places = table.places(np.array(refs, np.uint64)).tolist()
    assert places == list(range(len(refs)))
    assert [table.ref(place) for place in places] == refs
    assert [table.place(ref >> 40, ref & 0xFFFF) for ref in refs] == places


@given(ENDS, st.integers(0, 1 << 23), st.integers(0, 1 << 39))
def test_a_wrong_record_has_no_place(ends: dict[int, int], partition: int, offset: int) -> None:
    table = PageTable(ends)
    beyond = offset + ends.get(partition, 0)
    assert table.place(partition, beyond) == table.place(partition, -1) == -1
    assert table.place(-1, 0) == -1
    assert table.places(np.array([page_ref(partition, beyond)], np.uint64)).tolist() == [-1]


def record(start: int, end: int, *numbers: int, source: str = "pages:0") -> Record:
    return Record(source, start, end, np.array(numbers, np.int64), Forget([], ""))


def test_a_log_is_read_by_the_rule_of_intervals() -> None:
    reading = LogReading()
    taken = [
        reading.accept(record(*each))
        for each in ((0, 3, 1), (2, 5, 2, 4), (0, 4, 1), (7, 9, 7), (5, 5), (5, 7), (7, 8))
    ]
    assert taken == [0, 1, None, None, None, 0, 0]
    assert (reading.records, reading.repeats, reading.ahead) == (7, 2, 1)
    assert reading.mark("pages:0") == 8
    assert reading.unfilled() == [("pages:0", 8, 9)]
    assert reading.accept(record(6, 10, 8)) == 0
    assert reading.unfilled() == []


def test_a_source_of_which_only_a_hole_is_known_counts() -> None:
    reading = LogReading()
    assert reading.accept(record(4, 5, source="pages:1")) is None
    assert reading.sources == 1
    assert reading.unfilled() == [("pages:1", 0, 5)]


def test_a_digest_tells_none_from_nothing_and_one_cut_from_another() -> None:
    parts = [(None, b""), (b"", None), (b"", b""), (b"ab", b""), (b"a", b"b"), (b"", b"ab")]
    assert len({digest(*each) for each in parts}) == len(parts)
