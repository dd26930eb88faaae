"""The fast way for short tokens, which are most: collected from a window's runs, hashed together.

A window of text is folded and classified eight bytes at once, and cut into runs. A run is a stretch
of bytes of which each is a letter, digit or underscore of ASCII or no ASCII at all; where it ends a
token ends, whatever its other characters are. Bitmaps, one bit a byte, show where runs are and
where other bytes than ASCII; where the first one changes, a run begins or ends.

A run of ASCII is a token. Of a run with other characters its tokens are put together a piece at a
time: what a character adds to a token, where that is known without its neighbours. Most letters
with accents, and those of Greek, Cyrillic and their like, are as plain as ASCII: they fold to a few
bytes which follow what came before. A table has these bytes for all characters below U+3000, and
tells which ones separate. Not plain are marks that stand by themselves, since they go into an order
with others, and letters of scripts without spaces. What is long or not plain is left to the slow
way (tokens.py).
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.hashing import finish
from streamer.kernel import allocating_kernel, inline_kernel, kernel
from streamer.machine import int64, load_u64, popcount, trailing_zeros, uint8, uint32, uint64
from streamer.text import canonical
from streamer.text.scan import Bytes, decode, pack_code_point

WINDOW_WORDS = 512  # of text that is classified at a time: it stays in the first-level cache
MARGIN = 16  # words after what is classified: two are read at any place, and whole blocks of bits
EDGES = 8 * WINDOW_WORDS + 64  # room for the places where runs begin and end

_EDGES_FEW = 24  # of a block of 64 bytes: so many are written whether there are as many or not
_GATHER = 0x0102040810204080  # times a word: brings the lowest bit of each byte to the top byte
_ONES = 0x0101010101010101  # eight bytes worked on at once, in one word ("SWAR")
_HIGHS = 0x8080808080808080

Words = npt.NDArray[np.uint64]
Entries = npt.NDArray[np.uint32]


class Segment(NamedTuple):
    """A text from `place` to `end`."""

    text: Bytes
    place: int
    end: int


class TokenWindow(NamedTuple):
    """What is known of a window of text; made by `new_window`.

    Attributes:
        folded, folded_bytes: the text with ASCII in lower case, as uint64 and as uint8.
        inside, inside_words: uint8 and uint64, a bit for each byte that is of a run.
        others: uint8, a bit for each byte that is no ASCII.
        edges: uint16, edges[2 * i] is the first byte of run i, edges[2 * i + 1] the one after.
    """

    folded: Words
    folded_bytes: Bytes
    inside: Bytes
    inside_words: Words
    others: Bytes
    edges: npt.NDArray[np.uint16]


def new_window() -> TokenWindow:
    """Return room for a window."""
    folded = np.empty(WINDOW_WORDS + MARGIN, np.uint64)
    inside, others = np.empty((2, WINDOW_WORDS + MARGIN), np.uint8)
    edges = np.empty(EDGES, np.uint16)
    return TokenWindow(folded, folded.view(np.uint8), inside, inside.view(np.uint64), others, edges)


@inline_kernel
def _is_between(word: int, first: int, last: int) -> int:
    """Mark (0x80) the bytes of `word` in [first, last]; only where each byte is below 0x80."""
    above = uint64(word) + uint64(_ONES) * uint64(0x80 - first)
    beyond = uint64(word) + uint64(_ONES) * uint64(0x7F - last)
    return above & ~beyond & uint64(_HIGHS)


@inline_kernel
def _bits(highs: int) -> int:
    """Return the highest bits of a word's eight bytes as a number, where the others are 0."""
    return ((highs >> uint64(7)) * uint64(_GATHER)) >> uint64(56)


@kernel
def classify(text: Bytes, place: int, end: int, window: TokenWindow) -> int:
    """Fold and classify text[place:end], as much as there is room for; return where that ends.

    After the end no bit is set. Where other bytes than ASCII are, `folded` has nothing of use.
    """
    folded, inside, others = window.folded, window.inside, window.others
    words = min((end - place + 7) >> 3, folded.shape[0] - MARGIN)
    for i in range(words):
        word = uint64(load_u64(text, place + 8 * i))
        plain = word & ~uint64(_HIGHS)
        lower = plain | (_is_between(plain, 0x41, 0x5A) >> uint64(2))  # A..Z
        token = (
            _is_between(lower, 0x61, 0x7A)
            | _is_between(plain, 0x30, 0x39)
            | _is_between(plain, 0x5F, 0x5F)
        )
        folded[i] = lower
        inside[i] = _bits((token | word) & uint64(_HIGHS))
        others[i] = _bits(word & uint64(_HIGHS))
    for i in range(words, words + MARGIN):
        inside[i] = others[i] = uint8(0)
    if place + 8 * words < end:
        return int(place + 8 * words)
    if words:
        here = uint8(0xFF >> (8 * words - (end - place)))
        inside[words - 1] &= here
        others[words - 1] &= here
    return end


