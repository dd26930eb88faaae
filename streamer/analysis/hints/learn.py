"""The hints of hosts, from their URLs and the contents of their pages.

Verdicts and canonical links are sorted by host on disk, by SQLite. Memory is SQLite's cache and the
first URLs of one host. A content is the kept page that represents it: of a duplicate its
representative, of a unique page that one itself.
"""

import os
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, Self
from urllib.parse import urljoin

import msgspec
import xxhash

from streamer.analysis.clusters import place_of
from streamer.analysis.hints import paths
from streamer.analysis.hints.addresses import Address, directory, host_in, split
from streamer.analysis.hints.hint import CanonicalAgreement, Hint, HintKind, HintLimits, HostHints
from streamer.analysis.hints.parameters import WHOLE_HOST, FoundParameter, UrlPage, learn_parameters
from streamer.errors import InputError
from streamer.model import Representative
from streamer.run.verdict_lines import VerdictLine

URLS_MAX = 200_000  # of a host: the first ones
# And less of URLs that are long or have many parts: about so many bytes are held of them.
URL_BYTES_MAX = 128 << 20
PART_BYTES = 100  # of a segment or a parameter
EXAMPLES, EXAMPLE_MAX = 2, 2_000  # URLs of a hint, and characters of each

Agrees = Callable[[Address], bool]  # is called with a canonical link


class UrlVerdict(NamedTuple):
    """What is known of a URL: the number of its content and, of a duplicate, the kept page."""

    url: str
    content: int
    kept: Representative | None = None


def learn_host(
    host: str,
    verdicts: Iterable[UrlVerdict],
    limits: HintLimits,
    canonicals: Mapping[str, str] | None = None,
) -> HostHints:
    """Return the hints of a host. Of the verdicts on a URL the last one counts.

    `canonicals` has the canonical links of pages by their URL; None: they were not looked for.
    """
    known: dict[str, UrlVerdict] = {}
    left_out = size = 0
    for verdict in verdicts:
        url = verdict.url
        if url not in known:
            size += len(url) + PART_BYTES * sum(map(url.count, "/&;"))
            if len(known) == URLS_MAX or size > URL_BYTES_MAX:
                left_out += 1
                continue
        known[url] = verdict
    contents = len({verdict.content for verdict in known.values()})
    hints: list[Hint] = []
    # Each hint needs pages with the same content; most hosts are too small, or have none.
    if len(known) - contents >= min(paths.SOFT_404_FAMILIES - 1, int(limits.support_min / 2)):
        hints = _Learner(host, known, limits, canonicals).hints()
    return HostHints(host, len(known), contents, left_out, hints)


@dataclass
class _Learner:
    """The steps that find hints: each leaves out of the URLs what the steps before have found."""

    _host: str
    _known: Mapping[str, UrlVerdict]
    _limits: HintLimits
    _canonicals: Mapping[str, str] | None

    def __post_init__(self) -> None:
        self._pages = [
            UrlPage(url, address, directory(address.segments), verdict.content)
            for url, verdict in self._known.items()
            if (address := split(url)) is not None
        ]

    def hints(self) -> list[Hint]:
        """Return the hints, those first that the others stand on."""
        limits = self._limits
        parameters = learn_parameters(self._pages, limits)
        ignored: dict[str, frozenset[str]] = {}
        for name, under, _ in parameters:
            ignored[under] = ignored.get(under, frozenset()) | {name}
        bases = paths.bases_of(self._pages, ignored)
        segments = paths.learn_segments(bases, limits)
        bases = paths.drop_segments(bases, [each.name for each in segments])
        varying = paths.learn_varying(bases, limits)
        bases = paths.drop_varying(bases, [each.name for each in varying])
        soft = paths.learn_soft_404(bases)
        traps = paths.learn_traps(bases, {each.pages[0].content for each in soft}, limits)
        return [
            *map(self._learn_parameter, parameters),
            *map(self._learn_segment, segments),
            *(self._hint(HintKind.VARYING_SEGMENT, each) for each in varying),
            *sorted(map(self._learn_soft_404, soft), key=lambda hint: hint.examples),
            *(self._hint(HintKind.TRAP, each) for each in traps),
        ]

    def _learn_parameter(self, found: FoundParameter) -> Hint:
        name, under, evidence = found
        pages = [
            page
            for page in self._pages
            if under in (WHOLE_HOST, page.directory) and has_parameter(page.address, name)
        ]
        kind = HintKind.PATH_PARAMETER if name.startswith(";") else HintKind.PARAMETER
        hint = self._hint(kind, paths.FoundPaths(name.removeprefix(";"), evidence, pages))
        hint = msgspec.structs.replace(hint, under=under, without=len(evidence.without))
        return self._compare(hint, pages, lambda link: not has_parameter(link, name))

    def _learn_segment(self, found: paths.FoundPaths) -> Hint:
        hint = self._hint(HintKind.SEGMENT, found)
        return self._compare(hint, found.pages, lambda link: found.name not in link.segments)

    def _learn_soft_404(self, found: paths.FoundPaths) -> Hint:
        kept = (self._known[page.url].kept for page in found.pages)
        return msgspec.structs.replace(
            self._hint(HintKind.SOFT_404, found),
            error=None,
            representative=next(each for each in kept if each is not None),
        )

    def _hint(self, kind: HintKind, found: paths.FoundPaths) -> Hint:
        evidence, pages = found.evidence, found.pages
        return Hint(
            kind=kind,
            name=found.name,
            under=WHOLE_HOST,
            urls=len(pages),
            support=evidence.support,
            differing=evidence.differing,
            error=round(evidence.error, 4),
            recheck=self._limits.recheck(len(pages)),
            examples=[page.url for page in pages if len(page.url) <= EXAMPLE_MAX][:EXAMPLES],
        )

    def _compare(self, hint: Hint, pages: Sequence[UrlPage], agrees: Agrees) -> Hint:
        """Return the hint with what the canonical links of its pages say of it."""
        if self._canonicals is None:
            return hint
        agreeing = [
            agrees(link)
            for page in pages
            if (written := self._canonicals.get(page.url))
            and (link := canonical_address(self._host, page.url, written)) is not None
        ]
        agreement = CanonicalAgreement(len(agreeing), sum(agreeing))
        return msgspec.structs.replace(hint, canonical=agreement)


