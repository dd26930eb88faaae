"""The promises of a shard over random records, flushes and restarts."""

from collections import Counter
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.index.messages import CONFIG, Record
from streamer.index.settings import IndexSettings
from streamer.index.shard import Shard
from tests.helpers.memory_index import SOURCE, MemoryIndex, MemoryLookup
from tests.helpers.serial_index import likeness, own_keys
from tests.helpers.signed_pages import BANDS, family_pages, made_pages, unlike
from tests.property.test_index_serial import run

seeds = st.integers(0, 2**32)
counts = st.integers(1, 50)
deciding = st.sampled_from(["sketches", "sets"])


@settings(max_examples=80, deadline=None)
@given(seeds, counts, st.sampled_from([0.0, 0.2]), deciding)
def test_each_page_gets_one_verdict_and_each_representative_was_kept_before(
    seed: int, count: int, flush_share: float, decides: str
) -> None:
    pages = family_pages(Random(seed), count)
    rules = IndexSettings(exact=decides == "sets", near_misses=0.2)
    verdicts = run(MemoryIndex(rules, BANDS), pages, seed, flush_share)
    assert Counter(v.ref for v in verdicts) == Counter(pages.refs.tolist())
    kept: set[int] = set()
    for verdict in verdicts:
        if verdict.similarity < 0:
            kept.add(verdict.ref)
            if verdict.near is not None:
                score, other, exact, _ = verdict.near
                assert other in kept
                assert 6000 <= score < 8000
                assert (score, exact) == likeness(pages, verdict.ref, other, rules)
            continue
        assert verdict.representative in kept
        said = verdict.similarity, verdict.exact
        assert said == likeness(pages, verdict.ref, verdict.representative, rules)
        assert verdict.similarity >= 8000
        assert verdict.near is None
        assert verdict.url == pages.urls[verdict.representative]


@settings(max_examples=80, deadline=None)
@given(seeds, counts, st.sampled_from([0.0, 0.2]), deciding)
def test_no_two_kept_pages_match(seed: int, count: int, flush_share: float, decides: str) -> None:
    pages = family_pages(Random(seed), count)
    rules = IndexSettings(exact=decides == "sets")
    verdicts = run(MemoryIndex(rules, BANDS), pages, seed, flush_share)
    kept = [verdict.ref for verdict in verdicts if verdict.similarity < 0]
    keys = {ref: set(own_keys(pages, ref, rules)) for ref in kept}
    matching = [
        (one, other)
        for one in kept
        for other in kept
        if one < other and keys[one] & keys[other] and likeness(pages, other, one, rules)[0] >= 8000
    ]
    assert matching == []


@settings(max_examples=60, deadline=None)
@given(seeds, counts)
def test_a_shard_restarted_from_its_state_goes_on_as_if_nothing_was(seed: int, count: int) -> None:
    pages = family_pages(Random(seed), count)
    rules = IndexSettings(exact=True, near_misses=0.2)
    steady, restarted = MemoryIndex(rules, BANDS), MemoryIndex(rules, BANDS)
    run(steady, pages, seed, 0.0)
    moments = Random(seed + 1)

    def maybe_restart() -> bool:
        if moments.random() < 0.3:
            state = restarted.shard.state()
            restarted.restart()
            assert restarted.shard.state() == state
        return False

    restarted.run(pages, Random(seed).randrange, maybe_restart)
    assert restarted.verdicts == steady.verdicts
    assert [each.start for each in restarted.outputs] == [each.start for each in steady.outputs]
    one, other = restarted.shard, steady.shard
    assert (one.positions, one.verdicts, one.applied) == (
        other.positions,
        other.verdicts,
        other.applied,
    )
    assert (one.next_row, one.refused) == (other.next_row, other.refused)
    assert one.settings == other.settings


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
