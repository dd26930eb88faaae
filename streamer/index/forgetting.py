"""What is to be forgotten: which rows that is, and how far an index is with it.

A page is forgotten where the log says so: of all that came before, what a term names. From there on
it answers no page. In the memtable that is done at once; a stored row is hidden when it is found,
by its URL, time or ref, until it is written over (a sweep). So neither the moment of a flush nor
that of a sweep shows, and many terms are swept together.
"""

# Commands' records have no number: commands do not know each other, and to forget twice does no
# harm. A command is answered when nothing is left: the answer is part of the state until it is
# published.

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from streamer.errors import SettingsError
from streamer.hosts import host_of, plain_host, same_url_key
from streamer.index.codec import PendingForget
from streamer.index.messages import Forget, Term, Times
from streamer.index.ports import BEFORE_ALL, KeptRows

URL, HOST, BEFORE, REF = "url", "host", "before", "ref"  # kinds of terms: bytes, bytes, ms, ref
_DOTS = ".\u3002\uff0e\uff61"  # that separate the labels of a host
ASK = "ask"  # names no page: the command, which is answered when all that came before is done

Rows = npt.NDArray[np.int64]
Refs = npt.NDArray[np.uint64]


class _TermReach(NamedTuple):
    """For which rows a term holds, those before one, and the command that wants it.

    `record` is the record that it came by, of all that had something to forget.
    """

    row_end: int
    ask: str
    record: int


class Terms:
    """Terms, each for the rows before one; of two that are equal the later one holds."""

    def __init__(self, packed: Iterable[tuple[str, bytes | int, int, str, int]] = ()) -> None:
        self._by_kind: dict[str, dict[Any, _TermReach]] = {URL: {}, HOST: {}, BEFORE: {}, REF: {}}
        for kind, value, row_end, ask, record in packed:
            self._by_kind[kind][value] = _TermReach(row_end, ask, record)

    @classmethod
    def of(cls, forget: Forget, row_end: int = 1 << 62, record: int = 1 << 62) -> Self:
        """Return the terms of a record, for the rows before one and versions of URLs before it."""
        named = (normalize_term(term) for term in forget.terms if term[0] != ASK)
        return cls((kind, value, row_end, forget.ask, record) for kind, value in named)

    def __len__(self) -> int:
        return sum(map(len, self._by_kind.values()))

    def pack(self) -> list[tuple[str, bytes | int, int, str, int]]:
        """Return what the terms are made of again."""
        return [
            (kind, value, *m) for kind, own in self._by_kind.items() for value, m in own.items()
        ]

    def add(self, others: Self) -> None:
        """Add later terms."""
        for kind, own in others._by_kind.items():
            self._by_kind[kind] |= own

    def find(self, rows: Rows, refs: Refs, urls: Sequence[bytes], times: Times) -> dict[int, str]:
        """Return the places of the rows that are named, ascending, and the command of each."""
        found: dict[int, str] = {}
        for time, reach in self._by_kind[BEFORE].items():
            early = np.flatnonzero((times < time) & (rows < reach.row_end))
            found |= dict.fromkeys(early.tolist(), reach.ask)
        if hosts := self._by_kind[HOST]:
            for place, url in enumerate(urls):
                for name in names_of_host(url):
                    self._note(hosts, name, place, rows, found)
        columns: tuple[tuple[str, Sequence[Any]], ...] = (
            (URL, [*map(same_url_key, urls)] if self._by_kind[URL] else ()),
            (REF, refs.tolist() if self._by_kind[REF] else ()),
        )
        for kind, values in columns:
            own = self._by_kind[kind]
            if own and not own.keys().isdisjoint(values):  # as a rule none is named
                for place, value in enumerate(values):
                    self._note(own, value, place, rows, found)
        return dict(sorted(found.items()))

    def name(self, url: bytes, time: int, record: int) -> bool:
        """Return whether a version of a URL is named, that came before the next such record."""
        hosts = self._by_kind[HOST]
        reaches = [self._by_kind[URL].get(same_url_key(url))]
        reaches += [hosts.get(name) for name in names_of_host(url)] if hosts else []
        reaches += [reach for end, reach in self._by_kind[BEFORE].items() if time < end]
        return any(reach is not None and record < reach.record for reach in reaches)

    @staticmethod
    def _note(
        own: dict[Any, _TermReach], value: object, place: int, rows: Rows, found: dict[int, str]
    ) -> None:
        reach = own.get(value)
        if reach is not None and rows[place] < reach.row_end:
            found[place] = reach.ask


def normalize_term(term: Term) -> Term:
    """Return a term as pages are compared with it: a URL as `same_url_key` has it."""
    kind, value = term
    return (kind, same_url_key(value)) if kind == URL and isinstance(value, bytes) else term


