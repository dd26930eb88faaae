"""What the names of an element say of it: class, id, role and itemprop.

Authors name there what an element is for. A few stems of such names are looked for by one automaton
(Aho and Corasick, 1975), a step a byte.
"""

from collections import deque

import numpy as np
import numpy.typing as npt

from streamer.kernel import inline_kernel, kernel
from streamer.machine import int64
from streamer.text.html import BLANK, CLASS, GREATER, SLASH, name_number, pass_attribute, read_name
from streamer.text.scan import Bytes

# Stems of names, by what they mean; a space matches anything that is no letter.
HINTS: tuple[tuple[str, ...], ...] = (
    ("nav", "menu", "crumb", "tabs"),
    ("foot", "copyright", "legal", "bottom", "disclaim"),
    ("header", "masthead", "banner", "logo", " head ", "topbar"),
    ("side", "rail ", "widget", "module", "right", "left"),
    ("comment", "disqus", "reply", "respond", "discuss"),
    ("related", "popular", "recent", "archive", "recommend", "more", "tag", "blogroll", "latest",
     "most"),
    ("share", "social", "tool", "print", "email", "bookmark", "rating"),
    ("promo", "advert", " ad ", " ads ", " adv", "sponsor"),
    ("login", "subscribe", "newsletter", "signup", "search", "signin", "register"),
    ("meta", "byline", "date", "author", "caption", "credit", "time"),
    ("hidden", " hide ", "display none", "display  none", "sr only", "screen reader", " d none"),
    ("cookie", "consent", "gdpr", "modal", "popup", "overlay", "dialog"),
    ("price", "cart", "checkout", " sku", "stock", "currency"),
    ("button", " btn", " cta", "link"),
    ("card", "tile", "grid", "result", "listing", " item", "list "),
    ("product", "catalog", "collection", "category"),
    ("review", "star", "score"),
    ("title", "headline", "heading", " name"),
    ("desc", "summary", "excerpt", "abstract", "intro", "lead"),
    ("article", "story", "post", "entry", "news"),
    ("body", "content", "text", "main", "paragraph", "copy "),
)  # fmt: skip

_CLASS, _ID, _ROLE, _ITEMPROP, _STYLE, _HIDDEN, _ARIA_HIDDEN = map(
    name_number, ("class", "id", "role", "itemprop", "style", "hidden", "aria-hidden")
)
_NAME_MAX = len("aria-hidden")
_HIDES = 1 << next(i for i, stems in enumerate(HINTS) if "hidden" in stems)

_LETTERS = 27  # a to z from 1 on, and 0 for all other bytes
_STATE_BITS = 5  # a state is the place of its row in the flat table: a step is an addition, a load


def _automaton() -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64]]:
    """Return the states by state + letter, and the hints that are met at each state's number."""
    steps, found = [[0] * _LETTERS], [0]
    for bit, stem in ((bit, stem) for bit, stems in enumerate(HINTS) for stem in stems):
        state = 0
        for letter in (0 if each == " " else ord(each) - ord("a") + 1 for each in stem):
            if not steps[state][letter]:
                steps[state][letter] = len(steps)
                steps.append([0] * _LETTERS)
                found.append(0)
            state = steps[state][letter]
        found[state] |= 1 << bit
    shorter = [0] * len(steps)  # the longest end of what was read that begins a stem as well
    queue = deque(state for state in steps[0] if state)
    while queue:
        state = queue.popleft()
        found[state] |= found[shorter[state]]
        for letter, follow in enumerate(steps[state]):
            instead = steps[shorter[state]][letter]
            if follow:
                shorter[follow] = instead
                queue.append(follow)
            else:
                steps[state][letter] = instead
    table = np.zeros((len(steps), 1 << _STATE_BITS), np.uint16)
    table[:, :_LETTERS] = np.array(steps) << _STATE_BITS
    return table.ravel(), np.array(found, np.int64)


_STEPS, _FOUND = _automaton()
_LETTER = np.zeros(256, np.uint8)
for _place in range(1, _LETTERS):
    _LETTER[[ord("A") - 1 + _place, ord("a") - 1 + _place]] = _place


@kernel
def _read_hints(source: Bytes, at: int, end: int) -> int:
    """Return the hints in source[at:end] as bits."""
    state = int64(_STEPS[0])
    bits = int64(0)
    for i in range(at, end):
        state = int64(_STEPS[state + _LETTER[source[i]]])
        bits |= _FOUND[state >> _STATE_BITS]
    return bits | int64(_FOUND[int64(_STEPS[state]) >> _STATE_BITS])


@kernel
def read_attributes(source: Bytes, at: int, end: int) -> tuple[int, bool, int]:
    """Skip a tag's attributes as `skip_attributes` does, and return the hints in them too."""
    slash = False
    bits = int64(0)
    while at < end:
        byte = source[at]
        if byte == GREATER:
            return at + 1, slash, bits
        slash = byte == SLASH
        at += 1
        if not slash and not CLASS[byte] & BLANK:
            name = at - 1
            name_end, value, at = pass_attribute(source, at, end)
            if name_end - name <= _NAME_MAX:
                bits |= _hints_of(source, name, name_end, value, at)
    return end + 1, False, bits


@inline_kernel
def _hints_of(source: Bytes, start: int, name_end: int, value: int, end: int) -> int:
    """Return the hints in an attribute: its name is source[start:name_end], its value ends last."""
    name, _ = read_name(source, start, name_end)
    bits = int64(0)
    if name == _CLASS or name == _ID or name == _ROLE or name == _ITEMPROP:  # noqa: PLR1714, SIM109 - a kernel has no sets
        bits = _read_hints(source, value, end)
    elif name == _STYLE:
        bits = _read_hints(source, value, end) & _HIDES
    elif name == _HIDDEN or (name == _ARIA_HIDDEN and _has_letter(source, value, end, ord("t"))):
        bits = int64(_HIDES)
    return bits


@kernel
def _has_letter(source: Bytes, start: int, end: int, letter: int) -> bool:
    """Return whether a lower-case letter is in source[start:end], in either case."""
    for i in range(start, end):  # noqa: SIM110 - a kernel has no generators
        if source[i] | 0x20 == letter:
            return True
    return False
