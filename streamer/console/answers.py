"""What the console answers: for each view a query and an answer, and how one becomes the other.

A query's fields are the parameters of its URL, with their bounds. An answer is what the page shows,
and the same as JSON. Nothing here knows HTTP.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec

from streamer.cli.dead_letters import REMEDIES
from streamer.console import queries
from streamer.console.clusters import (
    RelationRow,
    SeenCluster,
    describe_cluster,
    describe_clusters,
    is_lost,
    recent_verdicts,
    relations_of,
)
from streamer.console.index import Explanation, IndexReader, PageTexts
from streamer.console.queries import ClusterRow, CodeRow, HostRow, LetterRow, NumberedVerdict
from streamer.console.state import FoldState
from streamer.console.view import VerdictView
from streamer.errors import StreamerError
from streamer.model import Verdict
from streamer.run.explanation import place_name, why_duplicate

ROWS_MAX = 500
_OFFSET_MAX = 10**5  # SQLite counts all rows that it skips
_VERSIONS_SHOWN = 20  # of a URL

Limit = Annotated[int, msgspec.Meta(ge=1, le=ROWS_MAX, description="most rows of the answer")]
Offset = Annotated[int, msgspec.Meta(ge=0, le=_OFFSET_MAX, description="rows to skip")]
After = Annotated[int, msgspec.Meta(ge=0, le=2**62, description="`next` of the answer before")]
Name = Annotated[str, msgspec.Meta(max_length=65_536)]


class NotFound(StreamerError):  # noqa: N818 - what the answer says
    """Report that the view has nothing of what was asked for."""


class WrongQuery(StreamerError):  # noqa: N818 - as NotFound
    """Report a query that cannot be answered as it is."""


@dataclass(frozen=True)
class ConsoleData:
    """What answers are made of.

    Attributes:
        seconds: that a query may take, all that it reads together.
        index: the index that may be looked into, if there is one.
        fold: returns how far the fold is.
        shows_text: whether texts of pages and records of dead letters may be shown.
        notices: what the overview warns of from the start on.
        texts: the files that the pages' texts are taken from.
    """

    view: VerdictView
    seconds: float
    index: IndexReader | None = None
    fold: Callable[[], FoldState] = lambda: FoldState(is_done=True)
    shows_text: bool = True
    notices: tuple[str, ...] = ()
    texts: PageTexts = field(default_factory=PageTexts)

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Open the view for one answer."""
        with self.view.read(self.seconds) as connection:
            yield connection


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A view without parameters."""


# ---- pages ---------------------------------------------------------------------------------------


class PageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page, by its URL or its place as SOURCE:NUMBER; `explain` asks the index about it too."""

    page: Name = ""
    explain: Literal["yes", "no"] = "no"


class JudgedPage(msgspec.Struct, frozen=True):
    """A verdict, its reason in a sentence, and how many duplicates its cluster has."""

    verdict: Verdict
    place: str
    why: str
    representative_place: str | None
    cluster_duplicates: int
    explanation: Explanation | None


class PageAnswer(msgspec.Struct, frozen=True):
    """The verdicts on a page, the newest first, and dead letters at its place.

    `can_explain` says whether an index is there to ask. The newest verdict alone is explained.
    """

    page: str
    can_explain: bool
    found: list[JudgedPage]
    letters: list[LetterRow]


def page(data: ConsoleData, query: PageQuery) -> PageAnswer:
    """Return what is known of a page."""
    if not query.page:
        return PageAnswer("", data.index is not None, [], [])
    with data.read() as view:
        found = queries.verdicts(
            view, queries.OF_URL, _VERSIONS_SHOWN, order="page.number DESC", url=query.page
        )
        letters: list[LetterRow] = []
        for ref in queries.refs_of(view, query.page):
            found += queries.verdicts(view, queries.OF_REF, 1, ref=ref)
            letters += queries.letters(view, queries.LETTER_OF_REF, 1, ref=ref)
        judged = [_describe_page(view, each.verdict, each.cluster) for each in found]
    if judged and data.index and query.explain == "yes":
        explanation = data.index.explain(judged[0].verdict, data.seconds, data.view.stopped)
        judged[0] = msgspec.structs.replace(judged[0], explanation=explanation)
    return PageAnswer(query.page, data.index is not None, judged, _hide_texts(data, letters))


