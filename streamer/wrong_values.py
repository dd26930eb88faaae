"""What is wrong with a value or a name, in words that do not depend on the validator's.

No function here returns the value itself: it may be a secret, under a misspelt name too.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

UNKNOWN = "extra_forbidden"  # pydantic's type of an error about a name
VARIABLES = "STREAMER_"  # how a variable of the environment begins

# By pydantic's type of an error: what a value must be.
_MUST_BE = {
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "below {lt}",
    "less_than_equal": "at most {le}",
    "finite_number": "a finite number",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "string_type": "text, in quotes where it is in a file",
    "bytes_type": "text",
    "path_type": "a path",
    "tuple_type": "a list",
    "byte_size": "a number of bytes, as 512MiB",
    "byte_size_unit": "a number of bytes, as 512MiB",
    "missing": "given",
    UNKNOWN: "left out: there is none of this name",
}
_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false"}

# What Kubernetes puts into a pod's environment for a Service whose name begins with "streamer".
_SERVICE_LINK = re.compile(
    r"STREAMER(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?"
    r"|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)


def why_wrong(error: ErrorDetails) -> str:
    """Return why a value is refused, as the end of a sentence."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind in _MUST_BE:
        return f"it must be {_MUST_BE[kind].format(**context)}"
    if what := _KINDS.get(kind.partition("_")[0]):
        return f"it must be {what}"
    return str(error["msg"])


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return a question about the nearest known name, with a space before; "" if none is near.

    Neither `name` nor the `known` ones have the prefix with which the nearest is shown.
    """
    near = difflib.get_close_matches(name, [*known], 1, 0.7)
    return f" Did you mean {prefix}{near[0]}?" if near else ""


def unknown_variable(environment: Mapping[str, str], known: Iterable[str]) -> str | None:
    """Return the first variable that begins with STREAMER_ and is none of the `known`, or None.

    Names count without regard to case. Variables that Kubernetes makes of Services are skipped.
    """
    names = {*known}
    for name in environment:
        upper = name.upper()
        if not upper.startswith(VARIABLES) or upper in names or _SERVICE_LINK.fullmatch(upper):
            continue
        return name
    return None
