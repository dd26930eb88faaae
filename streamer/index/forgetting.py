"""What is to be forgotten: which rows that is, and how far a shard is with it.

A page is forgotten where the log says so: of all that came before, what a term names. From there on
it answers no page. In the memtable that is done at once; a stored row is hidden when it is found,
by its URL, time or ref, until it is written over (a sweep). So neither the moment of a flush nor
that of a sweep shows, and many terms are swept together.

What was kept of a URL is retired in the same way where a page replaces it (`--retire-replaced`).
There may be a hundred thousand such URLs, so they stand apart; and nobody waits for them to be
gone from the disk. A version of the URL stays what the next page is compared with.

Replacements are numbered, by shard 0. A page that was held is judged with the number at its
arrival: only earlier replacements hide anything from it. A replacement settles when no page to come
arrived before it: its rows then are hidden from all pages, and may be swept.
"""

# Commands' records have no number: commands do not know each other, and to forget twice does no
# harm. A command is answered when nothing is left: the answer is part of the state until it is
# published.

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import numpy as np
import numpy.typing as npt

from streamer.errors import SettingsError
from streamer.index.codec import PendingForget, Replaced
from streamer.index.messages import Forget, Term, Times
from streamer.index.ports import BEFORE_ALL, KeptRows
from streamer.index.postings import ROWS_MAX

URL, HOST, BEFORE, REF = "url", "host", "before", "ref"  # kinds of terms: bytes, bytes, ms, ref
_DOTS = ".\u3002\uff0e\uff61"  # that separate the labels of a host
RETIRED = "retired"  # names what has a URL, but no version of that; as machines up to version 4 did
REPLACED = "replaced"  # the same for pages that arrive later only: a numbered replacement
SETTLED = "settled"  # names no page: all pages to come arrived after so many replacements
ASK = "ask"  # names no page: the command, which is to be told when all that came before is done

Rows = npt.NDArray[np.int64]
Refs = npt.NDArray[np.uint64]


class _TermMark(NamedTuple):
    """For which rows a term holds, those before one, and the command that wants it.

    `record` tells by which record it came, of all that had something to forget.
    """

    row_end: int
    ask: str
    record: int


