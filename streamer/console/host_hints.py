"""The view of one host: its pages and duplicates, and what a crawler need not fetch of it.

Hints are learned for each answer, of the first pages of the host in the view, so that an answer
takes a second or two at most.
"""

import msgspec

from streamer.analysis.clusters import place_of
from streamer.analysis.hints.hint import Hint, HintLimits
from streamer.analysis.hints.learn import UrlVerdict, learn_host
from streamer.console import queries
from streamer.console.answers import ConsoleData, Name, NotFound
from streamer.console.queries import HostRow
from streamer.hosts import plain_labels
from streamer.model import Location

PAGES_MAX = 20_000  # of a host


class HostQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One host."""

    host: Name = ""


class HostAnswer(msgspec.Struct, frozen=True):
    """A host and its hints, learned from its first `examined` pages; no host if none was named.

    `streamer hints` looks at more of them.
    """

    host: HostRow | None
    examined: int
    hints: list[Hint]


def host(data: ConsoleData, query: HostQuery) -> HostAnswer:
    """Return what is known of a host.

    Raises:
        NotFound: no page is of it.
    """
    if not query.host:
        return HostAnswer(None, 0, [])
    name = plain_labels(query.host)
    with data.read() as view:
        rows = queries.hosts(view, "name = :host", "number", host=name)
        found = queries.verdicts(view, queries.OF_HOST, PAGES_MAX, host=name)
    if not rows:
        raise NotFound(f"There is no page of the host {query.host}.")
    numbers: dict[tuple[str, Location], int] = {}  # of contents, by their kept pages
    verdicts = list[UrlVerdict]()
    for verdict in (each.verdict for each in found):
        other = verdict.representative
        kept = verdict.page if other is None else place_of(other)
        number = numbers.setdefault((verdict.index, kept), len(numbers))
        verdicts.append(UrlVerdict(verdict.url, number, other))
    return HostAnswer(rows[0], len(found), learn_host(name, verdicts, HintLimits()).hints)