@kernel
def find_edges(window: TokenWindow, size: int) -> int:
    """Write where runs begin and end in the first `size` bytes; return the number of runs.

    Bits are found one by one without a branch for each (Langdale, Lemire: Parsing Gigabytes of JSON
    per Second, 2019): a number of them is always written, and only so many count as there are.
    """
    inside, edges = window.inside_words, window.edges
    count = 0
    before = uint64(0)
    for block in range((size + 64) >> 6):  # one bit after the last byte: where the last run ends
        runs = inside[block]
        changes = runs ^ ((runs << uint64(1)) | before)
        before = runs >> uint64(63)
        found = int64(popcount(changes))
        for i in range(_EDGES_FEW):
            edges[count + i] = uint64(64 * block) + trailing_zeros(changes)
            changes &= changes - uint64(1)
        for i in range(_EDGES_FEW, found):
            edges[count + i] = uint64(64 * block) + trailing_zeros(changes)
            changes &= changes - uint64(1)
        count += found
    return count >> 1


@inline_kernel
def bits_from(bitmap: Bytes, at: int) -> int:
    """Return the bits of a bitmap from byte `at` of the window on: 57 of them, the rest unknown."""
    return uint64(load_u64(bitmap, at >> 3)) >> uint64(at & 7)


@inline_kernel
def ascii_size(window: TokenWindow, at: int) -> int:
    """Return how many ASCII characters of a token begin at `at`, at most 8."""
    following = bits_from(window.inside, at) & ~bits_from(window.others, at)
    return min(trailing_zeros(~following), uint64(8))


PIECES = 0x3000  # code points that the table has
SIZE_SHIFT = uint64(56)
PIECE_MASK = (1 << 56) - 1
NOT_PLAIN, SEPARATES = 0, 0xFF  # else the upper byte is 1 + bytes, which lie below
PIECE_MAX = 7

_IOTA_MARK = ord(canonical.IOTA_MARK)


@inline_kernel
def size_of(piece: int) -> int:
    """Return NOT_PLAIN, SEPARATES, or 1 + the bytes of a piece."""
    return uint64(piece) >> SIZE_SHIFT


@kernel
def _add(piece: int, entry: int, combining: Bytes) -> int:
    """Return a piece with one more character after it, NOT_PLAIN if that cannot be."""
    kind, value = entry >> uint32(canonical.CLASS_SHIFT), entry & uint32(canonical.VALUE_MASK)
    filled = size_of(piece) - uint64(1)
    packed, size = pack_code_point(value)
    is_mark = (
        kind == canonical.MARK and filled > 0 and combining[value] != 0 and value != _IOTA_MARK
    )
    if (kind != canonical.WORD and not is_mark) or filled + size > uint64(PIECE_MAX):
        return uint64(NOT_PLAIN)
    return (uint64(piece) | (packed << (uint64(8) * filled))) + (size << SIZE_SHIFT)


@kernel
def piece_of(code: int, entries: Entries, sequences: Entries, combining: Bytes) -> int:
    """Return the piece of one code point."""
    entry = entries[code]
    kind = entry >> uint32(canonical.CLASS_SHIFT)
    empty = uint64(1) << SIZE_SHIFT
    if kind == canonical.SEPARATOR:
        return uint64(SEPARATES) << SIZE_SHIFT
    if kind == canonical.IGNORED:
        return empty
    if kind != canonical.EXPANDED:
        return _add(empty, entry, combining)
    piece = empty
    first = int64(entry & uint32(canonical.VALUE_MASK)) + 1
    for i in range(first, first + int64(sequences[first - 1])):
        piece = _add(piece, sequences[i], combining)
        if piece == NOT_PLAIN:
            break
    return piece


@allocating_kernel
def pieces_of(entries: Entries, sequences: Entries, combining: Bytes) -> Words:
    """Return uint64[PIECES], the piece of each code point."""
    result = np.empty(PIECES, np.uint64)
    for code in range(PIECES):
        result[code] = piece_of(code, entries, sequences, combining)
    return result


