"""Main text of pages that are made: other scripts, kinds of pages, re-crawls and mirrors.

- Scripts: the marked pages once more, each word in text exchanged for one of another script, the
  same for the same word, with that script's punctuation; structure and furniture stay.
- Languages: articles of the sample crawl, each on two sites of its language.
- Kinds of pages: lists, forums, shops, code, made of random words, by other code than the pages
  that the model learns from. How many fall back to all visible text?

Re-crawls and mirrors are in docs/quality.md (presets.py).
"""

# ruff: noqa: RUF001 - other scripts: look-alike letters are meant

from __future__ import annotations

import html
import re
import statistics
import zlib
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.figures import empty_table
from benchmarks.main_text_stream import Reader, Stream, Words, token_f1, visible_words
from benchmarks.training.single_pages import MarkedPage
from streamer.analysis.sample.crawl import SEED, SITES
from streamer.analysis.sample.prose import LANGUAGES, draw_topic, draw_words, write_article
from streamer.analysis.sample.sites import make_site
from streamer.text.words import canonical_words

if TYPE_CHECKING:
    from rich.table import Table

ARTICLES = 60  # of each language
KIND_PAGES = 100  # of each kind

_MARKUP = re.compile(r"(?is)<(script|style)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>|[^<]+")
_WORD = re.compile(r"[^\W\d_]+")


class Script(NamedTuple):
    """A script: what its words are made of, what is between them, and points: ours, its own."""

    name: str
    syllables: str
    joiner: str = " "
    points: tuple[str, str] = ("", "")


SCRIPTS = (
    Script("Cyrillic", "бо го де жи за ко лу мо ну по ра со те фи хо че ша"),
    Script("Greek", "αβ γα δε ζη θι κο λυ με νο ξα πι ρο σε τυ φα χι"),
    Script("Han", "春夏秋冬山水風雨花草木石金銀東西南北", "", (".,?!;:", "。，？！；：")),
    Script("Kana", "あかさたなはまやらわいきしちにひみりう", "", (".,?!", "。、？！")),
    Script("Thai", "กา ขอ คน งา จะ ชา ดี ตา ทำ นี้ บน ปี พบ มา ยา รู้ ลง วา", "", (".", " ")),
    Script("Arabic", "با تي جو حد خر دا ري زو سل شم صا طي عو في قا كم لا", " ",
           (",;?", "،؛؟")),
    Script("Hebrew", "בא גי דו הל וש זמ חנ טר יס כפ לק מת נע"),
    Script("Devanagari", "का खी गो चा जी टा डो ता दे नी पा बो मा री ला सी हो", " ", (".", "।")),
)  # fmt: skip


