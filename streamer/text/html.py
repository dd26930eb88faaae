"""HTML to the text that a reader sees, in one pass over the bytes.

No tree is built: a tree grows faster than the page that describes it, and hostile pages live on
that. The scanner copies text, resolves character references and skips markup; between two
tags it remembers a fixed number of integers. Time and memory are linear in the page, for any bytes.
Markup is ASCII; other bytes are copied as they are, so invalid UTF-8 and NUL pass through.

Tags, quotes and comments end where a browser ends them, and block elements part words. Where a page
is cut or malformed, little is lost: an element that is never closed hides nothing (except script
and style, whose contents are no text), nor does one that closes itself (`<script/>`, as in XHTML).
A cut tag or comment is dropped. No rule may need a list of open elements.

An element has traits; names that are not listed have none and are inline, as in a browser. Block
elements part words at their start and end tags. Raw elements hold no markup: their
contents end at their own end tag; those of RCDATA elements are text, those of the others are never
seen. The contents of containers are invisible markup, and containers nest; but those of a
declarative shadow root (a template with `shadowrootmode`) and of a dialog that is `open` are
visible. `<noscript>` is read as a block where it has NOSCRIPT_BYTES_MIN of text: scripts would
build that part of the page; else it is passed as though it were not there. A name is held as a
number in base 38: exact for up to twelve letters and digits, longer names are unknown. The numbers
are hashed into a table without collisions, found at import.

Looking to the page's end in vain, once for every tag, would make a page of such tags cost its
square; so what was not found is noted in `state`, and is not looked for again: what is missing
after one position is missing after every later one.

Helpers marked inline run once a tag: as calls they cost a third of the time.
"""

# A parser that builds a tree can be made to explode: 64 KiB of nested `<p><font>` took 2.7 GB of
# memory, 128 KiB took 11 GB and up to 14 s. Native code cannot be interrupted.

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from streamer.kernel import allocating_kernel, inline_kernel, kernel
from streamer.machine import int64, uint64
from streamer.text.escapes import AMPERSAND, GROWTH, put_reference
from streamer.text.scan import VECTOR_BYTES, Bytes, copy_until, find_byte

# ENDLESS: hides the rest if never closed. NOSCRIPT: is read or not, by how much text it has.
BLOCK, RAW, RCDATA, CONTAINER, ENDLESS, NOSCRIPT = 1, 2, 4, 8, 16, 32
MEMO_SHIFT = 8  # traits << 0 | the element's number among those that keep state << MEMO_SHIFT
MEMOS = 11  # elements with state

_BLOCKS = (
    "address article aside blockquote body br button canvas caption center col colgroup dd "
    "details dir div dl dt fieldset figcaption figure footer form frameset h1 h2 h3 h4 "
    "h5 h6 head header hgroup hr html iframe legend li link listing main menu meta nav "
    "noframes ol optgroup option p plaintext pre search section select summary table tbody td "
    "textarea tfoot th thead title tr ul video xmp"
)
_STATEFUL = {
    "script": RAW | ENDLESS,
    "style": RAW | ENDLESS,
    "noscript": NOSCRIPT | BLOCK,
    "noembed": RAW,
    "iframe": RAW | BLOCK,
    "noframes": RAW | BLOCK,
    "title": RAW | RCDATA | BLOCK,
    "textarea": RAW | RCDATA | BLOCK,
    "svg": CONTAINER,
    "template": CONTAINER,
    "dialog": CONTAINER | BLOCK,
}
SVG_MEMO, TEMPLATE_MEMO, DIALOG_MEMO, NOSCRIPT_MEMO = (
    list(_STATEFUL).index(name) for name in ("svg", "template", "dialog", "noscript")
)
NOSCRIPT_BYTES_MIN = 300  # without markup and white space: some 60 words
NAME_BYTES_MAX = 12  # 38 ** 12 is the last power below 2 ** 63
_BASE = 38
_SLOT_BITS = 10

# Byte -> digit of a name: 0 ends a name, 1..36 letter (either case) or digit, 37 anything else.
_DIGIT = np.full(256, 37, np.uint8)
_DIGIT[list(b"\t\n\f\r />")] = 0
for _digit, _letter in enumerate("abcdefghijklmnopqrstuvwxyz0123456789", 1):
    _DIGIT[ord(_letter)] = _DIGIT[ord(_letter.upper())] = _digit