class TokenTables(NamedTuple):
    """What the token kernel looks up: the canonical table's arrays, and uint64[PIECES].

    Without pieces, it looks at each character by itself.
    """

    entries: Entries
    sequences: Entries
    combining: Bytes
    pieces: Words


@cache
def token_tables(*, signs: bool = False) -> TokenTables:
    """Return the tables of the token kernel; `signs`: those by which signs are tokens."""
    if signs:
        return TokenTables(*canonical.sign_table(), np.empty(0, np.uint64))
    table = canonical.canonical_table()
    return TokenTables(*table, pieces_of(*table))


SHORT = 16  # a token of fewer bytes is short: it has no whole block of the hash
LOW_BYTES = np.array([(1 << 8 * min(n, 8)) - 1 for n in range(SHORT)], np.uint64)
_HIGH_BYTES = np.array([(1 << 8 * max(n - 8, 0)) - 1 for n in range(SHORT)], np.uint64)
TOKEN_FIELDS = 5  # of `Token` (tokens.py)
TOGETHER = 64  # tokens that are hashed at a time: what is collected stays in the first-level cache
_ROOM = TOGETHER + 1
_WORD = 8  # bytes


def new_halves() -> Words:
    """Return room for collected tokens: all first halves, all second halves, all sizes."""
    return np.empty(3 * _ROOM, np.uint64)


@inline_kernel
def _keep(halves: Words, slot: int, low: int, high: int, size: int) -> None:
    """Write a token to its slot."""
    halves[slot] = low
    halves[uint64(_ROOM) + slot] = high
    halves[uint64(2 * _ROOM) + slot] = size


@inline_kernel
def _join(low: int, high: int, filled: int, packed: int) -> tuple[int, int]:
    """Return the two halves of a token of `filled` bytes with up to eight more after them.

    Chooses without a branch: how long a token is so far cannot be foreseen.
    """
    shift = uint64(8) * (filled & uint64(7))
    beyond = packed >> (uint64(56) - shift) >> uint64(8)  # in two steps: a shift by 64 is undefined
    packed <<= shift
    in_low = filled < uint64(8)
    return (low | (packed if in_low else uint64(0)), high | (beyond if in_low else packed))


@inline_kernel
def _decode_accented(
    text: Bytes, place: int, folded: Bytes, pieces: Words, start: int, size: int, others: int
) -> tuple[int, int, int]:
    """Return (first half, second half, bytes) of a run of ASCII with one character of two bytes.

    `others` has a bit for each byte of the run that is no ASCII. The bytes are SHORT if it is
    another kind of run, or a long token.
    """
    before = trailing_zeros(others)
    two = load_u64(text, place + int64(start + before))
    code = ((two & uint64(0x1F)) << uint64(6)) | ((two >> uint64(8)) & uint64(0x3F))
    is_one = (others >> before == uint64(3)) & (two & uint64(0xC0E0) == uint64(0x80C0))
    piece = pieces[code]
    added = size_of(piece) - uint64(1)
    filled, after = before + added, size - before - uint64(2)
    is_plain = (code >= uint64(0x80)) & (added - uint64(1) < uint64(PIECE_MAX))
    if not (is_one & is_plain & (filled + after < uint64(SHORT))):
        return uint64(0), uint64(0), uint64(SHORT)
    low = load_u64(folded, int64(start)) & LOW_BYTES[before]
    high = load_u64(folded, int64(start) + 8) & _HIGH_BYTES[before]
    low, high = _join(low, high, before, piece & uint64(PIECE_MASK))
    rest = int64(start + before) + 2
    low, high = _join(low, high, filled, load_u64(folded, rest) & LOW_BYTES[after])
    beyond = load_u64(folded, rest + 8) & _HIGH_BYTES[after]
    return low, high | (beyond << (uint64(8) * (filled & uint64(7)))), filled + after