def exchanged(text: str, script: Script) -> str:
    """Return a text with its words and points exchanged for those of a script."""
    parts = script.syllables.split() if " " in script.syllables else list(script.syllables)

    def word(match: re.Match[str]) -> str:
        number = zlib.crc32(match.group().lower().encode())
        made = ""
        for _ in range(max(1, len(match.group()) // (4 if script.joiner == "" else 3))):
            number, place = divmod(number, len(parts))
            made += parts[place]
        return made.capitalize() if match.group()[0].isupper() else made

    made = _WORD.sub(word, text)
    if not script.joiner:
        made = re.sub(r"(?<=[^\W\d_]) (?=[^\W\d_])", "", made)
    return made.translate(str.maketrans(*script.points))


def in_script(page: MarkedPage, script: Script) -> MarkedPage:
    """Return a marked page with the words of its text exchanged."""

    def changed(match: re.Match[str]) -> str:
        text = match.group()
        return text if text[0] == "<" else html.escape(exchanged(html.unescape(text), script))

    return MarkedPage(_MARKUP.sub(changed, page.html), exchanged(page.main_text, script))


def scripts_table(pages: Sequence[tuple[str, MarkedPage]], words_of: Words) -> Table:
    """Return the token F1 of marked pages in each script."""
    table = empty_table("Marked pages of newspapers in other scripts", "words", "token F1")
    for script in (None, *SCRIPTS):
        values = []
        for name, page in pages:
            own = in_script(page, script) if script else page
            values.append(token_f1(words_of(name, own.html), canonical_words(own.main_text)))
        table.add_row(script.name if script else "as they are", f"{statistics.mean(values):.3f}")
    return table


# ---- the sample crawl's languages ----------------------------------------------------------------


def languages_table(reader: Reader) -> Table:
    """Judge articles of each language on two sites each, by visible and by main text."""
    heads = ("text", "token F1", "false", "found", "on another site", "F1")
    table = empty_table("Made articles on made sites, from .65", "language", *heads)
    for place, language in enumerate(LANGUAGES):
        sites = [make_site(SEED, n) for n in range(place, SITES, len(LANGUAGES))]
        streams = {"visible": Stream(0.65), "main": Stream(0.65)}
        f1s: dict[str, list[float]] = {text: [] for text in streams}
        for number in range(ARTICLES):
            rng = Random(f"{language.code}/{number}")
            article = write_article(rng, language, 80 + number * 10)
            joiner = language.joiner
            marked = canonical_words(" ".join(joiner.join(each) for each in article.paragraphs))
            for site in (sites[number % len(sites)], sites[(number + 3) % len(sites)]):
                page = site.render(article)
                both = {"visible": visible_words(page), "main": canonical_words(reader.text(page))}
                for text, words in both.items():
                    streams[text].judge(str(number), site.host, words)
                    f1s[text].append(token_f1(words, marked))
        for text, stream in streams.items():
            mean = f"{statistics.mean(f1s[text]):.3f}"
            table.add_row(language.code, text, mean, *stream.outcome.shown())
    return table


# ---- kinds of pages ------------------------------------------------------------------------------


class Writer:
    """Writes pages of a kind from random words, in the furniture of no site in particular."""

    def __init__(self, number: int) -> None:
        self.rng = Random(f"kind/{number}")
        self._topic = draw_topic(self.rng, LANGUAGES[0])

    def words(self, least: int, most: int) -> str:
        """Return so many words."""
        count = self.rng.randint(least, most)
        return " ".join(draw_words(self.rng, LANGUAGES[0], self._topic, count)).capitalize()

    def sentences(self, count: int) -> str:
        """Return sentences."""
        return " ".join(f"{self.words(6, 9)}, {self.words(4, 9).lower()}." for _ in range(count))

    def links(self, count: int, least: int = 1, most: int = 3) -> str:
        """Return list items that are links."""
        each = (f'<li><a href="/{n}">{self.words(least, most)}</a></li>' for n in range(count))
        return "".join(each)

    def page(self, content: str) -> str:
        """Return a page with this content."""
        return (
            f"<html><head><title>{self.words(2, 5)}</title></head><body><div id=header>"
            f"<a href=/>{self.words(1, 2)}</a></div><ul class=nav>{self.links(12)}</ul>"
            f"<div id=content>{content}</div><div id=sidebar><ul>{self.links(10, 3, 8)}</ul></div>"
            f"<div id=footer><p>Copyright {self.words(2, 4)}. {self.words(8, 14)}.</p></div>"
        )


def _headlines(w: Writer) -> str:
    return "".join(f"<h2>{w.words(1, 2)}</h2><ul>{w.links(12, 5, 11)}</ul>" for _ in range(5))


def _teasers(w: Writer) -> str:
    return "".join(
        f"<div class=teaser><h3><a href=/{n}>{w.words(5, 9)}</a></h3><p>{w.words(12, 24)} ... "
        f"<a href=/{n}>More</a></p></div>"
        for n in range(16)
    )


def _forum(w: Writer) -> str:
    return "".join(
        f"<tr><td class=author>{w.words(1, 1)}<br>Posts: {w.rng.randint(1, 999)}</td><td>"
        f"<div class=date>{w.rng.randint(1, 28)} May 2012</div>{w.sentences(w.rng.randint(1, 3))}"
        f"<div class=signature>{w.words(4, 8)}</div><a href=#>Quote</a> <a href=#>Reply</a>"
        for _ in range(15)
    ).join(("<table class=thread>", "</table>"))


def _shelf(w: Writer) -> str:
    return "".join(
        f"<li class=product><a href=/{n}><img src=/{n}.jpg>{w.words(2, 5)}</a><span class=price>"
        f"{w.rng.randint(1, 99)}.99</span><button>Add to cart</button><span>{w.words(3, 9)}</span>"
        for n in range(30)
    ).join(("<ul class=products>", "</ul>"))


def _product(w: Writer) -> str:
    rows = "".join(f"<tr><th>{w.words(1, 2)}<td>{w.words(1, 3)}" for _ in range(12))
    return (
        f"<h1>{w.words(3, 6)}</h1><span class=price>{w.rng.randint(1, 99)}.99</span>"
        f"<button>Buy</button><div class=description><p>{w.sentences(4)}</div>"
        f"<table class=specs>{rows}</table>"
    )


def _code(w: Writer) -> str:
    lines = (
        f"    {w.words(1, 1).lower()}[{n}] = {w.words(1, 1).lower()}({n}); // {w.words(0, 4)}"
        for n in range(w.rng.randint(60, 200))
    )
    return f"<div class=path>src/{w.words(1, 1)}.c</div><pre>" + "\n".join(lines) + "</pre>"


def _results(w: Writer) -> str:
    return "".join(
        f"<div class=result><a href=/{n}>{w.words(4, 8)}</a><cite>{w.words(1, 1)}.example</cite>"
        f"<span>{w.words(8, 16)} ... {w.words(5, 9)} ...</span></div>"
        for n in range(10)
    )


def _figures(w: Writer) -> str:
    rows = "".join(
        f"<tr><td>{w.words(1, 3)}" + "".join(f"<td>{w.rng.randint(1, 9999)}" for _ in range(6))
        for _ in range(60)
    )
    return f"<h1>{w.words(3, 6)}</h1><table>{rows}</table>"


def _article(w: Writer) -> str:
    return f"<h1>{w.words(5, 9)}</h1>" + "".join(f"<p>{w.sentences(4)}</p>" for _ in range(7))


KINDS = {
    "an article": _article, "headlines": _headlines, "a front page with teasers": _teasers,
    "a forum": _forum, "a shelf of a shop": _shelf, "a product": _product, "code": _code,
    "results of a search": _results, "a table of figures": _figures,
}  # fmt: skip


def kinds_table(reader: Reader) -> Table:
    """Return of each kind of pages how many have a main text, and how much of the page that is."""
    heads = ("`text` is main", "share of the words then")
    table = empty_table("Made pages of several kinds", "kind", *heads)
    for name, content in KINDS.items():
        shares = []
        for number in range(KIND_PAGES):
            writer = Writer(number)
            page = writer.page(content(writer))
            main, visible = canonical_words(reader.text(page)), visible_words(page)
            if reader.is_main:
                shares.append(len(main) / len(visible))
        share = f"{statistics.mean(shares):.2f}" if shares else ""
        table.add_row(name, f"{len(shares) / KIND_PAGES:.0%}", share)
    return table
