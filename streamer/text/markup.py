"""Where a tag, a comment or an element's raw contents end.

Each function looks forward from a position and says where to go on. Looking to the page's end in
vain, once for every tag, would make a page of such tags cost its square; so what was not found is
noted in `state`, and is not looked for again: what is missing after one position is missing after
every later one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.kernel import inline_kernel, int64, kernel
from streamer.text.elements import MEMOS, NAME_BYTES_MAX, read_name
from streamer.text.scan import Bytes, find_byte

LESS, GREATER, SLASH, EQUALS, DASH, BANG, QUESTION = b"<>/=-!?"
QUOTE, APOSTROPHE, BRACKET = b"\"']"

# The scanner's whole memory between two tags. state[memo] of a raw element: 1 once no end tag
# follows. state[memo] of a container: the depth in it; state[LAST_ENDS + memo]: the place of its
# last end tag, plus 2 (1 if there is none, 0 if nobody has looked). The last: 1 once no `]]>`
# follows.
LAST_ENDS = MEMOS
NO_SECTION_END = 2 * MEMOS
STATE_SIZE = 2 * MEMOS + 1

_SECTION = np.frombuffer(b"<![CDATA[", np.uint8)

State = npt.NDArray[np.int64]

_BLANK, _NAME_END, _VALUE_END = 1, 2, 4
_CLASS = np.zeros(256, np.uint8)
_CLASS[list(b"\t\n\f\r ")] = _BLANK | _NAME_END | _VALUE_END
_CLASS[list(b"/=")] = _NAME_END
_CLASS[GREATER] = _NAME_END | _VALUE_END


@inline_kernel
def _skip_blanks(source: Bytes, at: int, end: int) -> int:
    """Return the first position from `at` that holds no white space."""
    while at < end and _CLASS[source[at]] & _BLANK:
        at += 1
    return at


@kernel
def _skip_value(source: Bytes, at: int, end: int) -> int:
    """Return the position behind an attribute's value.

    A quote that is never closed is a character of an unquoted value: the tag ends at its first `>`.
    That costs one look to the page's end for each kind of quote, as no such quote follows it.
    """
    if at < end and (source[at] == QUOTE or source[at] == APOSTROPHE):
        close = find_byte(source, at + 1, end, int64(source[at]))
        if close < end:
            return close + 1
    while at < end and not _CLASS[source[at]] & _VALUE_END:
        at += 1
    return at


@kernel
def skip_attributes(source: Bytes, at: int, end: int) -> tuple[int, bool]:
    """Pass over a tag's attributes, from behind its name.

    Returns:
        The position behind the closing `>` (or `end` + 1 if the tag never ends), and whether the
        tag closes itself with `/>`.
    """
    slash = False
    while at < end:
        byte = source[at]
        if byte == GREATER:
            return at + 1, slash
        slash = byte == SLASH
        at += 1
        if slash or _CLASS[byte] & _BLANK:
            continue
        while at < end and not _CLASS[source[at]] & _NAME_END:
            at += 1
        after = _skip_blanks(source, at, end)
        if after < end and source[after] == EQUALS:
            at = _skip_value(source, _skip_blanks(source, after + 1, end), end)
    return end + 1, False


@kernel
def _skip_comment(source: Bytes, at: int, end: int) -> int:
    """Return the position behind the comment whose `<!--` is at `at`, or `end` if it never ends."""
    close = find_byte(source, at + 4, end, GREATER)
    while close < end:
        if source[close - 1] == DASH and source[close - 2] == DASH:
            return close + 1
        bang = close >= at + 7 and source[close - 1] == BANG  # `<!----!>` is the shortest
        if bang and source[close - 2] == DASH and source[close - 3] == DASH:
            return close + 1
        close = find_byte(source, close + 1, end, GREATER)
    return end


@kernel
def _is_section(source: Bytes, at: int, end: int) -> bool:
    """Tell whether `<![CDATA[` is at `at`."""
    same = 0
    while same < len(_SECTION) and at + same < end and source[at + same] == _SECTION[same]:
        same += 1
    return same == len(_SECTION)


@kernel
def skip_declaration(source: Bytes, at: int, end: int, state: State) -> int:
    """Return the position behind what begins with `<!` or `<?`, or `</` without a name, at `at`."""
    if (
        at + 3 < end
        and source[at + 1] == BANG
        and source[at + 2] == DASH
        and source[at + 3] == DASH
    ):
        return _skip_comment(source, at, end)
    if not state[NO_SECTION_END] and _is_section(source, at, end):
        close = find_byte(source, at + len(_SECTION) + 2, end, GREATER)
        while close < end:
            if source[close - 1] == BRACKET and source[close - 2] == BRACKET:
                return close + 1
            close = find_byte(source, close + 1, end, GREATER)
        state[NO_SECTION_END] = 1
    return min(find_byte(source, at + 2, end, GREATER) + 1, end)


@kernel
def is_end_tag(source: Bytes, at: int, end: int, number: int) -> bool:
    """Tell whether the `<` at `at` begins an end tag of the element with this name number."""
    if at + 2 >= end or source[at + 1] != SLASH:
        return False
    found, stop = read_name(source, at + 2, min(end, at + 3 + NAME_BYTES_MAX))
    return found == number and stop < min(end, at + 3 + NAME_BYTES_MAX)


@kernel
def find_end_tag(source: Bytes, at: int, end: int, number: int) -> int:
    """Return the position of the next end tag of an element, or `end`."""
    at = find_byte(source, at, end, LESS)
    while at < end and not is_end_tag(source, at, end, number):
        at = find_byte(source, at + 1, end, LESS)
    return at


@kernel
def find_last_end_tag(source: Bytes, start: int, end: int, number: int) -> int:
    """Return the position of the last end tag of an element from `start` on, or -1."""
    for at in range(end - 1, start - 1, -1):
        if source[at] == LESS and is_end_tag(source, at, end, number):
            return at
    return -1
