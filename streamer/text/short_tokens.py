"""The fast way for short tokens, which are most: collected from a window's runs, hashed together.

A run of ASCII is a token. Of a run with other characters its tokens are put together a piece at a
time, where each character is plain (pieces.py). What is long or not plain is left to the slow way.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.hashing import finish
from streamer.kernel import (
    allocating_kernel,
    inline_kernel,
    int64,
    kernel,
    load_u64,
    trailing_zeros,
    uint64,
)
from streamer.text.codepoint import decode
from streamer.text.pieces import NOT_PLAIN, PIECE_MASK, PIECE_MAX, SEPARATES, size_of
from streamer.text.window import Window, bits_from

SHORT = 16  # a token of fewer bytes is short: it has no whole block of the hash
LOW_BYTES = np.array([(1 << 8 * min(n, 8)) - 1 for n in range(SHORT)], np.uint64)
_HIGH_BYTES = np.array([(1 << 8 * max(n - 8, 0)) - 1 for n in range(SHORT)], np.uint64)
TOGETHER = 64  # tokens that are hashed at a time: what is collected stays in the first-level cache
_ROOM = TOGETHER + 1
_WORD = 8  # bytes


@allocating_kernel
def new_halves() -> npt.NDArray[np.uint64]:
    """Return room for collected tokens: all first halves, all second halves, all sizes."""
    return np.empty(3 * _ROOM, np.uint64)


@inline_kernel
def _keep(halves: npt.NDArray[np.uint64], slot: int, low: int, high: int, size: int) -> None:
    """Write a token to its slot."""
    halves[slot] = low
    halves[uint64(_ROOM) + slot] = high
    halves[uint64(2 * _ROOM) + slot] = size


@inline_kernel
def _join(low: int, high: int, filled: int, packed: int) -> tuple[int, int]:
    """Return the two halves of a token of `filled` bytes with up to eight more behind them.

    Chooses without a branch: how long a token is so far cannot be foreseen.
    """
    shift = uint64(8) * (filled & uint64(7))
    beyond = packed >> (uint64(56) - shift) >> uint64(8)  # in two steps: a shift by 64 is undefined
    packed <<= shift
    in_low = filled < uint64(8)
    return (
        low | (packed if in_low else uint64(0)),
        high | (beyond if in_low else packed),
    )


@inline_kernel
def _accented(
    text: npt.NDArray[np.uint8],
    place: int,
    folded: npt.NDArray[np.uint8],
    pieces: npt.NDArray[np.uint64],
    start: int,
    size: int,
    others: int,
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
def _collect_simple(  # noqa: PLR0913 - as _accented
    text: npt.NDArray[np.uint8],
    place: int,
    folded: npt.NDArray[np.uint8],
    others: npt.NDArray[np.uint8],
    edges: npt.NDArray[np.uint16],
    pieces: npt.NDArray[np.uint64],
    first: int,
    last: int,
    halves: npt.NDArray[np.uint64],
    count: int,
) -> int:
    """Collect the tokens of runs [first, last) behind `count` others; return where it stops.

    That is before the first run that is long or has other characters than ASCII, but for one of two
    bytes.
    """
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
                low, high, size = _accented(text, place, folded, pieces, start, size, apart)
        if size < uint64(SHORT):
            _keep(halves, slot, low, high, size)
            run += uint64(1)
            slot += uint64(1)
    return int64(run)


@kernel
def _collect_mixed(  # noqa: PLR0913 - a kernel takes its arrays one by one
    text: npt.NDArray[np.uint8],
    place: int,
    end: int,
    folded: npt.NDArray[np.uint8],
    others: npt.NDArray[np.uint8],
    at: int,
    stop: int,
    pieces: npt.NDArray[np.uint64],
    halves: npt.NDArray[np.uint64],
    count: int,
    room: int,
) -> int:
    """Collect the tokens of a run [at, stop) behind `count` others; return how many there are.

    The window begins at `place` of the text. Returns -1 if a token is long or has a character that
    is not plain, and if there would be more than `room`.
    """
    low = high = filled = uint64(0)
    plain = True
    while plain and at < stop:
        beside = min(int64(trailing_zeros(bits_from(others, at))), stop - at, _WORD)
        plain = (filled + uint64(beside) < SHORT) & (count < room)
        if plain:
            low, high = _join(low, high, filled, load_u64(folded, at) & LOW_BYTES[beside])
        filled += uint64(beside)
        at += beside
        if plain and at < stop and beside < _WORD:
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


@kernel
def hash_short(  # noqa: PLR0913 - as _collect_mixed
    text: npt.NDArray[np.uint8],
    place: int,
    end: int,
    seed: int,
    window: Window,
    run: int,
    runs: int,
    pieces: npt.NDArray[np.uint64],
    halves: npt.NDArray[np.uint64],
    out: npt.NDArray[np.uint64],
    count: int,
    limit: int,
) -> tuple[int, int]:
    """Hash the tokens of runs from `run` on into out[count:limit]; return (next run, tokens).

    Stops before a run that has a long token or a character that is not plain, and where `out` is
    full or has no room for all tokens of a run. The hashes are computed in a loop of their own,
    eight at once: a hash takes long, but hardly longer than its words alone take to be found.
    """
    folded, others, edges = window.folded_bytes, window.others, window.edges
    going = True
    while going and run < runs and count < limit:
        room = min(TOGETHER, limit - count)
        found = 0
        while going and run < runs and found < room:
            after = _collect_simple(
                text, place, folded, others, edges, pieces, run, min(runs, run + room - found),
                halves, found,
            )  # fmt: skip
            found += after - run
            run = after
            if run < runs and found < room:
                after = _collect_mixed(
                    text, place, end, folded, others, int64(edges[2 * run]),
                    int64(edges[2 * run + 1]), pieces, halves, found, room,
                )  # fmt: skip
                going = after >= 0
                run += going
                found = max(found, after)
        for i in range(found):
            out[count + i] = finish(
                uint64(seed), uint64(seed), halves[i], halves[_ROOM + i], halves[2 * _ROOM + i]
            )
        count += found
    return run, count
