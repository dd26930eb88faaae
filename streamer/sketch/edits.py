"""How many edits lie between two pages and another verdict.

Sets of shingles with c in common and u in their union have the resemblance c / u. If x of the
common ones change on one page, c falls by x and u rises by x; if x that differ become equal, the
reverse. So the threshold t is crossed at x = (c - t*u) / (1 + t) shingles.
"""

from __future__ import annotations

import math
from typing import NamedTuple

_ROUNDING = 1e-9  # of numbers of shingles, so that the threshold itself counts as reached


class Edits(NamedTuple):
    """What would change a verdict: this many shingles more, and at least so many words.

    `differ` tells the direction: they would have to differ, else to agree.
    """

    differ: bool
    shingles: int
    words: int


def edits_needed(common: float, union: float, threshold: float, width: int) -> Edits:
    """Return the fewest edits of one page after which `common / union` is across `threshold`.

    One word changes at most `width` shingles, in the middle of a text and far from other edits.
    """
    beyond = (common - threshold * union) / (1 + threshold)
    differ = beyond >= -_ROUNDING
    whole = math.floor(beyond + _ROUNDING)
    shingles = whole + 1 if differ else -whole
    return Edits(differ, shingles, -(-shingles // width))


def expected_sets(resemblance: float, one: int, other: int) -> tuple[float, float]:
    """Return (common, union) of two sets of these sizes at a resemblance, as c = R(n + m)/(1 + R).

    For sets that are only estimated to be alike; both are at most what the sizes allow.
    """
    common = min(resemblance * (one + other) / (1 + resemblance), one, other)
    return common, one + other - common
