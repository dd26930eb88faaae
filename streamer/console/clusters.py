"""Clusters: which are largest, which grow, and what they look like: mirrors, session ids, walls.

The rules look at URLs, similarities and lengths only, and a reader can follow them by hand. Each
duplicate has one relation to its representative, by the first rule that fits; a cluster looks like
what most of the duplicates that were examined are.
"""

import re
from collections import Counter
from collections.abc import Sequence
from sqlite3 import Connection
from statistics import median
from urllib.parse import SplitResult, parse_qsl, urlsplit

import msgspec

from streamer.console import queries
from streamer.console.queries import ClusterRow
from streamer.console.view import check_time
from streamer.hosts import USUAL_PORTS, host_of, split_url
from streamer.model import Basis, Verdict

SHORT_BYTES = 3000  # of text: what a block page has at most
BLOCKED_MIN = 10  # duplicates of a block page
LOST_BYTES = 500  # of text, which has words enough to compare unless they are lost
ALIKE = 0.95  # a template with other content is less similar
_RECENT_MAX = 20_000  # verdicts: as many are read to find what grows
_DUPLICATES_MAX = 1000  # of which the relations are counted
_LOOKED_AT = 20  # duplicates at each end of a cluster in a list
_HOSTS_MIN = 3  # that have one block page, or else it is a copy
_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[a-z])[0-9a-z_-]{12,}|[0-9a-f]{16,}", re.IGNORECASE)
_SESSION = re.compile(
    r"(php|asp|j|x-?)?sess(ion)?_?-?(id)?|(php|j)?sessid|s?sid|zenid|cftoken|token"
)
_TRACKING = re.compile(r"utm_.*|gclid|fbclid|msclkid|mc_[ce]id|ref(errer)?")
_IN_PATH = re.compile(r";(jsessionid|sid|phpsessid)=[^/?]*|/\(S\([^()]*\)\)", re.IGNORECASE)
_PRINT = re.compile(
    r"(^|[/_.=&-])(print(able|version|er|view)?|drucken?|imprimir|amp|mobile)([/_.=&-]|$)",
    re.IGNORECASE,
)
_INDEX = re.compile(r"/(index|default)\.(html?|php|aspx?|jsp)$", re.IGNORECASE)

FETCH, ADDRESS, SESSION, TRACKING = "new fetch", "other address", "session ids", "tracking"
QUERY, PRINT, MIRROR = "parameters", "print view", "mirror"
SITE, ELSEWHERE = "same site", "other sites"
BLOCK, TEMPLATE, COPIES, MIXED = "block page", "template", "copies", "mixed"
LOST = "lost text"
_SAID = {
    FETCH: "The same URL was fetched several times.",
    ADDRESS: "The URLs differ only in http or https, www, letter case, a slash or an index file.",
    SESSION: "The URLs differ only in session ids.",
    TRACKING: "The URLs differ only in parameters that count visitors.",
    QUERY: "The URLs differ only in the query: its parameters do not change the page.",
    PRINT: "One URL of each pair is of a print, mobile or AMP view.",
    MIRROR: "The same paths are on several hosts.",
    LOST: "Much text without words: its characters were lost, most often by a wrong charset.",
    BLOCK: "Short and nearly equal texts at unlike URLs: a wall, an error or a login, not content.",
    TEMPLATE: "Pages of one site that are alike but not equal: what they share is the template.",
    COPIES: "Texts that are alike at URLs that are not: the same content in several places.",
    MIXED: "No rule fits most of the duplicates.",
}


class ClusterLook(msgspec.Struct, frozen=True):
    """What a cluster looks like, and why.

    Attributes:
        relations: how many of the examined duplicates have which relation to the representative.
        examined: duplicates, of which there may be more.
    """

    kind: str
    why: str
    relations: dict[str, int]
    examined: int


class SeenCluster(ClusterRow, frozen=True):
    """A cluster, how many of the recent verdicts are its duplicates, and what it looks like."""

    recent: int
    look: ClusterLook


class RelationRow(msgspec.Struct, frozen=True):
    """Of the recent duplicates those with one relation to their representatives.

    `host` is the host that most of them are on, and `of_host` that of their representatives there;
    `on_host` is how many these are.
    """

    relation: str
    duplicates: int
    host: str
    of_host: str
    on_host: int


def relations_of(view: Connection) -> list[RelationRow]:
    """Return the relations of duplicates among the newest verdicts, the most frequent first."""
    newest = queries.number(view, queries.NEWEST_PAGE) or 0
    found = queries.verdicts(
        view, queries.RECENT_DUPLICATES, _DUPLICATES_MAX, order="page.number DESC",
        recent_from=newest - _RECENT_MAX,
    )  # fmt: skip
    by_relation: dict[str, Counter[tuple[str, str]]] = {}
    for verdict in (each.verdict for each in found):
        check_time(view)
        assert verdict.representative is not None, verdict
        other = verdict.representative.url
        hosts = host_of(verdict.url), host_of(other)
        of = LOST if is_lost(verdict) else relation(other, verdict.url)
        by_relation.setdefault(of, Counter())[hosts] += 1
    rows = [
        RelationRow(name, counts.total(), *hosts, number)
        for name, counts in by_relation.items()
        for hosts, number in counts.most_common(1)
    ]
    return sorted(rows, key=lambda row: -row.duplicates)


