"""A range of a log is cut into chunks by bytes and records."""

import itertools
import random

from streamer.kafka.reader import BYTES_MAX, RECORDS_MAX, cut
from tests.helpers.kafka_doubles import FakeMessage


def test_chunks_cover_all_that_was_read_gaps_included() -> None:
    draw = random.Random(1)
    small, large = b"x" * 10, b"x" * 10_000
    for _ in range(50):
        offsets = sorted(draw.sample(range(100, 10_000), draw.randint(1, 6000)))
        records = [FakeMessage(offset, draw.choice((small, large))) for offset in offsets]
        chunks = list(cut("pages", 0, 90, 10_010, records))
        assert chunks[0].start == 90
        assert chunks[-1].end == 10_010
        assert all(a.end == b.start for a, b in itertools.pairwise(chunks))
        assert [record for chunk in chunks for record in chunk.records] == records
        for chunk in chunks:
            assert all(chunk.start <= record.offset < chunk.end for record in chunk.records)
            assert len(chunk.records) <= RECORDS_MAX
            assert sum(r.serialized_value_size for r in chunk.records[:-1]) < BYTES_MAX


def test_a_range_without_messages_is_one_empty_chunk() -> None:
    (chunk,) = cut("pages", 3, 5, 9, [])
    assert (chunk.partition, chunk.start, chunk.end, len(chunk.records)) == (3, 5, 9, 0)
