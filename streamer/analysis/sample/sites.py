"""Sites: a host, a language, a layout, and all that stands on each of its pages.

A site's furniture is drawn once, so its pages share their navigation, footer, styles and scripts,
as the pages of one real site do. `render` sets an article into the site's layout, `print_view` and
`bare_page` into plainer ones. None draws anything: the same article gives the same bytes.

Each layout is a function of the same blocks, so that one article can be set in two of them. They
differ in what makes extraction hard: unclosed list items, tables, inline tags within words,
entities, comments, and scripts or no-script parts that no reader sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from random import Random
from typing import TYPE_CHECKING

from streamer.analysis.sample.prose import LANGUAGES, Article, Language, draw_topic, draw_words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class PageParts:
    """The parts of a page, escaped for HTML; `menu` and `sidebar` are list items."""

    language: str
    site: str
    title: str
    menu: str
    sidebar: str
    notices: list[str]
    paragraphs: list[str]
    styles: str
    script: str

    def prose(self, tag: str = "p") -> str:
        """Return the paragraphs, one element each."""
        return "\n".join(f"  <{tag}>{text}</{tag}>" for text in self.paragraphs)

    def notes(self, tag: str) -> str:
        """Return the notices, one element each."""
        return "\n".join(f'  <{tag} class="notice">{text}</{tag}>' for text in self.notices)


def _head(b: PageParts) -> str:
    return f"""<head>
<title>{b.title} &ndash; {b.site}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/static/main.css">
<style>
{b.styles}
</style>
</head>"""


def columns(b: PageParts) -> str:
    """Set a modern page: header, main column, sidebar, footer."""
    return f"""<!DOCTYPE html>
<html lang="{b.language}">
{_head(b)}
<body class="page">
<header><h1 class="brand"><a href="/">{b.site}</a></h1>
<nav aria-label="main"><ul>
{b.menu}
</ul></nav></header>
<main id="content"><article>
<h2>{b.title}</h2>
{b.prose()}
</article></main>
<aside class="side"><ul>
{b.sidebar}
</ul></aside>
<footer>
{b.notes("p")}
<svg width="16" height="16"><title>logo</title><path d="M0 0h16v16H0z"/></svg>
</footer>
<noscript><img src="/pixel.gif" alt="">counted without scripts</noscript>
<script>
{b.script}
</script>
</body>
</html>
"""


def table(b: PageParts) -> str:
    """Set an old page: nested tables, upper-case tags, font tags."""
    return f"""<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 4.01 Transitional//EN">
<HTML>
{_head(b)}
<BODY BGCOLOR=#ffffff>
<TABLE WIDTH="100%" CELLPADDING=4><TR><TD COLSPAN=2><FONT SIZE="+2">{b.site}</FONT></TD></TR>
<TR><TD VALIGN=top><UL>
{b.menu}
{b.sidebar}
</UL></TD><TD VALIGN=top><H1>{b.title}</H1>
<!-- text begins > here -->
{b.prose().replace("</p>", "")}
<!-- text ends -->
</TD></TR>
<TR><TD COLSPAN=2><SMALL>
{b.notes("div")}
</SMALL></TD></TR></TABLE>
<SCRIPT TYPE="text/javascript"><!--
{b.script}
//--></SCRIPT>
</BODY></HTML>
"""


def weblog(b: PageParts) -> str:
    """Set a weblog's page: a banner on top, an emphasised lead, list items not closed."""
    first, rest = b.paragraphs[:1], b.paragraphs[1:]
    lead = "".join(f"<p class=lead><em>{text}</em>\n" for text in first)
    body = "\n".join(f"<div class='block'>{text}</div>" for text in rest)
    return f"""<!doctype html>
<html lang={b.language}>
{_head(b)}
<body>
<div id="banner" role="dialog">
{b.notes("span")}
<button>OK</button></div>
<div id=top><a href="/"><b>{b.site[:1]}</b>{b.site[1:]}</a></div>
<ul class=menu>
{b.menu.replace("</li>", "")}
</ul>
<div class="post"><h1>{b.title}</h1>
{lead}{body}
</div>
<ul class="more">
{b.sidebar.replace("</li>", "")}
</ul>
<template><p>a comment form is put here</p></template>
<script>{b.script}</script>
</body>
</html>
"""


