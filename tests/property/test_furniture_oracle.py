"""The table of what sites repeat is the oracle's in plain Python, however small it is."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.sketch.settings import MAIN_TEXT, SignatureSettings
from streamer.sketch.signer import NativeSigner
from streamer.text import blocks
from streamer.text.furniture import (
    BUCKET_BYTES,
    Furniture,
    PageBlocks,
    Words,
    hash_block,
    learn_pages,
    new_furniture,
    put_back,
    take_out,
)
from streamer.text.main_text import LINKS_MIN, new_main_text, read_model
from streamer.text.scan import VECTOR_BYTES
from streamer.text.visible import ESCAPED, HTML
from tests.oracles.furniture import PlainTable, block_key, mixed
from tests.oracles.main_text import BlockPage

Crawl = list[tuple[int, list[tuple[int, int]]]]  # pages: a URL, and blocks (key, words)
KEYS = [mixed(number + 1) for number in range(40)]
SIGNER = NativeSigner(SignatureSettings(canonical=MAIN_TEXT), bytes(32))

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


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=80), st.integers(0, 2**64 - 1))
def test_the_hash_of_a_block_is_the_oracles(text: bytes, host: int) -> None:
    data = np.frombuffer(b"'" + text + bytes(VECTOR_BYTES), np.uint8)
    key: Any = np.uint64(host)
    assert int(hash_block(data, 1, 1 + len(text), key)) == block_key(text, host)


@pytest.mark.parametrize("escaped", [False, True])
def test_the_scored_blocks_of_pages_with_a_host_are_listed(escaped: bool) -> None:
    page = b"<p>One two.<ul><li><a href=x>three four</a><li>five\\nsix</ul><div>" + b"w " * 30
    source = page.replace(b"\\n", b"\n") if escaped else page
    oracle = BlockPage(source)
    text = oracle.text()
    wanted = [
        (block_key(text[each.start : each.end], 7), each.counts["words"])
        for each in oracle.blocks
        if each.counts["link_words"] < each.counts["words"] or each.counts["words"] >= LINKS_MIN
    ]
    flags = HTML | (ESCAPED if escaped else 0)
    hosts, urls = np.array([7, 7, 0], np.uint64), np.zeros(3, np.uint64)
    found = SIGNER.list_blocks([page, b"text", page], [flags, 0, flags], hosts, urls)
    assert found.ends.tolist() == [len(wanted)] * 3
    assert list(zip(found.keys.tolist(), found.words.tolist(), strict=True)) == wanted


def test_a_page_of_too_many_blocks_has_none() -> None:
    page = b"<p>a" * (blocks.BLOCKS_MAX + 1)
    found = SIGNER.list_blocks([page], [HTML], np.ones(1, np.uint64), np.zeros(1, np.uint64))
    assert not len(found.keys)
    assert new_main_text(read_model()).repeats.shape == (0,)
