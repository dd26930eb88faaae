"""Sites whose pages have several URLs each, and what a crawler should learn of these.

Each kind of site is a function that yields URLs with their pages, and states the hints that are
true of it: (kind, name, under), as `streamer hints` writes them. Kinds without a true hint are
counter-examples: all their parameters choose the content, though some look like decoration.

A hint for one of these hosts that is not among those is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

from streamer.analysis.sample.crawl import SEED, page_line
from streamer.analysis.sample.prose import Article, replace_words, write_article
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


def campaign(rng: Random, site: Site) -> Pages:
    """Give some links the names of a campaign, which come together."""
    for number, article in enumerate(_articles(rng, site)):
        html = site.render(article)
        yield f"/story/{number}", html
        for _ in range(2):
            source = f"utm_source={rng.choice(('mail', 'feed', 'search'))}"
            medium = f"utm_medium={rng.choice(('link', 'banner'))}"
            yield f"/story/{number}?{source}&{medium}&utm_campaign={rng.randrange(99)}", html


def add_stamps(rng: Random, site: Site) -> Pages:
    """Give fetches a session and a time stamp, except some: no two differ in one of them only."""
    for number, article in enumerate(_articles(rng, site)):
        if number % 4 == 0:
            yield f"/forum/view?topic={number}", site.render(article)
        for _ in range(3):
            stamp = 1_717_200_000 + rng.randrange(10**6)
            items = (f"topic={number}", f"s={_token(rng)}", f"t={stamp}")
            yield "/forum/view" + _query(rng, *items), site.render(article)


def print_views(rng: Random, site: Site) -> Pages:
    """Give each article a view for printing and one for phones, by a segment of the path."""
    for article in _articles(rng, site, words=900):
        name = _token(rng, 32)
        yield f"/news/{name}", site.render(article)
        yield f"/print/news/{name}", site.print_view(article)
        yield f"/news/{name}/amp", site.render(article, "?amp")


def print_parameter(rng: Random, site: Site) -> Pages:
    """Give each article a view for printing, by a parameter."""
    for number, article in enumerate(_articles(rng, site, words=900)):
        yield f"/{number % 5}/text-{number}.html", site.render(article)
        yield f"/{number % 5}/text-{number}.html?view=print", site.print_view(article)


def categories(rng: Random, site: Site) -> Pages:
    """Give each product a URL in several categories."""
    names = ("new", "sale", "home", "garden", "gifts")
    for number, article in enumerate(_articles(rng, site)):
        for category in rng.sample(names, 2):
            yield f"/{category}/product-{number}", site.render(article)


def segment_session(rng: Random, site: Site) -> Pages:
    """Give each fetch a session as a segment of the path."""
    for number, article in enumerate(_articles(rng, site)):
        for _ in range(2):
            own = f"/s/{_token(rng)}"
            yield f"{own}/doc{number}.html", site.render(article, own)


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


def loop(rng: Random, site: Site) -> Pages:
    """Have relative links that add segments to the path of a page again and again."""
    articles = _articles(rng, site)
    for number, article in enumerate(articles):
        yield f"/page/{number}", site.render(article)
    for depth in range(70):
        path = "/".join(rng.choice(("board", "help")) for _ in range(3 + depth // 4))
        yield f"/board/help/{path}/", site.render(articles[0])


def edit_pages(rng: Random, site: Site) -> Pages:
    """Give fetches a session, except some, and change a page in 40 between two fetches."""
    for number, article in enumerate(_articles(rng, site, 2 * ARTICLES)):
        changed = replace_words(rng, article, 0.5) if not number % ARTICLES else article
        if number % 4 == 1:
            yield f"/wiki?title=Page_{number}", site.render(article)
        for each in (article, changed):
            yield f"/wiki?title=Page_{number}&PHPSESSID={_token(rng)}", site.render(each)


def brands(rng: Random, site: Site) -> Pages:
    """Have a parameter that is decoration of products, and the subject of lists."""
    for number, article in enumerate(_articles(rng, site)):
        for brand in rng.sample(range(30), 2):
            yield f"/products/{number}?brand={brand}", site.render(article)
    for brand, article in enumerate(_articles(rng, site, 30)):
        yield f"/lists/all?brand={brand}", site.render(article)


def all_matter(rng: Random, site: Site) -> Pages:
    """Have parameters that all choose the content, also one called `sid`."""
    for number in range(15):
        for language in ("de", "en", "fr"):
            for sid in rng.sample(range(50), 2):
                article = write_article(rng, site.language, 160)
                yield f"/read?id={number}&lang={language}&sid={sid}", site.render(article)


def some_lists_are_long(rng: Random, site: Site) -> Pages:
    """Have lists of which one in three has a second page; the others show the first one again."""
    for number, article in enumerate(_articles(rng, site, 60)):
        yield f"/list/{number}", site.render(article)
        second = write_article(rng, site.language, 160) if number % 3 == 0 else article
        yield f"/list/{number}?page=2", site.render(second)


def one_page_for_all(rng: Random, site: Site) -> Pages:
    """Answer all members' pages with a login form: `id` chooses nothing there, but elsewhere."""
    form = site.render(write_article(rng, site.language, 12))
    for number in range(60):
        yield f"/members?view={number % 4}&id={number}", form
    for number, article in enumerate(_articles(rng, site)):
        yield f"/public?id={number}", site.render(article)


def sections(rng: Random, site: Site) -> Pages:
    """Have sections with pages of the same names, and other content."""
    for section in ("north", "south", "print", "amp"):
        for number, article in enumerate(_articles(rng, site, 30)):
            yield f"/{section}/{number}.html", site.render(article)
    for number, article in enumerate(_articles(rng, site, 30)):
        yield f"/{number}.html", site.render(article)


KINDS: dict[Maker, tuple[Truth, ...]] = {
    session: (("parameter", "sid", "/"),),
    path_session: (("path_parameter", "jsessionid", "/"),),
    campaign: (
        ("parameter", "utm_campaign", "/"),
        ("parameter", "utm_medium", "/"),
        ("parameter", "utm_source", "/"),
    ),
    add_stamps: (("parameter", "s", "/"), ("parameter", "t", "/")),
    print_views: (("segment", "amp", "/"), ("segment", "print", "/")),
    print_parameter: (("parameter", "view", "/"),),
    categories: (("varying_segment", "/{varies}/*", "/"),),
    segment_session: (("varying_segment", "/s/{varies}/*", "/"),),
    calendar: (("trap", "/calendar/*/*", "/"),),
    soft_errors: (("soft_404", "", "/"),),
    loop: (("trap", "/board/help/{again}", "/"),),
    edit_pages: (("parameter", "PHPSESSID", "/"),),
    brands: (("parameter", "brand", "/products/"),),
    all_matter: (),
    some_lists_are_long: (),
    one_page_for_all: (("trap", "/members?id&view", "/"),),
    sections: (),
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
