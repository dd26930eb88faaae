"""Verdicts and canonical links by host: sorted by SQLite, on disk.

Memory is SQLite's cache and the first URLs of one host (learn.py). A content is the kept page that
represents it: of a duplicate its representative, of a unique page that one itself.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import Self

import msgspec
import xxhash

from streamer.analysis.clusters import place_of
from streamer.analysis.hints.addresses import host_in
from streamer.analysis.hints.hint import HintLimits, HostHints
from streamer.analysis.hints.learn import URLS_MAX, UrlVerdict, learn_host
from streamer.errors import InputError
from streamer.model import Representative
from streamer.run.verdict_lines import VerdictLine

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
        with _disk_named():
            self._database.execute(statement, row)

    def hints(self, limits: HintLimits, *, with_links: bool = False) -> Iterator[HostHints]:
        """Yield what is learned of each host that has a hint, by name.

        `with_links`: canonical links were added, and are compared with the hints.
        """
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
