"""The sample crawl: a sequence of records, some of them planted copies of earlier ones.

Each record is drawn from a generator of its own, seeded by the crawl's seed and its ordinal, and
from the originals so far: so a shorter crawl is the beginning of a longer one, byte for byte, on
every machine. Memory is bounded: at most ORIGINS_MAX originals are kept to copy from, replaced at
random.

A kind says how a page was made, not what the detector must say of it: that is decided by exact
resemblance alone. The value of a kind is its word in the truth file.

The files of a crawl are `pages.jsonl`, and next to it `truth.tsv` with what was planted: one line
for each line of the pages file, after a line of column names. It says how a page was made and from
which one, and their exact resemblance by the plain reference. It does not say what a detector must
answer: that depends on what the detector kept (reference.py).
"""

import base64
import csv
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any, BinaryIO, Self

import msgspec

from streamer.analysis.sample import prose, reference
from streamer.analysis.sample.sites import Site, make_site
from streamer.errors import InputError, SettingsError
from streamer.model import Page


class Kind(StrEnum):
    """How a page of the sample crawl was made, by its word in the truth file.

    A little under half are originals, so a detector sees more repeats than news.

    Attributes:
        per_mille: how many of 1,000 records are so.
        edit, share: what becomes of an article in a copy, and the share of its words or paragraphs.
    """

    per_mille: int
    edit: prose.Edit | None
    share: float

    def __new__(
        cls, word: str, per_mille: int, edit: prose.Edit | None = None, share: float = 0.0
    ) -> Self:
        """Make a kind of a line below."""
        made = str.__new__(cls, word)
        made._value_ = word
        made.per_mille, made.edit, made.share = per_mille, edit, share
        return made

    ORIGINAL = "original", 460
    EXACT_COPY = "exact_copy", 60  # the same bytes on another host
    SESSION_MIRROR = "session_mirror", 60  # session ids in the URL and in all links
    PRINT_VIEW = "print_view", 50  # the same article in a bare layout
    RECODED = "recoded", 30  # the same page in the language's old charset
    RECRAWL = "recrawl", 60, prose.replace_words, 0.015  # the same URL, changed each time
    REPLACED_01 = "replaced_01", 40, prose.replace_words, 0.01  # 1 % of the words replaced
    REPLACED_02 = "replaced_02", 40, prose.replace_words, 0.02
    REPLACED_05 = "replaced_05", 30, prose.replace_words, 0.05
    REPLACED_20 = "replaced_20", 20, prose.replace_words, 0.20
    INSERTED_02 = "inserted_02", 20, prose.insert_words, 0.02  # one before 2 % of the words
    DELETED_02 = "deleted_02", 20, prose.delete_words, 0.02
    MOVED_20 = "moved_20", 20, prose.move_paragraphs, 0.20  # 20 % of the paragraphs moved
    BOILERPLATE = "boilerplate", 35  # a site's furniture with almost no text
    TOO_SHORT = "too_short", 20  # two words
    TOO_SHORT_COPY = "too_short_copy", 15  # the same two words elsewhere
    INVALID_JSON = "invalid_json", 5  # a line cut in its middle
    MISSING_BODY = "missing_body", 5
    NOT_TEXT = "not_text", 10  # a PDF


