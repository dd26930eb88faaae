"""The overview: figures, lag, verdicts over time, what is largest, and warnings."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from typing import Literal

import msgspec

from streamer.console import queries
from streamer.console.answers import ConsoleData, HostsQuery, NoQuery, hosts_in_order
from streamer.console.clusters import SeenCluster, describe_clusters
from streamer.console.index import IndexFacts
from streamer.console.queries import (
    ClusterRow,
    CodeRow,
    HostRow,
    InputState,
    SimilarityBar,
    VerdictCount,
)
from streamer.console.state import PartitionLag
from streamer.errors import StreamerError
from streamer.run.large_clusters import SHARE_MIN, SUSPECT_PAGES_MIN, suspicion

_SHOWN = 5  # of a list
_BARS_MAX = 60
_PAGES_OF_SLOT = 1000  # of files, whose pages have no time


class HistoryBar(msgspec.Struct, frozen=True):
    """Verdicts of a span of time, or of the pages from a number on; `start` says where it begins.

    `similar` are duplicates by signature, `equal` those by equal content.
    """

    start: str
    unique: int
    similar: int
    equal: int


class History(msgspec.Struct, frozen=True):
    """Verdicts over time: each bar is of `step` minutes, or of so many pages in their order."""

    unit: Literal["minutes", "pages"]
    step: int
    bars: list[HistoryBar]


class Overview(msgspec.Struct, frozen=True):
    """The state of the crawl: verdicts by basis, what is largest, and what should be looked at.

    `pages_a_second` are new verdicts of the last ten seconds; None until that is known. `lags` are
    of the partitions of pages; None where files are read.
    """

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
    codes: list[CodeRow]
    inputs: list[InputState]
    warnings: list[str]
    folded: bool
    index: IndexFacts | None
    lags: list[PartitionLag] | None


def overview(data: ConsoleData, _query: NoQuery) -> Overview:
    """Return the overview."""
    fold = data.fold()
    with data.read() as view:
        counts = queries.records(view, queries.VERDICT_COUNTS, VerdictCount)
        codes = queries.records(view, queries.LETTER_CODES, CodeRow)
        inputs = queries.records(view, queries.INPUTS, InputState)
        clusters = describe_clusters(view, "size", None, _SHOWN, 0)
        hosts = hosts_in_order(view, HostsQuery(limit=_SHOWN))
        histogram = queries.records(view, queries.SIMILARITY_BARS, SimilarityBar)
        history = _history(view, "pages" if fold.lags is None else "minutes")
    pages = sum(each.pages for each in counts)
    unique = sum(each.pages for each in counts if each.verdict == "unique")
    index, gone = _index_facts(data)
    said = fold.trouble, gone, *data.notices, *(each.note for each in inputs)
    warnings = [*filter(None, said)]
    warnings += [_describe_skipped(each) for each in inputs if each.passed_over]
    warnings += [_describe_large(each, pages) for each in clusters if _is_large(each, pages)]
    return Overview(
        pages, unique, pages - unique, sum(each.letters for each in codes), fold.rate, counts,
        history, histogram, clusters, [each for each in hosts if each.duplicates], codes[:_SHOWN],
        inputs, warnings, fold.is_done, index, fold.lags,
    )  # fmt: skip


def _index_facts(data: ConsoleData) -> tuple[IndexFacts | None, str]:
    """Return the facts of the index, if there is one, or why they cannot be read now."""
    try:
        return (data.index.facts() if data.index else None), ""
    except (StreamerError, OSError) as error:
        return None, f"The index cannot be read now. {error}"


def _history(view: sqlite3.Connection, unit: Literal["minutes", "pages"]) -> History:
    """Return the verdicts over time in _BARS_MAX bars at most."""
    first, last = view.execute(queries.HISTORY_BOUNDS).fetchone()
    if first is None:
        return History(unit, 1, [])
    slots = -(-(last - first + 1) // _BARS_MAX)  # of a bar
    counts: dict[int, dict[str, int]] = {}
    for row in view.execute(queries.HISTORY, {"first": first, "slots": slots}):
        bar = counts.setdefault(row["bar"], {"unique": 0, "similar": 0, "equal": 0})
        bar[row["kind"]] += row["pages"]
    empty = {"unique": 0, "similar": 0, "equal": 0}
    bars = [
        HistoryBar(_start(first + number * slots, unit), **counts.get(number, empty))
        for number in range((last - first) // slots + 1)
    ]
    return History(unit, slots * (_PAGES_OF_SLOT if unit == "pages" else 1), bars)


def _start(slot: int, unit: Literal["minutes", "pages"]) -> str:
    if unit == "pages":
        return f"page {slot * _PAGES_OF_SLOT + 1:,}"
    return f"{datetime.fromtimestamp(slot * 60, UTC):%Y-%m-%d %H:%M}"


def _describe_skipped(one: InputState) -> str:
    return (
        f"{one.path}: {one.passed_over:,} verdicts are not shown: another page has their place. "
        "Two crawls whose pages came under one name, such as `-`, need a console each."
    )


def _is_large(cluster: ClusterRow, pages: int) -> bool:
    return cluster.duplicates + 1 >= max(SUSPECT_PAGES_MIN, SHARE_MIN * pages)


def _describe_large(cluster: ClusterRow, pages: int) -> str:
    members = cluster.duplicates + 1
    share = min(members / pages, 1.0)
    said = suspicion("all pages", members, share, f"representative is {cluster.url}")
    return said[:1].upper() + said[1:]
