"""Verdicts at another threshold: what is certain is what a serial index says, whatever comes."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import msgspec
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.analysis.rethreshold import Certainty, Rethreshold, Survey
from streamer.index.rule import BASIS_NAMES
from streamer.index.settings import IndexSettings
from streamer.model import SIMILARITY_ONE, Decision, Location, NearestKept, Representative, Verdict
from tests.helpers.serial_index import Judged, serial_verdicts
from tests.helpers.signed_pages import family_pages

if TYPE_CHECKING:
    from streamer.index.messages import Pages

limits = st.builds(
    IndexSettings,
    threshold=st.sampled_from([0.8, 0.9]),
    near_misses=st.sampled_from([0.3, 0.5]),
    expire_after_ms=st.sampled_from([0, 0, 15_000]),
    exact=st.booleans(),
)


def as_published(judged: Judged, rules: IndexSettings) -> Verdict:
    """Return a verdict of the serial index as a line of a file has it."""
    place, is_unique = Location("f", 0, judged.ref), judged.similarity < 0
    exact = judged.exact if rules.exact and not is_unique else msgspec.UNSET
    other = Representative(Location("f", 0, judged.representative), judged.url.decode())
    found = Verdict(
        place, "", Decision.UNIQUE if is_unique else Decision.DUPLICATE, BASIS_NAMES[judged.basis],
        None if is_unique else judged.similarity / SIMILARITY_ONE, None if is_unique else other,
        False, 9, "i", exact=exact,
    )  # fmt: skip
    if not (is_unique and rules.margin):
        return found
    near = None
    if judged.near is not None:
        score, ref, by_sets, _ = judged.near
        near = NearestKept(
            Location("f", 0, ref), "", similarity=score / SIMILARITY_ONE,
            exact=by_sets if rules.exact else msgspec.UNSET,
        )  # fmt: skip
    lowest = (rules.similarity_min - rules.margin) / SIMILARITY_ONE
    return msgspec.structs.replace(found, nearest=near, nearest_min=lowest)


def equal_where_content_is(pages: Pages) -> Pages:
    """Return the pages with content keys of their own, but for those that are equal in all."""
    assert pages.shingles is not None
    for place, shingles in enumerate(pages.shingles):
        of = pages.distinct[place], pages.tokens[place], shingles, pages.sketches[place].tobytes()
        pages.keys[place, -1] = xxhash.xxh3_64_intdigest(repr(of).encode())
    return pages


def bare(verdict: Verdict) -> tuple[object, ...]:
    other = verdict.representative
    place = None if other is None else other.page
    return verdict.page, verdict.verdict, verdict.basis, verdict.similarity, place, verdict.exact


@settings(max_examples=250, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 70), limits, st.sampled_from([-25, -15, -5, 0, 5, 9]))
def test_what_is_certain_is_what_the_serial_index_says(
    seed: int, count: int, rules: IndexSettings, percent: int
) -> None:
    pages = equal_where_content_is(family_pages(Random(seed), count))
    before = [as_published(each, rules) for each in serial_verdicts(pages, rules)]
    threshold = round(rules.threshold + percent / 100, 2)
    other = rules.model_copy(update={"threshold": threshold, "near_misses": 0})
    wanted = [as_published(each, other) for each in serial_verdicts(pages, other)]
    told = Rethreshold(other.similarity_min, rules.similarity_min, Survey.of(before))
    for found, real in zip(told.verdicts(before), wanted, strict=True):
        if found.known is Certainty.EXACT:
            assert bare(found) == bare(real)
        elif found.known is Certainty.DECISION:
            assert real.is_duplicate
            assert (real.similarity or 0) >= (found.similarity or 0)
