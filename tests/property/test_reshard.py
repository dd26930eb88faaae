"""An index goes on with another number of shards as if it always had them."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.index.settings import IndexSettings
from streamer.rules import Rule
from streamer.run.catalogue import Catalogue, SourceEntry, pack_catalogue
from streamer.stored.deep_check import check_index
from streamer.upkeep import reshard as module
from streamer.upkeep.reshard import Destination, Old, write
from tests.helpers.serial_index import Judged, judged, serial_verdicts
from tests.helpers.signed_pages import family_pages, opened
from tests.simulation.world import MEMORY

if TYPE_CHECKING:
    from streamer.index.messages import Pages

OWNER = pack_catalogue(Catalogue(entries=[SourceEntry("pages.jsonl", "", None)]))
SITES = (
    Rule(host="site1.example", threshold=0.65),
    Rule(host="site2.example", min_shingles=2, threshold=0.99),
)


def judge_part(folder: Path, rules: IndexSettings, pages: Pages, part: range) -> list[Judged]:
    """Judge the pages one by one: so none is ever held, and the number of shards does not show."""
    judge = opened(folder, rules, head_pages=24)
    found: list[Judged] = []
    assert judge.position(0) == part.start
    for at in part:
        for block in judge.judge(0, at, at + 1, pages.take([at])):
            found += judged(block)
        if judge.flush_is_due:
            judge.flush(OWNER)
    judge.flush(OWNER)
    judge.close()
    return found


def reshard(folder: Path, shards: int) -> None:
    """Give the index in `folder` so many shards."""
    place = Destination(folder)
    with contextlib.closing(Old(folder)) as old:
        old.check_at_rest()
        place.begin(shards)
        write(old, shards, place.new, old.owners, lambda _rows: None)
        place.take()
        place.end()
    shutil.rmtree(place.before)


several = st.builds(
    IndexSettings,
    bucket_max=st.sampled_from([1, 2, 3, 64]),
    threshold=st.sampled_from([0.5, 0.8, 1.0]),
    rules=st.sampled_from([(), SITES]),
    expire_after_ms=st.sampled_from([0, 4_000, 15_000]),
)


@settings(max_examples=8, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 40),
    st.integers(0, 40),
    st.lists(st.sampled_from([1, 2, 3, 5]), min_size=2, max_size=3),
    several,
)
def test_verdicts_go_on_as_those_of_a_serial_index(
    seed: int, first: int, more: int, shards: list[int], rules: IndexSettings
) -> None:
    pages = family_pages(Random(seed), first + more)
    expected = serial_verdicts(pages, rules)
    cuts = [0, first, *([first + more // 2] if len(shards) == 3 else []), first + more]
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.exists() else None) as scratch:
        folder = Path(scratch) / "index"
        for place, count in enumerate(shards):
            if place:
                reshard(folder, count)
                assert not [each for each in check_index(folder) if each.damage]
            own = rules.model_copy(update={"shards": count})
            part = range(cuts[place], cuts[place + 1])
            found = judge_part(folder, own, pages, part)
            wanted = expected[part.start : part.stop]
            said = {each.ref: each.similarity < 0 for each in found}
            assert said == {each.ref: each.similarity < 0 for each in wanted}
            if count == 1:  # else the first shard that finds a page says which
                assert found == wanted


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 50), st.sampled_from([3, 12]))
def test_what_is_counted_by_rows_goes_on(seed: int, first: int, newest: int) -> None:
    pages = family_pages(Random(seed), first + 30)
    rules = IndexSettings(keep_pages=newest)
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.exists() else None) as scratch:
        folder = Path(scratch) / "index"
        found = judge_part(folder, rules, pages, range(first))
        reshard(folder, 1)
        found += judge_part(folder, rules, pages, range(first, first + 30))
    assert found == serial_verdicts(pages, rules)


def test_what_has_expired_by_number_answers_nothing_in_more_shards(tmp_path: Path) -> None:
    pages = family_pages(Random(3), 120)
    rules = IndexSettings(keep_pages=4)
    index = tmp_path / "index"
    before = judge_part(index, rules, pages, range(60))
    newest = [each.ref for each in before if each.similarity < 0 and pages.tokens[each.ref]][-4:]
    all_that_is_left = rules.model_copy(update={"keep_pages": 0})
    after = judge_part(index, all_that_is_left, pages, range(60, 70))
    reshard(index, 3)
    many = all_that_is_left.model_copy(update={"shards": 3})
    after += judge_part(index, many, pages, range(70, 120))
    answering = {each.representative for each in after if each.similarity >= 0}
    assert {ref for ref in answering if ref < 60} <= {*newest}
    assert answering & {*newest}


def test_an_index_of_many_parts_is_joined_by_its_pages(tmp_path: Path) -> None:
    pages, folder = family_pages(Random(5), 200), tmp_path / "index"
    rules = IndexSettings(bucket_max=2, shards=4)
    before = module.ROWS_AT_ONCE
    module.ROWS_AT_ONCE = 1  # a block of keys at a time
    try:
        found = judge_part(folder, rules, pages, range(150))
        reshard(folder, 1)
        one = rules.model_copy(update={"shards": 1})
        found += judge_part(folder, one, pages, range(150, 200))
    finally:
        module.ROWS_AT_ONCE = before
    expected = serial_verdicts(pages, one)
    assert [each.ref for each in found if each.similarity < 0] == [
        each.ref for each in expected if each.similarity < 0
    ]
    assert found[150:] == expected[150:]
