"""The text of pages that is compared, for who wants the text itself.

It has the words of what is signed, in lines: a block of the page is one.
"""

import math
from functools import cache, partial
from typing import Literal

import msgspec
import numpy as np

from streamer.errors import InputError
from streamer.pages.body import foreign_kind
from streamer.rules import MAIN, Text
from streamer.run.stages import OneAThread
from streamer.sketch.site_memory import SiteKeys, SiteMemory
from streamer.text import visible
from streamer.text.blocks import html_to_blocks
from streamer.text.charset import decode_body
from streamer.text.lines import lines_bytes_max, write_lines
from streamer.text.main_text import LEAST, MODEL, SITE_MODEL, block_spans, new_main_text, read_model
from streamer.text.scan import Bytes
from streamer.text.site_pages import blocks_of_page
from streamer.text.trees import SCORE_ONE

Kind = Literal["main", "visible", "plain"]
LeftOut = Literal["links", "unlikely", "site"]


class TextBlock(msgspec.Struct, frozen=True):
    """A block of a page.

    Attributes:
        likelihood: of being main text, in [0, 1]; 0 where it was not asked about.
        left_out: why it is not in the text: a few words in links alone; less likely than the cut of
            the page; only because its site repeats it. None: it is in the text.
        other_pages: on how many other pages of its site it was, as far as that is known.
    """

    text: str
    likelihood: float
    left_out: LeftOut | None = None
    other_pages: int = 0


class ExtractedText(msgspec.Struct, frozen=True):
    """The text of a page.

    Attributes:
        title: what its title element says; "" where there is none.
        kind: what the text is: main text, all visible text (it was asked for, or there is no main
            text), or plain text as it came.
        text: a line for each block.
        blocks: those of HTML, where they were asked for.
    """

    title: str
    kind: Kind
    text: str
    blocks: list[TextBlock] | msgspec.UnsetType = msgspec.UNSET


class TextReader:
    """Reads the texts of pages; one instance a thread.

    With `site_memory`, bytes, a text depends on what the pages of its site before it repeat. Who
    `knows_sites` says of each page what is repeated.
    """

    def __init__(
        self, text: Text = MAIN, site_memory: int = 0, *, knows_sites: bool = False
    ) -> None:
        self._wanted = int(text == MAIN)
        self._main = new_main_text(read_model(SITE_MODEL if site_memory or knows_sites else MODEL))
        self._keys = SiteKeys()
        self._memory = SiteMemory(site_memory) if site_memory else None

    def read(
        self, body: visible.Buffer, flags: int, url: bytes = b"", *, blocks: bool = False
    ) -> ExtractedText:
        """Return the text of the next page, UTF-8 as `flags` say (text/visible.py)."""
        if not flags & visible.HTML:
            return ExtractedText("", "plain", visible.visible_text(body, flags))
        text, main, repeats = self._read_blocks(body, flags), self._main, None
        if self._memory is not None:
            own = blocks_of_page(text, self._keys.hosts([url]), self._keys.urls([url]), main)
            repeats = self._memory.learn_judged(own)
        lines, has_main = self._write_lines(text, self._wanted, repeats)
        return ExtractedText(
            visible.page_title(body, flags),
            "main" if has_main else "visible",
            lines,
            self._list_blocks(text, repeats) if blocks else msgspec.UNSET,
        )

    def read_signed(
        self, body: visible.Buffer, flags: int, repeats: Bytes | None = None, *, is_main: bool
    ) -> str:
        """Return the text of a page as it was signed: its main text, or all of it."""
        if not flags & visible.HTML:
            return visible.visible_text(body, flags)
        return self._write_lines(self._read_blocks(body, flags), int(is_main), repeats)[0]

    def _read_blocks(self, body: visible.Buffer, flags: int) -> Bytes:
        """Return the visible text of a page, whose blocks are those in hand then."""
        source, main = visible.visible_array(body, flags & visible.ESCAPED), self._main
        text = np.empty(visible.scratch_bytes(len(source)), np.uint8)
        end = html_to_blocks(source, 0, len(source), text, main.structure, main.records)
        return text[:end]

    def _write_lines(self, text: Bytes, wanted: int, repeats: Bytes | None) -> tuple[str, bool]:
        """Return the lines of the page in hand, and whether they are its main text."""
        if repeats is not None:
            self._main.repeats[:] = 0
            self._main.repeats[: len(repeats)] = repeats
        out = np.empty(lines_bytes_max(len(text)), np.uint8)
        length, has_main = write_lines(self._main, text, len(text), out, wanted)
        return out[:length].tobytes().decode("utf-8", "replace"), has_main

    def _list_blocks(self, text: Bytes, repeats: Bytes | None) -> list[TextBlock]:
        """Return all blocks of the page in hand."""
        found = []
        for span in block_spans(self._main, repeats)[1]:
            is_asked = span.score > LEAST
            left_out: LeftOut | None = None
            if self._wanted and not span.counts:
                left_out = "site" if span.dropped else "unlikely" if is_asked else "links"
            line = b" ".join(text[span.start : span.end].tobytes().split())
            likelihood = round(1 / (1 + math.exp(-span.score / SCORE_ONE)), 4) if is_asked else 0
            own = line.decode("utf-8", "replace")
            found.append(TextBlock(own, likelihood, left_out, span.repeats))
        return found


def extract(html: str | bytes, *, text: Text = MAIN, blocks: bool = False) -> ExtractedText:
    """Return the text of a page of HTML: its main text, or with text="visible" all of it.

    Where there is no main text, it is all visible text. Of bytes the charset is found. `blocks`:
    say of each block how likely it is main text. Any thread may ask.

    Raises:
        InputError: it is no text, as a PDF file is none.
        TypeError: it is neither a text nor bytes.
    """
    if isinstance(html, bytes):
        body = decode_body(html, None, html=True)
    elif isinstance(html, str):
        body = html.encode("utf-8", "replace")
    else:
        raise TypeError(f"Give a page's HTML as str or bytes, not {type(html).__name__}.")
    if kind := foreign_kind(body):
        raise InputError(f"It is no page of HTML: its bytes are those of another kind, {kind}.")
    return _readers(text).get().read(body, visible.HTML, blocks=blocks)


@cache
def _readers(text: Text) -> OneAThread[TextReader]:
    return OneAThread(partial(TextReader, text))
