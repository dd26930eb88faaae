"""Which blocks of a page its site repeats: a table of bounded size, learned from pages in order.

For each block the table counts on how many other pages of its host it was: under another URL, and
not on a version of the same page. Of a block it keeps a keyed hash and the last page that had it.
Two pages are versions if they share VERSION_SHARE of the words in their blocks that are not known
to repeat; nothing is counted then, since what versions share is their article.

Pages are learned one after the other, so the table is a fold of them: what it says of a page
depends on the pages before it and on nothing else. Buckets have WAYS entries, one cache line; a new
block takes the place of that one in its bucket which was seen longest ago, counted in pages.

Every write is noted with what it replaced. So pages that were learned ahead can be taken out again,
the newest first, and put back.
"""

# A table that is read a fixed number of chunks late would need each entry's value at several
# moments. So each chunk takes a turn when it is read, learns its pages in order, and is signed with
# what the table said. The price: pages are scanned twice. Without the rule about versions, crawls
# with edited copies lose half of their duplicates; it costs sites whose pages are all short below
# long notes.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.hashing import absorb, finish, fmix
from streamer.kernel import allocating_kernel, inline_kernel, int64, kernel, load_u64, uint8, uint64
from streamer.text import blocks
from streamer.text.blocks import html_to_blocks
from streamer.text.escapes import unescape_json
from streamer.text.main_text import MainText, is_asked
from streamer.text.scan import Bytes

Words = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]

WAYS = 4  # entries of a bucket
ENTRY_WORDS = 2
BUCKET_BYTES = WAYS * ENTRY_WORDS * 8
COUNT_MAX = 255
VERSION_SHARE = 500  # thousandths
BLOCK_BYTES_MIN = 4  # of HTML, for each block that has a record: a tag and a character
_SHARES = 2 * blocks.BLOCKS_MAX  # a power of two, as many as a page may meet others, twice
_LOW = 0xFFFF_FFFF
_SIZE_MAX = 0xFFFF
# An entry's words: tag (32 bits), number of the page that had it last (32); and whether there is
# one (1), that page's words (16), count (8), hash of that page's URL (32).
_USED, _SIZE_SHIFT, COUNT_SHIFT = 1 << 63, 40, 32
_SEED = 0x51735
_SPACE = 0x20


class Furniture(NamedTuple):
    """The table, and memory to learn a page with; made by `new_furniture`.

    Attributes:
        entries: uint64[buckets * WAYS, ENTRY_WORDS].
        clock: uint64[1], pages that were learned.
        shares: int64[_SHARES, 3], words that a page shares with others: a page's number, from 1 on,
            words in common, the other page's words.
        used: int64, places of `shares` that are not empty.
    """

    entries: Words
    clock: Words
    shares: Places
    used: Places


class PageBlocks(NamedTuple):
    """The blocks of a batch of pages that are asked about, as the table knows them.

    Attributes:
        keys: uint64[blocks], hashes with the host in them.
        words: int32[blocks].
        ends: int64[pages], where each page's blocks end.
        urls: uint64[pages], hashes of 32 bits.
    """

    keys: Words
    words: npt.NDArray[np.int32]
    ends: Places
    urls: Words


def new_furniture(size_bytes: int) -> Furniture:
    """Return an empty table; untouched parts of it take no memory."""
    buckets = max(1, size_bytes // BUCKET_BYTES)
    return Furniture(
        np.zeros((buckets * WAYS, ENTRY_WORDS), np.uint64),
        np.zeros(1, np.uint64),
        np.zeros((_SHARES, 3), np.int64),
        np.zeros(blocks.BLOCKS_MAX, np.int64),
    )


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
            own.words[at] = record[blocks.WORDS]
            at += 1
    return at


@allocating_kernel
def list_blocks(
    bodies: tuple[Bytes, Places, Places],
    marks: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]],
    hosts: Words,
    scratch: tuple[Bytes, Bytes],
    main: MainText,
    own: PageBlocks,
) -> None:
    """List the blocks of bodies (data, starts, ends) that are asked about.

    `marks` say which bodies are escaped, and which are HTML; `hosts` has a keyed hash of the host
    of each page, 0 for none: nothing is listed of such a page, nor of plain text.
    """
    data, starts, ends = bodies
    unescaped, text = scratch
    at = int64(0)
    for i in range(starts.shape[0]):
        if marks[1][i] and hosts[i] != uint64(0):
            source, start, end = data, starts[i], ends[i]
            if marks[0][i]:
                end = unescape_json(data, start, end, unescaped, 0)
                source, start = unescaped, int64(0)
            # Of one kind, as data that is only read: for two kinds, all would be compiled twice.
            html_to_blocks(source, start, end, text, main.structure, main.records)
            at = add_blocks(text, hosts[i], main, own, at)
        own.ends[i] = at


