"""Sites whose pages have several URLs each, and what a crawler should learn of these.

Each kind of site is a function that yields URLs with their pages, and states the hints that are
true of it: (kind, name, under), as `streamer hints` writes them. Kinds without a true hint are
counter-examples: all their parameters choose the content, though some look like decoration.

A hint for one of these hosts that is not among those is wrong.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

from streamer.analysis.sample.crawl import SEED, page_line
from streamer.analysis.sample.prose import Article, write_article
from streamer.analysis.sample.sites import Site, make_site

FIRST_SITE = 1_000  # the sites of the crawl have lower numbers
ARTICLES = 40  # of a site
UNKNOWN_URLS = 40
EMPTY_MONTHS = 150

Truth = tuple[str, str, str]
Pages = Iterator[tuple[str, str]]  # path with query, and HTML
Maker = Callable[[Random, Site], Pages]


def _articles(rng: Random, site: Site, count: int = ARTICLES, words: int = 160) -> list[Article]:
    return [write_article(rng, site.language, words + rng.randrange(80)) for _ in range(count)]


def _token(rng: Random, bits: int = 64) -> str:
    return f"{rng.getrandbits(bits):0{bits // 4}x}"


def _query(rng: Random, *items: str) -> str:
    return "?" + "&".join(rng.sample(items, len(items)))


def session(rng: Random, site: Site) -> Pages:
    """Give fetches a session in the query, except some; `id` chooses the page."""
    for number, article in enumerate(_articles(rng, site)):
        if number % 4 == 0:
            yield f"/item?id={number}", site.render(article)
        for _ in range(1 + rng.randrange(3) + (number < ARTICLES * 3 // 4)):
            sid = f"sid={_token(rng)}"
            yield "/item" + _query(rng, f"id={number}", sid), site.render(article, f"?{sid}")


def path_session(rng: Random, site: Site) -> Pages:
    """Give each fetch a session in the path's last segment, as servlets do."""
    for article in _articles(rng, site):
        name = _token(rng, 48)
        for _ in range(2 + rng.randrange(2)):
            own = f";jsessionid={_token(rng).upper()}"
            yield f"/articles/{name}.html{own}", site.render(article, own)
        yield f"/articles/{name}.html", site.render(article)


def print_views(rng: Random, site: Site) -> Pages:
    """Give each article a view for printing and one for phones, by a segment of the path."""
    for article in _articles(rng, site, words=900):
        name = _token(rng, 32)
        yield f"/news/{name}", site.render(article)
        yield f"/print/news/{name}", site.print_view(article)
        yield f"/news/{name}/amp", site.render(article, "?amp")


def categories(rng: Random, site: Site) -> Pages:
    """Give each product a URL in several categories."""
    names = ("new", "sale", "home", "garden", "gifts")
    for number, article in enumerate(_articles(rng, site)):
        for category in rng.sample(names, 2):
            yield f"/{category}/product-{number}", site.render(article)


def calendar(rng: Random, site: Site) -> Pages:
    """Have a calendar without an end: two years of events, and empty months after."""
    for number, article in enumerate(_articles(rng, site)):
        yield f"/about/{number}.html", site.render(article)
    for month, article in enumerate(_articles(rng, site, 24)):
        yield f"/calendar/{2024 + month // 12}/{1 + month % 12:02}", site.render(article)
    empty = write_article(rng, site.language, 6)
    for month in range(24, 24 + EMPTY_MONTHS):
        year, name = 2024 + month // 12, f"{1 + month % 12:02}"
        yield f"/calendar/{year}/{name}", site.render(replace(empty, title=f"{name} {year}"))


def soft_errors(rng: Random, site: Site) -> Pages:
    """Answer unknown URLs with one page, as if it were there."""
    for number, article in enumerate(_articles(rng, site)):
        yield f"/guide/{_slug(rng)}-{number}", site.render(article)
    error = site.render(write_article(rng, site.language, 20))
    for _ in range(UNKNOWN_URLS):
        yield f"/{_slug(rng)}/{_slug(rng)}{rng.choice(('', '/', '.html'))}", error


def _slug(rng: Random) -> str:
    return "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(4))


def all_matter(rng: Random, site: Site) -> Pages:
    """Have parameters that all choose the content, also one called `sid`."""
    for number in range(15):
        for language in ("de", "en", "fr"):
            for sid in rng.sample(range(50), 2):
                article = write_article(rng, site.language, 160)
                yield f"/read?id={number}&lang={language}&sid={sid}", site.render(article)


KINDS: dict[Maker, tuple[Truth, ...]] = {
    session: (("parameter", "sid", "/"),),
    path_session: (("path_parameter", "jsessionid", "/"),),
    print_views: (("segment", "amp", "/"), ("segment", "print", "/")),
    categories: (("varying_segment", "/{varies}/*", "/"),),
    calendar: (("trap", "/calendar/*/*", "/"),),
    soft_errors: (("soft_404", "", "/"),),
    all_matter: (),
}
ORDERED = {calendar}  # whose pages are crawled in their order


def write_url_variants(path: Path, sites: int, seed: int = SEED) -> set[tuple[str, ...]]:
    """Write the pages of so many sites of each kind; return the true hints: (host, *truth)."""
    truth, ordinal = set[tuple[str, ...]](), 0
    with path.open("wb") as lines:
        for number in range(sites * len(KINDS)):
            maker, true = list(KINDS.items())[number % len(KINDS)]
            site = make_site(seed, FIRST_SITE + number)
            truth |= {(site.host, *each) for each in true}
            for url, html in _pages(maker, site, f"{seed}/urls/{number}"):
                lines.write(page_line(ordinal, url, html) + b"\n")
                ordinal += 1
    return truth


def _pages(maker: Maker, site: Site, seed: str) -> list[tuple[str, str]]:
    """Return the URLs of a site and their pages, in the order of the crawl."""
    rng = Random(seed)
    pages = [(f"https://{site.host}{path}", html) for path, html in maker(rng, site)]
    if maker not in ORDERED:
        rng.shuffle(pages)
    return pages
