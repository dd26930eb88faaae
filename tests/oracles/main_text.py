"""The main text of a page once more, in plain Python: lists, dictionaries and regular expressions.

Tests hold the kernels of blocks.py, features.py and main_text.py against it, integer by integer.
"""

import math
import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from streamer.text.blocks import OTHER_POINTS, OTHER_QUOTES, SECTIONS
from streamer.text.canonical import MARK, SEPARATOR, UNSPACED, class_of, fold, is_ignorable
from streamer.text.features import FEATURES
from streamer.text.hints import HINTS
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
HIDES = next(i for i, stems in enumerate(HINTS) if "hidden" in stems)
LARGEST = 32_767
Row = dict[str, int]
Shape = tuple[object, ...]


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
        letters = " " + re.sub(r"[^a-z]", " ", value.decode("latin-1").lower()) + " "
        in_it = {i for i, stems in enumerate(HINTS) if any(stem in letters for stem in stems)}
        match name.lower():
            case b"class" | b"id" | b"role" | b"itemprop" if value:
                found |= in_it
            case b"style":
                found |= in_it & {HIDES}
            case b"hidden":
                found.add(HIDES)
            case b"aria-hidden" if "t" in letters:
                found.add(HIDES)
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
        if match and self.visible() and not self.after_noscript(match):
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


def rows_of(blocks: list[Block]) -> list[Row]:
    """Return the features of each block, by their names."""
    if not blocks:
        return []
    long = [i for i, block in enumerate(blocks) if block.own >= 20]
    page = _group(blocks, blocks, "page") | _of_page(blocks)
    shapes = [_shape(block) for block in blocks]
    rows = [_row(blocks, i, long, shapes) | page for i in range(len(blocks))]
    return [{name: min(int(row[name]), LARGEST) for name in FEATURES} for row in rows]


def _row(blocks: list[Block], at: int, long: list[int], shapes: list[Shape]) -> Row:
    block = blocks[at]
    before = min([at - i for i in long if i <= at] + [50])
    after = min([i - at for i in long if i >= at] + [50])
    headings = [at - i for i in range(at + 1) if blocks[i].kind == "heading"]
    row = _own(block) | {
        "place": at * 1000 // len(blocks),
        "words_before": _share(_total(blocks[:at], "words"), _total(blocks, "words")),
        "nearest": min(before, after),
        "before": before,
        "after": after,
        "between": before < 50 and after < 50,
        "heading_before": min([*headings, 50]),
        "same_before": at > 0 and blocks[at - 1].parent == block.parent,
        "same_after": at + 1 < len(blocks) and blocks[at + 1].parent == block.parent,
    }
    row |= _open(block)
    for step in (-2, -1, 1, 2):
        inside = 0 <= at + step < len(blocks)
        near = _own(blocks[at + step]) if inside else {}
        for name in ("words", "links", "points", "end", "paragraph"):
            row[f"{name}_{step:+d}"] = near.get(name, -1)
    row |= _group([each for each in blocks if each.parent == block.parent], blocks, "parent")
    alike = [each for each, shape in zip(blocks, shapes, strict=True) if shape == shapes[at]]
    row |= _group(alike, blocks, "shape")
    for size in (3, 12):
        some = blocks[max(at - size, 0) : at + size + 1]
        row[f"words_of_{size}"] = _total(some, "words")
        row[f"links_of_{size}"] = _share(_total(some, "link_words"), _total(some, "words"))
        row[f"headings_of_{size}"] = sum(each.kind == "heading" for each in some)
        row[f"ends_of_{size}"] = sum(each.last for each in some)
    return row


def _total(blocks: list[Block], name: str) -> int:
    return sum(block.counts[name] for block in blocks)


def _share(part: int, whole: int) -> int:
    return part * 1000 // max(whole, 1)


def _bits(block: Block) -> list[int]:
    """Return how many open elements have each hint and are each section."""
    hints = [sum(i in each.hints for each in block.open) for i in range(len(HINTS))]
    names = [each.name.decode("latin-1") for each in block.open]
    return hints + [names.count(name) for name in SECTIONS]


def _open(block: Block) -> Row:
    names = [*(f"hint_{stems[0].strip()}" for stems in HINTS), *(f"in_{name}" for name in SECTIONS)]
    return dict(zip(names, _bits(block), strict=True))


def _shape(block: Block) -> Shape:
    return block.kind, block.depth, *_bits(block)


