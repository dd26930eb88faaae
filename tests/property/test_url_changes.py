"""The change of a page is that from the version of its URL before it, wherever versions lie.

With `retire_replaced` what a page replaces answers no other: as in a dictionary of URLs and of the
pages that are kept of each.
"""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict, deque
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamer.index.messages import Forget, Verdicts
from streamer.index.settings import IndexSettings
from streamer.index.url_versions import CHANGE_NAMES, published_changes
from streamer.model import Change
from streamer.rules import Rule
from streamer.run import judge as judge_module
from streamer.sketch.resemblance import similarity
from streamer.stored.row_blocks import gather_rows, rows_at
from tests.helpers.serial_index import Judged, judged, likeness, own_keys, serial_verdicts
from tests.helpers.shard_network import Network, page_record
from tests.helpers.signed_pages import BANDS, dense_sketch, family_pages, made_pages, opened
from tests.property.test_index_serial import StoredIndex, run

if TYPE_CHECKING:
    from streamer.index.messages import Pages
    from streamer.index.ports import Found
    from streamer.run.judge import Judge
    from streamer.stored.rows import RowNumbers

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
    time = rows = 0
    found: Changes = {}
    times = []
    for place, (ref, url) in enumerate(zip(pages.refs.tolist(), pages.urls, strict=True)):
        time = max(time, int(pages.times[place]))
        times.append(time)
        before, rows_before = newest.get(url, (-1, 0))
        own = rules.of_url(url.decode())
        if before < 0 or time - times[before] > age or rows - rows_before > number:
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


def changes_of(network: Network) -> Changes:
    """Return the changes in all verdicts."""
    found: Changes = {}
    for output in network.outputs:
        if isinstance(output.items, Verdicts):
            changes = output.items.pages.changes
            assert changes is not None
            refs = output.items.pages.refs.tolist()
            columns = zip(
                refs, *(each.tolist() for each in published_changes(changes)), strict=True
            )
            found |= {ref: (CHANGE_NAMES[code], score) for ref, code, score in columns}
    return found


def kept_rows(network: Network, pages: Pages) -> set[int]:
    """Return the refs of the pages that one shard has kept, but for empty ones."""
    unique = {verdict.ref for verdict in network.verdicts if verdict.similarity < 0}
    return {ref for ref in unique if pages.tokens[ref]}


def run_with_restarts(network: Network, pages: Pages, seed: int, share: float) -> None:
    """Judge pages; flush before this share of the steps, and begin anew before a third of that."""
    moments = Random(seed + 1)

    def flush_or_restart() -> bool:
        if moments.random() < share / 3:
            network.restart()
        return moments.random() < share

    network.run(pages, Random(seed).randrange, flush_or_restart)


@settings(max_examples=100, deadline=None)
@given(seeds, counts, limits, st.sampled_from([0.0, 0.1, 0.5]))
def test_one_shard_says_what_a_dictionary_of_urls_says(
    seed: int, count: int, given: dict[str, object], share: float
) -> None:
    pages = crawled_pages(Random(seed), count)
    rules = IndexSettings.model_validate({**given, "track_changes": True})
    network = Network(rules, BANDS)
    run_with_restarts(network, pages, seed, share)
    expected = serial_changes(pages, rules, kept_rows(network, pages))
    assert changes_of(network) == expected


@settings(max_examples=60, deadline=None)
@given(seeds, counts, limits, st.sampled_from([2, 3, 5]), st.sampled_from([0.0, 0.3]))
def test_several_shards_say_the_same(
    seed: int, count: int, given: dict[str, object], shards: int, share: float
) -> None:
    pages = crawled_pages(Random(seed), count)
    rules = IndexSettings.model_validate(
        {**given, "keep_pages": 0, "track_changes": True, "shards": shards}
    )
    network = Network(rules, BANDS)
    run_with_restarts(network, pages, seed, share)
    assert changes_of(network) == serial_changes(pages, rules, set())


@settings(max_examples=15, deadline=None)
@given(seeds, st.lists(st.integers(1, 15), min_size=1, max_size=8), limits, st.sampled_from([1, 2]))
def test_an_index_on_disk_that_is_opened_again_and_again_says_the_same(
    seed: int, sizes: list[int], given: dict[str, object], shards: int
) -> None:
    pages = crawled_pages(Random(seed), sum(sizes))
    newest = {"keep_pages": 0} if shards > 1 else {}
    rules = IndexSettings.model_validate(
        {**given, **newest, "track_changes": True, "shards": shards}
    )
    found: Changes = {}
    moments, at = Random(seed + 1), 0
    with tempfile.TemporaryDirectory() as folder:
        index = StoredIndex(Path(folder), rules)
        inserted: set[int] = set()
        for size in sizes:
            index.network.give(pages, at, at + size)
            found |= changes_of(index.network)
            inserted |= kept_rows(index.network, pages)
            at += size
            if moments.random() < 0.5:
                index.network.flush()
            elif moments.random() < 0.5:
                index.open_again()
        index.store.close()
    assert found == serial_changes(pages, rules, inserted)