@kernel
def _collect_simple(
    stretch: Segment,
    window: TokenWindow,
    pieces: Words,
    first: int,
    last: int,
    halves: Words,
    count: int,
) -> int:
    """Collect the tokens of runs [first, last) after `count` others; return where it stops.

    That is before the first run that is long or has other characters than ASCII, except one of two
    bytes.
    """
    text, place, _ = stretch
    folded, others, edges = window.folded_bytes, window.others, window.edges
    run, slot = uint64(first), uint64(count)
    size = uint64(0)
    while size < uint64(SHORT) and run < uint64(last):
        start = uint64(edges[uint64(2) * run])
        size = uint64(edges[uint64(2) * run + uint64(1)]) - start
        here = (uint64(1) << (size & uint64(63))) - uint64(1)
        apart = bits_from(others, start) & here
        if size < uint64(SHORT):
            if apart == uint64(0):
                low = load_u64(folded, int64(start)) & LOW_BYTES[size]
                high = load_u64(folded, int64(start) + 8) & _HIGH_BYTES[size]
            else:
                low, high, size = _decode_accented(text, place, folded, pieces, start, size, apart)
        if size < uint64(SHORT):
            _keep(halves, slot, low, high, size)
            run += uint64(1)
            slot += uint64(1)
    return int64(run)


@kernel
def _collect_mixed(
    stretch: Segment,
    window: TokenWindow,
    at: int,
    stop: int,
    pieces: Words,
    halves: Words,
    count: int,
    room: int,
) -> int:
    """Collect the tokens of a run [at, stop) after `count` others; return how many there are.

    The window begins where the stretch does. Returns -1 if a token is long or has a character that
    is not plain, and if there would be more than `room`.
    """
    text, place, end = stretch
    folded, others = window.folded_bytes, window.others
    low = high = filled = uint64(0)
    plain = True
    while plain and at < stop:
        run = min(int64(trailing_zeros(bits_from(others, at))), stop - at, _WORD)
        plain = (filled + uint64(run) < SHORT) & (count < room)
        if plain:
            low, high = _join(low, high, filled, load_u64(folded, at) & LOW_BYTES[run])
        filled += uint64(run)
        at += run
        if plain and at < stop and run < _WORD:
            code, width = decode(text, place + at, end)
            piece = pieces[code] if code < pieces.shape[0] else uint64(NOT_PLAIN)
            at += width
            size = size_of(piece)
            if size == SEPARATES:
                _keep(halves, uint64(count), low, high, filled)
                count += filled > 0
                low = high = filled = uint64(0)
            else:
                plain = (size != NOT_PLAIN) & (filled + size <= SHORT)
                low, high = _join(low, high, filled, piece & uint64(PIECE_MASK))
                filled += size - uint64(1)
    _keep(halves, uint64(count), low, high, filled)
    return count + (filled > 0) if plain else -1


@inline_kernel
def _keep_end(end: Words, seed: int, halves: Words, slot: int) -> None:
    """Write the fields of `Token` for a short one: it has filled its first half, or none."""
    low, high, size = halves[slot], halves[_ROOM + slot], halves[2 * _ROOM + slot]
    two = size >= uint64(_WORD)
    end[0], end[1], end[4] = seed, seed, size
    end[2], end[3] = (low if two else uint64(0)), (high if two else low)


@kernel
def hash_short(  # noqa: PLR0913 - a kernel takes its arrays one by one
    stretch: Segment,
    seed: int,
    window: TokenWindow,
    pieces: Words,
    halves: Words,
    run: int,
    runs: int,
    out: Words,
    count: int,
    limit: int,
    ends: Words,
) -> tuple[int, int]:
    """Hash the tokens of runs from `run` on into out[count:limit]; return (next run, tokens).

    Stops before a run that has a long token or a character that is not plain, and where `out` is
    full or has no room for all tokens of a run. The hashes are computed in a loop of their own,
    eight at once: a hash takes long, but hardly longer than its words alone take to be found.
    `ends` is as in `TokenScratch`.
    """
    edges = window.edges
    going = True
    while going and run < runs and count < limit:
        room = min(TOGETHER, limit - count)
        found = 0
        while going and run < runs and found < room:
            after = _collect_simple(
                stretch, window, pieces, run, min(runs, run + room - found), halves, found
            )  # fmt: skip
            found += after - run
            run = after
            if run < runs and found < room:
                after = _collect_mixed(
                    stretch, window, int64(edges[2 * run]), int64(edges[2 * run + 1]),
                    pieces, halves, found, room,
                )  # fmt: skip
                going = after >= 0
                run += going
                found = max(found, after)
        for i in range(found):
            out[count + i] = finish(
                uint64(seed), uint64(seed), halves[i], halves[_ROOM + i], halves[2 * _ROOM + i]
            )
        for i in range(found if ends.shape[0] else 0):
            _keep_end(ends[count + i], uint64(seed), halves, i)
        count += found
    return run, count
