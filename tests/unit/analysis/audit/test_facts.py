"""The parts of an audit: the reading of a log, and digests of columns."""

import numpy as np

from streamer.analysis.audit.facts import LogReading, digest
from streamer.index.messages import Forget, Record


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
    assert reading.accept(record(4, 5, source="pages:1")) is None
    assert (reading.sources, reading.unfilled()) == (2, [("pages:1", 0, 5)])


def test_a_digest_tells_none_from_nothing_and_one_cut_from_another() -> None:
    parts = [(None, b""), (b"", None), (b"", b""), (b"ab", b""), (b"a", b"b"), (b"", b"ab")]
    assert len({digest(*each) for each in parts}) == len(parts)
