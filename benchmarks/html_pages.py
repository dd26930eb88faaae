"""HTML pages of the size that a crawl brings, to verdicts: pages and megabytes a second.

A page is 25 kB of HTML of which a reader sees 6 kB: paragraphs of corpus.py in the markup of a news
site, with navigation, links, images, styles, scripts and comments around. Scripts fill a page up to
its size, which varies by a tenth. The pages are in a file that is made once; each round replays it
in a process of its own, into a new index.
"""

from __future__ import annotations

import html
import statistics
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import msgspec

from benchmarks import corpus
from benchmarks.corpus_file import place, write
from benchmarks.figures import Figure, figures_table
from benchmarks.timed_replay import replay, warm
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import NativeSigner
from streamer.text.visible import HTML

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from benchmarks.timed_replay import Run

PAGES = 60_000  # the start, of a second or two, is in the time
ROUNDS = 3
PAGE_BYTES = 25_000
TEXT_BYTES = 6_000
SPREAD = 0.1  # of the size of a page, upwards and downwards
LOOKED_AT = 500  # pages whose visible text is counted
FRAME_TEXT_BYTES = 560  # what a reader sees of a page next to its paragraphs
MENU_ITEMS = 24
STYLE_RULES = 30
PARAGRAPH_WORDS = 60

_HEAD = """<!DOCTYPE html>
<html lang="en" class="no-js" data-theme="light">
<head>
<meta charset="utf-8"><title>Article {page} &ndash; The Example Times</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta property="og:url" content="https://www.example/{page}?ref=og&amp;v=2">
<link rel="stylesheet" href="/static/site.min.css?v=20240601" media="screen, print">
<style>
{style}</style>
<script type="application/ld+json">{{"@type":"NewsArticle","position":{page}}}</script>
<script>
{script}</script>
</head>
<body class="article page-{page}" data-page="{page}" onload="track('view', {page})">
<header role="banner"><a class="logo" href="/"><img src="/static/logo.svg" alt="" width="120"></a>
<nav aria-label="Main"><ul class="menu menu--wide">
{menu}</ul></nav></header>
<!-- begin of article {page}; cached by edge-07 -->
<main id="content"><article itemscope itemtype="https://schema.example/NewsArticle">
<h1 class="headline" itemprop="headline">Article number {page}</h1>
"""
_FOOT = """</article></main>
<footer class="footer"><p>&copy; 2024 The Example Times &middot; All rights reserved</p></footer>
<noscript><img src="https://count.example/p.gif?page={page}" height="1" width="1" alt=""></noscript>
</body>
</html>
"""
_MENU = (
    '<li class="menu__item menu__item--{number}"><a class="menu__link" href="/section/{number}"'
    ' data-track="nav-{number}" title="Go to section {number}">Section {number}</a></li>\n'
)
_STYLE = (
    ".block-{number} > a:hover{{color:#{number:06x};margin:0 {number}px;"
    "background:url(/i/{number}.png)}}\n"
)
_SCRIPT = (
    "window.dataLayer=window.dataLayer||[];if(dataLayer.length<{number}&&!window.seen_{number})"
    "{{document.write('<div class=\"ad slot-{number}\"></div>');}}\n"
)
_PARAGRAPH = (
    '<p class="text text--{number}" id="p{number}">{before} <a href="/topic/{number}?from=text"'
    ' class="link" rel="nofollow">{link}</a> {middle} <em>{stressed}</em> {after}</p>\n'
    '<figure class="media"><img src="/images/{number}.jpg" srcset="/images/{number}-2x.jpg 2x"'
    ' alt="" loading="lazy" width="640" height="360"></figure>\n'
)


class HtmlPages(msgspec.Struct, frozen=True):
    """The measurement; `rate` and what follows from it are those of the median round.

    Attributes:
        html_bytes: of a page in UTF-8, without its JSON; the mean.
        text_bytes: of these what a reader sees; the mean of the first LOOKED_AT pages.
        rate: pages a second, the last flush included.
        megabytes_s: millions of bytes of HTML a second.
        cpu_us: microseconds of CPU a page.
    """

    pages: int
    html_bytes: float
    text_bytes: float
    rates: list[float]
    rate: float
    megabytes_s: float
    cpu_us: float
    rate_target: float = 12_000
    megabytes_s_target: float = 300


def measure(folder: Path, pages: int = PAGES, rounds: int = ROUNDS) -> HtmlPages:
    """Replay `pages` pages in each round, working in `folder`.

    Raises:
        DiskTooSmall: no place for the pages that compile the kernels.
        subprocess.CalledProcessError: a replay failed; it has said why on standard error.
    """
    file = html_file(folder, pages)
    warm(folder)
    runs = [replay(folder, file, step=pages) for _ in range(rounds)]
    return summarise(file, runs)


