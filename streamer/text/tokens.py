"""UTF-8 to token hashes in one pass: decode, canonical form, token boundaries, MurmurHash3.

The kernel never holds a token: each canonical byte goes straight into the hash, so a token of any
length costs its bytes and no memory. Short tokens of plain characters, which are most, take a
faster way: a window of text is folded and classified eight bytes at once, and its tokens are hashed
together (short_tokens.py). The kernel stops between two tokens when its output is full, and goes on
from the place that it returns, so a page of any size is signed through one small buffer.

`tokens` is the same rule in plain Python, on text; tests hold the kernel against it bit for bit.
"""

import unicodedata
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.hashing import absorb, finish
from streamer.kernel import inline_kernel, kernel
from streamer.machine import load_u64, uint32, uint64
from streamer.text import canonical, short_tokens
from streamer.text.scan import INVALID, Bytes, decode, pack_code_point
from streamer.text.short_tokens import LOW_BYTES, Segment, TokenTables, Words, ascii_size

MARKS_MAX = 30  # marks put into order together: Unicode's stream-safe limit (UAX #15, D4)
SPARE = 64  # room in the output beyond its limit: what one code point can expand to
_IOTA_MARK, _IOTA_LETTER = ord(canonical.IOTA_MARK), ord(canonical.IOTA_LETTER)

# Where a text has fewer words, its signs are counted: navigation next to Braille has not as many.
FEW_WORDS = 50

# Where fewer bytes of a window are left, it moves, so that its last run is whole.
NEAR = 256

# Readable bytes that every text has after its end: words are read eight bytes at a time.
SLACK = 16


def tokens(text: str) -> list[str]:
    """Return the canonical tokens of `text`: folded, decomposed, marks in canonical order."""
    return _tokens(text, signs=signs_prevail(text))


def signs_prevail(text: str) -> bool:
    """Return whether signs are tokens as well: a text has few words, and more signs than words."""
    words = len(_tokens(text, signs=False))
    return words < FEW_WORDS and len(_tokens(text, signs=True)) > 2 * words


def _tokens(text: str, *, signs: bool) -> list[str]:
    result: list[str] = []
    current = ""
    unspaced = False
    for character in (
        f for c in text if not canonical.is_ignorable(ord(c)) for f in canonical.fold(c)
    ):
        kind = canonical.class_of(character)
        if signs and kind == canonical.SEPARATOR and canonical.is_sign(character):
            kind = canonical.UNSPACED
        if kind == canonical.MARK:
            current += character if current else ""
            continue
        if current and (kind != canonical.WORD or unspaced):
            result.append(in_canonical_order(current))
            current = ""
        if kind != canonical.SEPARATOR:
            current += character
            unspaced = kind == canonical.UNSPACED
    if current:
        result.append(in_canonical_order(current))
    return result


def in_canonical_order(token: str) -> str:
    """Sort each run of at most MARKS_MAX non-starters by combining class, stably."""
    result: list[str] = []
    run: list[str] = []
    for character in token:
        if not unicodedata.combining(character) or len(run) == MARKS_MAX:
            result += sorted(run, key=unicodedata.combining)
            run.clear()
        (run if unicodedata.combining(character) else result).append(character)
    ordered = "".join(result + sorted(run, key=unicodedata.combining))
    return ordered.replace(canonical.IOTA_MARK, canonical.IOTA_LETTER)


class Token(NamedTuple):
    """The hash of the open token: lanes, two words not absorbed yet, length in bytes."""

    lane1: int
    lane2: int
    low: int
    word: int
    length: int


@inline_kernel
def no_token(seed: int) -> Token:
    """Return a token of no bytes."""
    return Token(uint64(seed), uint64(seed), uint64(0), uint64(0), uint64(0))