@settings(max_examples=40, deadline=None)
@given(seeds, counts, st.sampled_from([1, 3]))
def test_verdicts_are_the_same_with_changes_and_without(seed: int, count: int, shards: int) -> None:
    pages = crawled_pages(Random(seed), count)
    verdicts = []
    for tracks in (False, True):
        network = Network(IndexSettings(shards=shards, track_changes=tracks), BANDS)
        verdicts.append(run(network, pages, seed, 0.2))
    assert verdicts[0] == verdicts[1]


# ---- what is replaced is retired ----------------------------------------------------------------

more_limits = st.fixed_dictionaries(
    {
        "bucket_max": st.sampled_from([2, 64]),
        "candidates_max": st.sampled_from([2, 1024]),
        "exact": st.booleans(),
    }
)


def retiring(pages: Pages, changes: Changes) -> dict[int, list[Forget]]:
    """Return what is to be forgotten before which page, so that what it replaces is retired."""
    columns = enumerate(zip(pages.refs.tolist(), pages.urls, strict=True))
    return {
        place: [Forget([("url", url)])]
        for place, (ref, url) in columns
        if changes[ref][0] is Change.REPLACED
    }


@settings(max_examples=100, deadline=None)
@given(seeds, counts, limits, more_limits, st.sampled_from([0.0, 0.1, 0.5]))
def test_one_shard_retires_what_a_serial_index_forgets(
    seed: int, count: int, given: dict[str, object], more: dict[str, object], share: float
) -> None:
    pages = crawled_pages(Random(seed), count)
    rules = IndexSettings.model_validate(
        {**given, **more, "track_changes": True, "retire_replaced": True}
    )
    network = Network(rules, BANDS)
    run_with_restarts(network, pages, seed, share)
    changes = serial_changes(pages, rules, kept_rows(network, pages))
    assert changes_of(network) == changes
    assert network.verdicts == serial_verdicts(pages, rules, retiring(pages, changes))


class Kept:
    """The pages that are kept and answer, in a dictionary by their URLs."""

    def __init__(self, pages: Pages, rules: IndexSettings) -> None:
        self._pages, self._rules = pages, rules
        self._by_url: dict[bytes, list[int]] = defaultdict(list)
        self.retired: set[int] = set()
        self._changes = serial_changes(pages, rules, set())

    def come(self, place: int) -> None:
        """Retire what a page replaces."""
        url = self._pages.urls[place]
        if self._changes[int(self._pages.refs[place])][0] is Change.REPLACED:
            self.retired |= {*self._by_url.pop(url, ())}

    def matching(self, place: int) -> set[int]:
        """Return the pages that answer this one."""
        own = {*own_keys(self._pages, place, self._rules)}
        least = self._rules.of_url(self._pages.urls[place].decode()).similarity_min
        return {
            other
            for kept in self._by_url.values()
            for other in kept
            if own & {*own_keys(self._pages, other, self._rules)}
            and likeness(self._pages, place, other, self._rules)[0] >= least
        }

    def keep(self, place: int) -> None:
        """Keep a page."""
        self._by_url[self._pages.urls[place]].append(place)


@settings(max_examples=40, deadline=None)
@given(seeds, counts, st.sampled_from([2, 3, 5]), st.sampled_from([0.0, 0.3]))
def test_several_shards_retire_the_same(seed: int, count: int, shards: int, share: float) -> None:
    pages = crawled_pages(Random(seed), count)
    rules = IndexSettings(shards=shards, track_changes=True, retire_replaced=True)
    network, kept, moments = Network(rules, BANDS), Kept(pages, rules), Random(seed + 1)
    for place in range(count):
        [verdict] = network.give(pages, place, place + 1)
        kept.come(place)
        matching = kept.matching(place)
        if verdict.similarity < 0:
            assert not matching
            kept.keep(place)
        else:
            assert verdict.representative in pages.refs[[*matching]]
        if moments.random() < share:
            network.restart()
    assert changes_of(network) == serial_changes(pages, rules, set())


@settings(max_examples=60, deadline=None)
@given(seeds, counts, st.sampled_from([2, 3, 5]), st.sampled_from([0.0, 0.3]))
def test_pages_on_their_way_between_shards_are_retired_where_their_urls_were_replaced(
    seed: int, count: int, shards: int, share: float
) -> None:
    pages = crawled_pages(Random(seed), count)
    rules = IndexSettings(shards=shards, track_changes=True, retire_replaced=True)
    network, kept = Network(rules, BANDS), Kept(pages, rules)
    run_with_restarts(network, pages, seed, share)
    verdicts = {verdict.ref: verdict for verdict in network.verdicts}
    assert len(verdicts) == len(network.verdicts) == count
    matching = {}
    for place, ref in enumerate(pages.refs.tolist()):
        kept.come(place)
        matching[place] = kept.matching(place)
        if verdicts[ref].similarity < 0:
            kept.keep(place)
        else:  # by a page that came before, or, where this one was held, behind it
            other = verdicts[ref].representative
            assert verdicts[other].similarity < 0
            assert other not in kept.retired
    for place, ref in enumerate(pages.refs.tolist()):
        if verdicts[ref].similarity < 0:
            assert not matching[place]
    assert not any(shard.open_pages for shard in network.shards)


