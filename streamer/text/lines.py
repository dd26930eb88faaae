"""The text of a page as lines that one can read: a block each, with single spaces between words."""

from streamer.kernel import inline_kernel, kernel
from streamer.machine import int64
from streamer.text import blocks
from streamer.text.blocks import PREFORMATTED
from streamer.text.main_text import MainText, choose_blocks
from streamer.text.scan import Bytes

_SPACE, _NEWLINE = 0x20, 0x0A


def lines_bytes_max(text_bytes: int) -> int:
    """Return how much room the lines of a text of so many bytes may take."""
    return text_bytes + 2 * blocks.BLOCKS_MAX + 1


@inline_kernel
def _write_line(text: Bytes, start: int, end: int, out: Bytes, place: int) -> int:
    """Write text[start:end] to out[place:], with a newline; nothing if it is white space."""
    first, pending = place, False
    for i in range(start, end):
        if text[i] <= _SPACE:
            pending = place > first
            continue
        if pending:
            out[place] = _SPACE
            place += 1
            pending = False
        out[place] = text[i]
        place += 1
    return _end_line(out, first, place)


@inline_kernel
def _write_preformatted(text: Bytes, start: int, end: int, out: Bytes, place: int) -> int:
    """Write text[start:end] as `_write_line`, with the white space in it."""
    first = place
    while end > start and text[end - 1] <= _SPACE:
        end -= 1
    for i in range(start, end):
        if text[i] > _SPACE or place > first:
            out[place] = text[i]
            place += 1
    return _end_line(out, first, place)


@inline_kernel
def _end_line(out: Bytes, first: int, place: int) -> int:
    if place > first:
        out[place] = _NEWLINE
        place += 1
    return place


@kernel
def write_lines(main: MainText, text: Bytes, end: int, out: Bytes, wanted: int) -> tuple[int, bool]:
    """Write what is compared of a page to `out`; `main` has the blocks of text[:end].

    `wanted` is 1 for main text, 0 for all text.

    Returns:
        Where the lines end, and whether they are the page's main text.
    """
    count, cut = choose_blocks(main) if wanted else (int64(0), int64(0))
    has_main = count > 0
    count = int64(main.structure.now[blocks.COUNT])
    if count >= main.records.shape[0]:  # a page of too many blocks has no record of each
        count = int64(0)
    place = at = int64(0)
    for i in range(count):
        record = main.records[i]
        start, stop = int64(record[blocks.START]), int64(record[blocks.END])
        if not has_main:
            place = _write_line(text, at, start, out, place)
        if not has_main or main.scores[i] >= cut:
            if record[blocks.KIND] == PREFORMATTED:
                place = _write_preformatted(text, start, stop, out, place)
            else:
                place = _write_line(text, start, stop, out, place)
        at = stop
    if not has_main:
        place = _write_line(text, at, end, out, place)
    return max(place - 1, 0), has_main