@inline_kernel
def push(token: Token, packed: int, size: int) -> Token:
    """Feed one to eight bytes to the hash of the open token."""
    lane1, lane2, low, word, length = token
    filled = length & uint64(7)
    word |= packed << (uint64(8) * filled)
    if filled + size >= uint64(8):
        if length & uint64(8):
            lane1, lane2 = absorb(lane1, lane2, low, word)
            low = uint64(0)
        else:
            low = word
        # in two steps, since a shift by 64 is undefined
        word = packed >> (uint64(8) * (uint64(7) - filled)) >> uint64(8)
    return Token(lane1, lane2, low, word, length + size)


@inline_kernel
def close(token: Token) -> int:
    """Return the hash of the open token."""
    lane1, lane2, low, word, length = token
    if length & uint64(8):
        return finish(lane1, lane2, low, word, length)
    return finish(lane1, lane2, word, uint64(0), length)


@inline_kernel
def _keep_end(ends: Words, place: int, token: Token) -> None:
    """Write the fields of a token to ends[place]."""
    ends[place, 0], ends[place, 1] = token.lane1, token.lane2
    ends[place, 2], ends[place, 3] = token.low, token.word
    ends[place, 4] = token.length


@inline_kernel
def _keep_mark(marks: short_tokens.Entries, waiting: int, mark: int, combining: Bytes) -> int:
    """Insert a mark after those of its class or lower; return the number waiting."""
    i = waiting
    while i > 0 and combining[marks[i - 1]] > combining[mark]:
        marks[i] = marks[i - 1]
        i -= 1
    marks[i] = mark
    return waiting + 1


@inline_kernel
def _letter_of(mark: int) -> int:
    """Return what a mark becomes once all are in order: itself, except the iota subscript."""
    return uint32(_IOTA_LETTER) if mark == _IOTA_MARK else uint32(mark)


@inline_kernel
def _push_marks(token: Token, marks: short_tokens.Entries, waiting: int) -> Token:
    """Feed the marks that are waiting, which are in order."""
    for i in range(waiting):
        packed, size = pack_code_point(_letter_of(marks[i]))
        token = push(token, packed, size)
    return token


class TokenScratch(NamedTuple):
    """Memory that the kernel works in, made once for many texts by `token_scratch`.

    `half_read` is of one number: how much of a code point's expansion is read where the kernel has
    stopped within it. A text is read to its end, so it is zero where the next one begins. `ends`
    gets the fields of `Token` for each hash in the output, as they were before `finish`: from there
    one can append bytes to a token.
    """

    window: short_tokens.TokenWindow
    halves: Words
    marks: short_tokens.Entries
    half_read: npt.NDArray[np.int64]
    ends: Words


def token_scratch(ends: int = 0) -> TokenScratch:
    """Return memory for the kernel to work in; `ends` is the size of the output, or 0 for none."""
    marks = np.empty(MARKS_MAX + 1, np.uint32)
    states = np.empty((ends, short_tokens.TOKEN_FIELDS), np.uint64)
    window, halves = short_tokens.new_window(), short_tokens.new_halves()
    return TokenScratch(window, halves, marks, np.zeros(1, np.int64), states)


class View(NamedTuple):
    """What a window shows of the text.

    Attributes:
        first, end: where the window begins and ends; whole_end: where its last whole run does.
        runs: how many whole runs it has.
    """

    first: int
    end: int
    whole_end: int
    runs: int


@inline_kernel
def _look(text: Bytes, place: int, end: int, window: short_tokens.TokenWindow) -> View:
    """Classify a window of the text from `place` on."""
    window_end = whole_end = short_tokens.classify(text, place, end, window)
    runs = short_tokens.find_edges(window, window_end - place)
    if window_end < end and runs and place + window.edges[2 * runs - 1] == window_end:
        runs -= 1
        whole_end = place + window.edges[2 * runs]
    return View(place, window_end, whole_end, runs)