def _hide_texts(data: ConsoleData, letters: list[LetterRow]) -> list[LetterRow]:
    """Return dead letters as they may be shown: a record is text of a page."""
    if data.shows_text:
        return letters
    return [msgspec.structs.replace(each, key=None, record="") for each in letters]


def _describe_page(view: sqlite3.Connection, verdict: Verdict, cluster: int | None) -> JudgedPage:
    own, other = place_name(verdict.page), verdict.representative
    refs = [cluster] if cluster is not None else queries.refs_of(view, own)
    rows = [
        row
        for ref in refs
        for row in queries.records(
            view, queries.CLUSTERS.format(condition=queries.CLUSTER_OF_REF), ClusterRow,
            ref=ref, limit=1, offset=0,
        )
    ]  # fmt: skip
    representative = rows[0].place if rows and other is not None else None
    size = rows[0].duplicates if rows else 0
    return JudgedPage(verdict, own, _why(verdict), representative, size, None)


def _why(verdict: Verdict) -> str:
    """Return the reason of a verdict, as far as the verdict itself has it."""
    if verdict.is_duplicate:
        return why_duplicate(verdict.basis)
    if verdict.basis == "too_short":
        lost = " It has much text for that: its characters may be lost." * is_lost(verdict)
        return f"The page is too short to compare, and no kept page had equal content.{lost}"
    return "No kept page was similar enough when this page was judged, so it is kept."


class PagesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pages by URL, place, host or cluster (the place of its representative): one, or none."""

    url: Name | None = None
    place: Name | None = None
    host: Name | None = None
    cluster: Name | None = None
    after: After = 0
    limit: Limit = 100


class PagesAnswer(msgspec.Struct, frozen=True):
    """Verdicts in the order of the fold; `next` is what `after` begins the rest with."""

    pages: list[Verdict]
    next: int | None


def pages(data: ConsoleData, query: PagesQuery) -> PagesAnswer:
    """Return verdicts on pages."""
    by = [name for name in ("url", "place", "host", "cluster") if getattr(query, name) is not None]
    if len(by) > 1:
        raise WrongQuery(f"Give one of {' and '.join(by)}.")
    with data.read() as view:
        conditions = {"url": queries.OF_URL, "host": queries.OF_HOST}
        if by and by[0] in conditions:
            values = [{by[0]: getattr(query, by[0])}]
            condition = conditions[by[0]]
        elif by:
            condition = queries.OF_REF if by[0] == "place" else queries.OF_CLUSTER
            values = [{"ref": ref} for ref in queries.refs_of(view, getattr(query, by[0]))]
        else:
            condition, values = queries.OF_ALL, [{}]
        found = [
            row
            for each in values
            for row in queries.verdicts(view, condition, query.limit, after=query.after, **each)
        ]
    # Each place of that name has rows of its own; those that are left out come with the next part.
    shown = sorted(found, key=lambda each: each.number)[: query.limit]
    return PagesAnswer([each.verdict for each in shown], _find_next(shown, query.limit))


def _find_next(rows: Sequence[NumberedVerdict | LetterRow], limit: int) -> int | None:
    """Return what `after` begins the rest after these rows with; None where there is none."""
    return rows[-1].number if len(rows) == limit else None


# ---- clusters ------------------------------------------------------------------------------------


class ClustersQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The largest clusters or those that grow fastest, of one host if that is named.

    The host is that of the representative.
    """

    host: Name | None = None
    sort: Literal["size", "growth"] = "size"
    limit: Annotated[int, msgspec.Meta(ge=1, le=100, description="most rows")] = 50
    offset: Offset = 0


class ClustersAnswer(msgspec.Struct, frozen=True):
    """Clusters in the order that is asked for; `next` is the offset of the rest.

    `recent` is how many of the newest verdicts count as recent. `relations` are those of duplicates
    to their representatives, among the newest verdicts; not of one host, and not after the first
    clusters.
    """

    clusters: list[SeenCluster]
    relations: list[RelationRow]
    recent: int
    next: int | None


def clusters(data: ConsoleData, query: ClustersQuery) -> ClustersAnswer:
    """Return the largest clusters."""
    with data.read() as view:
        found = describe_clusters(view, query.sort, query.host, query.limit, query.offset)
        recent = recent_verdicts(view)
        relations = [] if query.host or query.offset else relations_of(view)
    return ClustersAnswer(found, relations, recent, _next(query.offset, query.limit, len(found)))


