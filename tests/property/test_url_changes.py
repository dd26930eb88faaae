"""The change of a page is that from the version of its URL before it, wherever versions are."""

import math
import tempfile
from pathlib import Path
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.index.messages import IndexSettings, Pages
from streamer.index.url_versions import CHANGE_NAMES, split_changes
from streamer.model import Change
from streamer.rules import Rule
from streamer.sketch.resemblance import similarity
from tests.helpers.dates import dates_of, few_dates
from tests.helpers.memory_index import MemoryIndex
from tests.helpers.signed_pages import BANDS, family_pages
from tests.oracles.log_time import PlainTime
from tests.property.test_index_serial import StoredIndex, numbered, run

Changes = dict[int, tuple[Change, int]]

RULES = (
    Rule(host="site1.example", threshold=0.65),
    Rule(host="site2.example", min_shingles=2, threshold=0.99),
)
seeds = st.integers(0, 2**32)
counts = st.integers(0, 80)
limits = st.fixed_dictionaries(
    {
        "threshold": st.sampled_from([0.5, 0.8, 1.0]),
        "rules": st.sampled_from([(), RULES]),
        "expire_after_ms": st.sampled_from([0, 0, 4_000, 15_000]),
        "keep_pages": st.sampled_from([0, 0, 3, 12]),
    }
)


def crawled_pages(random: Random, count: int) -> Pages:
    """Return pages of a few URLs, of which some have the content of the version before."""
    pages = family_pages(random, count)
    pages.urls = [b"http://site%d.example/" % random.randrange(8) for _ in range(count)]
    last: dict[bytes, int] = {}
    for place, url in enumerate(pages.urls):
        if url in last and random.random() < 0.3:
            for column in (pages.keys, pages.sketches, pages.distinct, pages.tokens):
                column[place] = column[last[url]]
        last[url] = place
    return pages


def serial_changes(pages: Pages, rules: IndexSettings, inserted: set[int]) -> Changes:
    """Return the changes by ref; `inserted` are the refs of pages that became rows."""
    newest: dict[bytes, tuple[int, int]] = {}  # by URL: the last page, and the rows before it
    age, number = rules.expire_after_ms or math.inf, rules.keep_pages or math.inf
    time, rows = PlainTime(), 0
    found: Changes = {}
    for place, (ref, url) in enumerate(zip(pages.refs.tolist(), pages.urls, strict=True)):
        time.take(int(pages.times[place]))
        before, rows_before = newest.get(url, (-1, 0))
        own = rules.for_url(url.decode())
        if before < 0 or time.age(before) > age or rows - rows_before > number:
            found[ref] = Change.NEW, -1
        elif pages.keys[place, -1] == pages.keys[before, -1]:
            found[ref] = Change.UNCHANGED, 10_000
        elif min(pages.distinct[place], pages.distinct[before]) < own.shingles_min:
            found[ref] = Change.REPLACED, -1
        else:
            score = similarity(pages.sketches[place], pages.sketches[before])
            found[ref] = (Change.EDITED if score >= own.similarity_min else Change.REPLACED), score
        newest[url] = place, rows
        rows += ref in inserted
    return found


def changes_of(machine: MemoryIndex) -> Changes:
    """Return the changes in all verdicts."""
    found: Changes = {}
    for output in machine.outputs:
        block = output.verdicts
        assert block.changes is not None
        columns = (each.tolist() for each in split_changes(block.changes))
        found |= {
            ref: (CHANGE_NAMES[code], score)
            for ref, code, score in zip(block.pages.refs.tolist(), *columns, strict=True)
        }
    return found


def kept_rows(machine: MemoryIndex, pages: Pages) -> set[int]:
    """Return the refs of the pages that are kept, except empty ones."""
    unique = {verdict.ref for verdict in machine.verdicts if verdict.similarity < 0}
    return {ref for ref in unique if pages.tokens[ref]}


def run_with_restarts(machine: MemoryIndex, pages: Pages, seed: int, share: float) -> None:
    """Judge pages; flush before this share of the steps, and begin again before a third of that."""
    moments = Random(seed + 1)

    def flush_or_restart() -> bool:
        if moments.random() < share / 3:
            machine.restart()
        return moments.random() < share

    machine.run(pages, Random(seed).randrange, flush_or_restart)


@settings(max_examples=100, deadline=None)
@given(seeds, counts, limits, st.sampled_from([0.0, 0.1, 0.5]))
def test_a_shard_says_what_a_dictionary_of_urls_says(
    seed: int, count: int, given: dict[str, object], share: float
) -> None:
    pages = crawled_pages(Random(seed), count)
    if seed % 2:
        pages.times[:] = dates_of(Random(seed), count)
    rules = IndexSettings.model_validate({**given, "track_changes": True})
    with few_dates(9):
        machine = MemoryIndex(rules, BANDS)
        run_with_restarts(machine, pages, seed, share)
        expected = serial_changes(pages, rules, kept_rows(machine, pages))
    assert changes_of(machine) == expected


@settings(max_examples=15, deadline=None)
@given(seeds, st.lists(st.integers(1, 15), min_size=1, max_size=8), limits, numbered)
def test_an_index_on_disk_that_is_opened_again_and_again_says_the_same(
    seed: int, sizes: list[int], given: dict[str, object], rows: int
) -> None:
    pages = crawled_pages(Random(seed), sum(sizes))
    rules = IndexSettings.model_validate({**given, "track_changes": True})
    found: Changes = {}
    moments, at = Random(seed + 1), 0
    with tempfile.TemporaryDirectory() as folder:
        index = StoredIndex(Path(folder), rules, rows=rows)
        inserted: set[int] = set()
        for size in sizes:
            index.machine.give(pages, at, at + size)
            found |= changes_of(index.machine)
            inserted |= kept_rows(index.machine, pages)
            at += size
            if moments.random() < 0.5:
                index.machine.flush()
            elif moments.random() < 0.5:
                index.open_again()
        index.store.close()
    assert found == serial_changes(pages, rules, inserted)


@settings(max_examples=40, deadline=None)
@given(seeds, counts)
def test_verdicts_are_the_same_with_changes_and_without(seed: int, count: int) -> None:
    pages = crawled_pages(Random(seed), count)
    verdicts = []
    for tracks in (False, True):
        machine = MemoryIndex(IndexSettings(track_changes=tracks), BANDS)
        verdicts.append(run(machine, pages, seed, 0.2))
    assert verdicts[0] == verdicts[1]
