"""Pages of sites, read once: their texts and blocks, of which main text is chosen later.

What a site repeats is learned in the order of pages, and chunks are read side by side. So a batch
is read for its texts and the records of its blocks; the table learns the blocks in the batch's turn
(furniture.py), and then main text is chosen among them. What is kept between takes about four times
the memory of the pages: records of a page for which there is no room are read again.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.hashing import absorb, finish, fmix
from streamer.kernel import allocating_kernel, kernel
from streamer.machine import int64, load_u64, uint8, uint64
from streamer.text import blocks
from streamer.text.blocks import Records, html_to_blocks
from streamer.text.escapes import unescape_json
from streamer.text.main_text import MainText, is_asked, keep_main
from streamer.text.scan import Bytes
from streamer.text.slices import Places, Slices
from streamer.text.visible import scratch_bytes

Words = npt.NDArray[np.uint64]
Marks = npt.NDArray[np.bool_]

BLOCK_BYTES_MIN = 4  # of HTML, for each block that has a record: a tag and a character
_BLOCK_BYTES = 32  # of HTML, for each block that there is room for: pages have 60 to 100
_SEED = 0x51735
_SPACE = 0x20


class Bodies(NamedTuple):
    """The bodies data[starts[i]:ends[i]], whether each is escaped, and whether it is HTML."""

    data: Bytes
    starts: Places
    ends: Places
    escaped: Marks
    html: Marks


class PageBlocks(NamedTuple):
    """The blocks of a batch of pages that are asked about, as the table knows them.

    Attributes:
        keys: uint64[blocks], hashes with the host in them.
        words: int32[blocks], outside links: in links is mostly furniture.
        ends: int64[pages], where each page's blocks end.
        urls: uint64[pages], hashes of 32 bits.
    """

    keys: Words
    words: npt.NDArray[np.int32]
    ends: Places
    urls: Words


class ReadTexts(NamedTuple):
    """The visible texts of a batch of pages, and the records of their blocks.

    Attributes:
        text: uint8, one text after another.
        starts, ends: int64[pages], of the texts.
        counts: int64[pages], how many blocks each page has.
        records: int32[any, COLUMNS], as `html_to_blocks` writes them.
        firsts: int64[pages], where the records of each page begin; -1: they are not there.
    """

    text: Bytes
    starts: Places
    ends: Places
    counts: Places
    records: Records
    firsts: Places


class SitePages(NamedTuple):
    """A batch of pages that is read."""

    bodies: Bodies
    texts: ReadTexts
    blocks: PageBlocks


@kernel
def hash_block(text: Bytes, start: int, end: int, host: int) -> int:
    """Return the hash of a block's text without white space around it, for one host.

    It is the finaliser of mmh3.hash64(text, _SEED)[0] XOR `host`.
    """
    while start < end and text[start] <= _SPACE:
        start += 1
    while start < end and text[end - 1] <= _SPACE:
        end -= 1
    lane1 = lane2 = uint64(_SEED)
    length = uint64(end - start)
    while end - start >= 16:  # noqa: PLR2004 - a block of the hash
        lane1, lane2 = absorb(lane1, lane2, load_u64(text, start), load_u64(text, start + 8))
        start += 16
    low = high = uint64(0)
    for i in range(end - start):
        byte = uint64(text[start + i])
        if i < 8:  # noqa: PLR2004 - as above
            low |= byte << uint64(8 * i)
        else:
            high |= byte << uint64(8 * i - 64)
    return fmix(finish(lane1, lane2, low, high, length) ^ uint64(host))


@kernel
def add_blocks(text: Bytes, host: int, main: MainText, own: PageBlocks, at: int) -> int:
    """Append the asked blocks of the page in `main`; return how many there are then."""
    count = int64(main.structure.now[blocks.COUNT])
    if count >= main.records.shape[0]:
        return at
    for i in range(count):
        record = main.records[i]
        if is_asked(record):
            own.keys[at] = hash_block(text, record[blocks.START], record[blocks.END], host)
            own.words[at] = record[blocks.WORDS] - record[blocks.LINK_WORDS]
            at += 1
    return at


@allocating_kernel
def _read_page(bodies: Bodies, i: int, unescaped: Bytes, text: Bytes, main: MainText) -> int:
    """Write the text of body `i` to `text`, and its blocks to `main`; return where it ends."""
    source, start, end = bodies.data, bodies.starts[i], bodies.ends[i]
    main.structure.now[blocks.COUNT] = 0
    if bodies.escaped[i]:
        end = unescape_json(source, start, end, unescaped, 0)
        source, start = unescaped, 0
    if bodies.html[i]:
        return html_to_blocks(source, start, end, text, main.structure, main.records)
    text[: end - start] = source[start:end]
    return int64(end - start)


@allocating_kernel
def _read_pages(
    bodies: Bodies,
    hosts: Words,
    unescaped: Bytes,
    main: MainText,
    texts: ReadTexts,
    own: PageBlocks,
) -> None:
    """Read bodies into `texts`, and list the asked blocks in `own`.

    `hosts` has a keyed hash of the host of each page, 0 for none: nothing is listed of such a page.
    """
    place = at = first = int64(0)
    for i in range(bodies.starts.shape[0]):
        text = texts.text[place:]
        length = _read_page(bodies, i, unescaped, text, main)
        if hosts[i] != uint64(0):
            at = add_blocks(text, hosts[i], main, own, at)
        own.ends[i] = at
        count = int64(main.structure.now[blocks.COUNT])
        texts.starts[i], texts.ends[i], texts.counts[i] = place, place + length, count
        texts.firsts[i] = -1
        if count < main.records.shape[0] and first + count <= texts.records.shape[0]:
            texts.records[first : first + count] = main.records[:count]
            texts.firsts[i] = first
            first += count
        place += length


@allocating_kernel
def _choose_texts(
    pages: SitePages, repeats: Bytes, scratch: tuple[Bytes, Bytes], main: MainText, is_main: Marks
) -> None:
    """Leave of each text what is main text, and write whether it is."""
    bodies, texts, own = pages
    unescaped, again = scratch
    before = int64(0)
    for i in range(texts.starts.shape[0]):
        count, start, end = texts.counts[i], texts.starts[i], texts.ends[i]
        of_page = repeats[before : own.ends[i]]
        before = own.ends[i]
        is_main[i] = False
        if count == 0 or count >= main.records.shape[0]:
            continue
        if texts.firsts[i] < 0:
            _read_page(bodies, i, unescaped, again, main)
        else:
            main.structure.now[blocks.COUNT] = count
            main.records[:count] = texts.records[texts.firsts[i] : texts.firsts[i] + count]
        main.repeats[:count] = uint8(0)
        main.repeats[: of_page.shape[0]] = of_page
        length, is_main[i] = keep_main(main, texts.text[start:], end - start)
        texts.ends[i] = start + length


def read_pages(
    bodies: Bodies, hosts: Words, urls: Words, unescaped: Bytes, main: MainText
) -> SitePages:
    """Read pages of the hosts and URLs that these are hashes of; 0: it has no host.

    `unescaped` has room for the longest body (visible.py).
    """
    pages, size = len(bodies.starts), int((bodies.ends - bodies.starts).sum())
    starts, ends, counts, firsts = np.empty((4, pages), np.int64)
    records = np.empty((size // _BLOCK_BYTES + blocks.BLOCKS_MAX, blocks.COLUMNS), np.int32)
    text = np.empty(scratch_bytes(size), np.uint8)
    texts = ReadTexts(text, starts, ends, counts, records, firsts)
    room = size // BLOCK_BYTES_MIN + pages
    keys, words = np.empty(room, np.uint64), np.empty(room, np.int32)
    own = PageBlocks(keys, words, np.empty(pages, np.int64), urls)
    _read_pages(bodies, hosts, unescaped, main, texts, own)
    count = int(own.ends[-1]) if pages else 0
    own = own._replace(keys=own.keys[:count], words=own.words[:count])
    return SitePages(bodies, texts, own)


def blocks_of_page(text: Bytes, host: Words, url: Words, main: MainText) -> PageBlocks:
    """Return the asked blocks of the page in `main`, with a hash of its host and of its URL."""
    count = int(main.structure.now[blocks.COUNT])
    keys, words = np.empty(count, np.uint64), np.empty(count, np.int32)
    own = PageBlocks(keys, words, np.zeros(1, np.int64), url)
    if host[0]:
        own.ends[0] = add_blocks(text, host[0], main, own, 0)
    return own._replace(keys=own.keys[: own.ends[0]], words=own.words[: own.ends[0]])


def choose_texts(
    pages: SitePages, repeats: Bytes, scratch: tuple[Bytes, Bytes], main: MainText
) -> tuple[Slices, Marks]:
    """Return the text of each page that is compared, and whether it is its main text.

    `repeats` are those of the blocks of `pages`; the texts of `pages` are used up.
    """
    texts, is_main = pages.texts, np.empty(len(pages.texts.starts), np.bool_)
    _choose_texts(pages, repeats, scratch, main, is_main)
    return Slices(texts.text, texts.starts, texts.ends), is_main
