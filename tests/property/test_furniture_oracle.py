"""The table of what sites repeat is the oracle's in plain Python, however small it is."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.text.furniture import (
    BUCKET_BYTES,
    Furniture,
    learn_pages,
    new_furniture,
    put_back,
    take_out,
)
from streamer.text.site_pages import PageBlocks, Words
from tests.oracles.furniture import PlainTable
from tests.oracles.plain_signature import fmix

Crawl = list[tuple[int, list[tuple[int, int]]]]  # pages: a URL, and blocks (key, words)
KEYS = [fmix(number + 1) for number in range(40)]

one_block = st.tuples(st.sampled_from(KEYS), st.integers(1, 60))
one_page = st.tuples(st.integers(0, 5), st.lists(one_block, max_size=12))
crawls = st.lists(one_page, max_size=30)


def listed(crawl: Crawl) -> PageBlocks:
    """Return the pages of a crawl as the table takes them."""
    each = [block for _, own in crawl for block in own]
    ends = np.cumsum([len(own) for _, own in crawl], dtype=np.int64)
    return PageBlocks(
        np.array([key for key, _ in each], np.uint64), np.array([n for _, n in each], np.int32),
        ends, np.array([url for url, _ in crawl], np.uint64),
    )  # fmt: skip


def learned(furniture: Furniture, own: PageBlocks) -> tuple[list[int], Words]:
    repeats, before = np.empty(len(own.keys), np.uint8), np.empty((len(own.keys), 3), np.uint64)
    learn_pages(furniture, own, repeats, before)
    return repeats.tolist(), before


@settings(max_examples=300, deadline=None)
@given(crawls, st.sampled_from([1, 2, 3, 1000]))
def test_repeats_are_the_oracles(crawl: Crawl, buckets: int) -> None:
    table, plain = new_furniture(buckets * BUCKET_BYTES), PlainTable(buckets)
    wanted = [count for url, own in crawl for count in plain.learn(url, own)]
    assert learned(table, listed(crawl))[0] == wanted


@settings(max_examples=100, deadline=None)
@given(crawls, crawls)
def test_what_was_learned_can_be_taken_out_and_put_back(first: Crawl, second: Crawl) -> None:
    table = new_furniture(2 * BUCKET_BYTES)
    learned(table, listed(first))
    earlier = table.entries.copy()
    _, before = learned(table, listed(second))
    later = table.entries.copy()
    take_out(table.entries, before)
    assert (table.entries == earlier).all()
    put_back(table.entries, before)
    assert (table.entries == later).all()