def names_of_host(url: bytes) -> Iterator[bytes]:
    """Yield the host of a URL, and with a leading dot the host and its parents."""
    host = host_of(url.decode()).encode()
    yield host
    parts = host.split(b".")
    for i in range(len(parts)):
        yield b"." + b".".join(parts[i:])


def terms_of(urls: Iterable[str], hosts: Iterable[str], before_ms: int | None) -> list[Term]:
    """Return what is to be forgotten: pages with these URLs, of these hosts, before this time.

    Raises:
        SettingsError: something is no URL, or no name of a host.
    """
    terms: list[Term] = [(URL, _url_term(each)) for each in urls]
    terms += [(HOST, _host_term(each)) for each in hosts]
    return terms if before_ms is None else [*terms, (BEFORE, before_ms)]


def _url_term(url: str) -> bytes:
    """Return a URL as that of a page is kept, without the white space around it."""
    try:
        return url.strip().encode()
    except UnicodeEncodeError as error:
        raise SettingsError(
            f"The URL {url!r} is not UTF-8. Give it as verdicts have it."
        ) from error


def _host_term(host: str) -> bytes:
    """Return a host as `names_of_host` has it, with the dot before it where there is one."""
    below = host[:1] in set(_DOTS)
    name = plain_host(host[below:])
    if not name:
        raise SettingsError(
            f"The host {host!r} is no name of a host. Give one as example.org, without a port or a "
            "path; with a dot before it for all below it."
        )
    return ("." * below + name).encode()


class Forgetting:
    """How far an index is with what it is to forget.

    A sweep takes the terms that there are when it begins; those that come meanwhile are for the
    next one. A command has its answer when a sweep has ended that took its terms.

    Attributes:
        records: how many records had something to forget.
        done: the answers that are not published yet: for each command, the pages that were
            forgotten.
    """

    def __init__(self, packed: PendingForget) -> None:
        self._terms = Terms(packed.terms)
        self._swept = Terms()  # by the sweep that goes on
        # A command without a published answer waits for another sweep: the one before may have
        # ended too early.
        self._asked = [*packed.asked, *packed.done]
        self._answered_by_sweep: list[str] = []
        self.records = packed.records
        self._counts = Counter(packed.counts | packed.done)
        self.done: dict[str, int] = {}

    def pack(self) -> PendingForget:
        """Return all of it as a shard's state has it."""
        assert not self._swept, "a sweep goes on"
        return PendingForget(
            self._terms.pack(), self._asked, dict(self._counts), self.done.copy(), self.records
        )

    @property
    def pending(self) -> int:
        """Return how many terms have not been swept."""
        return len(self._terms)

    @property
    def hides(self) -> bool:
        """Return whether stored rows, or versions of URLs, may have to be hidden."""
        return bool(self._terms) or bool(self._swept)

    @property
    def is_asked(self) -> bool:
        """Return whether a command waits for a sweep."""
        return bool(self._asked)

    def accept(self, forget: Forget, terms: Terms) -> None:
        """Add the terms of a record, and its question."""
        self._terms.add(terms)
        asked = [value for kind, value in forget.terms if kind == ASK]
        self._asked += [value.decode() for value in asked if isinstance(value, bytes)]

    def count(self, asks: Iterable[str]) -> None:
        """Count pages that were forgotten, by the commands that wanted it."""
        self._counts.update(filter(None, asks))

    def hide(self, kept: KeptRows, rows: Rows) -> KeptRows:
        """Return stored rows, those that are forgotten with a time before all others."""
        columns = rows, np.array(kept.refs, np.uint64), kept.urls, kept.times
        hidden = [*self._terms.find(*columns), *self._swept.find(*columns)]
        if not hidden:
            return kept
        times = kept.times.copy()
        times[hidden] = BEFORE_ALL
        return replace(kept, times=times)

    def name(self, url: bytes, time: int, record: int) -> bool:
        """Return whether a version of a URL is named, that came before the next such record."""
        return self._terms.name(url, time, record) or self._swept.name(url, time, record)

    def begin_sweep(self) -> None:
        """Leave all terms to the sweep that follows a flush with this state."""
        self._swept, self._terms = self._terms, Terms()
        self._answered_by_sweep, self._asked = self._asked, []

    def end_sweep(self, found: Mapping[str, int]) -> None:
        """Note that nothing of what was swept is stored any more; it found so many pages."""
        self._counts.update({ask: count for ask, count in found.items() if ask})
        self._swept = Terms()
        for ask in self._answered_by_sweep:
            self.done[ask] = self._counts.pop(ask, 0)
        self._answered_by_sweep = []
