"""Verdicts at another threshold, from a verdict file alone: what it tells, and what it does not.

A page that was a duplicate by less than a stricter threshold had no kept page nearer to it, so it
would have been kept. From there on there is a kept page that no verdict has looked at: each later
page may be like that one, and no file says so. So verdicts are known as follows:

    exact     it would be this one
    decision  it is a duplicate for certain, of this page or of one that is more similar
    open      it is this one unless a page matches one that the threshold has kept anew

Certain are: all up to the first page that is kept anew, that one too; later duplicates of pages
kept before it, since these stay kept; and what only equal content decides. A page kept anew has
less than the threshold in common with its representative, so it equals none before it. By methods
that look at more than words, pages of equal content may be less similar: their similarity decides.

At a laxer threshold a unique page is a duplicate of what is nearest to it, if the run had
`--near-misses` and that page is still kept. As long as none is kept anew, the kept pages are some
of those of the run: a page with nothing near enough among these stays unique. But what had matched
a page that is not kept any more matches another one, or none. That is open, and from there on a
page may be kept that no verdict has looked at.

With --exact, shingles decide what an estimate leaves in doubt, and that depends on the threshold.
What is near the new one is open. So is a match by shingles, whose estimate is not known; and a page
by estimate more similar than that is a duplicate, maybe of another page. At a laxer threshold the
estimate may decide where shingles did, and the file has one of both: then unique pages are open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec
import xxhash

from streamer.errors import InputError
from streamer.model import (
    SIMILARITY_ONE,
    Basis,
    Decision,
    Location,
    NearestKept,
    Representative,
    SignedText,
    Verdict,
)
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


@dataclass(slots=True)
class Survey:
    """What a verdict file can answer; similarities are in ten-thousandths.

    Attributes:
        lowest: the least similarity of a duplicate that was not one by its content alone, None
            without such a duplicate.
        by_sets: whether sets of shingles may have decided (`--exact`).
        least, least_line: from which similarity on all unique pages tell what is nearest to them,
            and the line that says so; 0 where none tells it.
        untold_line: the first unique page that tells nothing of that; 0: all do.
        first_least: what the first with and the first without main text tells.
        other_line: a line that tells another; 0: none does.
        fallback: the threshold at least of pages without main text; None: not known.
        fell_back, fell_back_line: from which similarity on it does not matter, and the line that
            says so.
    """

    lowest: int | None = None
    by_sets: bool = False
    least: int = 0
    least_line: int = 0
    untold_line: int = 0
    first_least: dict[bool, int] = field(default_factory=dict)
    other_line: int = 0
    fallback: int | None = None
    fell_back: int = 0
    fell_back_line: int = 0

    @classmethod
    def of(cls, verdicts: Iterable[Verdict], fallback: int | None = None) -> Survey:
        """Return what the verdicts of a file can answer.

        Raises:
            InputError: the pages without main text had a lower threshold than `fallback`.
        """
        found = cls(fallback=fallback)
        for number, verdict in enumerate(verdicts, 1):
            near = verdict.nearest or None
            by_sets = verdict.exact if near is None else near.exact
            found.by_sets |= by_sets is not msgspec.UNSET
            if verdict.is_duplicate:
                if verdict.basis is not Basis.TOO_SHORT and verdict.similarity is not None:
                    similarity = round(verdict.similarity * SIMILARITY_ONE)
                    if similarity == SIMILARITY_ONE and verdict.basis is Basis.CONTENT:
                        continue
                    if _fell_back(verdict) and similarity < (fallback or 0):
                        raise InputError(
                            f"Line {number} is a duplicate by {_part(similarity)} without main "
                            f"text, less than {_part(fallback or 0)}. Give the "
                            "--fallback-threshold of the run, or 0 where it had none."
                        )
                    known = found.lowest
                    found.lowest = similarity if known is None else min(known, similarity)
            else:
                found._note_unique(verdict, number)
        return found

    def _note_unique(self, verdict: Verdict, number: int) -> None:
        near, fell_back, least = verdict.nearest or None, _fell_back(verdict), 0
        if isinstance(verdict.nearest_min, float | int):
            least = round(verdict.nearest_min * SIMILARITY_ONE)
            if least != self.first_least.setdefault(fell_back, least):
                self.other_line = self.other_line or number
            held = fell_back and (self.fallback is None or least <= self.fallback)
            if least >= self.least and not held:
                self.least, self.least_line = least, number
        else:
            self.untold_line = self.untold_line or number
        matches = round(near.similarity * SIMILARITY_ONE) + 1 if near else 0
        if fell_back and self.fallback is None and max(least, matches) > self.fell_back:
            self.fell_back, self.fell_back_line = max(least, matches), number

    def check(self, least: int, was: int | None) -> bool:
        """Return whether the threshold `least` is laxer than that of the run, `was` if it is known.

        A threshold between both is called laxer, where the run's is not known.

        Raises:
            InputError: the file does not tell what would match.
        """
        if self.other_line:
            raise InputError(
                f"Line {self.other_line} tells what is nearest to its page from another similarity "
                "on than the lines before: pages had different thresholds, as with --rules or "
                "where the settings of the index have changed. Judge the pages again."
            )
        if least < self.fell_back:
            raise InputError(
                f"Line {self.fell_back_line} is of a page without main text (text: visible). "
                f"Whether it is unique at {_part(least)} depends on the threshold of such pages. "
                "Give the --fallback-threshold of the run (with --text main and minhash 0.8 is its "
                "default), or 0 where it had none, as other runs and earlier versions."
            )
        if least >= (was if was is not None else self.lowest or SIMILARITY_ONE + 1):
            return False
        if self.untold_line and was is None:
            has = "no duplicate by similarity"
            if self.lowest is not None:
                has = f"no duplicate with a similarity below {_part(self.lowest)}"
            raise InputError(
                f"The file has {has}, so it does not tell whether {_part(least)} is above "
                f"the threshold of its run. Give that with --was. {self._untold}"
            )
        if self.untold_line:
            assert was is not None, "said before"
            raise InputError(
                f"The threshold {_part(least)} is lower than --was {_part(was)}. {self._untold}"
            )
        if least < self.least:
            raise InputError(
                f"Line {self.least_line} tells what is nearest to its page from the similarity "
                f"{_part(self.least)} on, and nothing below. Give a threshold from there on, or "
                "judge the pages again."
            )
        return True

    @property
    def _untold(self) -> str:
        return (
            "At a lower threshold pages would match that were called unique, and line "
            f"{self.untold_line} does not tell what is nearest to its page: that needs a run with "
            "--near-misses and one shard. Judge the pages again."
        )


class Rethreshold:
    """Tells verdicts at the threshold `least`.

    Memory is some 100 bytes a page that was kept by the run, or is kept anew, or a source.

    Attributes:
        counts: pages by decision and certainty.
        kept_anew: how many duplicates became unique.
        dropped: how many unique pages became duplicates.

    Args:
        least, was: the new threshold and that of the run, in ten-thousandths; None: not known.
        survey: what the file can answer.

    Raises:
        InputError: the file cannot answer for this threshold.
    """

    def __init__(self, least: int, was: int | None, survey: Survey) -> None:
        self._least, self._was = least, was
        self._strict = max(least, survey.fallback or 0)  # of pages without main text
        self._unsure = survey.check(least, was) and survey.by_sets  # of all unique pages
        self._certain: set[int] = set()  # pages that are kept for certain
        self._assumed: set[int] = set()  # those that may be
        self._dropped: set[int] = set()  # and those of the run that are not
        self._newest: dict[tuple[str, int], int] = {}  # of each source
        self._has_changed = False  # a page came that may be kept, and was not
        self.counts: Counter[tuple[Decision, Certainty]] = Counter()
        self.kept_anew = self.dropped = 0

    def verdicts(self, verdicts: Iterable[Verdict]) -> Iterator[RethresholdedVerdict]:
        """Yield the verdicts of a file at this threshold, in its order.

        Raises:
            InputError: they cannot be told from this file.
        """
        for number, verdict in enumerate(verdicts, 1):
            if verdict.change is not msgspec.UNSET:
                raise InputError(
                    f"Line {number} tells the change of its URL, and which pages were retired by "
                    "one depends on the threshold. Judge the pages again."
                )
            self._check_order(verdict.page, number)
            judge = self._duplicate if verdict.is_duplicate else self._unique
            found = judge(verdict, number)
            self.counts[found.verdict, found.known] += 1
            yield found

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

    def _unique(self, verdict: Verdict, number: int) -> RethresholdedVerdict:
        """Return the verdict on a page that had no match."""
        near = verdict.nearest or None
        if near is not None and round(near.similarity * SIMILARITY_ONE) >= self._least_of(verdict):
            return self._near_miss(verdict, near, number)
        if verdict.basis is Basis.TOO_SHORT or not (self._has_changed or self._unsure):
            return self._kept(verdict, Certainty.EXACT)
        return self._kept(verdict, Certainty.OPEN)

    def _near_miss(self, verdict: Verdict, near: NearestKept, number: int) -> RethresholdedVerdict:
        """Return the verdict on a unique page that matches what is nearest to it, if that is kept.

        No other page kept by the run is more similar, nor as similar and earlier.
        """
        elsewhere = near.index is not msgspec.UNSET
        is_kept = True if elsewhere else self._is_kept(near.page, number)
        if is_kept is False:
            return self._kept(verdict, _OPEN)  # another one may match
        self.dropped += 1
        known = Certainty.DECISION if self._has_changed else _EXACT
        if self._unsure or not is_kept:
            known = _OPEN
        (self._assumed if known is _OPEN else self._dropped).add(_key(verdict.page))
        return _with_certainty(_with_match(verdict, near), known)

    def _duplicate(self, verdict: Verdict, number: int) -> RethresholdedVerdict:
        """Return the verdict on a page that was a duplicate."""
        other = verdict.representative
        if other is None or verdict.similarity is None:
            raise InputError(f"Line {number} is a duplicate of nothing: no verdict.")
        elsewhere = other.index is not msgspec.UNSET
        is_kept = True if elsewhere else self._is_kept(other.page, number)
        similarity = round(verdict.similarity * SIMILARITY_ONE)
        by_sets = verdict.exact is not msgspec.UNSET
        least = self._least_of(verdict)
        is_near = by_sets and abs(similarity - least) <= widest_doubt(least)
        is_equal = similarity == SIMILARITY_ONE
        # By some methods pages of equal content differ, in their sentences for example.
        if verdict.basis is Basis.TOO_SHORT or (verdict.basis is Basis.CONTENT and is_equal):
            certain = Certainty.DECISION if is_near and verdict.exact is False else _EXACT
            return self._stays(verdict, certain if is_kept else _OPEN)
        self._note(similarity, number)
        if self._least == self._was:
            return self._stays(verdict, Certainty.EXACT)
        if similarity < least:
            self.kept_anew += 1
            is_exact = not (self._has_changed or is_near)
            kept = self._kept(_without_match(verdict), _EXACT if is_exact else _OPEN)
            self._has_changed = True
            return kept
        if is_near or verdict.exact is True or not is_kept:
            return self._stays(verdict, _OPEN)
        # Pages kept anew came behind this representative, so of equals it is the earliest.
        is_exact = (is_equal and not elsewhere) or not (self._has_changed or by_sets)
        return self._stays(verdict, _EXACT if is_exact else Certainty.DECISION)

    def _least_of(self, verdict: Verdict) -> int:
        return self._strict if _fell_back(verdict) else self._least

    def _note(self, similarity: int, number: int) -> None:
        if self._was is not None and similarity < self._was:
            raise InputError(
                f"Line {number} is a duplicate by {_part(similarity)}, less than --was "
                f"{_part(self._was)}. Give the lowest threshold of the run; --rules may have some."
            )

    def _is_kept(self, page: Location, number: int) -> bool | None:
        """Tell whether a page that a verdict names is kept for certain, or is not; None: maybe."""
        key = _key(page)
        if key in self._certain or key in self._dropped:
            return key in self._certain
        if key not in self._assumed:
            raise InputError(
                f"Line {number} names a page that the lines before do not call unique: "
                f"{page.topic}, {page.partition}, {page.offset}. Give all verdicts of the index in "
                "one file, in their order."
            )
        return None

    def _kept(self, verdict: Verdict, known: Certainty) -> RethresholdedVerdict:
        (self._certain if known is Certainty.EXACT else self._assumed).add(_key(verdict.page))
        return _with_certainty(verdict, known)

    def _stays(self, verdict: Verdict, known: Certainty) -> RethresholdedVerdict:
        self._has_changed |= known is Certainty.OPEN
        return _with_certainty(verdict, known)


_EXACT, _OPEN = Certainty.EXACT, Certainty.OPEN


def _fell_back(verdict: Verdict) -> bool:
    return verdict.text == SignedText.VISIBLE


def _with_certainty(verdict: Verdict, known: Certainty) -> RethresholdedVerdict:
    """Return a verdict without what depends on the other pages that the run has kept."""
    fields = {name: getattr(verdict, name) for name in _NAMES}
    fields |= dict.fromkeys(("nearest", "nearest_min", "contained_in", "supersedes"), msgspec.UNSET)
    return RethresholdedVerdict(**fields, known=known)


def _with_match(verdict: Verdict, near: NearestKept) -> Verdict:
    return msgspec.structs.replace(
        verdict, verdict=Decision.DUPLICATE, similarity=near.similarity,
        representative=Representative(near.page, near.url, near.index),
        same_url=bool(verdict.url) and verdict.url == near.url, exact=near.exact,
    )  # fmt: skip


def _without_match(verdict: Verdict) -> Verdict:
    return msgspec.structs.replace(
        verdict, verdict=Decision.UNIQUE, basis=Basis.SIGNATURE, similarity=None,
        representative=None, same_url=False, exact=msgspec.UNSET,
    )  # fmt: skip


def _key(page: Location) -> int:
    """Return 64 bits that tell a page from others."""
    name = f"{page.topic}\0{page.partition}\0{page.offset}"
    return xxhash.xxh3_64_intdigest(name.encode())


def _part(similarity: int) -> str:
    return f"{similarity / SIMILARITY_ONE:g}"
