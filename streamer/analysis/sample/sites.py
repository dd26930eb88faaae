"""Sites: a host, a language, a layout, and all that is on each of its pages.

A site's furniture is drawn once, so its pages share their navigation, footer, styles and scripts,
as the pages of one real site do. `render` sets an article into the site's layout, `print_view` and
`bare_page` into plainer ones. None draws anything: the same article gives the same bytes.

The layouts are files in layouts/ of the same parts, so that one article can be set in two of them.
They differ in what makes extraction hard: unclosed list items, tables, inline tags within words,
entities, comments, and scripts or no-script parts that no reader sees. `columns` is a modern page,
`table` an old one with upper-case tags, `weblog` has a banner on top and list items that are not
closed, `catalogue` is a page of a shop with its scripts first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from random import Random
from string import Template

from streamer.analysis.sample.prose import LANGUAGES, Article, Language, draw_topic, draw_words

LAYOUTS = ("columns", "table", "weblog", "catalogue")
_ALL = (*LAYOUTS, "head", "paper", "bare")
_FOLDER = files("streamer.analysis.sample").joinpath("layouts")
_TEMPLATES = {each: Template(_FOLDER.joinpath(f"{each}.html").read_text("utf-8")) for each in _ALL}


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
        return self._set(LAYOUTS[self.layout], article, query)

    def print_view(self, article: Article) -> str:
        """Return the page as made for paper: the article and one line of furniture."""
        return self._set("paper", article)

    def bare_page(self, article: Article) -> str:
        """Return the paragraphs of `article` as a page without furniture."""
        return self._set("bare", article)

    def _set(self, layout: str, article: Article, query: str = "") -> str:
        """Return an article in a layout; what is `open` has no end tags."""
        paragraphs = [escape(article.language.joiner.join(words)) for words in article.paragraphs]
        menu, sidebar = _items(self.menu, query), _items(self.sidebar, query)
        name, prose = escape(self.name), _elements("p", paragraphs)
        parts = {
            "language": self.language.code,
            "site": name,
            "initial": name[:1],
            "rest": name[1:],
            "title": escape(article.title),
            "menu": menu,
            "open_menu": menu.replace("</li>", ""),
            "sidebar": sidebar,
            "open_sidebar": sidebar.replace("</li>", ""),
            "prose": prose,
            "open_prose": prose.replace("</p>", ""),
            "prose_dd": _elements("dd", paragraphs),
            "lead": "".join(f"<p class=lead><em>{text}</em>\n" for text in paragraphs[:1]),
            "blocks": "\n".join(f"<div class='block'>{text}</div>" for text in paragraphs[1:]),
            "styles": self.styles,
            "script": self.script,
        }
        notices = [escape(notice) for notice in self.notices]
        for tag in ("p", "div", "span"):
            parts[f"notes_{tag}"] = _elements(tag, notices, ' class="notice"')
        parts["head"] = _TEMPLATES["head"].substitute(parts)
        return _TEMPLATES[layout].substitute(parts)


def _elements(tag: str, texts: Sequence[str], attributes: str = "") -> str:
    """Return texts, one element each."""
    return "\n".join(f"  <{tag}{attributes}>{text}</{tag}>" for text in texts)


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
