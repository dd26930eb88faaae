"""What the console answers: for each view a query and an answer, and how one becomes the other.

A query's fields are the parameters of its URL, with their bounds. An answer is what the page shows,
and the same as JSON. Nothing here knows HTTP.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec

from streamer.cli.dead_letters import REMEDIES
from streamer.console import clusters as looks
from streamer.console import queries
from streamer.console.fold import FoldState
from streamer.console.index import Explanation, IndexReader, PageTexts, ShownText, check_until
from streamer.console.queries import CodeRow, HostRow, LetterRow, NumberedVerdict
from streamer.console.view import QueryTooLong, VerdictView
from streamer.errors import StreamerError
from streamer.hosts import host_of, plain_labels
from streamer.model import SIMILARITY_ONE, Verdict
from streamer.run.explanation import place_name, why_duplicate

ROWS_MAX = 500
_OFFSET_MAX = 10**5  # SQLite counts all rows that it skips
_VERSIONS_SHOWN = 20  # of a URL
_LIKE_SHOWN = 50
LIKE_AMONG = 1_000_000  # newest pages, among which a part of a URL is searched for
_LOOKED_AT = 100  # duplicates at each end of a cluster
_AT_ONCE_SECONDS = 2.0  # that a page waits for the index and its text, unless asked to

Limit = Annotated[int, msgspec.Meta(ge=1, le=ROWS_MAX, description="most rows of the answer")]
Offset = Annotated[int, msgspec.Meta(ge=0, le=_OFFSET_MAX, description="rows to skip")]
After = Annotated[int, msgspec.Meta(ge=0, le=2**62, description="`next` of the answer before")]
Name = Annotated[str, msgspec.Meta(max_length=65_536)]
YesNo = Literal["yes", "no"]


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
        name: of the crawl; '' where its sources say it.
        texts: the files that the pages' texts are taken from.
    """

    view: VerdictView
    seconds: float
    index: IndexReader | None = None
    fold: Callable[[], FoldState] = lambda: FoldState(is_done=True)
    shows_text: bool = True
    notices: tuple[str, ...] = ()
    name: str = ""
    texts: PageTexts = field(default_factory=PageTexts)

    def read(self) -> AbstractContextManager[sqlite3.Connection]:
        """Open the view for one answer."""
        return self.view.read(self.seconds)


# ---- pages ---------------------------------------------------------------------------------------


class PageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page, by its URL or its place as SOURCE:NUMBER, or the pages with this in their URLs.

    The text and what the index says come as far as they are found at once; with `explain` at yes
    they may take the time of a query, at no they are left out.
    """

    page: Name = ""
    explain: Literal["yes", "at_once", "no"] = "at_once"


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

    Attributes:
        can_explain: whether an index is there to ask. The newest verdict alone is explained.
        text: of the page, where no explanation has it.
        note: why there is no explanation, or no text; '' for nothing.
        like: where there is no such page, those whose URLs begin with it, else the newest that have
            it.
    """

    page: str
    can_explain: bool
    found: list[JudgedPage]
    letters: list[LetterRow]
    text: list[ShownText]
    note: str
    like: list[Verdict]


def page(data: ConsoleData, query: PageQuery) -> PageAnswer:
    """Return what is known of a page."""
    name = query.page.strip()
    if not name:
        return PageAnswer("", data.index is not None, [], [], [], "", [])
    with data.read() as view:
        found = queries.verdicts(
            view, queries.OF_URL, _VERSIONS_SHOWN, order="page.number DESC", url=name
        )
        letters: list[LetterRow] = []
        for ref in queries.refs_of(view, name):
            found += queries.verdicts(view, queries.OF_REF, 1, ref=ref)
            letters += queries.letters(view, queries.LETTER_OF_REF, 1, ref=ref)
        judged = [_describe_page(view, each.verdict, each.cluster) for each in found]
        like = list[NumberedVerdict]()
        if not (judged or letters) and query.explain != "no":
            host, newest = host_of(name), queries.number(view, queries.NEWEST_PAGE) or 0
            like = queries.verdicts(view, queries.OF_PREFIX, _LIKE_SHOWN, host=host, text=name)
            like = like or queries.verdicts(
                view,
                queries.OF_PART,
                _LIKE_SHOWN,
                after=max(0, newest - LIKE_AMONG),
                order="page.number DESC",
                text=name,
            )
    text, note = list[ShownText](), ""
    if judged and query.explain != "no":
        judged[0], text, note = _look_closely(data, judged[0], is_patient=query.explain == "yes")
    return PageAnswer(
        name,
        data.index is not None,
        judged,
        _hide_texts(data, letters),
        text,
        note,
        [each.verdict for each in like],
    )


