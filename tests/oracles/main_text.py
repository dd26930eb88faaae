"""The main text of a page once more, in plain Python: lists, dictionaries and regular expressions.

Tests hold the kernels of blocks.py and main_text.py against it, integer by integer.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from streamer.text.blocks import HINTS, OTHER_POINTS, OTHER_QUOTES, SECTIONS
from streamer.text.canonical import MARK, SEPARATOR, UNSPACED, class_of, fold, is_ignorable
from streamer.text.main_text import FEATURES, PAGE_FEATURES
from tests.oracles.visible_text import BLOCKS, CONTAINERS, TAG, Page

ATTRIBUTE = re.compile(
    rb"""[\t\n\f\r /]*+([^\t\n\f\r />][^\t\n\f\r />=]*+)
    (?:[\t\n\f\r ]*+=[\t\n\f\r ]*+((?>"[^"]*"|'[^']*'|[^\t\n\f\r >]*+)))?+""",
    re.VERBOSE,
)
KINDS = {
    **dict.fromkeys([b"p"], "paragraph"),
    **dict.fromkeys([b"h1", b"h2", b"h3", b"h4", b"h5", b"h6"], "heading"),
    **dict.fromkeys([b"li", b"dt", b"dd"], "item"),
    **dict.fromkeys([b"td", b"th"], "cell"),
    **dict.fromkeys([b"div", b"section", b"article", b"main"], "division"),
    **dict.fromkeys([b"pre", b"xmp", b"listing", b"plaintext"], "preformatted"),
    **dict.fromkeys([b"blockquote"], "quotation"),
}
NO_BLOCK = (b"title", b"textarea", b"option", b"select", b"button")
CLOSED_BY_NEXT = (b"p", b"li", b"dt", b"dd", b"td", b"th", b"tr", b"option")
OPEN_MAX, REACH = 64, 12


@dataclass
class Element:
    name: bytes
    hints: set[int]
    parent: int = 0


@dataclass(eq=False)
class Block:
    start: int
    end: int
    counts: dict[str, int]
    last: bool
    kind: str
    before: int
    depth: int
    parent: int
    open: list[Element]

    @property
    def own(self) -> int:
        return self.counts["words"] - self.counts["link_words"]


@dataclass
class Counter:
    """What was counted of the open block."""

    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("words", "link_words", "points", "characters", "capitals", "digits", "letters"), 0
        )
    )
    links: int = 0
    inside: bool = False
    last: bool = False

    def add(self, text: bytes, *, in_link: bool) -> None:
        before = self.counts["words"]
        for character in text.decode("utf-8", "surrogateescape"):
            self.counts["characters"] += 1
            self._add(character)
        if in_link:
            self.counts["link_words"] += self.counts["words"] - before

    def _add(self, character: str) -> None:
        counts = self.counts
        ascii_ = character.isascii()
        folded = fold(character)
        kind = class_of(folded[0]) if folded and not is_surrogate(character) else SEPARATOR
        if is_ignorable(ord(character)) or kind == MARK:
            return
        if kind == SEPARATOR:
            point = character in ".!?,;:" if ascii_ else ord(character) in OTHER_POINTS
            ends = character in '.!?"' if ascii_ else point or ord(character) in OTHER_QUOTES
            self.inside = False
            counts["points"] += point
            if character > " " and character not in "\u3000\u00a0":
                self.last = ends
            return
        counts["words"] += kind == UNSPACED or not self.inside
        counts["letters"] += 1
        counts["capitals"] += ascii_ and character.isupper()
        counts["digits"] += ascii_ and character.isdigit()
        self.inside = kind != UNSPACED
        self.last = False