@kernel
def hash_tokens(  # noqa: C901, PLR0912, PLR0915 - one loop over the text; a call a byte would double its cost
    text: Bytes,
    place: int,
    end: int,
    seed: int,
    tables: TokenTables,
    scratch: TokenScratch,
    out: Words,
    count: int,
) -> tuple[int, int]:
    """Hash the tokens of text[place:end] into out[count:]; return (next place, tokens in `out`).

    `text` has SLACK readable bytes after `end`. Each hash is mmh3.hash64(token as UTF-8, seed,
    signed=False)[0]. Malformed bytes separate tokens. The next place is `end`, or lies between two
    tokens, if need be within a code point's expansion: then `out` is full (its length less SPARE),
    and the caller goes on from there with the same scratch and with room in `out`.
    """
    limit = out.shape[0] - SPARE
    entries, sequences, combining = tables.entries, tables.sequences, tables.combining
    window, halves, marks, half_read, ends = scratch
    to_skip = half_read[0]  # of the first code point's expansion, which was read before
    half_read[0] = 0
    waiting = run = 0
    view = View(place, place, place, 0)
    token = no_token(seed)
    unspaced = False  # the open token is a character of an unspaced script
    sequence = left = 0
    expanded_at, expansion = place, 0  # where the last one is, and where its sequence begins
    while True:
        start = place
        if left > 0:
            entry = sequences[sequence]
            sequence += 1
            left -= 1
        elif place >= end or (token.length == 0 and count >= limit):
            break
        else:
            between = token.length == 0
            # The window has been read, or what is left of it may end within a run.
            if place >= view.end or (
                between and place >= view.whole_end and view.first < place
                and place + NEAR > view.end
            ):  # fmt: skip
                view = _look(text, place, end, window)
                run = 0
            # Whole runs of plain characters are hashed together, as many as follow each other.
            if between and to_skip == 0 and place < view.whole_end and tables.pieces.shape[0]:
                while run < view.runs and view.first + window.edges[2 * run] < place:
                    run += 1
                if run == 0 or view.first + window.edges[2 * run - 1] <= place:
                    run, count = short_tokens.hash_short(
                        Segment(text, view.first, end), seed, window, tables.pieces, halves,
                        run, view.runs, out, count, limit, ends,
                    )  # fmt: skip
                    place = view.whole_end
                    if run < view.runs:
                        place = view.first + window.edges[2 * run]
                    if start < place:
                        continue
            if text[place] < 128:
                if waiting == 0 and not unspaced:
                    size8 = ascii_size(window, place - view.first)
                    if size8:
                        packed = load_u64(window.folded_bytes, place - view.first)
                        token = push(token, packed & LOW_BYTES[size8], size8)
                        place += size8
                        continue
                code, size = uint32(text[place]), 1
            else:
                code, size = decode(text, place, end)
            place += size
            entry = entries[code] if code < INVALID else uint32(0)
        kind = entry >> uint32(canonical.CLASS_SHIFT)
        value = entry & uint32(canonical.VALUE_MASK)
        if kind == canonical.EXPANDED:
            expanded_at, expansion = start, value + 1
            left = sequences[value] - to_skip
            sequence = expansion + to_skip
            to_skip = 0
            continue
        if kind == canonical.IGNORED or (kind == canonical.MARK and token.length == 0):
            continue
        if kind == canonical.MARK and combining[value] != 0 and waiting < MARKS_MAX:
            waiting = _keep_mark(marks, waiting, value, combining)
            continue
        token = _push_marks(token, marks, waiting)
        waiting = 0
        if kind == canonical.MARK and combining[value] != 0:
            waiting = _keep_mark(marks, waiting, value, combining)
            continue
        if kind != canonical.MARK and token.length != 0 and (kind != canonical.WORD or unspaced):
            out[count] = close(token)
            if ends.shape[0]:
                _keep_end(ends, count, token)
            count += 1
            token = no_token(seed)
            unspaced = False
            if count >= limit:
                if start == place:  # what has closed the token comes from an expansion
                    start = expanded_at
                    half_read[0] = sequence - 1 - expansion
                place = start
                break
        if kind != canonical.SEPARATOR:
            packed, size8 = pack_code_point(value)
            token = push(token, packed, size8)
            unspaced = unspaced or kind == canonical.UNSPACED
    if token.length != 0:
        token = _push_marks(token, marks, waiting)
        out[count] = close(token)
        if ends.shape[0]:
            _keep_end(ends, count, token)
        count += 1
    return place, count