@inline_kernel
def _find(entries: Words, key: int) -> tuple[int, bool]:
    """Return the place of a key, and whether it is there; else where it would go."""
    buckets = uint64(entries.shape[0] // WAYS)
    first = int64(((uint64(key) >> uint64(32)) * buckets) >> uint64(32)) * WAYS
    tag = uint64(key) & uint64(_LOW)
    for place in range(first, first + WAYS):
        if entries[place, 1] != uint64(0) and entries[place, 0] >> uint64(32) == tag:
            return place, True
    return first, False


@inline_kernel
def _oldest(entries: Words, first: int, now: int) -> int:
    """Return the place in a bucket that is free, or was seen longest before page `now`."""
    best, age = int64(first), uint64(0)
    for place in range(first, first + WAYS):
        if entries[place, 1] == uint64(0):
            return int64(place)
        own = (uint64(now) - entries[place, 0]) & uint64(_LOW)
        if own > age:
            best, age = int64(place), own
    return best


@inline_kernel
def _add_share(furniture: Furniture, used: int, entry: tuple[int, int], words: int) -> int:
    """Add words that the page has in common with the page of an entry; return places in use."""
    shares = furniture.shares
    page = int64(uint64(entry[0]) & uint64(_LOW)) + 1
    place = (page * 0x9E3779B1) & (_SHARES - 1)
    while shares[place, 0] != 0 and shares[place, 0] != page:
        place = (place + 1) & (_SHARES - 1)
    if shares[place, 0] == 0:
        shares[place, 0] = page
        shares[place, 2] = int64(uint64(entry[1]) >> uint64(_SIZE_SHIFT) & uint64(_SIZE_MAX))
        furniture.used[used] = place
        used += 1
    shares[place, 1] += words
    return used


@kernel
def _compare(furniture: Furniture, own: PageBlocks, start: int, end: int) -> tuple[int, bool]:
    """Return the words of a page that are not known to repeat, and if it is a version of one."""
    entries, shares = furniture.entries, furniture.shares
    used = words = int64(0)
    for k in range(start, end):
        place, is_there = _find(entries, own.keys[k])
        if is_there and entries[place, 1] >> uint64(COUNT_SHIFT) & uint64(COUNT_MAX):
            continue
        words += own.words[k]
        if is_there:
            entry = (entries[place, 0], entries[place, 1])
            used = _add_share(furniture, used, entry, int64(own.words[k]))
    is_version = False
    for i in range(used):
        place = furniture.used[i]
        common, other = shares[place, 1], shares[place, 2]
        is_version |= common * 1000 >= VERSION_SHARE * max(1, words + other - common)
        shares[place, 0] = shares[place, 1] = 0
    return words, is_version


@inline_kernel
def _learn_page(
    furniture: Furniture, own: PageBlocks, page: int, start: int, repeats: Bytes, before: Words,
    at: int,
) -> int:  # fmt: skip
    """Learn one page; return how many writes `before` has then."""
    entries, end = furniture.entries, own.ends[page]
    words, is_version = _compare(furniture, own, start, end)
    now = furniture.clock[0] & uint64(_LOW)
    url = own.urls[page]
    size = uint64(min(words, _SIZE_MAX))
    for k in range(start, end):
        place, is_there = _find(entries, own.keys[k])
        count = uint64(0)
        if is_there:
            count = entries[place, 1] >> uint64(COUNT_SHIFT) & uint64(COUNT_MAX)
            is_again = entries[place, 0] & uint64(_LOW) == now
            if not (is_version or is_again or entries[place, 1] & uint64(_LOW) == url):
                count = min(count + uint64(1), uint64(COUNT_MAX))
        else:
            place = _oldest(entries, place, now)
        before[at, 0] = uint64(place)
        before[at, 1], before[at, 2] = entries[place, 0], entries[place, 1]
        at += 1
        entries[place, 0] = (own.keys[k] << uint64(32)) | now
        entries[place, 1] = (
            uint64(_USED) | size << uint64(_SIZE_SHIFT) | count << uint64(COUNT_SHIFT) | url
        )
        repeats[k] = uint8(count)
    furniture.clock[0] += uint64(1)
    return at


@kernel
def learn_pages(furniture: Furniture, own: PageBlocks, repeats: Bytes, before: Words) -> None:
    """Learn pages in their order; write on how many other pages each block was.

    `before` (uint64[blocks, 3]) gets for each write, in order, the place and what it replaced.
    """
    at = start = int64(0)
    for page in range(own.ends.shape[0]):
        at = _learn_page(furniture, own, page, start, repeats, before, at)
        start = own.ends[page]


@kernel
def take_out(entries: Words, before: Words) -> None:
    """Undo writes, the last first; `before` then has what they wrote."""
    for i in range(before.shape[0] - 1, -1, -1):
        _exchange(entries, before, i)


@kernel
def put_back(entries: Words, before: Words) -> None:
    """Do again what `take_out` undid."""
    for i in range(before.shape[0]):
        _exchange(entries, before, i)


@inline_kernel
def _exchange(entries: Words, before: Words, i: int) -> None:
    place = int64(before[i, 0])
    for word in range(ENTRY_WORDS):
        other = entries[place, word]
        entries[place, word] = before[i, 1 + word]
        before[i, 1 + word] = other