def is_surrogate(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"


def hints_in(attributes: bytes) -> set[int]:
    found = set()
    for name, value in ATTRIBUTE.findall(attributes):
        if name.lower() in (b"class", b"id", b"role", b"itemprop"):
            letters = " " + re.sub(r"[^a-z]", " ", value.decode("latin-1").lower()) + " "
            found |= {i for i, stems in enumerate(HINTS) if any(stem in letters for stem in stems)}
    return found


class BlockPage(Page):
    """A page that notes its blocks on the way."""

    def __init__(self, source: bytes) -> None:
        super().__init__(source)
        self.blocks: list[Block] = []
        self.open: list[Element] = []
        self.now = Counter()
        self.start = self.counted = self.before = self.parents = 0
        self.in_link = False

    def text(self) -> bytes:
        result = super().text()
        self.end_block()
        return result

    def tag(self) -> None:
        match = TAG.match(self.source, self.at)
        if match and self.visible():
            name, is_end = match["name"].lower(), bool(match["slash"])
            if name == b"a":
                self.count()
                self.in_link = not is_end
                self.now.links += not is_end
            if name in BLOCKS:
                self.end_block()
            if name in BLOCKS - CONTAINERS:  # of a container the end tag is hidden
                own = self.source[match.end("name") : match.end() - 1]
                closes_itself = match["rest"].endswith(b"/")
                self.note(name, hints_in(own), is_end=is_end, closes_itself=closes_itself)
        super().tag()

    def count(self) -> None:
        self.now.add(bytes(self.out[self.counted :]), in_link=self.in_link)
        self.counted = len(self.out)

    def end_block(self) -> None:
        self.count()
        top = self.open[-1] if self.open else None
        if self.now.counts["words"] and not (top and top.name in NO_BLOCK):
            if top and not top.parent:
                self.parents += 1
                top.parent = self.parents
            counts = self.now.counts | {"links": self.now.links}
            kind = KINDS.get(top.name, "") if top else ""
            self.blocks.append(
                Block(
                    self.start, len(self.out), counts, self.now.last, kind, self.before,
                    min(len(self.open), 255), top.parent if top else 0, self.open[-OPEN_MAX:],
                )
            )  # fmt: skip
        self.now = Counter()
        self.start = self.counted = len(self.out)

    def note(self, name: bytes, hints: set[int], *, is_end: bool, closes_itself: bool) -> None:
        if name in (b"br", b"hr", b"col"):
            self.before = 0
            return
        self.before = 2 if is_end else 1
        if is_end:
            near = [i for i, each in enumerate(self.open) if each.name == name]
            if near and near[-1] >= max(len(self.open) - REACH, 0):
                del self.open[near[-1] :]
        elif not closes_itself:
            if name in CLOSED_BY_NEXT and self.open and self.open[-1].name == name:
                self.open.pop()
            self.open.append(Element(name, hints))
            if len(self.open) > OPEN_MAX:  # this far out an element is forgotten, for good
                self.open[-OPEN_MAX - 1] = Element(b"", set())


def rows_of(blocks: list[Block]) -> list[dict[str, int]]:
    """Return the features of each block, by their names."""
    words = sum(block.counts["words"] for block in blocks)
    links = sum(block.counts["link_words"] for block in blocks)
    long = [i for i, block in enumerate(blocks) if block.own >= 20]
    return [_row(blocks, i, words, links, long) for i in range(len(blocks))]


def _row(blocks: list[Block], at: int, words: int, links: int, long: list[int]) -> dict[str, int]:
    block = blocks[at]
    row = _own(block) | {f"in_{name}": 0 for name in SECTIONS}
    row |= {f"hint_{i}": sum(i in each.hints for each in block.open) for i in range(len(HINTS))}
    for each in block.open:
        if (name := f"in_{each.name.decode('latin-1')}") in row:
            row[name] += 1
    siblings = [each for each in blocks if each.parent == block.parent]
    before = min([at - i for i in long if i <= at] + [50])
    after = min([i - at for i in long if i >= at] + [50])
    row |= {
        "words_beside": sum(each.own for each in siblings),
        "blocks_beside": len(siblings),
        "unwanted_hints": sum(row[f"hint_{i}"] for i in range(len(HINTS) - 2)),
        "wanted_hints": sum(row[f"hint_{i}"] for i in range(len(HINTS) - 2, len(HINTS))),
        "place": at * 1000 // len(blocks),
        "words_before": sum(each.counts["words"] for each in blocks[:at]) * 1000 // words,
        "words_of_page": words,
        "links_of_page": links * 1000 // words,
        "nearest": min(before, after),
        "before": before,
        "after": after,
        "between": bool(long) and long[0] <= at <= long[-1],
        "same_before": at > 0 and blocks[at - 1].parent == block.parent,
        "same_after": at + 1 < len(blocks) and blocks[at + 1].parent == block.parent,
    }
    for step in (-2, -1, 1, 2):
        inside = 0 <= at + step < len(blocks)
        near = _own(blocks[at + step]) if inside else {}
        for name, own in (
            ("words", "words"), ("link_share", "link_share"), ("point_share", "point_share"),
            ("end", "sentence_end"), ("paragraph", "paragraph"),
        ):  # fmt: skip
            row[f"{name}_{step:+d}"] = near.get(own, -1)
    return {name: min(int(row[name]), 32_767) for name in FEATURES}


def _own(block: Block) -> dict[str, int]:
    counts = block.counts
    words, characters = counts["words"], max(counts["characters"], 1)
    kinds = ("paragraph heading item cell division preformatted quotation").split()  # noqa: SIM905 - as FEATURES
    return {
        "words": min(words, 32_767),
        "link_share": counts["link_words"] * 1000 // words,
        "point_share": min(counts["points"] * 1000 // words, 32_767),
        "characters": counts["characters"],
        "letters_a_word": counts["letters"] * 100 // words,
        "capital_share": counts["capitals"] * 1000 // characters,
        "digit_share": counts["digits"] * 1000 // characters,
        **{kind: block.kind == kind for kind in kinds},
        "tag_before": block.before,
        "links": counts["links"],
        "sentence_end": block.last,
        "depth": block.depth,
    }


def score(values: list[int], model: dict[str, Any]) -> int:
    """Return the score of a row: of each tree, that of the first leaf no failed test excludes."""
    total: int = model["base"]
    for tree in model["trees"]:
        left = 0xFFFF
        for feature, threshold, mask in tree["nodes"]:
            if values[feature] > threshold:
                left &= mask
        total += tree["leaves"][(left & -left).bit_length() - 1]
    return total


def page_row(blocks: list[Block], main: list[tuple[Block, int]]) -> list[int]:
    """Return the features of the page, by their names; `main`: chosen blocks and their scores."""
    chosen = [block for block, _ in main]
    words = sum(block.counts["words"] for block in chosen)

    def share(of: list[Block]) -> int:
        return sum(block.counts["words"] for block in of) * 1000 // words

    def total(name: str) -> int:
        return sum(block.counts[name] for block in chosen)

    places = [place for place, block in enumerate(blocks) if block in chosen]
    runs: list[list[Block]] = []
    for place, before in zip(places, [-9, *places], strict=False):
        if place != before + 1:
            runs.append([])
        runs[-1].append(blocks[place])
    inside = sum(block.counts["words"] for block in blocks[places[0] : places[-1]])
    between = inside - words + chosen[-1].counts["words"]
    row = {
        "words": words,
        "share": words * 1000 // sum(block.counts["words"] for block in blocks),
        "page_words": sum(block.counts["words"] for block in blocks),
        "links": total("link_words") * 1000 // words,
        "blocks": len(chosen),
        "words_a_block": words // len(chosen),
        "sentence_share": share([block for block in chosen if block.last and block.own >= 8]),
        "long_share": share([block for block in chosen if block.own >= 20]),
        "runs": len(runs),
        "run_words": words // len(runs),
        "longest_run": max(share(run) for run in runs),
        "between": between * 1000 // (words + between),
        "paragraph_share": share([block for block in chosen if block.kind == "paragraph"]),
        "preformatted_share": share([block for block in chosen if block.kind == "preformatted"]),
        "heading_share": sum(block.kind == "heading" for block in chosen) * 1000 // len(chosen),
        "digit_share": total("digits") * 1000 // total("characters"),
        "point_share": total("points") * 1000 // words,
        "other_share": (total("characters") - total("letters")) * 1000 // words,
        "score": sum(block.counts["words"] * min(score, 4096) for block, score in main) // words,
    }
    return [min(int(row[name]), 32_767) for name in PAGE_FEATURES]


def chosen_blocks(blocks: list[Block], model: dict[str, Any]) -> list[tuple[Block, int]]:
    """Return the blocks that the trees choose, with their scores."""
    main = []
    for block, row in zip(blocks, rows_of(blocks), strict=True):
        if block.own or block.counts["words"] >= 12:
            own = score([row[name] for name in FEATURES], model)
            main += [(block, own)] if own >= 0 else []
    return main


def main_text(source: bytes, model: dict[str, Any]) -> tuple[bytes, bool]:
    """Return the main text of a page, or all visible text; and whether it is the main text."""
    page = BlockPage(source)
    text = page.text()
    main = chosen_blocks(page.blocks, model)
    if sum(block.counts["words"] for block, _ in main) < 25:
        return text, False
    row = page_row(page.blocks, main)
    if row[PAGE_FEATURES.index("links")] > 500 or score(row, model["page"]) < 0:
        return text, False
    return b"".join(text[block.start : block.end] for block, _ in main), True
