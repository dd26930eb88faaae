"""Indexes and their peers: the documents, the ratios, and an index that takes too much."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import pytest

from benchmarks import lsh
from benchmarks.figures import markdown


def test_one_document_in_five_is_a_near_copy_of_any_earlier_one() -> None:
    documents = list(chain(*lsh.batches(0, 5_000, 700)))
    seen: dict[tuple[int, bytes], int] = {}
    distances: list[int] = []
    exact = 0
    for number, document in enumerate(documents):
        exact += document in documents[:number]
        halves = list(enumerate((document[:287], document[288:])))  # one word of 64 may differ
        found = [seen[half] for half in halves if half in seen]
        distances += [number - min(found)] if found else []
        seen |= {half: number for half in halves if half not in seen}
    assert len(distances) == 1_000
    assert 250 < exact < 420
    assert max(distances) > 3_500
    assert all(document.count(b" ") == 63 for document in documents)


def times(*microseconds: float) -> list[lsh.IndexTime]:
    return [lsh.IndexTime("x", 900, 100, us, us / 2, 20, int(us)) for us in microseconds]


def test_each_round_of_an_index_is_held_against_ours_in_the_same_round() -> None:
    ours = times(4.0, 8.0, 5.0)
    found = lsh.over_rounds(times(8.0, 8.0, 20.0), ours)
    assert (found.us, found.cpu_us, found.rounds, found.peak_rss_bytes) == (8.0, 4.0, 3, 20)
    assert (found.ratio, found.ratio_least, found.ratio_greatest) == (2.0, 1.0, 4.0)
    slow = lsh.over_rounds(times(80.0), ours)
    assert (slow.us, slow.rounds, slow.ratio) == (80.0, 1, 20.0)


class Endless:
    """An index that is given documents, and counts them."""

    def __init__(self) -> None:
        self.judged: list[int] = []
        self.settled_at: list[int] = []

    def sign(self, texts: Sequence[bytes]) -> int:
        return len(texts)

    def judge(self, batches: Sequence[int]) -> int:
        self.judged += batches
        return 0

    def settle(self) -> None:
        self.settled_at.append(sum(self.judged))


def test_an_index_is_settled_before_and_after_the_timed_documents() -> None:
    index = Endless()
    lsh.timed("x", index, 30_000)
    assert index.settled_at == [24_000, 30_000]


@pytest.mark.parametrize(
    ("limit", "value", "said"),
    [("MEMORY_MAX_BYTES", 1 << 20, "memory"), ("FILL_SECONDS_MAX", 0.0, "filling")],
)
def test_an_index_that_takes_too_much_is_given_fewer_documents_and_that_is_said(
    limit: str, value: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lsh, limit, value)
    result = lsh.timed("x", Endless(), 30_000)
    assert (result.indexed, result.timed) == (lsh.BATCH, 6_000)
    assert result.sentence is not None
    assert said in result.sentence
    text = markdown(lsh.tables(lsh.Lsh(30_000, [result], [])))
    assert f"x was given {lsh.BATCH:,} documents only: {result.sentence}." in text
