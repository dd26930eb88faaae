"""Which blocks of a page its site repeats: a table of bounded size, learned from pages in order.

For each block the table counts on how many other pages of its host it was: under another URL, and
not on a version of the same page. Of a block it keeps a keyed hash and the last page that had it.
Two pages are versions if they share VERSION_SHARE of the words outside links in their blocks that
are not known to repeat; nothing is counted then, since what versions share is their article.

Pages are learned one after the other, so the table is a fold of them: what it says of a page
depends on the pages before it and on nothing else. Buckets have WAYS entries, one cache line; a new
block takes the place of that one in its bucket which was seen longest ago, counted in pages.

Every write is noted with what it replaced. So pages that were learned ahead can be taken out again,
the newest first, and put back.
"""

# A table that is read a fixed number of chunks late would need each entry's value at several
# moments. So each chunk takes a turn when it is read, learns its pages in order, and is signed with
# what the table said. Without the rule about versions, crawls
# with edited copies lose half of their duplicates; it costs sites whose pages are all short below
# long notes.

from typing import NamedTuple

import numpy as np

from streamer.kernel import inline_kernel, kernel
from streamer.machine import int64, uint8, uint64
from streamer.text import blocks
from streamer.text.scan import Bytes
from streamer.text.site_pages import PageBlocks, Words
from streamer.text.slices import Places

WAYS = 4  # entries of a bucket
ENTRY_WORDS = 2
BUCKET_BYTES = WAYS * ENTRY_WORDS * 8
COUNT_MAX = 255
VERSION_SHARE = 430
_SHARES = 2 * blocks.BLOCKS_MAX  # a power of two, as many as a page may meet others, twice
_LOW = 0xFFFF_FFFF
_SIZE_MAX = 0xFFFF
# An entry's words: tag (32 bits), number of the page that had it last (32); and whether there is
# one (1), that page's words (16), count (8), hash of that page's URL (32).
_USED, _SIZE_SHIFT, COUNT_SHIFT = 1 << 63, 40, 32


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


def new_furniture(size_bytes: int) -> Furniture:
    """Return an empty table; untouched parts of it take no memory."""
    buckets = max(1, size_bytes // BUCKET_BYTES)
    entries = np.zeros((buckets * WAYS, ENTRY_WORDS), np.uint64)
    shares, used = np.zeros((_SHARES, 3), np.int64), np.zeros(blocks.BLOCKS_MAX, np.int64)
    return Furniture(entries, np.zeros(1, np.uint64), shares, used)


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
