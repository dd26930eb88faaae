"""A shard says what a serial program says, wherever pages are and whenever they are flushed."""

import tempfile
from pathlib import Path
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamer.index.messages import IndexSettings, Pages
from streamer.index.ports import FlushedRows
from streamer.index.postings import ROWS_MAX
from streamer.rules import Rule
from streamer.stored.lookup import StoredLookup
from streamer.stored.store import Store
from tests.helpers.dates import dates_of, few_dates
from tests.helpers.memory_index import MemoryIndex
from tests.helpers.serial_index import Judged, serial_verdicts
from tests.helpers.signed_pages import BANDS, crowded_pages, family_pages

SITES = (
    Rule(host="site1.example", threshold=0.65),
    Rule(host="site2.example", min_shingles=2, threshold=0.99),
    Rule(path="/1*", min_shingles=32),
)
limits = st.builds(
    IndexSettings,
    bucket_max=st.sampled_from([1, 2, 3, 64]),
    candidates_max=st.sampled_from([1, 2, 5, 128]),
    threshold=st.sampled_from([0.5, 0.8, 1.0]),
    rules=st.sampled_from([(), SITES]),
    expire_after_ms=st.sampled_from([0, 0, 4_000, 15_000]),
    keep_pages=st.sampled_from([0, 0, 3, 12]),
    exact=st.booleans(),
    near_misses=st.sampled_from([0, 0, 0.1, 0.4]),
    fallback_threshold=st.sampled_from([0, 0.7, 0.9]),
)
seeds = st.integers(0, 2**32)
counts = st.integers(0, 60)
bounds = st.sampled_from([None, 0])  # of the memory of a table: with 0 each flush is frozen
numbered = st.sampled_from([0, ROWS_MAX - 20])  # rows before the first, which are all gone
flush_shares = st.sampled_from([0.0, 0.1, 0.5, 1.0])


def run(machine: MemoryIndex, pages: Pages, seed: int, flush_share: float) -> list[Judged]:
    random = Random(seed)
    moments = Random(seed + 1)
    return machine.run(pages, random.randrange, lambda: moments.random() < flush_share)


@settings(max_examples=120, deadline=None)
@given(seeds, counts, limits, flush_shares)
def test_a_shard_says_what_the_serial_index_says(
    seed: int, count: int, rules: IndexSettings, flush_share: float
) -> None:
    pages = family_pages(Random(seed), count)
    assert run(MemoryIndex(rules, BANDS), pages, seed, flush_share) == serial_verdicts(pages, rules)


@settings(max_examples=80, deadline=None)
@given(seeds, counts, limits, flush_shares, st.sampled_from([3, 9]))
# A page that did not answer when its bucket was full answers again, since dates were wrong.
@example(218, 18, IndexSettings(threshold=0.5, expire_after_ms=4_000, bucket_max=1), 0.0, 9)
def test_it_says_so_too_where_dates_are_wrong_or_pause(
    seed: int, count: int, rules: IndexSettings, flush_share: float, dates_max: int
) -> None:
    pages = family_pages(Random(seed), count)
    pages.times[:] = dates_of(Random(seed), count)
    with few_dates(dates_max):
        found = run(MemoryIndex(rules, BANDS), pages, seed, flush_share)
        assert found == serial_verdicts(pages, rules)


class StoredIndex:
    """A shard that flushes to a real store, and has given so many numbers to rows before."""

    def __init__(
        self, folder: Path, rules: IndexSettings, memory_max: int | None = None, rows: int = 0
    ) -> None:
        self.memory_max = memory_max
        self.machine = MemoryIndex(rules, BANDS)
        self.machine.shard.next_row = rows
        self.store = Store.open(folder / "store")
        self.folder = folder
        self.connect()

    def connect(self) -> None:
        self.lookup = StoredLookup(self.store, self.memory_max)
        self.machine.use(self.lookup, self.flush)

    def flush(self, flushed: FlushedRows) -> None:
        self.lookup.refresh(self.store.flush({"exact": "yes"}, flushed, b"owner"))
        self.store.delete_dropped()

    def close(self) -> None:
        """Close the look-ups and the store."""
        self.lookup.close()
        self.store.close()

    def open_again(self) -> None:
        """Close everything and go on from what the store holds."""
        self.machine.flush()
        self.close()
        self.store = Store.open(self.folder / "store")
        assert (self.store.meta and self.store.meta.state) == self.machine.shard.state()
        self.connect()


@settings(max_examples=8, deadline=None)
@given(seeds, st.integers(1, 60), limits, st.sampled_from([0.1, 0.5]), bounds, numbered)
def test_flushes_to_a_real_store_do_not_show(
    seed: int, count: int, rules: IndexSettings, flush_share: float, memory_max: int | None,
    rows: int,
) -> None:  # fmt: skip
    pages = family_pages(Random(seed), count)
    expected = serial_verdicts(pages, rules)
    with tempfile.TemporaryDirectory() as folder:
        index = StoredIndex(Path(folder), rules, memory_max, rows)
        assert run(index.machine, pages, seed, flush_share) == expected
        index.close()


@settings(max_examples=8, deadline=None)
@given(
    seeds, st.integers(40, 120), st.sampled_from([9, 12, 64]), st.sampled_from([0.1, 0.5]), bounds,
    numbered,
)  # fmt: skip
def test_flushes_do_not_show_where_crowded_keys_agree_in_the_bits_of_the_table(
    seed: int, count: int, bucket_max: int, flush_share: float, memory_max: int | None, rows: int
) -> None:
    pages = crowded_pages(Random(seed), count)
    rules = IndexSettings(bucket_max=bucket_max)
    quiet = MemoryIndex(rules, BANDS)
    expected = run(quiet, pages, seed, 0.0)
    with tempfile.TemporaryDirectory() as folder:
        index = StoredIndex(Path(folder), rules, memory_max, rows)
        assert run(index.machine, pages, seed, flush_share) == expected
        assert index.machine.shard.refused == quiet.shard.refused
        index.close()


@settings(max_examples=8, deadline=None)
@given(seeds, st.lists(st.integers(1, 20), min_size=1, max_size=8), limits, bounds, numbered)
def test_an_index_opened_again_after_each_flush_goes_on_as_if_nothing_had_been(
    seed: int, sizes: list[int], rules: IndexSettings, memory_max: int | None, rows: int
) -> None:
    pages = family_pages(Random(seed), sum(sizes))
    verdicts: list[Judged] = []
    with tempfile.TemporaryDirectory() as folder:
        index = StoredIndex(Path(folder), rules, memory_max, rows)
        at = 0
        for size in sizes:
            verdicts += index.machine.give(pages, at, at + size)
            at += size
            index.open_again()
        index.close()
    assert verdicts == serial_verdicts(pages, rules)
