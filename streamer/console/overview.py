"""The overview: figures, verdicts over time, what is largest; and the crawl in a line.

Every view shows the line: all is well, or what is not and what to do about it. So it reads counts
only, which the fold keeps.
"""

from collections import defaultdict
from datetime import UTC, datetime
from sqlite3 import Connection
from typing import Annotated, Literal

import msgspec

from streamer.cli.dead_letters import REMEDIES
from streamer.console import queries
from streamer.console.answers import ConsoleData, HostsQuery, hosts_in_order
from streamer.console.clusters import SeenCluster, describe_cluster
from streamer.console.fold import FoldState, PartitionLag
from streamer.console.index import IndexFacts
from streamer.console.queries import CodeRow, HostRow, InputState, SimilarityBar, VerdictCount
from streamer.errors import StreamerError
from streamer.run.totals import SHARE_MIN, SUSPECT_PAGES_MIN, suspicion

Slot = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
_SHOWN = 5  # of a list
_BARS_MAX = 60
_PAGES_OF_SLOT = 1000  # of files, whose pages have no time
_LARGEST = 5  # clusters that may be too large
LETTERS_MIN, LETTERS_SHARE = 100, 0.05  # of all records, from which on dead letters are too many


class CrawlState(msgspec.Struct, frozen=True):
    """The state of the crawl `name`: `says` is one line, and `warnings` all that is not well."""

    name: str
    level: Literal["well", "reading", "look", "broken"]
    says: str
    warnings: list[str]


def crawl_state(data: ConsoleData, view: Connection) -> CrawlState:
    """Return the state of the crawl, of an open view."""
    fold, (_, gone) = data.fold(), index_facts(data)
    counts = queries.records(view, queries.VERDICT_COUNTS, VerdictCount)
    pages = sum(each.pages for each in counts)
    broken = [*filter(None, (fold.trouble, gone))]
    warnings = [*broken, *data.notices, *_warnings(view, fold, pages)]
    name = data.name or _name_of_sources(view)
    if broken:
        return CrawlState(name, "broken", broken[0], warnings)
    if not fold.is_done:
        said = f"Reading the verdicts: {pages:,} so far. Figures grow, and look-ups may be slow."
        return CrawlState(name, "reading", said, warnings)
    if warnings:
        return CrawlState(name, "look", warnings[0], warnings)
    unique = sum(each.pages for each in counts if each.verdict == "unique")
    said = f"{pages:,} pages are judged, {unique:,} of them are unique."
    waits = "No page has been judged yet. What the run writes appears here by itself."
    return CrawlState(name, "well" if pages else "reading", said if pages else waits, [])


def index_facts(data: ConsoleData) -> tuple[IndexFacts | None, str]:
    """Return the facts of the index, if there is one, or why they cannot be read now."""
    try:
        return (data.index.facts() if data.index else None), ""
    except (StreamerError, OSError) as error:
        return None, f"The index cannot be read now. {error}"


def _warnings(view: Connection, fold: FoldState, pages: int) -> list[str]:
    inputs = queries.records(view, queries.INPUTS, InputState)
    largest = queries.clusters(view, queries.CLUSTER_OF_ALL, limit=_LARGEST)
    found = [each.note for each in inputs if each.note]
    found += [
        f"{each.path}: {each.passed_over:,} verdicts are not shown: another page has their place. "
        "Two crawls whose pages came under one name, such as `-`, need a console each."
        for each in inputs
        if each.passed_over
    ]
    for members, url in ((each.duplicates + 1, each.url) for each in largest):
        if members >= max(SUSPECT_PAGES_MIN, SHARE_MIN * pages):
            share = min(members / pages, 1.0)
            said = suspicion("all pages", members, share, f"representative is {url}")
            found.append(said[:1].upper() + said[1:])
    codes = queries.records(view, queries.LETTER_CODES, CodeRow)
    letters = sum(each.letters for each in codes)
    if letters >= max(LETTERS_MIN, LETTERS_SHARE * (pages + letters)):
        found.append(
            f"{letters:,} of {pages + letters:,} records are dead letters, most of them "
            f"{codes[0].code}. {REMEDIES.get(codes[0].code, '')}"
        )
    waiting = sum(each.lag or 0 for each in fold.lags or ())
    if waiting and fold.rate == 0:
        found.append(
            f"{waiting:,} messages are not signed, and no verdict has arrived for ten seconds. "
            "Check that a worker runs; its /health/ready says what it waits for."
        )
    return found