def summarise(file: Path, runs: list[Run]) -> HtmlPages:
    """Return the figures of the rounds over a file."""
    decode = msgspec.json.Decoder(dict[str, str]).decode
    with file.open("rb") as lines:
        sizes = [len(decode(line)["body"].encode()) for line in lines]
    with file.open("rb") as lines:
        seen = visible_bytes([decode(line)["body"].encode() for line in islice(lines, LOOKED_AT)])
    rates = [run.rate for run in runs]
    rate, html_bytes = statistics.median(rates), statistics.mean(sizes)
    return HtmlPages(
        pages=len(sizes),
        html_bytes=html_bytes,
        text_bytes=statistics.mean(seen),
        rates=rates,
        rate=rate,
        megabytes_s=rate * html_bytes / 1e6,
        cpu_us=statistics.median(run.cpu_us for run in runs),
    )


def visible_bytes(pages: list[bytes]) -> list[int]:
    """Return how many bytes of each HTML page a reader sees."""
    signer = NativeSigner(SignatureSettings(), bytes(32))
    sizes: list[int] = signer.sign(pages, [HTML] * len(pages)).text_bytes.tolist()
    return sizes


def html_file(folder: Path, pages: int) -> Path:
    """Return a file of so many pages as JSON lines, in `folder`; make it if it is not there."""
    path, exists = place(folder, f"html-{pages}", __file__, corpus.__file__)
    if not exists:
        write(path, messages(pages))
    return path


def messages(pages: int) -> Iterator[bytes]:
    """Yield JSON lines of HTML pages; a shorter file is the beginning of a longer one."""
    encode = msgspec.json.Encoder().encode
    for number, words in enumerate(islice(_texts(pages), pages)):
        url = f"https://www.site{number % 9973:04}.example/html/article-{number:09}.html"
        body = html_page(number, words)
        yield encode({"url": url, "content_type": "text/html; charset=utf-8", "body": body}) + b"\n"


def _texts(pages: int) -> Iterator[list[str]]:
    """Yield the words of each page's paragraphs, one text of the corpus after the other."""
    decode = msgspec.json.Decoder(dict[str, str]).decode
    words: list[str] = []
    size = 0
    for line in corpus.generate(2 * pages):  # of about 4 kB each: more than enough
        for word in decode(line)["body"].split():
            words.append(word)
            size += len(word.encode()) + 1
            if size >= TEXT_BYTES - FRAME_TEXT_BYTES:
                yield words
                words, size = [], 0


def html_page(number: int, words: list[str]) -> str:
    """Return a page with these words in its paragraphs, filled up by scripts to its size."""
    rng = Random(number)
    size = round(PAGE_BYTES * (1 + rng.uniform(-SPREAD, SPREAD)))
    menu = "".join(_MENU.format(number=rng.randrange(1000)) for _ in range(MENU_ITEMS))
    style = "".join(_STYLE.format(number=rng.randrange(1 << 20)) for _ in range(STYLE_RULES))
    paragraphs = "".join(
        _paragraph(words[start : start + PARAGRAPH_WORDS], rng.randrange(1 << 20))
        for start in range(0, len(words), PARAGRAPH_WORDS)
    )
    foot = _FOOT.format(page=number)
    bare = _HEAD.format(page=number, style=style, script="", menu=menu) + paragraphs + foot
    script = _script(rng, size - len(bare.encode()))
    return _HEAD.format(page=number, style=style, script=script, menu=menu) + paragraphs + foot


def _paragraph(words: list[str], number: int) -> str:
    escaped = html.escape(" ".join(words)).split(" ")
    return _PARAGRAPH.format(
        number=number,
        before=" ".join(escaped[:12]),
        link=" ".join(escaped[12:15]),
        middle=" ".join(escaped[15:30]),
        stressed=" ".join(escaped[30:34]),
        after=" ".join(escaped[34:]),
    )


def _script(rng: Random, size: int) -> str:
    """Return a script of so many bytes; of none where there is no room."""
    lines: list[str] = []
    left = size
    while left > 0:
        lines.append(_SCRIPT.format(number=rng.randrange(1 << 20))[-left:])
        left -= len(lines[-1])
    return "".join(lines)


def table(result: HtmlPages) -> Table:
    """Return the figures next to their targets."""
    return figures_table(
        "HTML pages: JSON lines to verdicts, index on disk, two cores",
        [
            Figure("pages", f"{result.pages:,}"),
            Figure("HTML bytes a page", f"{result.html_bytes:,.0f}", f"{PAGE_BYTES:,}"),
            Figure("  of these visible text", f"{result.text_bytes:,.0f}", f"{TEXT_BYTES:,}"),
            Figure("pages/s", f"{result.rate:,.0f}", f"{result.rate_target:,.0f}"),
            Figure("  of each round", " ".join(f"{rate:,.0f}" for rate in result.rates)),
            Figure("MB/s", f"{result.megabytes_s:,.0f}", f"{result.megabytes_s_target:,.0f}"),
            Figure("CPU us a page", f"{result.cpu_us:.1f}"),
        ],
    )