def name_number(name: str) -> int:
    """Return the number of an element's name, as `read_name` gives it."""
    number = 0
    for byte in name.encode():
        number = number * _BASE + int(_DIGIT[byte])
    return number


def _slot(number: int, factor: int) -> int:
    """Return the upper bits of number * factor modulo 2 ** 64."""
    return (number * factor & 0xFFFFFFFFFFFFFFFF) >> (64 - _SLOT_BITS)


def _factor_of(numbers: list[int]) -> int:
    """Return an odd factor that hashes numbers without a collision."""
    factor = 0x9E3779B97F4A7C15  # a start with well-mixed bits; each step gives another odd factor
    while len({_slot(number, factor) for number in numbers}) < len(numbers):
        factor = (factor + 0x2545F4914F6CDD1E) & 0xFFFFFFFFFFFFFFFF
    return factor


_LISTED = dict.fromkeys(_BLOCKS.split(), BLOCK)
_LISTED |= {name: kind | memo << MEMO_SHIFT for memo, (name, kind) in enumerate(_STATEFUL.items())}
_factor = _factor_of([name_number(name) for name in _LISTED])
UNKNOWN = 1 << _SLOT_BITS  # the slot of all elements that are not listed


def by_slot(values: Mapping[str, int]) -> npt.NDArray[np.int64]:
    """Return values of listed elements, each in the slot of its name; 0 for all others."""
    assert values.keys() <= _LISTED.keys(), values.keys() - _LISTED.keys()
    found = np.zeros(UNKNOWN + 1, np.int64)
    found[[_slot(name_number(name), _factor) for name in values]] = list(values.values())
    return found


assert len(_STATEFUL) == MEMOS, len(_STATEFUL)
TRAITS = by_slot(_LISTED)
_NOSCRIPT, _NOSCRIPT_END = name_number("noscript"), len("</noscript")
_NUMBERS = by_slot({name: name_number(name) for name in _LISTED})


@inline_kernel
def read_name(source: Bytes, start: int, end: int) -> tuple[int, int]:
    """Read the tag name at `start`; return its number (0 if it is too long) and where it ends."""
    number = 0
    at = start
    while at < end and _DIGIT[source[at]]:
        number = number * _BASE + _DIGIT[source[at]]
        at += 1
    return (number if at - start <= NAME_BYTES_MAX else 0), at


@inline_kernel
def slot_of(number: int) -> int:
    """Return the slot of the element with this name number."""
    slot = int64(uint64(number) * uint64(_factor) >> uint64(64 - _SLOT_BITS))
    return slot if _NUMBERS[slot] == number else int64(UNKNOWN)


@kernel
def _traits_of(number: int) -> int:
    """Return the traits of the element with this name number; 0 for unknown ones."""
    return int64(TRAITS[slot_of(number)])


LESS, GREATER, SLASH, EQUALS, DASH, BANG, QUESTION = b"<>/=-!?"
QUOTE, APOSTROPHE, BRACKET = b"\"']"

# The scanner's whole memory between two tags. state[memo] of a raw element: 1 once no end tag
# follows. state[memo] of a container: the depth in it; state[LAST_ENDS + memo]: the place of its
# last end tag, plus 2 (1 if there is none, 0 if it is not known). Then: 1 once no `]]>` follows.
# state[LAST_ENDS + NOSCRIPT_MEMO]: where the last `<noscript>` that is read ends.
LAST_ENDS = MEMOS
NO_SECTION_END = 2 * MEMOS
STATE_SIZE = NO_SECTION_END + 1

_SECTION = np.frombuffer(b"<![CDATA[", np.uint8)
_SHADOW_ROOT = np.frombuffer(b"shadowrootmode", np.uint8)
_OPEN = np.frombuffer(b"open", np.uint8)

State = npt.NDArray[np.int64]
# Number, traits, where the name ends; whether it is an end tag, or closes itself.
Tag = tuple[int, int, int, bool, bool]

BLANK, NAME_END, _VALUE_END = 1, 2, 4
CLASS = np.zeros(256, np.uint8)
CLASS[list(b"\t\n\f\r ")] = BLANK | NAME_END | _VALUE_END
CLASS[list(b"/=")] = NAME_END
CLASS[GREATER] = NAME_END | _VALUE_END


@inline_kernel
def skip_blanks(source: Bytes, at: int, end: int) -> int:
    """Return the first position from `at` that holds no white space."""
    while at < end and CLASS[source[at]] & BLANK:
        at += 1
    return at


