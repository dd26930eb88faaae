"""Subjects of the benchmarks on tiny inputs: indexes that live long, the corpus, collisions."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import msgspec
import pytest

from benchmarks import beside, collisions, flushes, growth, library, lifetimes
from benchmarks.collisions import Collisions, Hash
from benchmarks.figures import markdown
from benchmarks.library import MIN_JACCARD
from benchmarks.signing import raw_texts
from streamer.lab.sample.reference import Shingler, resemblance

TEXTS = 60


def test_an_index_of_many_flushes_is_bounded_and_whole(tmp_path: Path) -> None:
    *samples, opened = flushes.measure(tmp_path, 210, samples=3)
    assert [sample.flushes for sample in (*samples, opened)] == [70, 140, 210, 210]
    assert opened.rows == 208 + 2 * flushes.LARGE_ROWS
    assert all(sample.is_bounded for sample in (*samples, opened))
    assert not msgspec.structs.replace(opened, files=flushes.FILES_MAX + 1).is_bounded
    assert "70" in markdown([flushes.table([*samples, opened])])


def test_an_index_beyond_its_memory_is_opened_and_restored(tmp_path: Path) -> None:
    result = growth.measure(tmp_path, 60_000)
    assert [sample.kept for sample in result.samples] == [6_000 * at for at in range(1, 11)]
    assert min(result.opened, result.snapshot, result.restored) > 0
    assert not [*tmp_path.iterdir()]
    assert "60,000" in markdown([growth.table(result)])
    assert "54,000" in markdown([growth.samples_table(result)])


def test_every_way_to_expire_has_ten_lifetimes(tmp_path: Path) -> None:
    result = lifetimes.measure(tmp_path, 4_000)
    assert [len(samples) for samples in result.values()] == [10] * 3
    assert "by number" in markdown([lifetimes.table(result)])
    assert not [*tmp_path.iterdir()]


def test_pages_are_judged_beside_another_index_which_is_resharded(tmp_path: Path) -> None:
    result = beside.measure(tmp_path, 4_000, rounds=1)
    assert (result.without.duplicates, result.none_near.duplicates) == (0, 0)
    assert result.half_near.duplicates == result.pages // 2
    sizes = result.resharding
    assert sizes.disk_bytes >= sizes.new_bytes > sizes.old_bytes > 0
    assert "4,000" in markdown([beside.table(result)])
    assert not [*tmp_path.iterdir()]


def test_the_pairs_that_it_counts_are_near_those_of_exact_resemblance() -> None:
    shingler = Shingler()
    exact = [shingler.exact(text.decode()) for text in raw_texts(TEXTS)]
    values = [resemblance(one, other) for one, other in combinations(exact, 2)]
    found = library.measure(TEXTS, rounds=1)
    assert found.texts == TEXTS
    at_least = sum(value >= MIN_JACCARD - 0.05 for value in values)
    surely = sum(value >= MIN_JACCARD + 0.1 for value in values)
    assert 0 < surely <= found.edges <= at_least
    assert found.build_rate > 0
    assert 3000 < found.mean_bytes < 6000
    [line] = [one for one in markdown([library.table(found)]).splitlines() if "to build" in one]
    assert line.endswith("| 10,000 |")


def test_the_corpus_has_as_many_copies_as_the_published_one() -> None:
    strings = collisions.idf_strings(100)
    assert len(strings) == 100
    assert len(strings) - len(set(strings)) == 41
    assert min(map(len, strings)) > 100


def test_only_different_strings_with_one_hash_collide(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = {"first": lambda data, _seed: data[0]}
    monkeypatch.setattr(collisions, "HASHES", functions)
    assert collisions.beyond_duplicates("first", ["ab", "ab", "ac", "b", "ad", "b"]) == 2


def test_the_table_has_the_published_collisions_less_the_duplicates() -> None:
    result = Collisions([1000], [419], [Hash("elf", 28, [3], 594), Hash("md5", 128, [0], None)])
    assert result.expected(result.hashes[0]) == [581 * 580 / 2 / 2**28]
    assert set(collisions.PUBLISHED) < set(collisions.NAMES)
    text = markdown([collisions.table(result)])
    assert "| elf | 28 | 3 | 0.00063 | 175 |" in text
    assert "| md5 | 128 | 0 | 5e-34 |  |" in text