class Terms:
    """Terms, each for the rows before one; of two that are equal the later one holds."""

    def __init__(
        self,
        packed: Iterable[tuple[str, bytes | int, int, str, int]] = (),
        retired: Mapping[bytes, int] = {},
    ) -> None:
        self._by_kind: dict[str, dict[Any, _TermMark]] = {URL: {}, HOST: {}, BEFORE: {}, REF: {}}
        for kind, value, row_end, ask, record in packed:
            self._by_kind[kind][value] = _TermMark(row_end, ask, record)
        self.retired = dict(retired)  # URLs, each with the row before which it is

    @classmethod
    def unpack(cls, packed: PendingForget) -> Terms:
        """Return the terms that a shard's state has."""
        ends = np.frombuffer(packed.retired_before, np.int64).tolist()
        return cls(packed.terms, dict(zip(packed.retired, ends, strict=True)))

    @classmethod
    def of(cls, forget: Forget, row_end: int = ROWS_MAX, record: int = 1 << 62) -> Terms:
        """Return the terms of a record, for the rows before one and versions of URLs before it."""
        named = ((kind, value) for kind, value in forget.terms if kind != ASK)
        return cls((kind, value, row_end, forget.ask, record) for kind, value in named)

    def __len__(self) -> int:
        return self.named + len(self.retired)

    @property
    def named(self) -> int:
        """Return how many terms there are but for URLs that are retired."""
        return sum(map(len, self._by_kind.values()))

    def packed(self) -> list[tuple[str, bytes | int, int, str, int]]:
        """Return what the terms are made of again."""
        return [
            (kind, value, *m) for kind, own in self._by_kind.items() for value, m in own.items()
        ]

    def add(self, others: Terms) -> None:
        """Take later terms."""
        for kind, own in others._by_kind.items():
            self._by_kind[kind] |= own
        self.retired |= others.retired

    def find(self, rows: Rows, refs: Refs, urls: Sequence[bytes], times: Times) -> dict[int, str]:
        """Return the places of the rows that are named, ascending, and the command of each."""
        found: dict[int, str] = {}
        for time, mark in self._by_kind[BEFORE].items():
            early = np.flatnonzero((times < time) & (rows < mark.row_end))
            found |= dict.fromkeys(early.tolist(), mark.ask)
        if hosts := self._by_kind[HOST]:
            for place, url in enumerate(urls):
                for name in names_of_host(url):
                    self._note(hosts, name, place, rows, found)
        columns: tuple[tuple[str, Sequence[Any]], ...] = (
            (URL, urls), (REF, refs.tolist() if self._by_kind[REF] else ()),
        )  # fmt: skip
        for kind, values in columns:
            own = self._by_kind[kind]
            if own and not own.keys().isdisjoint(values):  # as a rule none is named
                for place, value in enumerate(values):
                    self._note(own, value, place, rows, found)
        found |= dict.fromkeys(self._find_retired(rows, urls), "")  # no command counts them
        return dict(sorted(found.items()))

    def _find_retired(self, rows: Rows, urls: Sequence[bytes]) -> Iterator[int]:
        if self.retired and not self.retired.keys().isdisjoint(urls):
            for place, url in enumerate(urls):
                if rows[place] < self.retired.get(url, 0):
                    yield place

    def name(self, url: bytes, time: int, record: int) -> bool:
        """Return whether a version of a URL is named, that came before the next such record."""
        hosts = self._by_kind[HOST]
        marks = [self._by_kind[URL].get(url)]
        marks += [hosts.get(name) for name in names_of_host(url)] if hosts else []
        marks += [mark for end, mark in self._by_kind[BEFORE].items() if time < end]
        return any(mark is not None and record < mark.record for mark in marks)

    def names_any(self, urls: Sequence[bytes]) -> bool:
        """Return whether any of some URLs, whose times are not known, may be named."""
        if self._by_kind[BEFORE]:
            return bool(urls)
        return any(self.name(url, 0, -1) for url in urls)

    @staticmethod
    def _note(
        own: dict[Any, _TermMark], value: object, place: int, rows: Rows, found: dict[int, str]
    ) -> None:
        mark = own.get(value)
        if mark is not None and rows[place] < mark.row_end:
            found[place] = mark.ask


def names_of_host(url: bytes) -> Iterator[bytes]:
    """Yield what stands for a URL's host: its name; with a dot before it, it or one above it."""
    try:
        host = (urlsplit(url.decode()).hostname or "").encode()
    except ValueError:  # none of a URL's forms
        return
    yield host
    parts = host.split(b".")
    for i in range(len(parts)):
        yield b"." + b".".join(parts[i:])


def terms_of(urls: Iterable[str], hosts: Iterable[str], before_ms: int | None) -> list[Term]:
    """Return what is to be forgotten: pages with these URLs, of these hosts, before this time.

    Raises:
        SettingsError: something is no name of a host.
    """
    terms: list[Term] = [(URL, each.encode()) for each in urls]
    terms += [(HOST, name) for each in hosts for name in _host_names(each)]
    return terms if before_ms is None else [*terms, (BEFORE, before_ms)]


def _host_names(host: str) -> list[bytes]:
    """Return all names that URLs may give a host, or those below one that begins with a dot.

    A label outside ASCII is written as it is, in its `xn--` form, or with percent signs; there may
    be a dot at the end.
    """
    is_below = host[:1] in set(_DOTS)
    name = unicodedata.normalize("NFKC", host).lower().strip(f"[]{_DOTS}")
    labels = re.split(f"[{_DOTS}]", name)
    if not all(labels) or re.search(r"[\s/@?#]|^[^:]*:[^:]*$", name):  # as a URL or a port have
        raise SettingsError(
            f"The host {host!r} is no name of a host. Give one as example.org, without a port or a "
            "path; with a dot before it for all below it."
        )
    forms = ["." * is_below + ".".join(form) for form in itertools.product(*map(_forms, labels))]
    return [f"{form}{dot}".encode() for form in forms for dot in ("", ".")]


