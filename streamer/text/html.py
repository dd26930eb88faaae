"""HTML to the text that a reader sees, in one pass over the bytes.

No tree is built: a tree grows faster than the page that describes it, and hostile pages live on
that. The scanner copies text, resolves character references and passes over markup; between two
tags it remembers a fixed number of integers. Time and memory are linear in the page, for any bytes.
Markup is ASCII; other bytes are copied as they are, so invalid UTF-8 and NUL pass through.

Tags, quotes and comments end where a browser ends them, and block elements part words. Where a page
is cut or malformed, little is lost: an element that is never closed hides nothing (except script
and style, whose contents are no text), nor does one that closes itself (`<script/>`, as in XHTML).
A cut tag or comment is dropped. No rule may need a list of open elements.

Helpers marked inline run once a tag: as calls they cost a third of the time.
"""

from __future__ import annotations

import numpy as np

from streamer.kernel import allocating_kernel, inline_kernel, kernel
from streamer.text.elements import (
    BLOCK,
    CONTAINER,
    ENDLESS,
    MEMO_SHIFT,
    RCDATA,
    SVG_MEMO,
    TEMPLATE_MEMO,
    read_name,
    traits_of,
)
from streamer.text.entities import AMPERSAND, GROWTH, put_reference
from streamer.text.markup import (
    BANG,
    LAST_ENDS,
    LESS,
    QUESTION,
    SLASH,
    STATE_SIZE,
    State,
    find_end_tag,
    find_last_end_tag,
    skip_attributes,
    skip_declaration,
)
from streamer.text.scan import VECTOR_BYTES, Bytes, copy_until, find_byte

SPACE = 0x20


def text_bytes_max(html_bytes: int) -> int:
    """Return how many bytes of output a page of this size needs, whatever it holds.

    Text is copied one to one, a tag of at least three bytes writes at most one space, and a
    character reference grows by at most 6/5; a copied vector is scratch behind the last byte.
    """
    return html_bytes * GROWTH[0] // GROWTH[1] + VECTOR_BYTES


@inline_kernel
def _hidden(state: State, at: int) -> bool:
    """Tell whether `at` is inside a container that still has an end tag to come."""
    if state[SVG_MEMO] > 0 and at + 2 <= state[LAST_ENDS + SVG_MEMO]:
        return True
    return bool(state[TEMPLATE_MEMO] > 0 and at + 2 <= state[LAST_ENDS + TEMPLATE_MEMO])


@inline_kernel
def _is_letter(byte: int) -> bool:
    """Tell whether a byte is an ASCII letter."""
    return ord("a") <= byte | 0x20 <= ord("z")


@kernel
def _copy_text(
    source: Bytes, at: int, end: int, out: Bytes, place: int, stop_byte: int
) -> tuple[int, int]:
    """Copy text up to `stop_byte`, references resolved; return the position and the place there."""
    while True:
        stop = copy_until(source, at, end, out, place, (stop_byte, AMPERSAND))
        place += stop - at
        if stop == end or source[stop] == stop_byte != AMPERSAND:
            return stop, place
        at, place = put_reference(source, stop, end, out, place)


@kernel
def _enter_container(source: Bytes, after: int, end: int, number: int, state: State) -> None:
    """Count a container's start tag, if an end tag of its kind follows."""
    memo = traits_of(number) >> MEMO_SHIFT
    last = LAST_ENDS + memo
    if state[last] == 0:
        state[last] = find_last_end_tag(source, after, end, number) + 2
    if after + 2 <= state[last]:
        state[memo] += 1


@kernel
def _pass_raw(
    source: Bytes, at: int, end: int, out: Bytes, place: int, state: State, number: int
) -> tuple[int, int]:
    """Pass the contents of a raw element; return the position of its end tag and the new place."""
    traits = traits_of(number)
    memo = traits >> MEMO_SHIFT
    if state[memo]:
        return at, place
    stop = find_end_tag(source, at, end, number)
    if stop == end:
        state[memo] = 1
        return (end if traits & ENDLESS else at), place
    if traits & RCDATA and not _hidden(state, at):
        _, place = _copy_text(source, at, stop, out, place, AMPERSAND)
    return stop, place


@inline_kernel
def _pass_tag(
    source: Bytes, at: int, end: int, out: Bytes, place: int, state: State
) -> tuple[int, int]:
    """Pass the start or end tag at `at`, and what a raw element holds."""
    is_end = source[at + 1] == SLASH
    number, stop = read_name(source, at + (2 if is_end else 1), end)
    after, closes_itself = skip_attributes(source, stop, end)
    if after > end:
        return end, place
    traits = traits_of(number)
    if traits & BLOCK and not _hidden(state, at):
        out[place] = SPACE
        place += 1
    if traits <= BLOCK:
        return after, place
    if is_end:
        if traits & CONTAINER and state[traits >> MEMO_SHIFT] > 0:
            state[traits >> MEMO_SHIFT] -= 1
        return after, place
    if closes_itself:
        return after, place
    if traits & CONTAINER:
        _enter_container(source, after, end, number, state)
        return after, place
    return _pass_raw(source, after, end, out, place, state, number)


@kernel
def _pass_markup(
    source: Bytes, at: int, end: int, out: Bytes, place: int, state: State
) -> tuple[int, int]:
    """Pass what the `<` at `at` begins; a `<` that begins no markup is text."""
    second = int(source[at + 1]) if at + 1 < end else SPACE
    third = int(source[at + 2]) if at + 2 < end else SPACE
    if _is_letter(third if second == SLASH else second):
        return _pass_tag(source, at, end, out, place, state)
    # `second in (BANG, QUESTION)` made the whole scanner a third slower.
    if second == BANG or second == QUESTION or (second == SLASH and at + 2 < end):  # noqa: PLR1714, SIM109 - as above
        return skip_declaration(source, at, end, state), place
    if not _hidden(state, at):
        out[place] = LESS
        place += 1
    return at + 1, place


@allocating_kernel
def html_to_text(source: Bytes, start: int, end: int, out: Bytes, place: int) -> int:
    """Write the visible text of source[start:end] to out[place:], UTF-8 as far as the page is.

    Args:
        source: the page; any bytes, ASCII-compatible.
        start: where the page begins.
        end: where it ends.
        out: must have text_bytes_max(end - start) bytes from `place` on, and not overlap with
            `source`.
        place: where to write.

    Returns:
        The place behind the last byte written; what follows it in `out` is scratch.
    """
    state = np.zeros(STATE_SIZE, np.int64)
    at = start
    while at < end:
        if _hidden(state, at):
            at = find_byte(source, at, end, LESS)
        else:
            at, place = _copy_text(source, at, end, out, place, LESS)
        if at < end:
            at, place = _pass_markup(source, at, end, out, place, state)
    return place
