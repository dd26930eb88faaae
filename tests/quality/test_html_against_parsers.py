"""The scanner's words against those of two parsers that build or follow the whole markup.

Where the scanner and the standard library's parser may differ:
- noscript, iframe, noframes and noembed end at their first end tag, whatever is in them, and what
  is in an iframe or noframes is dropped: a reader does not see it;
- markup in a title or textarea is text;
- `-- >` does not end a comment, `--!>` does;
- a cut tag or comment is dropped, not shown.
Where it may differ from the DOM: lxml.html repairs by moving and closing elements, has no raw
noscript, and resolves a reference without its semicolon by libxml2's rules.
On the LLVM documentation no page has any of these: every word is equal.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser

import lxml.html
import numpy as np
import pytest

from streamer.text.html import html_to_text, text_bytes_max
from tests.helpers.labelled import labelled_set
from tests.oracles.visible_text import BLOCKS

HIDDEN = frozenset({"script", "style", "template", "noscript", "svg"})
NAMES = frozenset(name.decode() for name in BLOCKS)
EQUAL_MIN = 0.995


def tokens(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.lower()))


class Reader(HTMLParser):
    """Collect the text outside hidden elements, with a space at each block tag."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - the base class's signature
        self.depth += tag in HIDDEN
        self.parts += [" "] * (tag in NAMES)

    def handle_endtag(self, tag: str) -> None:
        self.depth = max(0, self.depth - (tag in HIDDEN))
        self.parts += [" "] * (tag in NAMES)

    def handle_data(self, data: str) -> None:
        if not self.depth:
            self.parts.append(data)


def by_standard_library(page: str) -> Counter[str]:
    reader = Reader()
    reader.feed(page)
    reader.close()
    return tokens("".join(reader.parts))


def by_dom(page: str) -> Counter[str]:
    parts: list[str] = []

    def walk(element: lxml.html.HtmlElement) -> None:
        name = element.tag if isinstance(element.tag, str) else None
        if name is not None and name not in HIDDEN:
            space = " " * (name in NAMES)
            parts.append(space + (element.text or ""))
            for child in element:
                walk(child)
            parts.append(space)
        parts.append(element.tail or "")

    walk(lxml.html.document_fromstring(page.encode(), lxml.html.HTMLParser(encoding="utf-8")))
    return tokens("".join(parts))


def by_scanner(page: str) -> Counter[str]:
    source = np.frombuffer(page.encode(), np.uint8)
    out = np.zeros(text_bytes_max(len(source)), np.uint8)
    place = html_to_text(source, 0, len(source), out, 0)
    return tokens(out[:place].tobytes().decode())


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    file = labelled_set("set3_llvm_docs", tmp_path_factory.mktemp("llvm")) / "pages.jsonl"
    return [json.loads(line)["body"] for line in file.read_text().splitlines()]


@pytest.mark.parametrize("peer", [by_standard_library, by_dom])
def test_the_scanner_reads_the_words_that_a_parser_reads(
    peer: Callable[[str], Counter[str]], pages: list[str]
) -> None:
    total = different = unequal_pages = 0
    for page in pages:
        ours, theirs = by_scanner(page), peer(page)
        apart = ours - theirs | theirs - ours
        different += apart.total()
        unequal_pages += bool(apart)
        total += max(ours.total(), theirs.total())
    print(  # noqa: T201 - the figures are what one runs it for
        f"\n{peer.__name__}: {len(pages)} pages, {unequal_pages} differ, "
        f"{different} of {total} words\n"
    )
    assert len(pages) == 881
    assert total > 500_000
    assert different <= total * (1 - EQUAL_MIN)