def recent_verdicts(view: Connection) -> int:
    """Return how many verdicts are recent: the newest tenth, up to a bound."""
    newest = queries.number(view, queries.NEWEST_PAGE) or 0
    return min(-(-newest // 10), _RECENT_MAX)


def describe_cluster(view: Connection, row: ClusterRow, looked_at: int = _LOOKED_AT) -> SeenCluster:
    """Return a cluster with what its oldest and newest duplicates show, so many of each."""
    members: dict[int, Verdict] = {}
    recent, since = 0, recent_from(view)
    for ref in queries.refs_of(view, row.place):
        for order in ("page.number", "page.number DESC"):
            found = queries.verdicts(view, queries.OF_CLUSTER, looked_at, order=order, ref=ref)
            members |= {each.number: each.verdict for each in found}
        recent += queries.number(view, queries.RECENT_OF_CLUSTER, ref=ref, recent_from=since) or 0
    check_time(view)
    look = look_of(row.url, [*members.values()])
    return SeenCluster(row.place, row.url, row.host, row.duplicates, recent, look)


def recent_from(view: Connection) -> int:
    """Return the number that recent pages come after."""
    return (queries.number(view, queries.NEWEST_PAGE) or 0) - recent_verdicts(view)


def look_of(url: str, members: Sequence[Verdict]) -> ClusterLook:
    """Return what the cluster of the representative with this URL looks like by some duplicates."""
    counts = Counter(relation(url, each.url) for each in members)
    kind = MIXED
    if counts:
        most, number = counts.most_common(1)[0]
        unlike = counts[SITE] + counts[ELSEWHERE]
        if 2 * sum(map(is_lost, members)) > len(members):
            kind = LOST
        elif 2 * unlike > len(members):
            kind = _describe_unlike(url, members)
        elif 2 * number > len(members):
            kind = most
    return ClusterLook(kind, _SAID[kind], dict(counts.most_common()), len(members))


def is_lost(verdict: Verdict) -> bool:
    """Return whether a page has much text but too few words to compare."""
    return verdict.basis == Basis.TOO_SHORT and verdict.text_bytes >= LOST_BYTES


def _describe_unlike(url: str, members: Sequence[Verdict]) -> str:
    """Return what a cluster looks like whose URLs have little in common."""
    hosts = {host_of(each) for each in (url, *(m.url for m in members))}
    similar = ((m.similarity or 0.0) if m.basis == Basis.SIGNATURE else 1.0 for m in members)
    alike = median(similar) >= ALIKE
    short = median(each.text_bytes for each in members) <= SHORT_BYTES
    spread = len(hosts) == 1 or len(hosts) >= _HOSTS_MIN
    if alike and short and spread and len(members) >= BLOCKED_MIN:
        return BLOCK
    return TEMPLATE if len(hosts) == 1 and not alike else COPIES


def relation(url: str, other: str) -> str:
    """Return the relation of a duplicate's URL to that of its representative."""
    if url == other:
        return FETCH
    one, two = parts_of(url), parts_of(other)
    is_one_host = _host(url) == _host(other)
    if _plain(one) == _plain(two) and is_one_host:
        return _relate_queries(one, two)
    prints = set()
    for each, parts in ((url, one), (other, two)):
        mobile = "/mobile/" if host_of(each).startswith(("m.", "amp.")) else ""
        prints.add(_PRINT.search(f"{mobile}{parts.path}?{parts.query}") is None)
    if len(prints) > 1:
        return PRINT
    if not is_one_host:
        return MIRROR if _plain(one) == _plain(two) != "" else ELSEWHERE
    return SITE


def _relate_queries(one: SplitResult, two: SplitResult) -> str:
    """Return the relation of two URLs of one host and path."""
    if _IN_PATH.search(one.path) or _IN_PATH.search(two.path):
        return SESSION
    queries = [set(parse_qsl(each.query, keep_blank_values=True)) for each in (one, two)]
    names = {name.lower() for name, _ in queries[0] ^ queries[1]}
    values = [value for _, value in queries[0] ^ queries[1]]
    if not names:
        return ADDRESS
    if all(_SESSION.fullmatch(name) for name in names) or all(map(_RANDOM.fullmatch, values)):
        return SESSION
    if all(_TRACKING.fullmatch(name) for name in names):
        return TRACKING
    return PRINT if any(map(_PRINT.search, names)) else QUERY


def parts_of(url: str) -> SplitResult:
    """Return the parts of a URL; of one that has none its text as the path."""
    try:
        return urlsplit(url)
    except ValueError:
        return SplitResult("", "", url, "", "")


def _host(url: str) -> str:
    """Return the host without `www.`, and the port unless it is the usual one."""
    host, port, _ = split_url(url)
    return host.removeprefix("www.") + ("" if port in USUAL_PORTS else port)


def _plain(parts: SplitResult) -> str:
    """Return a path without what does not change the page by common custom."""
    return _INDEX.sub("/", _IN_PATH.sub("", parts.path)).rstrip("/").lower()