def _look_closely(
    data: ConsoleData, one: JudgedPage, *, is_patient: bool
) -> tuple[JudgedPage, list[ShownText], str]:
    """Return a page with its explanation by the index, or its text, or why there is neither.

    Raises:
        QueryTooLong, StreamerError: as `IndexReader.explain`, if someone waits for it.
    """
    seconds = data.seconds if is_patient else min(data.seconds, _AT_ONCE_SECONDS)
    try:
        if data.index is not None:
            explanation = data.index.explain(one.verdict, seconds, data.view.stopped)
            return msgspec.structs.replace(one, explanation=explanation), [], ""
        if data.texts.sources and data.shows_text:
            check = check_until(seconds, data.view.stopped)
            return one, data.texts.show(one.place, one.verdict, check), ""
    except (QueryTooLong, StreamerError) as error:
        if is_patient:
            raise
        late = f"Reading the index and the text takes more than {seconds:g} seconds."
        return one, [], str(error) or late
    return one, [], ""


def _hide_texts(data: ConsoleData, letters: list[LetterRow]) -> list[LetterRow]:
    """Return dead letters as they may be shown: a record is text of a page."""
    if data.shows_text:
        return letters
    return [msgspec.structs.replace(each, key=None, record="") for each in letters]


def _describe_page(view: sqlite3.Connection, verdict: Verdict, cluster: int | None) -> JudgedPage:
    own, other = place_name(verdict.page), verdict.representative
    refs = [cluster] if cluster is not None else queries.refs_of(view, own)
    rows = [row for ref in refs for row in queries.clusters(view, queries.CLUSTER_OF_REF, ref=ref)]
    representative = rows[0].place if rows and other is not None else None
    size = rows[0].duplicates if rows else 0
    return JudgedPage(verdict, own, _why(verdict), representative, size, None)


def _why(verdict: Verdict) -> str:
    """Return the reason of a verdict, as far as the verdict itself has it."""
    if verdict.is_duplicate:
        return why_duplicate(verdict.basis)
    if verdict.basis == "too_short":
        lost = " It has much text for that: its characters may be lost." * looks.is_lost(verdict)
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


_CONDITIONS = {
    "url": queries.OF_URL, "place": queries.OF_REF, "host": queries.OF_HOST,
    "cluster": queries.OF_CLUSTER,
}  # fmt: skip
# What is asked for as the view has it.
_READ: dict[str, Callable[[str], Any]] = {"url": str.strip, "host": plain_labels}


class PagesAnswer(msgspec.Struct, frozen=True):
    """Verdicts in the order of the fold; `next` is what `after` begins the rest with."""

    pages: list[Verdict]
    next: int | None


def pages(data: ConsoleData, query: PagesQuery) -> PagesAnswer:
    """Return verdicts on pages."""
    by = [name for name in _CONDITIONS if getattr(query, name) is not None]
    if len(by) > 1:
        raise WrongQuery(f"Give one of {' and '.join(by)}.")
    with data.read() as view:
        values = [{name: _READ.get(name, str)(getattr(query, name))} for name in by] or [{}]
        if by and by[0] in {"place", "cluster"}:
            values = [{"ref": ref} for ref in queries.refs_of(view, getattr(query, by[0]))]
        condition = _CONDITIONS[by[0]] if by else queries.OF_ALL
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
    """Clusters in an order, of a host or hosts with this in their names, and of URLs with a part.

    Host and URL are those of the representative. `recent` are the duplicates among the newest
    verdicts; ordered by them, only clusters that have any are there.
    """

    host: Name | None = None
    url: Name | None = None
    least: Annotated[int, msgspec.Meta(ge=1, le=2**40, description="duplicates of a cluster")] = 1
    sort: Literal["duplicates", "recent", "url", "host"] = "duplicates"
    reverse: YesNo = "no"
    limit: Annotated[int, msgspec.Meta(ge=1, le=100, description="most rows")] = 50
    offset: Offset = 0


class ClustersAnswer(msgspec.Struct, frozen=True):
    """Clusters in the order that is asked for; `next` is the offset of the rest.

    `recent` is how many of the newest verdicts count as recent. `relations` are those of duplicates
    to their representatives, among the newest verdicts; not of one host, and not after the first
    clusters.
    """

    clusters: list[looks.SeenCluster]
    relations: list[looks.RelationRow]
    recent: int
    next: int | None


