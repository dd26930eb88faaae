"""Several shards keep the promises of one, in whatever order their logs are read."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.index.messages import CONFIG, Decisions, Forget, Output, Record, Verdicts
from streamer.index.settings import IndexSettings, bands_of
from streamer.index.shard import Shard
from tests.helpers.serial_index import containment, judged, likeness, own_keys, serial_verdicts
from tests.helpers.shard_network import SOURCE, MemoryLookup, Network
from tests.helpers.signed_pages import BANDS, family_pages, made_pages, unlike
from tests.property.test_index_serial import run

if TYPE_CHECKING:
    from collections.abc import Iterable


seeds = st.integers(0, 2**32)
counts = st.integers(1, 50)
shard_counts = st.sampled_from([2, 3, 5])
deciding = st.sampled_from(["sketches", "sets"])


def plain(outputs: Iterable[Output]) -> list[tuple[object, ...]]:
    """Return outputs as values that compare."""
    result: list[tuple[object, ...]] = []
    for output in outputs:
        items = output.items
        content: object
        if isinstance(items, Verdicts):
            content = judged(items)
        elif isinstance(items, Decisions):
            content = (items.refs.tolist(), items.kept.tolist())
        elif isinstance(items, Forget):
            content = items.terms
        else:
            columns = items.refs, items.keys, items.sketches
            content = (
                *(column.tolist() for column in columns),
                items.shingles,
                items.nearest,
                items.containers,
            )
        result.append((output.destination, output.start, output.end, content))
    return result


@settings(max_examples=80, deadline=None)
@given(seeds, counts, shard_counts, st.sampled_from([0.0, 0.2]), deciding)
def test_each_page_gets_one_verdict_and_each_representative_was_kept_before(
    seed: int, count: int, shards: int, flush_share: float, decides: str
) -> None:
    pages = family_pages(Random(seed), count)
    rules = IndexSettings(shards=shards, exact=decides == "sets", near_misses=0.2, contained=0.5)
    network = Network(rules, BANDS)
    verdicts = run(network, pages, seed, flush_share)
    assert Counter(v.ref for v in verdicts) == Counter(pages.refs.tolist())
    assert [shard.open_pages for shard in network.shards] == [0] * shards
    kept: set[int] = set()
    for verdict in verdicts:
        if verdict.similarity < 0:
            kept.add(verdict.ref)
            if verdict.near is not None:
                score, other, exact, _ = verdict.near
                assert other in kept
                assert 6000 <= score < 8000
                assert (score, exact) == likeness(pages, verdict.ref, other, rules)
            if verdict.inside is not None:
                share, other = verdict.inside
                both = pages.sketches[verdict.ref], pages.sketches[other]
                assert other in kept
                score, _ = likeness(pages, verdict.ref, other, rules)
                assert 5000 <= share == containment(score, *both)
            continue
        assert verdict.representative in kept
        said = verdict.similarity, verdict.exact
        assert said == likeness(pages, verdict.ref, verdict.representative, rules)
        assert verdict.similarity >= 8000
        assert (verdict.near, verdict.inside) == (None, None)
        assert verdict.url == pages.urls[verdict.representative]


@settings(max_examples=80, deadline=None)
@given(seeds, counts, st.sampled_from([1, 2, 3, 5]), st.sampled_from([0.0, 0.2]), deciding)
def test_no_two_kept_pages_match_each_other(
    seed: int, count: int, shards: int, flush_share: float, decides: str
) -> None:
    pages = family_pages(Random(seed), count)
    rules = IndexSettings(shards=shards, exact=decides == "sets")
    verdicts = run(Network(rules, BANDS), pages, seed, flush_share)
    kept = [verdict.ref for verdict in verdicts if verdict.similarity < 0]
    keys = {ref: set(own_keys(pages, ref, rules)) for ref in kept}
    matching = [
        (one, other)
        for one in kept
        for other in kept
        if one < other and keys[one] & keys[other] and likeness(pages, other, one, rules)[0] >= 8000
    ]
    assert matching == []


@settings(max_examples=40, deadline=None)
@given(seeds, counts, shard_counts, deciding)
def test_where_no_page_is_undecided_near_misses_are_as_near_as_with_one_shard(
    seed: int, count: int, shards: int, decides: str
) -> None:
    pages = family_pages(Random(seed), count)
    rules = IndexSettings(near_misses=0.3, exact=decides == "sets")
    network = Network(rules.model_copy(update={"shards": shards}), BANDS)
    found = [network.give(pages, at, at + 1)[0] for at in range(count)]
    expected = serial_verdicts(pages, rules)
    assert [(v.similarity >= 0, v.near and v.near[0]) for v in found] == [
        (v.similarity >= 0, v.near and v.near[0]) for v in expected
    ]


@settings(max_examples=60, deadline=None)
@given(seeds, counts, st.sampled_from([1, 2, 3]), st.sampled_from([1, 2, 64]))
def test_flushes_show_in_no_output_of_any_shard(
    seed: int, count: int, shards: int, bucket_max: int
) -> None:
    pages = family_pages(Random(seed), count)
    rules = IndexSettings(
        shards=shards, bucket_max=bucket_max, candidates_max=3, exact=True, near_misses=0.2
    )
    quiet, flushed = Network(rules, BANDS, memtable_capacity=1000), Network(rules, BANDS)
    run(quiet, pages, seed, 0.0)
    run(flushed, pages, seed, 0.4)
    assert plain(flushed.outputs) == plain(quiet.outputs)
    assert [s.refused for s in flushed.shards] == [s.refused for s in quiet.shards]


@settings(max_examples=60, deadline=None)
@given(seeds, counts, st.sampled_from([1, 2, 3]))
def test_a_shard_that_is_restarted_from_its_snapshot_goes_on_as_if_nothing_had_been(
    seed: int, count: int, shards: int
) -> None:
    pages = family_pages(Random(seed), count)
    rules = IndexSettings(shards=shards, exact=True, near_misses=0.2)
    steady, restarted = Network(rules, BANDS), Network(rules, BANDS)
    run(steady, pages, seed, 0.0)
    moments = Random(seed + 1)

    def maybe_restart() -> bool:
        if moments.random() < 0.3:
            states = [shard.state() for shard in restarted.shards]
            restarted.restart()
            assert [shard.state() for shard in restarted.shards] == states
        return False

    restarted.run(pages, Random(seed).randrange, maybe_restart)
    assert plain(restarted.outputs) == plain(steady.outputs)
    for one, other in zip(restarted.shards, steady.shards, strict=True):
        assert (one.positions, one.sent, one.applied) == (
            other.positions,
            other.sent,
            other.applied,
        )
        assert (one.next_row, one.refused) == (other.next_row, other.refused)
        assert one.settings == other.settings


intervals = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)), max_size=12)


@settings(max_examples=150, deadline=None)
@given(intervals, st.sets(st.integers(0, 20)))
def test_a_record_is_taken_from_the_mark_on_if_the_mark_lies_in_its_interval(
    records: list[tuple[int, int]], present: set[int]
) -> None:
    """Items exist at the numbers in `present`; the others are gaps."""
    shard = Shard(0, 1, 1, MemoryLookup())
    shard.apply(Record(CONFIG, 0, 1, np.zeros(1, np.int64), IndexSettings()))
    mark = skipped_records = 0
    for start, length in records:
        end = start + length
        numbers = [n for n in range(start, end) if n in present]
        items = made_pages([[2 * n, 2 * n + 1] for n in numbers], [unlike(0)] * len(numbers))
        items.refs[:] = numbers
        if not numbers:
            items.keys = np.empty((0, 2), np.uint64)
        outputs = shard.apply(Record(SOURCE, start, end, np.array(numbers, np.int64), items))
        expected: list[int] = []
        if start <= mark < end:
            expected = [n for n in numbers if n >= mark]
            mark = end
        else:
            skipped_records += 1
        judged_refs = [ref for output in outputs for ref in output_refs(output)]
        assert judged_refs == expected
        assert shard.positions.get(SOURCE, 0) == mark
        assert shard.skipped_records == skipped_records


def output_refs(output: Output) -> list[int]:
    assert isinstance(output.items, Verdicts)
    refs: list[int] = output.items.pages.refs.tolist()
    return refs


@pytest.mark.parametrize("bands", [1, 2, 5, 14, 48])
def test_each_band_belongs_to_one_shard(bands: int) -> None:
    for shards in range(1, bands + 1):
        parts = [bands_of(shard, shards, bands) for shard in range(shards)]
        assert [band for first, end in parts for band in range(first, end)] == list(range(bands))
        assert all(first < end for first, end in parts)