def _name_of_sources(view: Connection) -> str:
    """Return what the pages were read from: the first file, and how many more there are."""
    row = view.execute(queries.SOURCES).fetchone()
    if not row["topics"]:
        return "no pages yet"
    name = "/".join(row["first"].split("/")[-2:])
    return f"{name} and {row['topics'] - 1:,} more" if row["topics"] > 1 else name


class OverviewQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The range of the verdicts over time, in slots: of a minute, or of a thousand pages.

    `newest` is how many of the last ones; else `first` to `last`, and by default all.
    """

    newest: Slot | None = None
    first: Slot | None = None
    last: Slot | None = None


class HistoryBar(msgspec.Struct, frozen=True):
    """Verdicts of a span of time, or of the pages from a number on; `start` says where it begins.

    `similar` are duplicates by signature, `equal` those by equal content; `slot` is its first one.
    """

    start: str
    unique: int
    similar: int
    equal: int
    slot: int


class History(msgspec.Struct, frozen=True):
    """Verdicts over time: each bar is of `step` minutes, or of so many pages in their order.

    Attributes:
        slots: of a bar.
        slots_in_all: of the whole history, of which a range may be shown.
    """

    unit: Literal["minutes", "pages"]
    step: int
    bars: list[HistoryBar]
    slots: int
    slots_in_all: int


class Overview(msgspec.Struct, frozen=True):
    """The state of the crawl: verdicts by basis, what is largest, and what should be looked at.

    `pages_a_second` are new verdicts of the last ten seconds; None until that is known. `lags` are
    of the partitions of pages; None where files are read.
    """

    state: CrawlState
    pages: int
    unique: int
    duplicates: int
    letters: int
    pages_a_second: float | None
    verdicts: list[VerdictCount]
    history: History
    histogram: list[SimilarityBar]
    clusters: list[SeenCluster]
    hosts: list[HostRow]
    inputs: list[InputState]
    folded: bool
    index: IndexFacts | None
    lags: list[PartitionLag] | None


def overview(data: ConsoleData, query: OverviewQuery) -> Overview:
    """Return the overview."""
    fold = data.fold()
    with data.read() as view:
        state = crawl_state(data, view)
        counts = queries.records(view, queries.VERDICT_COUNTS, VerdictCount)
        codes = queries.records(view, queries.LETTER_CODES, CodeRow)
        inputs = queries.records(view, queries.INPUTS, InputState)
        largest = queries.clusters(view, queries.CLUSTER_OF_ALL, limit=_SHOWN)
        clusters = [describe_cluster(view, row) for row in largest]
        hosts = hosts_in_order(view, HostsQuery(limit=_SHOWN))
        histogram = queries.records(view, queries.SIMILARITY_BARS, SimilarityBar)
        history = _history(view, "pages" if fold.lags is None else "minutes", query)
    pages = sum(each.pages for each in counts)
    unique = sum(each.pages for each in counts if each.verdict == "unique")
    return Overview(
        state, pages, unique, pages - unique, sum(each.letters for each in codes), fold.rate,
        counts, history, histogram, clusters, [each for each in hosts if each.duplicates], inputs,
        fold.is_done, index_facts(data)[0], fold.lags,
    )  # fmt: skip


def _history(view: Connection, unit: Literal["minutes", "pages"], query: OverviewQuery) -> History:
    """Return the verdicts over time, of a range of it, in _BARS_MAX bars at most."""
    first, last = view.execute(queries.HISTORY_BOUNDS).fetchone()
    if first is None:
        return History(unit, 1, [], 1, 0)
    in_all = last - first + 1
    if query.newest:
        first = max(first, last - query.newest + 1)
    else:
        first = max(first, min(query.first or first, last))
        last = max(first, min(query.last if query.last is not None else last, last))
    slots = -(-(last - first + 1) // _BARS_MAX)  # of a bar
    counts = defaultdict[int, dict[str, int]](lambda: {"unique": 0, "similar": 0, "equal": 0})
    for row in view.execute(queries.HISTORY, {"first": first, "last": last, "slots": slots}):
        counts[row["bar"]][row["kind"]] += row["pages"]
    bars = [
        HistoryBar(_start(slot, unit), **counts[number], slot=slot)
        for number, slot in enumerate(range(first, last + 1, slots))
    ]
    step = slots * (_PAGES_OF_SLOT if unit == "pages" else 1)
    return History(unit, step, bars, slots, in_all)


def _start(slot: int, unit: Literal["minutes", "pages"]) -> str:
    if unit == "pages":
        return f"page {slot * _PAGES_OF_SLOT + 1:,}"
    return f"{datetime.fromtimestamp(slot * 60, UTC):%Y-%m-%d %H:%M}"