@kernel
def skip_value(source: Bytes, at: int, end: int) -> int:
    """Return the position after an attribute's value.

    A quote that is never closed is a character of an unquoted value: the tag ends at its first `>`.
    That costs one look to the page's end for each kind of quote, as no such quote follows it.
    """
    if at < end and (source[at] == QUOTE or source[at] == APOSTROPHE):
        close = find_byte(source, at + 1, end, int64(source[at]))
        if close < end:
            return close + 1
    while at < end and not CLASS[source[at]] & _VALUE_END:
        at += 1
    return at


@inline_kernel
def pass_attribute(source: Bytes, at: int, end: int) -> tuple[int, int, int]:
    """Return where an attribute's name, from `at` on, ends, its value begins and ends."""
    while at < end and not CLASS[source[at]] & NAME_END:
        at += 1
    after = skip_blanks(source, at, end)
    if after == end or source[after] != EQUALS:
        return at, at, at
    value = skip_blanks(source, after + 1, end)
    return at, value, skip_value(source, value, end)


@kernel
def skip_attributes(source: Bytes, at: int, end: int) -> tuple[int, bool]:
    """Skip a tag's attributes, from the end of its name on.

    Returns:
        The position after the closing `>` (or `end` + 1 if the tag never ends), and whether the
        tag closes itself with `/>`.
    """
    slash = False
    while at < end:
        byte = source[at]
        if byte == GREATER:
            return at + 1, slash
        slash = byte == SLASH
        at += 1
        if not slash and not CLASS[byte] & BLANK:
            _, _, at = pass_attribute(source, at, end)
    return end + 1, False


@kernel
def _has_attribute(source: Bytes, at: int, end: int, name: Bytes) -> bool:
    """Return whether a tag has an attribute, between its name and `end`; its name in lower case."""
    wanted = len(name)
    while at < end:
        byte, start = source[at], at
        at += 1
        if byte != SLASH and not CLASS[byte] & BLANK:
            name_end, _, at = pass_attribute(source, at, end)
            same = 0
            while same < wanted and source[start + same] | 0x20 == name[same]:
                same += 1
            if same == wanted == name_end - start:
                return True
    return False


@kernel
def _skip_comment(source: Bytes, at: int, end: int) -> int:
    """Return the position after the comment whose `<!--` is at `at`, or `end` if it never ends."""
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
    """Return whether `<![CDATA[` is at `at`."""
    same = 0
    while same < len(_SECTION) and at + same < end and source[at + same] == _SECTION[same]:
        same += 1
    return same == len(_SECTION)


@kernel
def skip_declaration(source: Bytes, at: int, end: int, state: State) -> int:
    """Return the position after what begins with `<!` or `<?`, or `</` without a name, at `at`."""
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
    """Return whether the `<` at `at` begins an end tag of the element with this name number."""
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


SPACE = 0x20


def text_bytes_max(html_bytes: int) -> int:
    """Return how many bytes of output a page of this size needs, whatever it holds.

    Text is copied one to one, a tag of at least three bytes writes at most one space, and a
    character reference grows by at most 6/5; a copied vector is scratch after the last byte.
    """
    return html_bytes * GROWTH[0] // GROWTH[1] + VECTOR_BYTES


@inline_kernel
def hidden(state: State, at: int) -> bool:
    """Return whether `at` is inside a container that still has an end tag to come."""
    if state[SVG_MEMO] > 0 and at + 2 <= state[LAST_ENDS + SVG_MEMO]:
        return True
    if state[DIALOG_MEMO] > 0 and at + 2 <= state[LAST_ENDS + DIALOG_MEMO]:
        return True
    return bool(state[TEMPLATE_MEMO] > 0 and at + 2 <= state[LAST_ENDS + TEMPLATE_MEMO])


