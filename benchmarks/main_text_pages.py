"""Main text of pages that are made: other scripts, languages of the sample crawl.

- Scripts: the marked pages once more, each word in text exchanged for one of another script, the
  same for the same word, with that script's punctuation; structure and furniture stay.
- Languages: articles of the sample crawl, each on two sites of its language.

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
from benchmarks.training.marked import MarkedPage
from streamer.analysis.sample.crawl import SEED, SITES
from streamer.analysis.sample.prose import LANGUAGES, write_article
from streamer.analysis.sample.sites import make_site
from streamer.text.words import canonical_words

if TYPE_CHECKING:
    from rich.table import Table

ARTICLES = 60  # of each language

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
