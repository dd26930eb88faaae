"""What forms do where `--allow-actions` is given: marks on pairs, and dead letters judged again.

A form carries the token of this console's process, which a page of another site cannot read; so
that cannot have a person's browser send one. Everything else stays as it is: no action changes a
verdict, an index or a topic's log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from streamer.analysis.marks import Label, PageOfPair, PairMark
from streamer.console import queries
from streamer.console.answers import ConsoleData, Name, NotFound
from streamer.console.retries import unusable_now
from streamer.run.explanation import place_name

CSRF = "csrf"  # the field of a form with the token


class NextView(NamedTuple):
    """The view that a browser is sent to, its parameters, and the part of it to begin at."""

    path: str
    parameters: dict[str, object]
    part: str = ""


class MarkForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a pair of pages is marked, which are named by their places: a browser changes URLs."""

    place: Name
    kept_place: Name
    label: Label


def mark(data: ConsoleData, form: MarkForm) -> NextView:
    """Mark a pair of pages.

    Raises:
        NotFound: there is no file of marks, or there are no verdicts on such pages.
        StoreUnavailable: the file cannot be used or written.
    """
    if data.marks is None:
        raise NotFound("There is no file of marks: start the console with --marks FILE.")
    with unusable_now():
        data.marks.append(PairMark(*_pair(data, form), form.label))
    marked = form.label or "nothing"
    pages = {"page": form.place, "with": form.kept_place}
    return NextView("/compare", {**pages, "marked": marked}, "mark")


def _pair(data: ConsoleData, form: MarkForm) -> tuple[PageOfPair, PageOfPair]:
    """Return the pages of a form with their URLs; a kept page need not have a verdict here."""
    with data.read() as view:
        own, other = (
            [
                row.verdict
                for ref in queries.refs_of(view, place)
                for row in queries.verdicts(view, queries.OF_REF, 1, ref=ref)
            ]
            for place in (form.place, form.kept_place)
        )
    named = [kept for each in own for kept in (each.representative, each.nearest) if kept]
    urls = [kept.url for kept in named if place_name(kept.page) == form.kept_place]
    urls += [each.url for each in other]
    if not (own and urls):
        raise NotFound("There are no verdicts on the pages of the form: load its page again.")
    return PageOfPair(own[0].url, form.place), PageOfPair(urls[0], form.kept_place)


class RetryForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The dead letters of a code, or one of them by its place."""

    code: Name
    place: Name = ""


def retry(data: ConsoleData, form: RetryForm) -> NextView:
    """Have dead letters judged again.

    Raises:
        NotFound: the console was not told where they go.
        QueryTooLong: finding them takes longer than a query may.
        StoreUnavailable: they cannot be read or written.
    """
    if data.retries is None:
        raise NotFound("Dead letters have nowhere to go: start the console with --retry-file FILE.")
    with unusable_now():
        done = data.retries.choose(form.code, form.place, data.seconds)
    return NextView("/dead-letters", {"code": form.code, **msgspec.structs.asdict(done)})


class Action(NamedTuple):
    """What a form is sent to: its path, its fields, and what is done with them."""

    path: str
    form: type[msgspec.Struct]
    act: Callable[[ConsoleData, Any], NextView]


ACTIONS = (Action("/mark", MarkForm, mark), Action("/retry", RetryForm, retry))
