"""Two pages of the project's own making as a picture, their blocks coloured by what counts.

The same article on two sites: blocks are in the order of the page, short ones
next to each other as links do. The picture is an SVG file, the same for the same model.

    python benchmarks/main_text_picture.py --out /tmp/pages.svg
"""

import argparse
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from random import Random
from typing import NamedTuple

# A script has its own folder on the path, but its modules are imported from the root.
sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from benchmarks.machine import ROOT
from benchmarks.training.marked import read_blocks
from streamer.analysis.sample.crawl import SEED
from streamer.analysis.sample.prose import LANGUAGES, write_article
from streamer.analysis.sample.sites import make_site
from streamer.text import blocks
from streamer.text.main_text import choose_blocks, new_main_text, read_model

OUT = ROOT / "docs" / "quality" / "pages.svg"
SITES = (0, 2)  # layouts with a menu, a column next to the text, and notices
WORDS = 190  # of the article
WIDTH, GAP, PAD = 300, 18, 8  # units of the picture: of a page, between two, inside
HEIGHT_MAX = 560  # of a page; what is further down is cut off
SIZE, HEADING_SIZE, LINE = 8, 11, 1.35
LETTER, BOLD_LETTER = 0.52, 0.6  # of the size, on average
CHIP_WORDS = 6  # a block of so many words at most may be next to others
COUNTS, FURNITURE = ("#dce9f8", "#16324f", "#1f5fa8"), ("#eceff1", "#7b8794", "#cfd6dc")


class Block(NamedTuple):
    """A block of a page: its text, whether it is a heading, and whether it is compared."""

    text: str
    is_heading: bool
    counts: bool


class Drawing(NamedTuple):
    """A page as SVG elements, and how high it is."""

    elements: list[str]
    height: float


def blocks_of(page: str) -> tuple[list[Block], bool]:
    """Return the blocks of a page, and whether it has a main text."""
    main = new_main_text(read_model())
    text = read_blocks(page, main)
    chosen, cut = choose_blocks(main)
    count = int(main.structure.now[blocks.COUNT])
    has_one = chosen > 0
    found = []
    for record, score in zip(main.records[:count], main.scores[:count], strict=True):
        own = text[record[blocks.START] : record[blocks.END]].tobytes().decode()
        is_heading = record[blocks.KIND] == blocks.HEADING
        found.append(Block(" ".join(own.split()), is_heading, not has_one or score >= cut))
    return found, has_one


def pages() -> Iterator[tuple[str, str]]:
    """Yield the pages with a name each."""
    article = write_article(Random("picture"), LANGUAGES[0], WORDS)
    for name, layout in zip(("An article", "The same on another site"), SITES, strict=True):
        yield name, make_site(SEED, layout * len(LANGUAGES)).render(article)


def drawn(page: Iterable[Block]) -> Drawing:
    """Draw the blocks of a page, each under or next to the one before."""
    elements: list[str] = []
    x = y = float(PAD)
    row = 0.0  # height of the blocks that are next to each other
    for block in page:
        size = HEADING_SIZE if block.is_heading else SIZE
        room = WIDTH - 4 * PAD
        letter = size * (BOLD_LETTER if block.is_heading else LETTER)
        lines = textwrap.wrap(block.text, int(room / letter))
        is_chip = not block.is_heading and len(block.text.split()) <= CHIP_WORDS and len(lines) == 1
        width = len(block.text) * letter + 2 * PAD if is_chip else WIDTH - 2 * PAD
        height = len(lines) * size * LINE + 5
        if row and (not is_chip or x + width > WIDTH - PAD):
            x, y, row = float(PAD), y + row + 3, 0.0
        if y + height > HEIGHT_MAX:
            break
        elements += _box(block, lines, (x, y, width, height), size)
        if is_chip:
            x, row = x + width + 3, height
        else:
            y += height + 3
    return Drawing(elements, y + row + PAD)


def _box(
    block: Block, lines: Sequence[str], place: tuple[float, float, float, float], size: int
) -> list[str]:
    x, y, width, height = place
    fill, ink, edge = COUNTS if block.counts else FURNITURE
    weight = ' font-weight="bold"' if block.is_heading else ""
    corner = f'x="{x:.1f}" y="{y:.1f}" height="{height:.1f}"'
    found = [
        f'<rect {corner} width="{width:.1f}" rx="2" fill="{fill}"/>',
        f'<rect {corner} width="2" fill="{edge}"/>',
    ]
    for number, line in enumerate(lines, 1):
        below = y + number * size * LINE
        found.append(
            f'<text x="{x + PAD:.1f}" y="{below:.1f}" font-size="{size}" fill="{ink}"{weight}>'
            f"{escape(line)}</text>"
        )
    return found


def picture() -> str:
    """Return the pages next to each other, as SVG."""
    parts, heights = [], []
    for number, (name, page) in enumerate(pages()):
        found, has_one = blocks_of(page)
        drawing = drawn(found)
        title = f"{name}: text is {'main' if has_one else 'visible'}"
        parts += [
            f'<g transform="translate({GAP + number * (WIDTH + GAP)}, 34)">',
            f'<text x="0" y="-10" font-size="13" fill="#16324f">{title}</text>',
            f'<rect width="{WIDTH}" height="{drawing.height:.1f}" fill="white" stroke="#b8c2cc"/>',
            *drawing.elements,
            "</g>",
        ]
        heights.append(drawing.height)
    width, height = len(heights) * (WIDTH + GAP) + GAP, max(heights) + 34 + GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" '
        f'width="{width}" font-family="sans-serif">'
    )
    ground = f'<rect width="{width}" height="{height:.0f}" fill="#f7f8f9"/>'
    return "\n".join([head, ground, *parts, "</svg>"]) + "\n"


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(description="Draw pages, coloured by what counts of them.")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.parse_args().out.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
