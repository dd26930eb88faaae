"""Which page of a cluster survives: policies as numbers, so that a page costs no text.

A policy turns a verdict into a tuple of numbers, of which the least survives; among equal ones it
is the page that the file has first. A page that the file knows only as a representative was judged
before the file began: it is earlier than all, and has no length, score or time.

    earliest  the first in the file
    longest   the most bytes of visible text (`text_bytes`)
    https     an https URL before others
    nutch     the highest score, then the newest fetch, then the shortest decoded URL: the order of
              Apache Nutch's DeduplicationJob; score and fetch time are carried fields
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from urllib.parse import unquote_plus

from streamer.stream.times import normalise_time
from streamer.stream.verdict_lines import Judged

Rank = Callable[[Judged], tuple[float, ...]]


class Policy(StrEnum):
    """How the survivor of a cluster is chosen."""

    EARLIEST = "earliest"
    LONGEST = "longest"
    HTTPS = "https"
    NUTCH = "nutch"


def ranking(policy: Policy, score_field: str = "score", time_field: str = "fetched_at") -> Rank:
    """Return the policy's function; the fields are those of `carried` that `nutch` looks at."""

    def nutch(judged: Judged) -> tuple[float, ...]:
        score = _number(judged.carried.get(score_field))
        fetched = _seconds(judged.carried.get(time_field))
        return -score, -fetched, len(unquote_plus(judged.url))

    ranks: dict[Policy, Rank] = {
        Policy.EARLIEST: lambda _judged: (),
        Policy.LONGEST: lambda judged: (-judged.text_bytes,),
        Policy.HTTPS: lambda judged: (not judged.url[:8].lower().startswith("https://"),),
        Policy.NUTCH: nutch,
    }
    return ranks[policy]


def _number(value: object) -> float:
    """Return a number or the number in a string; minus infinity for all else."""
    try:
        number = float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return -math.inf
    return -math.inf if math.isnan(number) else number


def _seconds(value: object) -> float:
    """Return a time, in any form that times.py reads, in seconds; else minus infinity."""
    text = normalise_time(value)
    return datetime.fromisoformat(text).timestamp() if text else -math.inf
