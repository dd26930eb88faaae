"""Verdicts at a stricter threshold, from a verdict file alone: what it tells, and what it does not.

A page that was a duplicate by less than the stricter threshold had no kept page nearer to it, so it
would have been kept. From there on there is a kept page that no verdict has looked at: each later
page may be like that one, and no file says so. So verdicts are known as follows:

    exact     it would be this one
    decision  it is a duplicate for certain, of this page or of one that is more similar
    open      it is this one unless a page matches one that the stricter threshold has kept anew

Certain are: all up to the first page that is kept anew, that one too; later duplicates of pages
kept before it, since these stay kept; and what only equal content decides. A page kept anew has
less than the threshold in common with its representative, so it has no page's content.

With --exact, shingles decide what an estimate leaves in doubt, and that depends on the threshold.
What is near the new one is open. So is a match by shingles, whose estimate is not known; and a page
by estimate more similar than that is a duplicate, maybe of another page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec
import xxhash

from streamer.errors import InputError
from streamer.model import SIMILARITY_ONE, Basis, Decision, Location, Verdict
from streamer.sketch.hash_sets import widest_doubt


class Certainty(StrEnum):
    """How well a verdict at another threshold is known."""

    EXACT = "exact"
    DECISION = "decision"
    OPEN = "open"


class RethresholdedVerdict(Verdict, frozen=True):
    """A verdict at another threshold than that of its run."""

    known: Certainty = Certainty.EXACT


_NAMES = Verdict.__struct_fields__


class Rethreshold:
    """Tells verdicts at the threshold `least`, which is not below that of the run.

    Memory is some 100 bytes a page that was kept by the run, or is kept anew, or a source.

    Attributes:
        counts: pages by decision and certainty.
        kept_anew: how many duplicates became unique.
        lowest: the least similarity of a duplicate that was not one by its content, and None
            before there is one; in ten-thousandths.

    Args:
        least, was: the new threshold and that of the run, in ten-thousandths; None: not known.
    """

    def __init__(self, least: int, was: int | None = None) -> None:
        self._least, self._was = least, was
        self._doubt = widest_doubt(least)
        self._certain: set[int] = set()  # pages that are kept for certain
        self._assumed: set[int] = set()  # and those that may be
        self._newest: dict[tuple[str, int], int] = {}  # of each source
        self._has_changed = False  # a page came that may be kept, and was not
        self.counts: Counter[tuple[Decision, Certainty]] = Counter()
        self.kept_anew = 0
        self.lowest: int | None = None

    def verdicts(self, told: Iterable[Verdict]) -> Iterator[RethresholdedVerdict]:
        """Yield the verdicts of a file at this threshold, in its order.

        Raises:
            InputError: they cannot be told from this file.
        """
        for number, verdict in enumerate(told, 1):
            if verdict.change is not msgspec.UNSET:
                raise InputError(
                    f"Line {number} tells the change of its URL, and which pages were retired by "
                    "one depends on the threshold. Judge the pages again."
                )
            self._check_order(verdict.page, number)
            found = (
                self._duplicate(verdict, number) if verdict.is_duplicate else self._unique(verdict)
            )
            self.counts[found.verdict, found.known] += 1
            yield found
        self._check_stricter()

    def _check_order(self, page: Location, number: int) -> None:
        """Raise InputError unless a page comes behind those before it in its source."""
        source = page.topic, page.partition
        if page.offset <= self._newest.get(source, -1):
            raise InputError(
                f"Line {number} comes behind a later page of {page.topic}, so these are verdicts "
                "of an index with several shards, of several indexes, or of two files of one name. "
                "Their order does not say which pages were kept before which: judge them again."
            )
        self._newest[source] = page.offset

    def _check_stricter(self) -> None:
        """Raise InputError unless the threshold is known not to be below that of the run."""
        if self._was is not None:
            return
        if self.lowest is None or self._least < self.lowest:
            lowest = "no duplicate by similarity" if self.lowest is None else self._said()
            raise InputError(
                f"The file has {lowest}, so it does not tell whether {_part(self._least)} is above "
                "the threshold of its run. Give that with --was. At a lower threshold pages would "
                "match that were called unique, and the file has no similarity of these."
            )

    def _said(self) -> str:
        return f"no duplicate with a similarity below {_part(self.lowest or 0)}"

    def _unique(self, verdict: Verdict) -> RethresholdedVerdict:
        """Return the verdict on a page that had no match."""
        if verdict.basis is Basis.TOO_SHORT or not self._has_changed:
            return self._kept(verdict, Certainty.EXACT)
        return self._kept(verdict, Certainty.OPEN)

    def _duplicate(self, verdict: Verdict, number: int) -> RethresholdedVerdict:
        """Return the verdict on a page that was a duplicate."""
        other = verdict.representative
        if other is None or verdict.similarity is None:
            raise InputError(f"Line {number} is a duplicate of nothing: no verdict.")
        elsewhere = other.index is not msgspec.UNSET
        is_kept = elsewhere or self._is_kept(other.page, number)
        similarity = round(verdict.similarity * SIMILARITY_ONE)
        by_sets = verdict.exact is not msgspec.UNSET
        is_near = by_sets and abs(similarity - self._least) <= self._doubt
        if verdict.basis is not Basis.SIGNATURE:
            certain = Certainty.DECISION if is_near and verdict.exact is False else _EXACT
            return self._stays(verdict, certain if is_kept else _OPEN)
        self._note(similarity, number)
        if self._least == self._was:
            return self._stays(verdict, Certainty.EXACT)
        if similarity < self._least:
            self.kept_anew += 1
            is_exact = not (self._has_changed or is_near)
            kept = self._kept(_without_match(verdict), _EXACT if is_exact else _OPEN)
            self._has_changed = True
            return kept
        if is_near or verdict.exact is True or not is_kept:
            return self._stays(verdict, _OPEN)
        # Pages kept anew came behind this representative, so of equals it is the earliest.
        is_equal = similarity == SIMILARITY_ONE and not elsewhere
        is_exact = is_equal or not (self._has_changed or by_sets)
        return self._stays(verdict, _EXACT if is_exact else Certainty.DECISION)

    def _note(self, similarity: int, number: int) -> None:
        if self._was is not None and similarity < self._was:
            raise InputError(
                f"Line {number} is a duplicate by {_part(similarity)}, less than --was "
                f"{_part(self._was)}. Give the lowest threshold of the run; --rules may have some."
            )
        self.lowest = similarity if self.lowest is None else min(self.lowest, similarity)

    def _is_kept(self, page: Location, number: int) -> bool:
        """Tell whether a representative is kept for certain."""
        key = _key(page)
        if key not in self._certain and key not in self._assumed:
            raise InputError(
                f"Line {number} names a representative that the lines before do not call unique: "
                f"{page.topic}, {page.partition}, {page.offset}. Give all verdicts of the index in "
                "one file, in their order."
            )
        return key in self._certain

    def _kept(self, verdict: Verdict, known: Certainty) -> RethresholdedVerdict:
        (self._certain if known is Certainty.EXACT else self._assumed).add(_key(verdict.page))
        return _told(verdict, known)

    def _stays(self, verdict: Verdict, known: Certainty) -> RethresholdedVerdict:
        self._has_changed |= known is Certainty.OPEN
        return _told(verdict, known)


_EXACT, _OPEN = Certainty.EXACT, Certainty.OPEN


def _told(verdict: Verdict, known: Certainty) -> RethresholdedVerdict:
    fields = {name: getattr(verdict, name) for name in _NAMES}
    return RethresholdedVerdict(**fields, known=known)


def _without_match(verdict: Verdict) -> Verdict:
    return msgspec.structs.replace(
        verdict, verdict=Decision.UNIQUE, similarity=None, representative=None, same_url=False,
        exact=msgspec.UNSET,
    )  # fmt: skip


def _key(page: Location) -> int:
    """Return 64 bits that tell a page from others."""
    name = f"{page.topic}\0{page.partition}\0{page.offset}"
    return xxhash.xxh3_64_intdigest(name.encode())


def _part(similarity: int) -> str:
    return f"{similarity / SIMILARITY_ONE:g}"
