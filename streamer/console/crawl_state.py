"""How the crawl is, in one line: all is well, or what is not and what to do about it.

Every view shows the line, so it reads counts only, which the fold keeps.
"""

import sqlite3
from typing import Literal

import msgspec

from streamer.cli.dead_letters import REMEDIES
from streamer.console import queries
from streamer.console.answers import ConsoleData
from streamer.console.index import IndexFacts
from streamer.console.queries import ClusterRow, CodeRow, InputState, VerdictCount
from streamer.console.state import FoldState
from streamer.errors import StreamerError
from streamer.run.large_clusters import SHARE_MIN, SUSPECT_PAGES_MIN, suspicion

_LARGEST = 5  # clusters that may be too large
LETTERS_MIN, LETTERS_SHARE = 100, 0.05  # of all records, from which on dead letters are too many


class CrawlState(msgspec.Struct, frozen=True):
    """The state of the crawl `name`: `says` is one line, and `warnings` all that is not well."""

    name: str
    level: Literal["well", "reading", "look", "broken"]
    says: str
    warnings: list[str]


def crawl_state(data: ConsoleData, view: sqlite3.Connection) -> CrawlState:
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


def _warnings(view: sqlite3.Connection, fold: FoldState, pages: int) -> list[str]:
    inputs = queries.records(view, queries.INPUTS, InputState)
    largest = queries.clusters(view, queries.CLUSTER_OF_ALL, limit=_LARGEST)
    found = [each.note for each in inputs if each.note]
    found += [_describe_skipped(each) for each in inputs if each.passed_over]
    least = max(SUSPECT_PAGES_MIN, SHARE_MIN * pages)
    found += [_describe_large(each, pages) for each in largest if each.duplicates + 1 >= least]
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


def _name_of_sources(view: sqlite3.Connection) -> str:
    """Return what the pages were read from: the first file, and how many more there are."""
    row = view.execute(queries.SOURCES).fetchone()
    if not row["topics"]:
        return "no pages yet"
    name = "/".join(row["first"].split("/")[-2:])
    return f"{name} and {row['topics'] - 1:,} more" if row["topics"] > 1 else name


def _describe_skipped(one: InputState) -> str:
    return (
        f"{one.path}: {one.passed_over:,} verdicts are not shown: another page has their place. "
        "Two crawls whose pages came under one name, such as `-`, need a console each."
    )


def _describe_large(cluster: ClusterRow, pages: int) -> str:
    members = cluster.duplicates + 1
    share = min(members / pages, 1.0)
    said = suspicion("all pages", members, share, f"representative is {cluster.url}")
    return said[:1].upper() + said[1:]