def _forms(label: str) -> list[str]:
    """Return how a label of a host may be written: first in ASCII as far as it can be."""
    try:
        plain = label[4:].encode().decode("punycode") if label.startswith("xn--") else label
    except UnicodeError:
        return [label]
    if plain.isascii():
        return [label]
    coded = quote(plain)
    return [f"xn--{plain.encode('punycode').decode()}", plain, coded, coded.lower()]


class Forgetting:
    """How far one shard is with what it is to forget.

    A sweep takes the terms that there are when it begins; those that come meanwhile are for the
    next one. A command has its answer when all that its terms name is out of the way of pages: none
    is held here (`doomed`) that will be inserted yet. Only then its question goes on to the next
    shard, which so hears of it behind all that it asks for.

    Attributes:
        doomed: refs of held pages that are forgotten as soon as they are inserted.
        gone: refs of pages that are forgotten, and are still undecided.
        records: how many records had something to forget.
        replacements: how many pages have replaced what their URLs had.
        oldest: the shard before passes on no page that arrived before so many of them.
        done: for each command that is done here, and has not been told so, the pages that were
            forgotten.
    """

    def __init__(self, packed: PendingForget) -> None:
        self._terms = Terms.unpack(packed)
        self._swept = Terms()  # by the sweep that goes on
        self.doomed, self.gone = set(packed.doomed), set(packed.gone)
        # Who was not told yet waits for another sweep: the one before may have ended too early.
        self._asked, self._passed_on = packed.asked, [*packed.passed_on, *packed.done]
        self._told_by_sweep: list[str] = []
        self.records = packed.records
        self.replacements, self.oldest = packed.replacements, packed.oldest
        self._replaced = deque(packed.replaced)
        self._replaced_urls: dict[bytes, deque[Replaced]] = {}
        for each in packed.replaced:
            self._replaced_urls.setdefault(each.url, deque()).append(each)
        self._counts = Counter(packed.counts | packed.done)
        self.done: dict[str, int] = {}

    def packed(self) -> PendingForget:
        """Return all of it as a shard's state has it."""
        assert not self._swept, "a sweep goes on"
        retired = self._terms.retired
        return PendingForget(
            self._terms.packed(), sorted(self.doomed), sorted(self.gone), self._asked,
            self._passed_on, dict(self._counts), self.done.copy(), self.records,
            [*retired], np.fromiter(retired.values(), np.int64, len(retired)).tobytes(),
            [*self._replaced], self.replacements, self.oldest,
        )  # fmt: skip

    @property
    def pending(self) -> int:
        """Return how many terms have not been swept, but for URLs that are retired."""
        return self._terms.named

    @property
    def retired(self) -> int:
        """Return how many URLs that are retired have not been swept."""
        return len(self._terms.retired)

    @property
    def hides(self) -> bool:
        """Return whether stored rows may have to be hidden."""
        return bool(self._terms) or bool(self._swept) or bool(self._replaced)

    @property
    def hides_versions(self) -> bool:
        """Return whether versions of URLs may have to be hidden."""
        return bool(self._terms.named or self._swept.named)

    @property
    def is_asked(self) -> bool:
        """Return whether a command waits for a sweep."""
        return bool(self._passed_on)

    def is_named_open(self, ref: int) -> bool:
        """Return whether a page is to be forgotten that was named before it had a verdict."""
        return ref in self.gone or ref in self.doomed

    def take(self, forget: Forget, terms: Terms) -> None:
        """Take the terms of a record, and its question."""
        self._terms.add(terms)
        asked = [value for kind, value in forget.terms if kind == ASK]
        self._asked += [value.decode() for value in asked if isinstance(value, bytes)]

    def retire(self, url: bytes, row_end: int) -> None:
        """Take a URL of which the rows before one answer no page any more."""
        self._terms.retired[url] = row_end

    @property
    def unsettled(self) -> int:
        """Return how many replacements have not settled."""
        return len(self._replaced)

    def replace(self, url: bytes, row_end: int) -> int:
        """Take a URL of which the rows before one answer no page that arrives from here on.

        Return the number of the replacement.
        """
        self.replacements += 1
        each = Replaced(self.replacements, url, row_end)
        self._replaced.append(each)
        self._replaced_urls.setdefault(url, deque()).append(each)
        return self.replacements

    def is_replaced_since(self, url: bytes, replacements: int) -> bool:
        """Return whether a URL was replaced since a page arrived, after so many replacements."""
        return any(each.number > replacements >= 0 for each in self._replaced_urls.get(url, ()))

    def retire_late(self, url: bytes, ref: int, replacements: int) -> int:
        """Take a page that became a row and arrived after so many replacements.

        Return the number of the one that retires it, 0 if its URL was not replaced since.
        """
        for each in self._replaced_urls.get(url, ()):
            if each.number > replacements:
                each.refs.append(ref)
                return each.number
        return 0

    def settle(self, oldest: int) -> bool:
        """Settle replacements up to a number, if any; tell that.

        Pages that became rows after their replacement are then named by their refs.
        """
        before = len(self._replaced)
        refs: list[int] = []
        while self._replaced and self._replaced[0].number <= oldest:
            each = self._replaced.popleft()
            self.retire(each.url, each.row_end)
            refs += each.refs
            urls = self._replaced_urls[each.url]
            urls.popleft()
            if not urls:
                del self._replaced_urls[each.url]
        if refs:
            self._terms.add(Terms((REF, ref, ROWS_MAX, "", self.records) for ref in refs))
        return len(self._replaced) < before

    @staticmethod
    def without_question(forget: Forget) -> Forget:
        """Return a record's terms alone: the question goes on later."""
        return Forget([term for term in forget.terms if term[0] != ASK], forget.ask)

    def count(self, asks: Iterable[str]) -> None:
        """Count pages that were forgotten, by the commands that wanted it."""
        self._counts.update(filter(None, asks))

    def pass_on(self) -> Forget | None:
        """Return the questions that may go on to the next shard, if there are any."""
        if self.doomed or not self._asked:
            return None
        asked, self._asked = self._asked, []
        self._passed_on = self._passed_on + asked
        return Forget([(ASK, ask.encode()) for ask in asked])

    def hide(self, kept: KeptRows, rows: Rows, replacements: int = -1) -> KeptRows:
        """Return stored rows, those that are forgotten with a time before all others.

        They are for a page that came after so many `replacements`; -1: after all there were.
        """
        columns = rows, np.array(kept.refs, np.uint64), kept.urls, kept.times
        hidden = [*self._terms.find(*columns), *self._swept.find(*columns)]
        hidden += self._find_replaced(kept, rows, replacements)
        if not hidden:
            return kept
        times = kept.times.copy()
        times[hidden] = BEFORE_ALL
        return replace(kept, times=times)

    def _find_replaced(self, kept: KeptRows, rows: Rows, replacements: int) -> Iterator[int]:
        urls = self._replaced_urls
        if not urls or urls.keys().isdisjoint(kept.urls):
            return
        until = self.replacements if replacements < 0 else replacements
        for place, url in enumerate(kept.urls):
            own = itertools.takewhile(lambda each: each.number <= until, urls.get(url, ()))
            row, ref = rows[place], kept.refs[place]
            if any(row < each.row_end or ref in each.refs for each in own):
                yield place

    def name(self, url: bytes, time: int, record: int) -> bool:
        """Return whether a version of a URL is named, that came before the next such record."""
        return self._terms.name(url, time, record) or self._swept.name(url, time, record)

    def begin_sweep(self) -> None:
        """Leave all terms to the sweep that follows a flush with this state."""
        self._swept, self._terms = self._terms, Terms()
        self._told_by_sweep, self._passed_on = self._passed_on, []

    def end_sweep(self, found: Mapping[str, int]) -> None:
        """Note that nothing of what was swept is stored any more; it found so many pages."""
        self._counts.update({ask: count for ask, count in found.items() if ask})
        self._swept = Terms()
        for ask in self._told_by_sweep:
            self.done[ask] = self._counts.pop(ask, 0)
        self._told_by_sweep = []
