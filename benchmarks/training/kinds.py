"""Pages of many kinds: lists, front pages, shelves of shops, products, threads, code; and articles.

What tells a page with a main text from one without is learnt from them (single_pages.py).
So they must have nothing in common but what makes their kind: the elements that things are in,
the names of classes or none, how much text there is and what is between are drawn again for each
page, and stay the same all over it. A page is its contents in furniture; contents can be set
elsewhere too.

The same kind and number give the same page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from random import Random
from typing import TypeVar

from streamer.analysis.sample.prose import LANGUAGES, Language, draw_topic, draw_words

T = TypeVar("T")

COMMA_MIN = 10  # words of a sentence that may have a comma

# Names that authors give elements, by what these are for.
_NAMES = {
    "item": "item entry box row cell card col block node teaser post listing result unit",
    "title": "title headline name heading label caption link",
    "text": "text summary excerpt desc body content intro snippet message copy",
    "meta": "meta date info author byline details time stats user",
    "page": "content main page wrapper container center primary body site",
    "nav": "nav menu navigation links topbar tabs bar",
    "side": "sidebar right side widget module column rail",
    "foot": "footer foot bottom copyright legal",
}
_OFTEN_UNCLOSED = frozenset({"p", "li", "td", "tr", "dd", "dt"})
_AROUND_ITEMS = {"li": "ul", "tr": "table", "td": "table", "dd": "dl"}


class Writer:
    """Writes the elements of one page; what it has drawn for a role stays as it is."""

    def __init__(self, seed: str, language: Language | None = None) -> None:
        """Draw the language of the page if it is not given, and how its author writes."""
        self.rng = Random(seed)
        drawn = LANGUAGES[self.pick(0, 0, 0, *range(1, len(LANGUAGES)))]
        self._language = language or drawn
        self._topic = draw_topic(self.rng, self._language)
        self._has_names = self.chance(0.7)
        self._is_sloppy = self.chance(0.15)  # leaves elements open where that is allowed
        self._attributes: dict[str, str] = {}

    def pick(self, *of: T) -> T:
        """Return one of some."""
        return self.rng.choice(of)

    def chance(self, share: float) -> bool:
        """Return whether something is so, that is in this share of cases."""
        return self.rng.random() < share

    def number(self, least: int, most: int) -> int:
        """Return a number between these, both included."""
        return self.rng.randint(least, most)

    # ---- words

    def words(self, least: int, most: int) -> str:
        """Return so many words."""
        language = self._language
        words = draw_words(self.rng, language, self._topic, self.number(least, most))
        return escape(language.joiner.join(words).capitalize())

    def word(self) -> str:
        """Return a name, as code has them."""
        return self.words(1, 1).lower()

    def stop(self) -> str:
        """Return what ends a sentence."""
        return self._language.stop if self.chance(0.9) else self.pick("!", "?")

    def sentence(self, least: int = 5, most: int = 24) -> str:
        """Return a sentence of so many words."""
        count = self.number(least, most)
        if count < COMMA_MIN or self.chance(0.4):
            return self.words(count, count) + self.stop()
        first = self.number(4, count - 4)
        comma = self._language.comma + (" " if self._language.joiner else "")
        rest = self.words(count - first, count - first).lower()
        return self.words(first, first) + comma + rest + self.stop()

    def sentences(self, least: int, most: int) -> str:
        """Return so many sentences."""
        return " ".join(self.sentence() for _ in range(self.number(least, most)))

    def date(self) -> str:
        """Return a date or a time."""
        year = self.number(1999, 2024)
        return self.pick(
            f"{self.number(1, 28)} {self.words(1, 1)} {year}",
            f"{year}-{self.number(10, 12)}-{self.number(10, 28)}",
            f"{self.number(2, 23)} {self.words(1, 2)}",
        )

    def price(self) -> str:
        """Return a price."""
        return f"{self.pick('$', '€', '£', '')}{self.number(1, 999)}.{self.number(10, 99)}"

    # ---- elements

    def start(self, name: str, role: str = "") -> str:
        """Return a start tag; those of a role have the same attributes all over the page."""
        if role and role not in self._attributes:
            value = self._drawn_name(role)
            which = self.pick("class", "class", "class", "id")
            self._attributes[role] = f' {which}="{value}"' if value else ""
        return f"<{name}{self._attributes.get(role, '')}>"

    def _drawn_name(self, role: str) -> str:
        if not self._has_names:
            return f"c{self.number(1, 99)}" if self.chance(0.5) else ""
        name = self.pick(*_NAMES.get(role, role).split())
        if self.chance(0.7):
            return name
        return self.pick("x-", "m_", "js ", "u-") + name + self.pick("", "-wrap", " clearfix", "1")

    def element(self, name: str, inner: str, role: str = "") -> str:
        """Return an element."""
        is_open = self._is_sloppy and name in _OFTEN_UNCLOSED
        return f"{self.start(name, role)}{inner}{'' if is_open else f'</{name}>'}"

    def heading(self, share: float = 1.0) -> str:
        """Return a heading, in this share of cases."""
        name = self.pick("h1", "h1", "h2", "h3")
        return self.element(name, self.words(1, 9)) if self.chance(share) else ""

    def link(self, text: str) -> str:
        """Return a link."""
        return f'<a href="/{self.number(1, 9999)}">{text}</a>'

    def links(self, count: int, least: int = 1, most: int = 3) -> str:
        """Return so many links of so many words, one below or next to the other."""
        each = [self.link(self.words(least, most)) for _ in range(count)]
        style = self.pick("ul", "ul", "ol", "div", "p", "br", "table")
        if style in {"ul", "ol"}:
            return f"<{style}>" + "".join(self.element("li", one) for one in each) + f"</{style}>"
        if style == "div":
            return "".join(self.element("div", one) for one in each)
        if style == "p":
            return self.element("p", self.pick(" | ", " - ", " ").join(each))
        if style == "br":
            return "<br>".join(each)
        return "<table>" + "".join(f"<tr><td>{one}</td></tr>" for one in each) + "</table>"

    def items(self, count: int, one: Callable[[], str]) -> str:
        """Return so many things, each in an element of the same kind."""
        name = self.pick("div", "div", "li", "tr", "article", "td", "dd", "section", "p", "")
        made = []
        for number in range(count):
            if name == "tr":
                made.append(f"<tr>{self.start('td', 'item')}{one()}</td></tr>")
            elif name == "td":
                made.append(f"{'' if number % 3 else '<tr>'}{self.start('td', 'item')}{one()}</td>")
            elif name:
                made.append(self.element(name, one(), "item"))
            else:
                made.append(one() + self.pick("<br><br>", "<hr>"))
        around = _AROUND_ITEMS.get(name)
        return f"<{around}>{''.join(made)}</{around}>" if around else "".join(made)

    # ---- furniture

    def page(self, contents: str) -> str:
        """Return a page with these contents."""
        head = self.link(self.words(1, 3)) + (self._slogan() if self.chance(0.4) else "")
        head = self.element(self.pick("header", "div", "div"), head, "header")
        nav = self.element(self.pick("nav", "div", "div"), self.links(self.number(4, 25)), "nav")
        side = "".join(self._beside() for _ in range(self.pick(0, 0, 1, 2, 3, 4)))
        foot = self.element(self.pick("footer", "div", "div", "center"), self._below(), "foot")
        main = contents
        if self.chance(0.85):
            name = self.pick("div", "div", "main", "section", "article")
            main = self.element(name, contents, "page")
        inner = nav + main + side if self.chance(0.6) else nav + side + main
        if self.chance(0.2):
            inner = f"<table><tr><td>{nav}{side}</td><td>{main}</td></tr></table>"
        title = f"<head><title>{self.words(2, 8)}</title></head>"
        return f"<!doctype html><html>{title}<body>{head}{inner}{foot}</body></html>"

    def _slogan(self) -> str:
        return self.element("p", self.words(3, 8))

    def _beside(self) -> str:
        choices: tuple[Callable[[], str], ...] = (
            lambda: self.links(self.number(3, 15), 2, 9),
            lambda: self.element("p", self.sentences(1, 3)),
            lambda: self.links(self.number(3, 8), 1, 4),
        )
        what = self.pick(*choices)
        title = self.element(self.pick("h3", "h4", "b"), self.words(1, 3))
        inner = (title if self.chance(0.7) else "") + what()
        return self.element(self.pick("aside", "div", "div"), inner, "side")

    def _below(self) -> str:
        links = self.links(self.number(3, 12)) if self.chance(0.6) else ""
        more = self.sentences(1, 2) if self.chance(0.6) else ""
        return links + self.element("p", f"Copyright {self.words(2, 5)}. {more}")


# ---- contents without main text ------------------------------------------------------------------


def _links(w: Writer) -> str:
    least, most = w.pick((1, 3), (2, 6), (5, 12))
    parts = [w.heading(0.8)]
    for _ in range(w.number(1, 8)):
        parts += [w.heading(0.8), w.links(w.number(5, 40), least, most)]
        parts += [w.element("p", w.sentences(1, 2))] if w.chance(0.3) else []
    return "".join(parts)


def _described_links(w: Writer) -> str:
    least, most = w.pick((2, 8), (6, 18), (10, 30))

    def one() -> str:
        between, stop = w.pick(" - ", ": ", "<br>", " "), w.stop() if w.chance(0.5) else ""
        return w.link(w.words(1, 5)) + between + w.words(least, most) + stop

    return w.heading(0.8) + w.items(w.number(8, 40), one)


def _teasers(w: Writer) -> str:
    title, name = w.pick("h2", "h3", "h3", "h4", "b", "div", "strong"), w.pick("p", "p", "div", "")
    least, most = w.pick((6, 14), (10, 25), (15, 40), (25, 55))
    whole, meta, more, image = (w.chance(share) for share in (0.5, 0.5, 0.5, 0.4))

    def one() -> str:
        text = w.sentence(least, most) if whole and w.chance(0.5) else w.words(least, most)
        text += "" if whole else "..."
        parts = [w.link('<img src="/x.jpg" alt="">')] if image else []
        parts.append(w.element(title, w.link(w.words(3, 10)), "title"))
        parts += [w.element(w.pick("div", "span", "p"), w.date(), "meta")] if meta else []
        parts.append(w.element(name, text, "text") if name else text)
        parts += [" " + w.link(w.pick("More", "Continue", w.words(1, 3)))] if more else []
        parts += [w.links(w.number(1, 3), 2, 6)] if w.chance(0.2) else []
        return "".join(parts)

    return "".join(w.heading(0.5) + w.items(w.number(4, 14), one) for _ in range(w.number(1, 4)))


def _shelf(w: Writer) -> str:
    least, most = w.pick((0, 0), (3, 9), (6, 16), (10, 25))
    rated = w.chance(0.5)
    tail = w.pick("<button>Add to cart</button>", '<a href="#">Buy</a> <a href="#">Compare</a>', "")

    def one() -> str:
        parts = [w.element(w.pick("h3", "div", "span", "b"), w.link(w.words(1, 6)), "title")]
        parts.append(w.element(w.pick("span", "div", "p"), w.price(), "price"))
        text = w.words(least, most) + (w.stop() if w.chance(0.6) else "")
        parts += [w.element(w.pick("span", "div", "p"), text, "text")] if most else []
        parts += [w.element("span", f"{w.number(1, 5)}/5 ({w.number(1, 500)})")] if rated else []
        return "".join(parts) + tail

    before = w.element("p", w.sentences(1, 2)) if w.chance(0.3) else ""
    return w.heading(0.8) + before + w.items(w.number(8, 48), one)


def _specification(w: Writer) -> str:
    pairs = []
    for _ in range(w.number(5, 30)):
        figure = f"{w.number(1, 999)} {w.pick('mm', 'kg', 'W', 'cm', '')}"
        pairs.append((w.words(1, 3), w.words(1, 4) if w.chance(0.6) else figure))
    around, line = w.pick(
        ("table", "<tr><th>{}</th><td>{}</td></tr>"),
        ("dl", "<dt>{}</dt><dd>{}</dd>"),
        ("ul", "<li><b>{}</b>: {}</li>"),
    )
    return f"<{around}>" + "".join(line.format(*pair) for pair in pairs) + f"</{around}>"


def _product(w: Writer) -> str:
    def review() -> str:
        meta = w.element("div", f"{w.date()} {w.words(1, 2)}", "meta")
        text = w.element(w.pick("p", "div"), w.sentences(1, 4), "text")
        return w.element("b", w.words(2, 5)) + meta + text

    def other() -> str:
        return f"{w.link(w.words(2, 5))} {w.price()}"

    points = "".join(w.element("li", w.words(3, 12)) for _ in range(w.number(3, 8)))
    text = "".join(w.element("p", w.sentences(1, 3)) for _ in range(w.number(1, 2)))
    parts = [w.heading(), w.element(w.pick("span", "div", "p"), w.price(), "price")]
    parts.append(w.pick("<button>Buy</button>", '<a href="#">Add to cart</a>'))
    parts += [f"<ul>{points}</ul>"] if w.chance(0.5) else []
    parts += [w.element("div", text, "text")] if w.chance(0.8) else []
    parts.append(_specification(w))
    parts += [w.heading(), w.items(w.number(2, 10), review)] if w.chance(0.5) else []
    parts += [w.heading(), w.items(w.number(3, 8), other)] if w.chance(0.5) else []
    return "".join(parts)


def _thread(w: Writer) -> str:
    least, most = w.pick((1, 2), (1, 4), (2, 7), (1, 9))
    is_table, has_signature, has_ranks, has_paragraphs = map(w.chance, (0.4, 0.5, 0.5, 0.4))
    quoted, buttons = w.pick(0, 0.1, 0.3), ("Quote", "Reply", "Report", "Like", "Permalink", "#1")
    tail = " ".join(w.link(each) for each in w.rng.sample(buttons, w.number(1, 4)))

    def text() -> str:
        own = [w.sentence() for _ in range(w.number(least, most))]
        made = " ".join(own)
        if has_paragraphs:
            made = "".join(w.element("p", each) for each in own)
        elif w.chance(0.3):
            made = "<br><br>".join(own)
        quote = w.element("blockquote", f"{w.words(1, 1)} wrote: {w.sentences(1, 2)}")
        return (quote if w.chance(quoted) else "") + made

    def post() -> str:
        user = w.element(w.pick("b", "span", "div"), w.link(w.words(1, 1)), "user")
        user += f"<br>Posts: {w.number(1, 9999)}<br>{w.words(1, 3)}" if has_ranks else ""
        body = w.element(w.pick("div", "span"), w.date(), "meta") + w.element("div", text(), "text")
        body += w.element("div", w.words(3, 14), "signature") if has_signature else ""
        body += w.element("div", tail)
        return f"<tr><td>{user}</td><td>{body}</td></tr>" if is_table else user + body

    count = w.number(4, 30)
    if is_table:
        return w.heading(0.8) + "<table>" + "".join(post() for _ in range(count)) + "</table>"
    return w.heading(0.8) + w.items(count, post)


def _topics(w: Writer) -> str:
    rows = []
    for _ in range(w.number(10, 50)):
        title = w.link(w.words(2, 10)) + ("<br>" + w.words(3, 14) if w.chance(0.4) else "")
        cells = (title, w.words(1, 1), w.number(0, 999), w.number(0, 99_999), w.date())
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return w.heading(0.8) + f"<table>{''.join(rows)}</table>"


def _line_of_code(w: Writer, comment: str, comments: float) -> str:
    before = "    " * w.number(0, 4)
    if w.chance(comments):
        return f"{before}{comment} {w.sentence(4, 14) if w.chance(0.6) else w.words(2, 9)}"
    return before + w.pick(
        f"{w.word()}({w.word()}, {w.word()});",
        f"{w.word()} = {w.word()}[{w.number(0, 99)}]",
        f"if {w.word()} == {w.number(0, 9)}:",
        f"return {w.word()}.{w.word()}()",
        f"int {w.word()} = {w.number(0, 999)};",
        "}",
        "",
        f'{w.word()}("{w.words(1, 5)}", {w.word()})',
        f"import {w.word()}",
        f"&lt;{w.word()} {w.word()}='{w.word()}'>",
        f"{w.date()} {w.word().upper()} {w.words(2, 9)}",
    )


def _code(w: Writer) -> str:
    comment, comments = w.pick("//", "#", "--", ";", "/*"), w.pick(0, 0.1, 0.3)
    lines = [_line_of_code(w, comment, comments) for _ in range(w.number(20, 300))]
    numbers = list(map(str, range(1, len(lines) + 1)))
    rows = "".join(
        f"<tr><td>{n}</td><td>{each}</td></tr>" for n, each in zip(numbers, lines, strict=True)
    )
    columns = "".join("<td><pre>" + "\n".join(each) + "</pre></td>" for each in (numbers, lines))
    code = w.pick(
        w.element("pre", "\n".join(lines)),
        w.element("pre", "\n".join(lines)),
        w.element("pre", "\n".join(f"<span>{each}</span>" for each in lines)),
        f"<table>{rows}</table>",
        f"<table><tr>{columns}</table>",
        w.element("div", "".join(f"<div>{each}</div>" for each in lines), "code"),
        "<code>" + "<br>".join(lines) + "</code>",
    )
    before = w.element("p", w.sentence(4, 20)) if w.chance(0.3) else ""
    return w.heading(0.5) + w.element("div", f"src/{w.word()}.c", "meta") + before + code


def _results(w: Writer) -> str:
    has_dots = w.chance(0.7)

    def one() -> str:
        title = w.element(w.pick("h3", "div", "span"), w.link(w.words(3, 10)), "title")
        text = w.words(6, 18) + (f" ... {w.words(4, 14)} ..." if has_dots else ".")
        where = f"www.{w.word()}.example/{w.number(1, 99)}"
        text = w.element(w.pick("div", "span", "p"), text, "text")
        return title + text + w.element(w.pick("cite", "span", "div"), where, "meta")

    found = w.element("p", f"{w.number(1, 999)} {w.words(1, 4)}")
    return found + w.items(w.number(5, 25), one) + w.links(10, 1, 1)


def _figures(w: Writer) -> str:
    columns = w.number(2, 9)
    rows = []
    for _ in range(w.number(10, 90)):
        cells = (w.pick(w.number(0, 9999), w.words(1, 3), w.date()) for _ in range(columns))
        rows.append(f"<tr><td>{w.words(1, 4)}" + "".join(f"<td>{cell}" for cell in cells))
    before = w.element("p", w.sentences(1, 2)) if w.chance(0.4) else ""
    return w.heading(0.8) + before + f"<table>{''.join(rows)}</table>"


def _pictures(w: Writer) -> str:
    def one() -> str:
        text = w.words(1, 16) + (w.stop() if w.chance(0.5) else "")
        image = w.link('<img src="/1.jpg" alt="">')
        return image + w.element(w.pick("div", "p", "span"), text, "text")

    return w.heading(0.8) + w.items(w.number(6, 40), one)


def _people(w: Writer) -> str:
    def one() -> str:
        name = w.element(w.pick("b", "h3", "strong"), w.words(2, 3))
        telephone = f"Tel. {w.number(1000, 9999)} {w.number(100, 999)}"
        address = w.link(f"{w.word()}@{w.word()}.example")
        return "<br>".join((name, w.words(2, 6), w.words(2, 6), telephone, address))

    return w.heading(0.8) + w.items(w.number(6, 40), one)


def _form(w: Writer) -> str:
    options = "".join(f"<option>{w.words(1, 2)}" for _ in range(w.number(2, 20)))
    fields = []
    for _ in range(w.number(3, 20)):
        choice = f"<select>{options}</select>" if w.chance(0.3) else "<input>"
        fields.append(w.element("label", w.words(1, 4)) + choice + w.pick("<br>", ""))
    before = w.element("p", w.sentences(1, 3)) if w.chance(0.7) else ""
    return w.heading(0.8) + before + f"<form>{''.join(fields)}<button>Send</button></form>"


def _portal(w: Writer) -> str:
    some = (_links, _described_links, _teasers, _shelf, _topics, _pictures)
    return "".join(w.element("div", one(w)) for one in w.rng.sample(some, w.number(2, 3)))


# ---- contents with main text ---------------------------------------------------------------------


def article(w: Writer, paragraphs: Sequence[str] = ()) -> str:
    """Return an article of these paragraphs, of its own if there are none, with what goes with it.

    What goes with it: a date, captions, a list, comments, links to others.
    """
    name = w.pick("p", "p", "p", "p", "div", "br")
    parts = [w.heading(0.95)]
    parts += [w.element(w.pick("div", "span", "p"), w.date(), "meta")] if w.chance(0.6) else []
    own = paragraphs or [w.sentences(1, 5) for _ in range(w.pick(2, 3, 5, 8, 12, 20))]
    made = "".join(_paragraph(w, name, each) for each in own)
    parts.append(w.element("div", made, "text"))
    if w.chance(0.25):
        parts += [w.heading(), w.items(w.number(1, 6), partial(_comment, w))]
    parts += [w.heading(), w.links(w.number(3, 8), 3, 9)] if w.chance(0.4) else []
    return "".join(parts)


def _paragraph(w: Writer, name: str, text: str) -> str:
    """Return a paragraph, and now and then what is between two."""
    first, _, rest = text.partition(" ")
    text = f"{first} {w.link(w.words(1, 3))} {rest}" if w.chance(0.3) else text
    made = f"{text}<br><br>" if name == "br" else w.element(name, text)
    points = "".join(w.element("li", w.words(3, 14)) for _ in range(w.number(2, 6)))
    between = (
        (0.12, w.element(w.pick("h2", "h3", "b"), w.words(2, 7))),
        (0.06, f"<ul>{points}</ul>"),
        (0.05, w.element("blockquote", w.sentences(1, 2))),
        (0.07, w.element(w.pick("figcaption", "div", "span"), w.words(3, 14), "caption")),
        (0.05, w.element("div", w.link(w.words(3, 8)))),
    )
    return made + "".join(each for share, each in between if w.chance(share))


def _comment(w: Writer) -> str:
    who = w.element("b", w.words(1, 2))
    return f"{who} {w.date()}" + w.element("p", w.sentences(1, 2))


KINDS: dict[str, Callable[[Writer], str]] = {
    "links": _links, "described links": _described_links, "teasers": _teasers, "shelf": _shelf,
    "product": _product, "thread": _thread, "topics": _topics, "code": _code, "results": _results,
    "figures": _figures, "pictures": _pictures, "people": _people, "form": _form,
    "portal": _portal,
}  # fmt: skip