def replaced_pages(count: int) -> Pages:
    """Return so many times a page, an exact copy, and what replaces that, of one URL each."""
    random = Random(7)
    keys = [[random.getrandbits(64) for _ in range(BANDS + 1)] for _ in range(2 * count)]
    sketches = [dense_sketch(random.randbytes(256)) for _ in keys]
    places = [at for i in range(count) for at in (2 * i, 2 * i, 2 * i + 1)]
    pages = made_pages([keys[at] for at in places], [sketches[at] for at in places])
    pages.urls = [b"http://site.example/%d" % (i // 3) for i in range(len(pages))]
    return pages


def representatives(pages: Pages, rules: IndexSettings, size: int) -> list[int | None]:
    """Return the representative of each page, None for unique ones, with records of so many.

    Shards take records as soon as they can, the first before the others.
    """
    network = Network(rules, BANDS)
    for start in range(0, len(pages), size):
        network.logs[0].append(page_record(pages, start, min(start + size, len(pages))))
    while waiting := network.waiting():
        network.step(waiting[0])
    assert not any(shard.open_pages for shard in network.shards)
    verdicts = sorted(network.verdicts)
    return [each.representative if each.similarity >= 0 else None for each in verdicts]


@pytest.mark.parametrize("shards", [1, 2, 3, 5])
@pytest.mark.parametrize("size", [1, 4, 150])
def test_a_page_keeps_its_representative_where_its_url_is_replaced_behind_it(
    shards: int, size: int
) -> None:
    rules = IndexSettings(shards=shards, track_changes=True, retire_replaced=True)
    expected = [at if at % 3 == 0 else None for at in range(-1, 149)]
    assert representatives(replaced_pages(50), rules, size) == expected


def test_a_log_of_the_machine_before_is_judged_as_it_was() -> None:
    rules = IndexSettings(shards=2, track_changes=True, retire_replaced=True, version=4)
    assert representatives(replaced_pages(50), rules, 150) == [None] * 150


def judge_all(judge: Judge, pages: Pages, random: Random) -> list[Judged]:
    """Judge pages in batches, looked up ahead; flush and sweep whenever."""
    found: list[Judged] = []
    ahead: deque[tuple[int, int, Found]] = deque()
    at = 0
    while at < len(pages) or ahead:
        while at < len(pages) and len(ahead) < 3:
            end = min(len(pages), at + random.randrange(1, 9))
            ahead.append((at, end, judge.look_up(pages.take(range(at, end)))))
            at = end
        start, end, seen = ahead.popleft()
        for block in judge.judge(0, start, end, pages.take(range(start, end)), seen):
            found += judged(block)
        if judge.flush_is_due or random.random() < 0.3:
            judge.begin_flush(lambda: b"")
        if random.random() < 0.2:
            judge.finish()
    return found


@settings(max_examples=15, deadline=None)
@given(seeds, st.integers(1, 90), limits, st.sampled_from([None, 0]))
@example(228, 12, {"threshold": 0.5, "rules": (), "expire_after_ms": 0}, None)  # no flush before
def test_sweeps_and_kills_do_not_show_in_what_is_retired(
    seed: int, count: int, given: dict[str, object], memory: int | None
) -> None:
    pages = crawled_pages(Random(seed), count)
    rules = IndexSettings.model_validate(
        {**given, "track_changes": True, "retire_replaced": True, "keep_pages": 0}
    )
    forgets = retiring(pages, serial_changes(pages, rules, set()))
    expected = serial_verdicts(pages, rules, forgets)
    said: dict[int, Judged] = {}
    with tempfile.TemporaryDirectory() as folder, patch.object(judge_module, "SWEEP_TERMS", 3):
        for turn in range(3):
            judge = opened(Path(folder) / "index", rules, index_memory=memory)
            judge._next_sweep = 0.0  # noqa: SLF001 - no sweep waits for the end of a pause
            for verdict in judge_all(judge, pages, Random(seed + turn)):
                assert said.setdefault(verdict.ref, verdict) == verdict
            judge.close()  # as a kill would: nothing more is flushed
        judge = opened(Path(folder) / "index", rules, index_memory=memory)
        judge_all(judge, pages, Random(seed))
        judge.flush(b"")  # the first of all has nothing to sweep: no row is stored
        judge._next_sweep = 0.0  # noqa: SLF001 - as above
        judge.flush(b"")
        left = judge.shard.forgetting.retired
        stored = {ref for part in judge.store.keys(0, 1024) for ref in refs_in(judge, part.slots)}
        judge.close()
    assert list(said.values()) == expected
    assert left < 3
    if not left:
        gone = {url: place for place, [forget] in forgets.items() for _, url in forget.terms}
        columns = enumerate(zip(pages.refs.tolist(), pages.urls, strict=True))
        assert not stored & {ref for place, (ref, url) in columns if place < gone.get(url, 0)}


def refs_in(judge: Judge, slots: RowNumbers) -> list[int]:
    """Return the refs of the rows that a store has in slots, though they may be hidden."""
    return gather_rows(rows_at(slots, judge.store.row_blocks)).refs