def _next(offset: int, limit: int, found: int) -> int | None:
    """Return the offset of the rest; None where there is none, or it is beyond the bound."""
    after = offset + limit
    return after if found == limit and after <= _OFFSET_MAX else None


class ClusterQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The cluster of the representative at a place, as SOURCE:NUMBER."""

    place: Name
    after: After = 0
    limit: Limit = 100


class ClusterAnswer(msgspec.Struct, frozen=True):
    """A cluster and its duplicates, in the order of the fold."""

    cluster: SeenCluster
    members: list[Verdict]
    next: int | None


def cluster(data: ConsoleData, query: ClusterQuery) -> ClusterAnswer:
    """Return a cluster.

    Raises:
        NotFound: no page was a duplicate of the one at this place.
    """
    with data.read() as view:
        for ref in queries.refs_of(view, query.place):
            found = queries.records(
                view, queries.CLUSTERS.format(condition=queries.CLUSTER_OF_REF), ClusterRow,
                ref=ref, limit=1, offset=0,
            )  # fmt: skip
            if found and found[0].duplicates:
                members = queries.verdicts(
                    view, queries.OF_CLUSTER, query.limit, after=query.after, ref=ref
                )
                shown = [each.verdict for each in members]
                seen = describe_cluster(view, found[0])
                return ClusterAnswer(seen, shown, _find_next(members, query.limit))
    raise NotFound(f"No page is a duplicate of one at {query.place}.")


# ---- hosts ---------------------------------------------------------------------------------------


class HostsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hosts with so many pages at least, in an order."""

    sort: Literal["duplicates", "share", "pages", "host"] = "duplicates"
    least: Annotated[int, msgspec.Meta(ge=1, le=2**40, description="pages of a host")] = 1
    limit: Limit = 50
    offset: Offset = 0


class HostsAnswer(msgspec.Struct, frozen=True):
    """Hosts; `next` is the offset of the rest."""

    hosts: list[HostRow]
    next: int | None


def hosts(data: ConsoleData, query: HostsQuery) -> HostsAnswer:
    """Return hosts and the share of duplicates among their pages."""
    with data.read() as view:
        found = hosts_in_order(view, query)
    return HostsAnswer(found, _next(query.offset, query.limit, len(found)))


def hosts_in_order(view: sqlite3.Connection, query: HostsQuery) -> list[HostRow]:
    """Return hosts in the order that is asked for, from an open view."""
    return queries.records(
        view, queries.HOSTS.format(order=queries.HOST_ORDERS[query.sort]), HostRow,
        least=query.least, limit=query.limit, offset=query.offset,
    )  # fmt: skip


# ---- dead letters --------------------------------------------------------------------------------


class LettersQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The dead letters of a code; of all codes their counts alone."""

    code: Name | None = None
    after: After = 0
    limit: Limit = 20


class LettersAnswer(msgspec.Struct, frozen=True):
    """Dead letters by code, with what to do about the code that is asked for."""

    codes: list[CodeRow]
    remedy: str | None
    letters: list[LetterRow]
    next: int | None


def dead_letters(data: ConsoleData, query: LettersQuery) -> LettersAnswer:
    """Return dead letters."""
    with data.read() as view:
        codes = queries.records(view, queries.LETTER_CODES, CodeRow)
        if query.code is None:
            return LettersAnswer(codes, None, [], None)
        found = queries.letters(
            view, queries.LETTER_OF_CODE, query.limit, after=query.after, code=query.code
        )
    shown = _hide_texts(data, found)
    return LettersAnswer(codes, REMEDIES.get(query.code), shown, _find_next(found, query.limit))


# ---- checks --------------------------------------------------------------------------------------


def check(data: ConsoleData, message: bytes) -> Verdict:
    """Return the verdict that a page would get.

    Raises:
        InvalidPage: it cannot be judged; `code` says why.
        NotFound: there is no index to ask.
    """
    if data.index is None:
        raise NotFound("There is no index to ask: start the console with the folder of one.")
    return data.index.check(message)


def check_at_once(data: ConsoleData, message: bytes) -> Verdict | None:
    """Return what `check` does, or None if that would have to wait for something."""
    return data.index.check_at_once(message) if data.index else None
