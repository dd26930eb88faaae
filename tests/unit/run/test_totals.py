"""What a run reports: texts that a wrong charset has lost, and clusters with much of a source."""

import numpy as np
import pytest

from streamer.index.messages import Verdicts
from streamer.index.rule import CONTENT, SIGNATURE
from streamer.model import page_ref
from streamer.run import totals
from tests.helpers.signed_pages import made_pages, unlike


def test_a_source_with_much_text_that_a_charset_lost_is_named() -> None:
    lost, bodies = totals.LostText(), {
        "a": [b"x" * 198 + "\ufffd\ufffd".encode()], "b": [b"x" * 97 + "\ufffd".encode(), b"y\xff"],
        "c": [b"\\ufffd" + b"z" * 20], "d": [b"x"] * totals.LOST_PAGES + [b"\xff" * 1000],
    }  # fmt: skip
    for name, given in bodies.items():
        for found in totals.count_lost_characters(given):
            lost.add(name, *found)
    assert lost.shares() == {"c": 0.0385, "b": 0.02}


_ONE = made_pages([[1]], [unlike(0)])
UNIQUE = -1


def block(named: list[int], start: int = 0) -> Verdicts:
    """Return verdicts of pages start, start + 1, ..., each a duplicate of page `named`."""
    pages = _ONE.take([0] * len(named))
    pages.refs = np.array([page_ref(0, start + i) for i in range(len(named))], np.uint64)
    return Verdicts(
        pages,
        np.array([-1 if other == UNIQUE else 9_000 for other in named], np.int32),
        np.full(len(named), CONTENT, np.uint8),
        np.array([0 if other == UNIQUE else page_ref(0, other) for other in named], np.uint64),
        [b"" if other == UNIQUE else b"http://%d.example/" % other for other in named],
    )


def counted(named: list[int], size: int = 100) -> list[totals.LargeCluster]:
    """Return the large clusters of a source whose pages are counted in blocks of `size`."""
    clusters = totals.LargeClusters()
    for start in range(0, len(named), size):
        clusters.add(0, block(named[start : start + size], start))
    clusters.end(0, "a.jsonl")
    return clusters.found


def test_a_large_cluster_has_its_source_representative_and_share() -> None:
    named = [UNIQUE, *([0, UNIQUE, UNIQUE] * 700)]
    assert counted(named) == [totals.LargeCluster("a.jsonl", "http://0.example/", 700, 0.3332)]


@pytest.mark.parametrize(
    ("duplicates", "pages", "large"), [(9, 10, 0), (10, 11, 1), (199, 1_000, 0), (200, 1_000, 1)]
)
def test_ten_pages_and_a_fifth_are_large(duplicates: int, pages: int, large: int) -> None:
    assert len(counted([*[UNIQUE] * (pages - duplicates), *[0] * duplicates])) == large


def test_sources_are_counted_apart_and_the_largest_share_comes_first() -> None:
    clusters = totals.LargeClusters()
    clusters.add(0, block([UNIQUE, *[0] * 10]))
    clusters.add(1, block([UNIQUE] * 30))
    clusters.add(2, block([0] * 10))
    for source in range(4):
        clusters.end(source, f"{source}.jsonl")
    assert [each.source for each in clusters.found] == ["2.jsonl", "0.jsonl"]
    clusters.end(0, "0.jsonl")
    assert len(clusters.found) == 2


def test_rare_representatives_are_dropped_and_a_large_cluster_is_not() -> None:
    (found,) = counted([0 if page % 3 == 0 else page for page in range(30_000)], 1_000)
    assert found.duplicates == 10_000


def test_pages_of_a_host_that_share_a_few_words_are_named() -> None:
    shared = totals.SharedTexts()
    for page in range(1, 12):
        own = block([0])
        own.pages.urls = [b"http://0.example/%d" % page if page < 10 else b"http://b.example/"]
        own.pages.tokens = np.array([totals.FEW_WORDS], np.uint32)
        shared.add(own)
    again, more, near = block([0]), block([0]), block([0])
    again.pages.urls = again.representative_urls
    more.pages.tokens = np.array([totals.FEW_WORDS + 1], np.uint32)
    near.basis = np.array([SIGNATURE], np.uint8)
    for own in (again, more, near, block([UNIQUE])):
        shared.add(own)
    (found,) = shared.found()
    assert found == totals.SharedText("0.example", 10, totals.FEW_WORDS, "http://0.example/")
    assert "10 pages of 0.example share one text of 50 words" in str(found)