@inline_kernel
def copy_text(
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
def _enter_container(
    source: Bytes, name_end: int, after: int, end: int, number: int, state: State
) -> None:
    """Count a container's start tag, which ends at `after`, if an end tag of its kind follows."""
    memo = _traits_of(number) >> MEMO_SHIFT
    # Within a hidden one it counts as any other, since its end tag does.
    if memo != SVG_MEMO and not state[memo]:
        shown_by = _OPEN if memo == DIALOG_MEMO else _SHADOW_ROOT
        if _has_attribute(source, name_end, after - 1, shown_by):
            return
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
    traits = _traits_of(number)
    memo = traits >> MEMO_SHIFT
    if state[memo]:
        return at, place
    stop = find_end_tag(source, at, end, number)
    if stop == end:
        state[memo] = 1
        return (end if traits & ENDLESS else at), place
    if traits & RCDATA and not hidden(state, at):
        _, place = copy_text(source, at, stop, out, place, AMPERSAND)
    return stop, place


@kernel
def pass_noscript(source: Bytes, at: int, end: int, state: State) -> int:
    """Return where to go on after a `<noscript>` tag that ends at `at`: there, if it is read."""
    if state[NOSCRIPT_MEMO] or at < state[LAST_ENDS + NOSCRIPT_MEMO]:  # no end tag, or in another
        return at
    stop = find_end_tag(source, at, end, _NOSCRIPT)
    if stop == end:
        state[NOSCRIPT_MEMO] = 1
        return at
    count = 0
    in_tag = False
    for i in range(at, stop):
        byte = source[i]
        in_tag = byte == LESS or (in_tag and byte != GREATER)
        count += byte > SPACE and byte != GREATER and not in_tag
    if count >= NOSCRIPT_BYTES_MIN:
        state[LAST_ENDS + NOSCRIPT_MEMO] = stop
        return at
    return min(skip_attributes(source, stop + _NOSCRIPT_END, end)[0], end)


@inline_kernel
def after_tag(
    source: Bytes, after: int, end: int, out: Bytes, place: int, state: State, tag: Tag
) -> tuple[int, int]:
    """Note a tag that ends at `after`, and pass what a raw element holds."""
    number, traits, name_end, is_end, closes_itself = tag
    if traits <= BLOCK:
        return after, place
    if is_end:
        if traits & CONTAINER and state[traits >> MEMO_SHIFT] > 0:
            state[traits >> MEMO_SHIFT] -= 1
        return after, place
    if closes_itself or traits & NOSCRIPT:
        return after, place
    if traits & CONTAINER:
        _enter_container(source, name_end, after, end, number, state)
        return after, place
    return _pass_raw(source, after, end, out, place, state, number)


@kernel
def _pass_tag(
    source: Bytes, at: int, end: int, out: Bytes, place: int, state: State
) -> tuple[int, int]:
    """Pass the start or end tag at `at`, and what a raw element holds."""
    is_end = source[at + 1] == SLASH
    number, stop = read_name(source, at + (2 if is_end else 1), end)
    after, closes_itself = skip_attributes(source, stop, end)
    if after > end:
        return end, place
    traits = _traits_of(number)
    if traits & NOSCRIPT and not is_end and not closes_itself:
        go_on = pass_noscript(source, after, end, state)
        if go_on > after:
            return go_on, place
    if traits & BLOCK and not hidden(state, at):
        out[place] = SPACE
        place += 1
    tag = (number, traits, stop, is_end, closes_itself)
    return after_tag(source, after, end, out, place, state, tag)


@inline_kernel
def begins_tag(source: Bytes, at: int, end: int) -> bool:
    """Return whether the `<` at `at` begins a tag."""
    first = at + 1
    if first < end and source[first] == SLASH:
        first += 1
    return first < end and ord("a") <= source[first] | 0x20 <= ord("z")


@kernel
def pass_no_tag(
    source: Bytes, at: int, end: int, out: Bytes, place: int, state: State
) -> tuple[int, int]:
    """Pass what the `<` at `at` begins if it begins no tag: a declaration, or else text."""
    second = int(source[at + 1]) if at + 1 < end else SPACE
    # `second in (BANG, QUESTION)` made the whole scanner a third slower.
    if second == BANG or second == QUESTION or (second == SLASH and at + 2 < end):  # noqa: PLR1714, SIM109 - as above
        return skip_declaration(source, at, end, state), place
    if not hidden(state, at):
        out[place] = LESS
        place += 1
    return at + 1, place


@kernel
def _pass_page(source: Bytes, at: int, end: int, out: Bytes, place: int, state: State) -> int:
    """Write the text of source[at:end] to out[place:]; return where it ends."""
    while at < end:
        if hidden(state, at):
            at = find_byte(source, at, end, LESS)
        else:
            at, place = copy_text(source, at, end, out, place, LESS)
        if at < end and begins_tag(source, at, end):
            at, place = _pass_tag(source, at, end, out, place, state)
        elif at < end:
            at, place = pass_no_tag(source, at, end, out, place, state)
    return place


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
        The place after the last byte written; what follows it in `out` is scratch.
    """
    state = np.zeros(STATE_SIZE, np.int64)
    return _pass_page(source, start, end, out, place, state)