def clusters(data: ConsoleData, query: ClustersQuery) -> ClustersAnswer:
    """Return the largest clusters."""
    conditions, host = [queries.CLUSTER_OF_ALL], plain_labels(query.host or "")
    with data.read() as view:
        if query.host is not None:
            is_whole = queries.number(view, queries.FIND_HOST, host=host) is not None
            conditions += [queries.CLUSTER_OF_HOST if is_whole else queries.CLUSTER_OF_HOSTS]
        conditions += [queries.CLUSTER_OF_PART] * (query.url is not None)
        conditions += ["cluster.duplicates >= :least"] * (query.least > 1)
        rows = queries.clusters(
            view,
            " AND ".join(conditions),
            order=queries.order_by(query.sort, query.reverse),
            among=queries.GROWING if query.sort == "recent" else "cluster",
            host=host,
            url=query.url,
            least=query.least,
            limit=query.limit,
            offset=query.offset,
            recent_from=looks.recent_from(view),
        )
        found = [looks.describe_cluster(view, row) for row in rows]
        recent = looks.recent_verdicts(view)
        relations = [] if query.host or query.url or query.offset else looks.relations_of(view)
    return ClustersAnswer(found, relations, recent, _next(query.offset, query.limit, len(found)))


def _next(offset: int, limit: int, found: int) -> int | None:
    """Return the offset of the rest; None where there is none, or it is beyond the bound."""
    after = offset + limit
    return after if found == limit and after <= _OFFSET_MAX else None


class ClusterQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The cluster of the representative at a place, as SOURCE:NUMBER, and an order of its pages.

    Pages are those with `url` in their URLs and a similarity of `least` or more; equal ones have 1.
    """

    place: Name
    url: Name | None = None
    least: Annotated[float, msgspec.Meta(ge=0, le=1, description="similarity")] = 0.0
    sort: Literal["number", "similarity", "url"] = "number"
    reverse: YesNo = "no"
    limit: Limit = 100
    offset: Offset = 0


class ClusterAnswer(msgspec.Struct, frozen=True):
    """A cluster and its duplicates; `next` is the offset of the rest."""

    cluster: looks.SeenCluster
    members: list[Verdict]
    next: int | None


def cluster(data: ConsoleData, query: ClusterQuery) -> ClusterAnswer:
    """Return a cluster.

    Raises:
        NotFound: no page was a duplicate of the one at this place.
    """
    with data.read() as view:
        for ref in queries.refs_of(view, query.place):
            found = queries.clusters(view, queries.CLUSTER_OF_REF, ref=ref)
            if found and found[0].duplicates:
                seen = looks.describe_cluster(view, found[0], _LOOKED_AT)
                conditions = [queries.OF_CLUSTER]
                conditions += [queries.OF_PART] * (query.url is not None)
                conditions += ["page.similarity >= :least"] * (query.least > 0)
                members = queries.verdicts(
                    view,
                    " AND ".join(conditions),
                    query.limit,
                    order=f"{queries.order_by(query.sort, query.reverse)}, page.number",
                    ref=ref,
                    text=query.url,
                    least=query.least * SIMILARITY_ONE,
                    offset=query.offset,
                )
                rest = _next(query.offset, query.limit, len(members))
                return ClusterAnswer(seen, [each.verdict for each in members], rest)
    raise NotFound(f"No page is a duplicate of one at {query.place}.")


# ---- hosts ---------------------------------------------------------------------------------------


class HostsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hosts with `host` in their names and so many pages at least, in an order."""

    sort: Literal["duplicates", "share", "pages", "host"] = "duplicates"
    least: Annotated[int, msgspec.Meta(ge=1, le=2**40, description="pages of a host")] = 1
    host: Name | None = None
    reverse: YesNo = "no"
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
    order = queries.order_by(query.sort, query.reverse)
    order += ", duplicates DESC" * (query.sort == "share")
    condition = "pages >= :least" + f" AND {queries.HAS_HOST_PART}" * (query.host is not None)
    least, host = query.least, plain_labels(query.host or "")
    at = {"limit": query.limit, "offset": query.offset}
    return queries.hosts(view, condition, order, **at, least=least, host=host)


# ---- dead letters --------------------------------------------------------------------------------


class LettersQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The dead letters of a code, or the counts of all codes."""

    code: Name | None = None
    after: After = 0
    limit: Limit = 20


class CodeToDo(CodeRow, frozen=True):
    """The dead letters of a code, and what to do about them; '' where the code is not known."""

    remedy: str


class LettersAnswer(msgspec.Struct, frozen=True):
    """Dead letters by code, with what to do about each."""

    codes: list[CodeToDo]
    letters: list[LetterRow]
    next: int | None


def dead_letters(data: ConsoleData, query: LettersQuery) -> LettersAnswer:
    """Return dead letters."""
    with data.read() as view:
        codes = [
            CodeToDo(row.code, row.letters, row.sources, REMEDIES.get(row.code, ""))
            for row in queries.records(view, queries.LETTER_CODES, CodeRow)
        ]
        if query.code is None:
            return LettersAnswer(codes, [], None)
        found = queries.letters(
            view, queries.LETTER_OF_CODE, query.limit, after=query.after, code=query.code
        )
    return LettersAnswer(codes, _hide_texts(data, found), _find_next(found, query.limit))


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
    with suppress(QueryTooLong):
        return data.index.check(message, waits=False) if data.index else None
    return None