def _group(some: list[Block], blocks: list[Block], name: str) -> Row:
    """Return what is known of some blocks of a page."""
    words, count = _total(some, "words"), len(some)
    places = [place for place, block in enumerate(blocks) if block in some]
    mean = words // count
    found = {
        "blocks": count,
        "words": words,
        "mean": mean,
        "spread": sum(abs(block.counts["words"] - mean) for block in some) // count,
        "links": _share(_total(some, "link_words"), words),
        "share": _share(words, _total(blocks, "words")),
        "headings": sum(block.kind == "heading" for block in some),
        "longest": max(block.own for block in some),
        "span": _share(places[-1] - places[0], len(blocks)),
        "ends": _share(sum(block.last for block in some), count),
        "digits": _share(_total(some, "digits"), _total(some, "characters")),
    }
    return {f"{name}_{key}": value for key, value in found.items()}


def _of_page(blocks: list[Block]) -> Row:
    words = _total(blocks, "words")
    row = {
        f"page_kind_{kind}": _share(
            _total([block for block in blocks if block.kind == name], "words"), words
        )
        for kind, name in enumerate(dict.fromkeys(KINDS.values()), 1)
    }
    bits = [_bits(block) for block in blocks]
    for bit in range(len(HINTS) + len(SECTIONS)):
        inside = [block for block, own in zip(blocks, bits, strict=True) if own[bit]]
        row[f"page_bit_{bit}"] = _share(_total(inside, "words"), words)
    return row


def _own(block: Block) -> Row:
    counts = block.counts
    words, characters = counts["words"], max(counts["characters"], 1)
    return {
        "words": min(words, LARGEST),
        "links": counts["link_words"] * 1000 // words,
        "points": min(counts["points"] * 1000 // words, LARGEST),
        "characters": counts["characters"],
        "letters": counts["letters"] * 100 // words,
        "capitals": counts["capitals"] * 1000 // characters,
        "digits": counts["digits"] * 1000 // characters,
        **{kind: block.kind == kind for kind in KINDS.values()},
        "tag_before": block.before,
        "anchors": counts["links"],
        "end": block.last,
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


def scores_of(blocks: list[Block], model: dict[str, Any]) -> list[int | None]:
    """Return the score of each block; None for a few words in links: these are not asked about."""
    rows = rows_of(blocks)
    found = {
        place: score([row[name] for name in FEATURES], model)
        for place, (block, row) in enumerate(zip(blocks, rows, strict=True))
        if block.own or block.counts["words"] >= 4
    }
    asked, smooth = [*found.values()], dict[int, int]()
    for number, place in enumerate(found):
        sides = asked[max(number - 1, 0) : number] + asked[number + 1 : number + 2]
        own = Fraction(asked[number])
        if sides:
            own = own * Fraction(3, 4) + Fraction(sum(sides), 4 * len(sides))
        smooth[place] = math.floor(own)
    return [smooth.get(place) for place in range(len(blocks))]


def chosen_blocks(blocks: list[Block], model: dict[str, Any]) -> list[Block]:
    """Return the blocks whose choice has the greatest expected F1, by their scores in bins."""
    scores = scores_of(blocks, model)
    bins = {
        block.start: min(max(score // 64 + 128, 0), 255)
        for block, score in zip(blocks, scores, strict=True)
        if score is not None
    }
    likely = {place: round(1024 / (1 + math.exp(8 - (bins[place] + 0.5) / 16))) for place in bins}
    asked = [block for block in blocks if block.start in bins]
    total = sum(block.counts["words"] * likely[block.start] for block in asked)
    best, chosen = Fraction(-1), list[Block]()
    for cut in sorted(set(bins.values()), reverse=True):
        some = [block for block in asked if bins[block.start] >= cut]
        common = sum(block.counts["words"] * likely[block.start] for block in some)
        f1 = Fraction(common, 1024 * _total(some, "words") + total)
        if f1 > best:
            best, chosen = f1, some
    return chosen


def main_text(source: bytes, model: dict[str, Any]) -> tuple[bytes, bool]:
    """Return the main text of a page, or all visible text; and whether it is the main text."""
    page = BlockPage(source)
    text = page.text()
    main = chosen_blocks(page.blocks, model)
    if _total(main, "words") < 25:
        return text, False
    return b"".join(text[block.start : block.end] for block in main), True
