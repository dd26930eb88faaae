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
from streamer.console.answers import ConsoleData, Name, NotFound

CSRF = "csrf"  # the field of a form with the token
Target = tuple[str, dict[str, object]]  # the view that a browser is sent to, and its parameters


class MarkForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a pair of pages is marked; `at`, where the form stands on the view of that threshold."""

    url: Name
    place: Name
    kept_url: Name
    kept_place: Name
    label: Label
    at: float | None = None


def mark(data: ConsoleData, form: MarkForm) -> Target:
    """Mark a pair of pages.

    Raises:
        NotFound: there is no file of marks.
        InputError: it cannot be written.
    """
    if data.marks is None:
        raise NotFound("There is no file of marks: start the console with --marks FILE.")
    one, other = PageOfPair(form.url, form.place), PageOfPair(form.kept_url, form.kept_place)
    data.marks.append(PairMark(one, other, form.label))
    if form.at is not None:
        return "/threshold", {"at": form.at}
    return "/compare", {"page": form.place, "with": form.kept_place}


class RetryForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The dead letters of a code, or one of them by its place."""

    code: Name
    place: Name = ""


def retry(data: ConsoleData, form: RetryForm) -> Target:
    """Have dead letters judged again.

    Raises:
        NotFound: the console was not told where they go.
        QueryTooLong: finding them takes longer than a query may.
        InputError: they cannot be read or written.
    """
    if data.retries is None:
        raise NotFound("Dead letters have nowhere to go: start the console with --retry-file FILE.")
    done = data.retries.choose(form.code, form.place, data.seconds)
    return "/dead-letters", {"code": form.code, **msgspec.structs.asdict(done)}


class Action(NamedTuple):
    """What a form is sent to: its path, its fields, and what is done with them."""

    path: str
    form: type[msgspec.Struct]
    act: Callable[[ConsoleData, Any], Target]


ACTIONS = (Action("/mark", MarkForm, mark), Action("/retry", RetryForm, retry))