def has_parameter(address: Address, name: str) -> bool:
    """Return whether a URL has a parameter; the name of the path's begins with ";"."""
    return any(each == name for each, _ in address.items)


def canonical_address(host: str, url: str, written: str) -> Address | None:
    """Return what a canonical link says of a page; None where it names another host."""
    try:
        found = split(urljoin(url, written.strip()))
    except ValueError:  # brackets that hold no IPv6 address
        return None
    return found if found is not None and found.host == host else None


# ---- sorted by host ------------------------------------------------------------------------------


_TABLES = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = FILE;
PRAGMA cache_size = -65536;
CREATE TABLE verdict (host TEXT, place INTEGER, url TEXT, content INTEGER, kept BLOB);
CREATE TABLE canonical (host TEXT, url TEXT, link TEXT);
"""
_ADD_VERDICT = "INSERT INTO verdict VALUES (?, ?, ?, ?, ?)"
_ADD_CANONICAL = "INSERT INTO canonical VALUES (?, ?, ?)"
_SORTED = "SELECT host, url, content, kept FROM verdict ORDER BY host, place"
_LINKS = "SELECT url, link FROM canonical WHERE host = ? LIMIT ?"
_ROWS_A_CALL = 1_000
_SIGN = 1 << 63  # SQLite's integers have one, hashes have none

_encode = msgspec.json.Encoder().encode
_decode_kept = msgspec.json.Decoder(Representative).decode


class VerdictsByHost:
    """Verdicts in a temporary database: use it with `with`.

    Attributes:
        judged: verdicts that were added.
        without_host: those of them that have no URL of a web host; nothing is learned of these.

    Raises:
        InputError: the disk for temporary files refuses.
    """

    def __init__(self) -> None:
        self.judged = self.without_host = 0
        # Without a name: a file of SQLite's own, which is gone when the process ends in any way.
        self._database = sqlite3.connect("", isolation_level=None)
        self._rows = defaultdict[str, list[tuple[object, ...]]](list)

    def __enter__(self) -> Self:
        """Make the tables."""
        with _disk_named():
            self._database.executescript(_TABLES)
            self._database.execute("BEGIN")
        return self

    def __exit__(self, *_error: object) -> None:
        """Remove the database."""
        self._database.close()

    def add(self, verdict: VerdictLine, place: int) -> None:
        """Add a verdict; `place` orders those of a host."""
        self.judged += 1
        host = host_in(verdict.url)
        if not host:
            self.without_host += 1
            return
        other = verdict.representative
        page = verdict.page if other is None else place_of(other)
        # The same name and place in verdicts of another index may be another page.
        name = f"{verdict.index}\0{page.topic}\0{page.partition}\0{page.offset}"
        content = xxhash.xxh3_64_intdigest(name.encode(errors="replace")) - _SIGN
        kept = None if other is None else _encode(other)
        self._add(_ADD_VERDICT, host, place, _text(verdict.url), content, kept)

    def add_canonical(self, url: str, link: str) -> None:
        """Add the canonical link of a page, as written in it."""
        if host := host_in(url):
            self._add(_ADD_CANONICAL, host, _text(url), _text(link))

    def _add(self, statement: str, *row: object) -> None:
        self._rows[statement].append(row)
        if len(self._rows[statement]) == _ROWS_A_CALL:
            self._write()

    def _write(self) -> None:
        with _disk_named():
            for statement, rows in self._rows.items():
                self._database.executemany(statement, rows)
        self._rows.clear()

    def hints(self, limits: HintLimits, *, with_links: bool = False) -> Iterator[HostHints]:
        """Yield what is learned of each host that has a hint, by name.

        `with_links`: canonical links were added, and are compared with the hints.
        """
        self._write()
        with _disk_named():
            self._database.execute("CREATE INDEX by_host ON canonical (host)")
            rows = self._database.execute(_SORTED)
            for host, found in groupby(rows, itemgetter(0)):
                links = None
                if with_links:
                    links = dict(self._database.execute(_LINKS, (host, URLS_MAX)))
                learned = learn_host(host, map(_verdict, found), limits, links)
                if learned.hints:
                    yield learned


def _verdict(row: tuple[str, str, int, bytes | None]) -> UrlVerdict:
    _, url, content, kept = row
    return UrlVerdict(url, content, None if kept is None else _decode_kept(kept))


def _text(value: str) -> str:
    """Return a string without the halves of surrogates, which SQLite does not take."""
    return value.encode("utf-8", "replace").decode()


@contextmanager
def _disk_named() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise InputError(
            f"Verdicts cannot be sorted in {os.environ.get('TMPDIR', '/var/tmp')} ({error}). Free "  # noqa: S108 - SQLite's
            "space there, or name another folder in TMPDIR."
        ) from error