SEED = 20_240_601
SITES = 56  # eight of each language, two of each layout among them
ORIGINS_MAX = 4_096
START = datetime(2024, 6, 1, tzinfo=UTC)
_PDF = base64.b64encode(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<<>>\nendobj\n").decode()


@dataclass(frozen=True, slots=True)
class Origin:
    """A page that others may be copies of."""

    ordinal: int
    url: str
    site: Site
    article: prose.Article
    is_bare: bool = False

    def html(self) -> str:
        """Return the page's HTML once more."""
        return (self.site.bare_page if self.is_bare else self.site.render)(self.article)


@dataclass(frozen=True, slots=True)
class Planted:
    """One record of the crawl: its line (without a newline) and the truth about it."""

    ordinal: int
    url: str
    kind: Kind
    origin: Origin | None
    line: bytes


class Crawl:
    """Make the records of a crawl, in order, once."""

    def __init__(self, seed: int = SEED) -> None:
        self._seed = seed
        self._sites = [make_site(seed, number) for number in range(SITES)]
        self._origins: list[Origin] = []
        self._shorts: list[Origin] = []
        self._originals = 0

    def records(self, pages: int) -> Iterator[Planted]:
        """Yield `pages` records."""
        weights = [kind.per_mille for kind in Kind]
        for ordinal in range(pages):
            rng = Random(f"{self._seed}/{ordinal}")  # noqa: S311 - a repeatable crawl, not a secret
            yield self._record(rng, ordinal, rng.choices([*Kind], weights)[0])

    def _record(self, rng: Random, ordinal: int, kind: Kind) -> Planted:
        """Make one record; a copy becomes an original while there is nothing to copy."""
        if kind in (Kind.TOO_SHORT, Kind.TOO_SHORT_COPY):
            return self._short(rng, ordinal, kind)
        if kind is Kind.BOILERPLATE:
            return self._boilerplate(rng, ordinal)
        if kind in (Kind.INVALID_JSON, Kind.MISSING_BODY, Kind.NOT_TEXT):
            return self._make_no_page(rng, ordinal, kind)
        if kind is Kind.ORIGINAL or not self._origins:
            return self._original(rng, ordinal)
        return self._copy(rng, ordinal, kind)

    def _site(self, rng: Random) -> Site:
        return self._sites[int(rng.random() * SITES)]

    def _original(self, rng: Random, ordinal: int) -> Planted:
        site = self._site(rng)
        words = 100 + int(rng.random() * rng.random() * 1400)  # to 1,500, short ones more often
        article = prose.write_article(rng, site.language, words)
        origin = Origin(ordinal, _address(rng, site.host), site, article)
        self._originals += 1
        if len(self._origins) < ORIGINS_MAX:
            self._origins.append(origin)
        elif (place := int(rng.random() * self._originals)) < ORIGINS_MAX:  # reservoir sampling
            self._origins[place] = origin
        charset = site.language.charset if rng.random() * 10 < 1 else None
        line = page_line(ordinal, origin.url, site.render(article), charset)
        return Planted(ordinal, origin.url, Kind.ORIGINAL, None, line)

    def _copy(self, rng: Random, ordinal: int, kind: Kind) -> Planted:
        place = int(rng.random() * len(self._origins))
        origin = self._origins[place]
        site, article = origin.site, origin.article
        url, charset = _address(rng, site.host), None
        if kind.edit:
            article = kind.edit(rng, article, kind.share)
        html = site.render(article)
        if kind is Kind.EXACT_COPY:
            url = origin.url.replace("www.", f"mirror{rng.getrandbits(8)}.", 1)
        elif kind is Kind.SESSION_MIRROR:
            session = f";jsessionid={rng.getrandbits(64):016X}"
            url, html = origin.url + session, site.render(article, session)
        elif kind is Kind.PRINT_VIEW:
            url, html = f"{origin.url}?view=print", site.print_view(article)
        elif kind is Kind.RECODED:
            charset = site.language.charset
        elif kind is Kind.RECRAWL:
            url = origin.url
            self._origins[place] = replace(origin, ordinal=ordinal, article=article)
        return Planted(ordinal, url, kind, origin, page_line(ordinal, url, html, charset))

    def _boilerplate(self, rng: Random, ordinal: int) -> Planted:
        site = self._site(rng)
        article = replace(prose.write_article(rng, site.language, 4), title=site.name)
        url = _address(rng, site.host)
        line = page_line(ordinal, url, site.render(article))
        return Planted(ordinal, url, Kind.BOILERPLATE, None, line)

    def _short(self, rng: Random, ordinal: int, kind: Kind) -> Planted:
        site = self._site(rng)
        url = _address(rng, site.host)
        if kind is Kind.TOO_SHORT_COPY and self._shorts:
            origin = self._shorts[int(rng.random() * len(self._shorts))]
            article = origin.article
        else:
            kind, origin = Kind.TOO_SHORT, None
            article = prose.write_article(rng, site.language, 2)
            if len(self._shorts) < ORIGINS_MAX:
                self._shorts.append(Origin(ordinal, url, site, article, is_bare=True))
        return Planted(ordinal, url, kind, origin, page_line(ordinal, url, site.bare_page(article)))

    def _make_no_page(self, rng: Random, ordinal: int, kind: Kind) -> Planted:
        site = self._site(rng)
        url = _address(rng, site.host)
        if kind is Kind.NOT_TEXT:
            line = msgspec.json.encode(
                Page(url=url, body_base64=_PDF, content_type="application/pdf")
            )
        elif kind is Kind.MISSING_BODY:
            line = msgspec.json.encode({"url": url, "content_type": "text/html"})
        else:
            line = page_line(ordinal, url, site.render(prose.write_article(rng, site.language, 40)))
            line = line[: len(line) // 2].removesuffix(b"\\")
        return Planted(ordinal, url, kind, None, line)


def _address(rng: Random, host: str) -> str:
    return f"https://{host}/articles/{rng.getrandbits(48):012x}.html"


def page_line(ordinal: int, url: str, html: str, charset: str | None = None) -> bytes:
    """Return a page message; with `charset` its body is bytes, not yet decoded."""
    fetched = (START + timedelta(seconds=7 * ordinal)).strftime("%Y-%m-%dT%H:%M:%SZ")
    page = Page(url=url, body=html, content_type="text/html", fetched_at=fetched)
    if charset is not None:
        encoded = base64.b64encode(html.encode(charset, "xmlcharrefreplace")).decode()
        page = msgspec.structs.replace(
            page, body=msgspec.UNSET, body_base64=encoded, charset=charset
        )
    return msgspec.json.encode(page)


PAGES_FILE = "pages.jsonl"
TRUTH_FILE = "truth.tsv"
COLUMNS = ("ordinal", "url", "kind", "origin", "origin_url", "resemblance")


def write_crawl(
    folder: Path, pages: int, seed: int = SEED, progress: Callable[[int], None] = lambda _done: None
) -> Counter[Kind]:
    """Write a crawl of `pages` records into `folder`; return how many there are of each kind.

    `progress` gets how many records are done, after each.

    Raises:
        InputError: the folder or a file in it cannot be written.
    """
    counts: Counter[Kind] = Counter()
    with _open_truth(folder) as (lines, table):
        for planted in Crawl(seed).records(pages):
            lines.write(planted.line + b"\n")
            table.writerow(_row(planted))
            counts[planted.kind] += 1
            progress(counts.total())
    return counts


@contextmanager
def _open_truth(folder: Path) -> Iterator[tuple[BinaryIO, Any]]:
    """Open the file of pages in `folder`, which is made, and the table of what is true of them.

    Raises:
        InputError: the folder or a file in it cannot be written.
        SettingsError: it has pages of somebody else.
    """
    pages, truth = folder / PAGES_FILE, folder / TRUTH_FILE
    if pages.exists() and not truth.exists():
        raise SettingsError(f"{pages} exists and was not made as a sample. Name another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with pages.open("wb") as lines, truth.open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, "excel-tab", lineterminator="\n")
            table.writerow(COLUMNS)
            yield lines, table
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror or error}; choose another folder") from error


def _row(planted: Planted) -> tuple[object, ...]:
    """Return one line of the truth file; the last three columns are empty without an origin."""
    of: tuple[object, ...] = ("", "", "")
    if origin := planted.origin:
        of = origin.ordinal, origin.url, f"{_resemblance(planted.line, origin.html()):.6f}"
    return planted.ordinal, planted.url, planted.kind.value, *of


def _resemblance(line: bytes, origin_html: str) -> float:
    """Return the exact resemblance of a copy to its origin."""
    page = reference.read_page(line)
    text = page and reference.page_text(page)
    assert isinstance(text, str), line[:200]  # copies are readable pages
    shingler = reference.TextShingler()
    return reference.resemblance(
        shingler.exact(text), shingler.exact(reference.visible_text(origin_html))
    )


def read_kinds(path: Path) -> dict[int, str]:
    """Return the kind of each ordinal in a truth file.

    Raises:
        InputError: the file cannot be read as a truth file.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return {
                int(row["ordinal"]): row["kind"]
                for row in csv.DictReader(file, dialect="excel-tab")
            }
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; check the path") from error
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise InputError(f"{path}: not a truth file ({error}); write the crawl again") from error
