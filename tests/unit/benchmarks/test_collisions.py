"""Collisions of hashes: what counts as one, and the published table."""

from __future__ import annotations

import pytest

from benchmarks import collisions
from benchmarks.collisions import Collisions, Hash
from benchmarks.figures import markdown


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
