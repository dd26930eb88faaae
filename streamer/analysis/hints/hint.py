"""A hint: what many URLs of a host have in common whose pages have the same content."""

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec

from streamer.model import Representative

HINTS_SCHEMA = "streamer.hints/1"
Z = 1.6448536269514722  # of a normal distribution: 95 % are below
NOTICED = 0.05  # a change stays unnoticed with at most this probability

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class HintKind(StrEnum):
    """What a hint is about."""

    PARAMETER = "parameter"  # of the query
    PATH_PARAMETER = "path_parameter"  # as ;jsessionid=
    SEGMENT = "segment"  # of the path, which may be left out
    VARYING_SEGMENT = "varying_segment"  # a place in the path with any value
    SOFT_404 = "soft_404"
    TRAP = "trap"


class CanonicalAgreement(msgspec.Struct, frozen=True):
    """How many pages with a canonical link there are for a hint, and how many links agree."""

    pages: Count
    agree: Count


class Hint(msgspec.Struct, frozen=True):
    """One hint. docs/hints.md has the meaning of each field."""

    kind: HintKind
    name: str
    under: str
    urls: Count
    support: Count
    differing: Count
    error: Share | None
    recheck: Share
    examples: list[str]
    representative: Representative | msgspec.UnsetType = msgspec.UNSET
    canonical: CanonicalAgreement | msgspec.UnsetType = msgspec.UNSET
    without: Count | msgspec.UnsetType = msgspec.UNSET


class HostHints(msgspec.Struct, frozen=True):
    """All hints of one host: a line of a file, or a message."""

    host: str
    urls: Count
    contents: Count
    left_out: Count
    hints: list[Hint]
    schema: str = HINTS_SCHEMA


class HintLimits(NamedTuple):
    """When a hint is given: its error is at most this, and it has at least this support."""

    error_max: float = 0.1
    support_min: int = 10

    def recheck(self, urls: int) -> float:
        """Return the share of `urls` to fetch, so that a site that changes is noticed.

        That many fetches meet one that differs with a probability of 95 %, once more than
        `error_max` of all do.
        """
        fetches = math.ceil(math.log(NOTICED) / math.log1p(-self.error_max))
        return round(min(1.0, fetches / max(1, urls)), 4)


def error_bound(differing: int, support: int) -> float:
    """Return the upper end of Wilson's interval for the share that differs (95 %, one side)."""
    if not support:
        return 1.0
    share, square = differing / support, Z * Z / support
    spread = Z * math.sqrt(share * (1 - share) / support + square / (4 * support))
    return min(1.0, (share + square / 2 + spread) / (1 + square))


@dataclass(slots=True)
class Evidence:
    """What pages say of a hint.

    Attributes:
        same: the contents of those groups whose pages all have one; a content counts once, so a
            page that answers for many URLs (an error, a login form) is little support.
        without: those of `same` with a URL that does not have the parameter.
        differing: groups whose pages have several contents.
        extra: how many contents these have beyond the first.
    """

    same: set[int] = field(default_factory=set)
    differing: int = 0
    extra: int = 0
    without: set[int] = field(default_factory=set)

    @property
    def support(self) -> int:
        """Return the number of observations, for and against."""
        return len(self.same) + self.differing

    @property
    def error(self) -> float:
        """Return the bound of the share that differs."""
        return error_bound(self.differing, self.support)

    def count(self, contents: set[int], *, without: bool = False) -> None:
        """Count a group of pages by its contents; `without`: one has no such parameter."""
        if len(contents) == 1:
            self.same |= contents
            if without:
                self.without |= contents
        else:
            self.differing += 1
            self.extra += len(contents) - 1

    def holds(self, limits: HintLimits) -> bool:
        """Return whether a hint can be given."""
        return self.support >= limits.support_min and self.error <= limits.error_max

    def contradicts(self, limits: HintLimits) -> bool:
        """Return whether a part of a host is unlike the rest, by more than single pages."""
        return self.extra >= CONTRADICTING and self.differing > limits.error_max * self.support


CONTRADICTING = 3
