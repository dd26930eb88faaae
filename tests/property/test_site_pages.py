"""Pages of sites that are read once give what they give when they are read for their text alone."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.sketch.settings import MAIN_TEXT, SignatureSettings
from streamer.sketch.signer import NativeSigner
from streamer.text import blocks
from streamer.text.main_text import LINKS_MIN, SITE_MODEL, new_main_text, read_model
from streamer.text.scan import VECTOR_BYTES, Bytes
from streamer.text.site_pages import Bodies, Words, choose_texts, hash_block, read_pages
from streamer.text.slices import Slices
from streamer.text.visible import ESCAPED, HTML, scratch_bytes, text_parts
from streamer.text.visible import MAIN as MAIN_FLAG
from tests.oracles.furniture import block_key
from tests.oracles.main_text import BlockPage

WORDS = ["river dam", "council", "night", "bridge water", "he said.", "Home", "Next", "12", "$3"]
MAIN = new_main_text(read_model(SITE_MODEL))

one_block = st.tuples(
    st.sampled_from(["<p>", "<div>", "<li><a href=x>", "<td>", "<h2>", "<ul><li>", "</a>"]),
    st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join),
)
html = st.lists(one_block, max_size=30).map(lambda own: "".join(map("".join, own)))
one_page = st.tuples(html, st.sampled_from([0, HTML, HTML | ESCAPED]), st.booleans())


@cache
def reader() -> NativeSigner:
    return NativeSigner(SignatureSettings(canonical=MAIN_TEXT), bytes(32))


def texts_of(pages: list[tuple[str, int, bool]], number: int) -> list[tuple[str, bool]]:
    """Return the text of each page that is compared, and whether it is its main text.

    The repeats of blocks are drawn by a number; pages say whether they have a host.
    """
    bodies = Slices.joined([text.encode() for text, _, _ in pages])
    flags = np.array([flags for _, flags, _ in pages], np.int64)
    marks = (flags & ESCAPED) != 0, (flags & HTML) != 0
    own = Bodies(bodies.data, bodies.starts, bodies.ends, *marks)
    hosts = np.array([number * has_host for _, _, has_host in pages], np.uint64)
    scratch = np.empty((2, scratch_bytes(int(bodies.lengths.max(initial=0)))), np.uint8)
    both = scratch[0], scratch[1]
    read = read_pages(own, hosts, np.zeros(len(pages), np.uint64), scratch[0], MAIN)
    texts, is_main = choose_texts(read, repeats_of(read.blocks.keys), both, MAIN)
    return [(own.decode(), bool(main)) for own, main in zip(texts, is_main, strict=True)]


def repeats_of(keys: Words) -> Bytes:
    """Return repeats that depend on the block alone."""
    repeats: Bytes = (keys >> np.uint64(7)).astype(np.uint8) * (keys % np.uint64(3) == 0)
    return repeats


@settings(max_examples=150, deadline=None)
@given(st.lists(one_page, max_size=8), st.integers(1, 2**64 - 1))
def test_a_page_has_the_text_it_has_alone(pages: list[tuple[str, int, bool]], number: int) -> None:
    found = texts_of(pages, number)
    for page, own in zip(pages, found, strict=True):
        assert texts_of([page], number) == [own]
        body, flags = page[0].encode(), page[1]
        marks = np.array([flags & HTML != 0 and page[2]])
        listed = reader().read(
            [body], [flags], marks * np.array([number], np.uint64), np.zeros(1, np.uint64)
        )
        parts = text_parts(body, flags | MAIN_FLAG, repeats_of(listed.blocks.keys))
        assert "".join(part.text for part in parts if part.counts) == own[0]


def test_records_without_room_are_read_again() -> None:
    """A block every five bytes: there is room for one every 32, and for those of one page."""
    pages = [(f"<p>a{number}" * (20_000 - number), HTML, True) for number in range(4)]
    found = texts_of(pages, 7)
    assert found == [texts_of([each], 7)[0] for each in pages]
    assert len({text for text, _ in found}) > 1


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
    found = reader().read([page, b"text", page], [flags, 0, flags], hosts, urls).blocks
    assert found.ends.tolist() == [len(wanted)] * 3
    assert list(zip(found.keys.tolist(), found.words.tolist(), strict=True)) == wanted


def test_a_page_of_too_many_blocks_has_none() -> None:
    page = b"<p>a" * (blocks.BLOCKS_MAX + 1)
    found = reader().read([page], [HTML], np.ones(1, np.uint64), np.zeros(1, np.uint64)).blocks
    assert not len(found.keys)
    assert new_main_text(read_model()).repeats.shape == (0,)
