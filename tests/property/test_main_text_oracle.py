"""The blocks, rows and main text that the kernels give are those of the oracle in plain Python."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamer.text import blocks
from streamer.text.features import FEATURES, fill_page, fill_row, sum_up
from streamer.text.html import html_to_text, text_bytes_max
from streamer.text.main_text import MODEL, html_to_main_text, model_of, new_main_text, read_model
from streamer.text.trees import LANES
from tests.oracles.main_text import BlockPage, main_text, rows_of
from tests.property.test_html_oracle import markup, soup

MEMORY = new_main_text(read_model())
CONTENT = json.loads(MODEL.read_text())
# A model that has many scores, some of them far from all others.
OTHER: dict[str, Any] = {
    "base": -1,
    "trees": [
        {"nodes": [[0, 2, 0xFFFE]], "leaves": [0, 700]},
        {"nodes": [[1, 300, 0xFFFC], [FEATURES.index("depth"), 1, 0xFFFD]],
         "leaves": [900, 12_000, -800]},
        {"nodes": [[FEATURES.index("shape_blocks"), 1, 0xFFFE]], "leaves": [-32_000, 77]},
    ],
}  # fmt: skip
OTHER_MEMORY = new_main_text(model_of(OTHER["trees"], OTHER["base"]))
SENTENCES = [
    "One two, three. ", "Four five! ", "six", "7 Eight?", "“nine.” ", "漢字かな。", "ที่นี่", "ÀÉ ",
    "\u0301", "\u00ad", "…", "\u00a0", "ﬁ", "\udcff", "مرحبا، ", "word " * 25, "link, " * 7,
    "Ab1_, " * 11, "UP " + "x" * 40 + "! ",
]  # fmt: skip
ELEMENTS = (
    "p", "div", "ul", "li", "nav", "article", "h2", "td", "tr", "table", "br", "a", "A", "b",
    "title", "option", "select", "blockquote", "pre", "svg", "footer", "main", "textarea",
    "noscript",
)  # fmt: skip
HINTED = (
    "", "", "", ' class="nav"', " id=main-content", " CLASS='sideBar'", ' class="header"',
    ' class="head line"', " id=ad", " data-class=nav", ' role="navigation" id="story"', " class",
    " class=", ' class=">foot"', ' style="display: none"', " hidden", " aria-hidden='true'",
    " aria-hidden=false", ' style="color:red;nav"', " classy=nav", ' itemprop="articleBody"/',
    " id='tag",
)  # fmt: skip
tag = st.builds(
    "<{}{}{}>".format, st.sampled_from(["", "/"]), *map(st.sampled_from, (ELEMENTS, HINTED))
)
pages = st.lists(st.one_of(tag, tag, st.sampled_from(SENTENCES)), max_size=60).map(
    lambda parts: "".join(parts).encode("utf-8", "surrogateescape")
)
deep = st.tuples(pages, st.integers(1, 140), pages).map(
    lambda parts: parts[0] + b'<div class="nav"><p>' * parts[1] + parts[2] + b"</div>a" * parts[1]
)
anything = st.one_of(pages, deep, markup, soup, st.binary(max_size=60))


def arrays(page: bytes) -> tuple[np.ndarray, np.ndarray]:
    source = np.frombuffer(b"</svg>'" + page + b"</svg></title>-->'\">;", np.uint8)
    return source, np.full(text_bytes_max(len(page)) + 1, 0xEE, np.uint8)


@settings(max_examples=300, deadline=None)
@given(anything)
@example(b"<noscript></noscript>One two, three. ")
@example(b"<dialog>0")
@example(b"<dialog open>0<p>1</dialog>2")
def test_blocks_are_cut_from_the_visible_text_as_the_oracle_cuts_them(page: bytes) -> None:
    source, out = arrays(page)
    other = out.copy()
    end = blocks.html_to_blocks(source, 7, 7 + len(page), out, MEMORY.structure, MEMORY.records)
    assert (
        out[:end].tobytes() == other[: html_to_text(source, 7, 7 + len(page), other, 0)].tobytes()
    )
    count = int(MEMORY.structure.now[blocks.COUNT])
    oracle = BlockPage(page)
    assert oracle.text() == out[:end].tobytes()
    spans = MEMORY.records[:count, [blocks.START, blocks.END]].tolist()
    assert spans == [[block.start, block.end] for block in oracle.blocks]
    wanted = rows_of(oracle.blocks)
    for at, row in enumerate(rows_of_blocks(count) if count else ()):
        assert dict(zip(FEATURES, row, strict=True)) == wanted[at]


def rows_of_blocks(count: int) -> Iterator[list[int]]:
    """Yield the rows of the blocks that are in memory."""
    sum_up(MEMORY.records, count, MEMORY.sums)
    fill_page(MEMORY.sums, MEMORY.rows)
    for at in range(count):
        fill_row(MEMORY.records, at, count, MEMORY.sums, MEMORY.rows, at % LANES)
        yield MEMORY.rows[: len(FEATURES), at % LANES].tolist()


@settings(max_examples=150, deadline=None)
@given(st.one_of(anything, st.tuples(pages, pages, pages).map(b" ".join)), st.booleans())
def test_the_main_text_is_the_oracles(page: bytes, is_other: bool) -> None:
    source, out = arrays(page)
    memory, model = (OTHER_MEMORY, OTHER) if is_other else (MEMORY, CONTENT)
    end, is_main = html_to_main_text(source, 7, 7 + len(page), out, memory)
    assert out[-1] == 0xEE
    assert (out[:end].tobytes(), is_main) == main_text(page, model)