def catalogue(b: PageParts) -> str:
    """Set a page of a shop: a definition list around the text, the scripts first."""
    return f"""<?xml version="1.0"?>
<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" lang="{b.language}">
{_head(b)}
<body>
<script type="application/ld+json">
{{"@type": "Product", "name": "{b.site}"}}
</script>
<script>{b.script}</script>
<div class="header">{b.site}&nbsp;&raquo;<ol>
{b.menu}
</ol></div>
<dl><dt>{b.title}</dt>
{b.prose("dd")}
</dl>
<hr />
<div class="related"><ol>
{b.sidebar}
</ol></div>
<div class="legal">&copy;
{b.notes("p")}
</div>
</body>
</html>
"""


def paper(b: PageParts) -> str:
    """Set the view for printing: nothing but the text and the site's name."""
    return f"""<html><head><title>{b.title}</title></head>
<body onload="window.print()">
<h1>{b.title}</h1>
{b.prose()}
<hr><p>{b.site}</p>
</body></html>
"""


def bare(b: PageParts) -> str:
    """Set the paragraphs and nothing else, not even a title."""
    return f"<html><body>\n{b.prose()}\n</body></html>\n"


LAYOUTS: tuple[Callable[[PageParts], str], ...] = (columns, table, weblog, catalogue)


SIDEBAR_MAX = 12


@dataclass(frozen=True, slots=True)
class Site:
    """One site. `layout` is an index into `LAYOUTS`."""

    host: str
    language: Language
    layout: int
    name: str
    menu: tuple[tuple[str, str], ...]
    sidebar: tuple[tuple[str, str], ...]
    notices: tuple[str, ...]
    styles: str
    script: str

    def render(self, article: Article, query: str = "") -> str:
        """Return the page of `article`; `query` is appended to each link of the site."""
        return LAYOUTS[self.layout](self._blocks(article, query))

    def print_view(self, article: Article) -> str:
        """Return the page as made for paper: the article and one line of furniture."""
        return paper(self._blocks(article, ""))

    def bare_page(self, article: Article) -> str:
        """Return the paragraphs of `article` as a page without furniture."""
        return bare(self._blocks(article, ""))

    def _blocks(self, article: Article, query: str) -> PageParts:
        joiner = article.language.joiner
        return PageParts(
            language=self.language.code,
            site=escape(self.name),
            title=escape(article.title),
            menu=_items(self.menu, query),
            sidebar=_items(self.sidebar, query),
            notices=[escape(notice) for notice in self.notices],
            paragraphs=[escape(joiner.join(words)) for words in article.paragraphs],
            styles=self.styles,
            script=self.script,
        )


def _items(links: Sequence[tuple[str, str]], query: str) -> str:
    """Return the links as list items, each address followed by `query`."""
    return "\n".join(
        f'    <li class="item i{n}"><a class="link" href="{path}{query}">{escape(label)}</a></li>'
        for n, (path, label) in enumerate(links)
    )


def make_site(seed: int, number: int) -> Site:
    """Make site `number` of the crawl of `seed`; languages and layouts take turns."""
    rng = Random(f"{seed}/site/{number}")  # noqa: S311 - a repeatable crawl, not a secret
    language = LANGUAGES[number % len(LANGUAGES)]
    topic = draw_topic(rng, language)
    sidebar = []
    for _ in range(4 + int(rng.random() * (SIDEBAR_MAX - 3))):
        label = language.joiner.join(draw_words(rng, language, topic, 4))
        sidebar.append((f"/{rng.getrandbits(24):06x}.html", label))
    notices = rng.sample(language.furniture, 2 + int(rng.random() * 3))
    return Site(
        host=f"www.site{number:04}.example",
        language=language,
        layout=number // len(LANGUAGES) % len(LAYOUTS),
        name=language.joiner.join(topic[:2]).title(),
        menu=tuple((f"/{n}/", label) for n, label in enumerate(language.labels)),
        sidebar=tuple(sidebar),
        notices=tuple(notices),
        styles=_styles(rng),
        script=_script(rng),
    )


def _styles(rng: Random) -> str:
    """Return 20 to 99 rules of a style sheet."""
    names = ("header", "item", "link", "main", "side", "foot", "notice", "lead", "card", "grid")
    return "\n".join(
        f".{names[n % len(names)]}-{rng.getrandbits(16):04x} {{ margin: 0 {rng.getrandbits(5)}px;"
        f" color: #{rng.getrandbits(24):06x}; }}"
        for n in range(20 + int(rng.random() * 80))
    )


def _script(rng: Random) -> str:
    """Return a script of 15 to 94 statements; it holds `<` and tags in strings, as scripts do."""
    return "\n".join(
        f'if (w["{rng.getrandbits(32):08x}"] < {rng.getrandbits(8)}) '
        f'{{ d.push("<p class=\'x\'>" + {rng.getrandbits(20)} + "<\\/p>"); }}'
        for _ in range(15 + int(rng.random() * 80))
    )
