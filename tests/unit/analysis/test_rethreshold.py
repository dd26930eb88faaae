"""Verdicts at another threshold: what is called certain is what judging again gives."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import msgspec
import pytest

from streamer.analysis.rethreshold import Certainty, Rethreshold, RethresholdedVerdict, Survey
from streamer.errors import InputError
from streamer.model import (
    Basis,
    Change,
    Decision,
    Location,
    NearestKept,
    Representative,
    SignedText,
    Verdict,
)

ONE = 10_000


def verdict(number: int, match: tuple[int, int] | None = None, **fields: object) -> Verdict:
    """Return the verdict on a page; `match` is the representative and the similarity."""
    other = match and Representative(Location("f", 0, match[0]), f"u{match[0]}")
    made = Verdict(
        Location("f", 0, number), f"u{number}",
        Decision.DUPLICATE if match else Decision.UNIQUE, Basis.SIGNATURE,
        match[1] / ONE if match else None, other or None, False, 9, "i",
    )  # fmt: skip
    return msgspec.structs.replace(made, **fields)


def unique(number: int, near: tuple[int, int] | None = None, lowest: int = 6_500) -> Verdict:
    """Return the verdict on a page that is kept; `near` is what is nearest, and the similarity."""
    found = near and NearestKept(Location("f", 0, near[0]), f"u{near[0]}", similarity=near[1] / ONE)
    return verdict(number, nearest=found, nearest_min=lowest / ONE)


@dataclass
class Pages:
    """Pages on a line: their similarity is one less their distance."""

    places: list[int]

    def judged(self, least: int, margin: int = 0) -> list[Verdict]:
        """Return the verdicts of the plain rule: the most similar kept page, the earliest.

        With a margin also what is nearest to pages that are kept.
        """
        kept: list[int] = []
        found = []
        for number, place in enumerate(self.places):
            near = [(-(ONE - abs(place - self.places[each])), each) for each in kept]
            similarity, other = min(near, default=(0, -1))
            if other >= 0 and -similarity >= least:
                found.append(verdict(number, (other, -similarity)))
            else:
                kept.append(number)
                match = (other, -similarity) if other >= 0 else None
                nearest = match if match and -similarity >= least - margin else None
                found.append(unique(number, nearest, least - margin) if margin else verdict(number))
        return found


def plain(found: RethresholdedVerdict) -> Verdict:
    names = Verdict.__struct_fields__
    return Verdict(**{name: getattr(found, name) for name in names})


@pytest.mark.parametrize("margin", [0, 2_500])
@pytest.mark.parametrize("seed", range(60))
def test_what_is_certain_is_what_judging_again_gives(seed: int, margin: int) -> None:
    random = Random(seed)
    dense = random.choice([30_000, 300_000, 900_000])
    pages = Pages([random.randrange(dense) for _ in range(random.randrange(1, 120))])
    thresholds = [5_500, 7_000, 7_900] if margin else [8_000, 8_500, 9_000, 9_900]
    was, least = 8_000, random.choice(thresholds)
    before = pages.judged(was, margin)
    told = Rethreshold(least, random.choice([was, None]) if margin else was, Survey.of(before))
    found = list(told.verdicts(before))
    wanted = pages.judged(least)
    dropped = [
        one for one in found if one.is_duplicate and not before[one.page.offset].is_duplicate
    ]
    assert len(dropped) == told.dropped
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        if one.known is Certainty.EXACT:
            assert plain(one) == other
        elif one.known is Certainty.DECISION:
            assert other.is_duplicate
            assert (other.similarity or 0) >= (one.similarity or 0)
    unique = len([each for each in wanted if not each.is_duplicate])
    exact = told.counts[Decision.UNIQUE, Certainty.EXACT]
    certain = sum(
        told.counts[Decision.DUPLICATE, each] for each in (Certainty.EXACT, Certainty.DECISION)
    )
    assert exact <= unique <= len(wanted) - certain
    if least == was:
        assert {each.known for each in found} == {Certainty.EXACT}


def known(*told: Verdict, least: int = 9_000, was: int | None = 8_000) -> str:
    """Return the decisions and certainties in short."""
    found = Rethreshold(least, was, Survey.of(told)).verdicts(told)
    return " ".join(f"{each.verdict[0]}:{each.known[0]}" for each in found)


def test_until_the_first_page_that_is_kept_anew_all_is_exact() -> None:
    told = [verdict(0), verdict(1, (0, 9_500)), verdict(2, (0, 8_500)), verdict(3)]
    told += [verdict(4, (0, 9_500)), verdict(5, (0, 10_000)), verdict(6, (0, 8_500))]
    told += [verdict(7, (3, 9_500))]
    assert known(*told) == "u:e d:e u:e u:o d:d d:e u:o d:o"


def test_a_near_miss_is_a_duplicate_and_what_had_matched_it_is_open() -> None:
    told = [unique(0), unique(1, (0, 7_500)), unique(2, (0, 7_000)), verdict(3, (0, 8_500))]
    told += [unique(4, (1, 7_300)), verdict(5, (1, 9_000)), unique(6), unique(7, (0, 7_400))]
    told += [verdict(8, (0, 8_100)), verdict(9, (0, 10_000)), verdict(10, (6, 9_000))]
    assert known(*told, least=7_200) == "u:e d:e u:e d:e u:o d:o u:o d:d d:d d:e d:o"
    found = list(Rethreshold(7_200, None, Survey.of(told)).verdicts(told))
    assert plain(found[1]) == verdict(1, (0, 7_500))
    assert plain(found[2]) == verdict(2), "what is nearest was said of the run's kept pages"
    other = NearestKept(Location("f", 0, 99), "u0", "corpus", similarity=0.75, exact=True)
    [there] = Rethreshold(7_200, None, Survey.of([])).verdicts(
        [msgspec.structs.replace(unique(0), nearest=other)]
    )
    assert there.is_duplicate
    assert (there.representative, there.exact) == (
        Representative(Location("f", 0, 99), "u0", "corpus"), True,
    )  # fmt: skip
    assert (there.known, there.same_url) == (Certainty.EXACT, True)


def test_pages_without_main_text_keep_their_stricter_threshold() -> None:
    main, visible = SignedText.MAIN, SignedText.VISIBLE

    def near(number: int, similarity: int, text: SignedText) -> Verdict:
        lowest = 5_000 if text == main else 7_000
        return msgspec.structs.replace(unique(number, (0, similarity), lowest), text=text)

    told = [verdict(0, nearest=None, nearest_min=0.5, text=main), near(1, 7_900, visible)]
    told += [near(2, 6_200, main), verdict(3, (0, 8_100), text=visible)]
    survey = Survey.of(told, 8_000)
    lax = list(Rethreshold(6_000, 6_500, survey).verdicts(told))
    assert [each.verdict[0] + each.known[0] for each in lax] == ["ue", "ue", "de", "de"]
    strict = list(Rethreshold(8_200, 6_500, survey).verdicts(told))
    assert [each.verdict[0] + each.known[0] for each in strict] == ["ue", "ue", "ue", "ue"]
    with pytest.raises(InputError, match=r"Line 4 .*without main text.*--fallback-threshold"):
        Survey.of(told, 8_200)


def test_a_near_miss_without_main_text_needs_the_fallback_threshold_to_be_known() -> None:
    visible = [msgspec.structs.replace(each, text=SignedText.VISIBLE)
               for each in (unique(0, None, 5_000), unique(1, (0, 6_200), 5_000))]  # fmt: skip
    with pytest.raises(InputError, match=r"Line 2 .*0\.6 .*--fallback-threshold.* 0 "):
        Rethreshold(6_000, 8_000, Survey.of(visible, None))
    for fallback, wanted in ((0, "duplicate"), (8_000, "unique")):
        told = [*Rethreshold(6_000, 8_000, Survey.of(visible, fallback)).verdicts(visible)]
        assert (told[1].verdict, told[1].known) == (wanted, "exact")
    for least in (6_300, 8_500):  # the same whatever it was
        told = [*Rethreshold(least, 8_000, Survey.of(visible, None)).verdicts(visible)]
        assert [each.verdict[0] + each.known[0] for each in told] == ["ue", "ue"]


def test_where_shingles_may_have_decided_unique_pages_are_open_at_a_laxer_threshold() -> None:
    near = NearestKept(Location("f", 0, 0), "u0", similarity=0.75, exact=False)
    told = [unique(0), verdict(1, basis=Basis.TOO_SHORT, nearest=None, nearest_min=0.65)]
    told += [verdict(2, nearest=near, nearest_min=0.65), verdict(3, (0, 9_800), exact=False)]
    assert known(*told, least=7_200) == "u:o u:e d:o d:o"
    assert known(*told) == "u:e u:e u:e d:d"


def test_equal_content_decides_at_any_threshold_and_short_pages_match_nothing_else() -> None:
    told = [verdict(0), verdict(1, (0, 8_500)), verdict(2, basis=Basis.TOO_SHORT)]
    told += [verdict(3, (2, 10_000), basis=Basis.TOO_SHORT)]
    told += [verdict(4, (0, 10_000), basis=Basis.CONTENT)]
    assert known(*told) == "u:e u:e u:e d:e d:e"


def test_pages_of_equal_content_that_differ_otherwise_are_judged_by_their_similarity() -> None:
    told = [verdict(0), verdict(1, (0, 8_500), basis=Basis.CONTENT)]
    told += [verdict(2, (0, 9_500), basis=Basis.CONTENT)]
    assert known(*told) == "u:e u:e d:d"
    [_, kept, _] = Rethreshold(9_000, 8_000, Survey.of(told)).verdicts(told)
    assert plain(kept) == verdict(1)
    assert Survey.of(told).lowest == 8_500


def test_pages_of_another_index_stay_kept() -> None:
    other = Representative(Location("f", 0, 99), "u", "corpus")
    told = [verdict(0, (99, 9_500), representative=other)]
    told += [verdict(1, (99, 8_500), representative=other)]
    told += [verdict(2, (99, 10_000), representative=other)]
    assert known(*told) == "d:e u:e d:d"


def test_what_shingles_would_decide_is_open() -> None:
    def matched(similarity: int, *, exact: bool) -> str:
        return known(verdict(0), verdict(1, (0, similarity), exact=exact))

    assert matched(9_100, exact=False) == matched(9_600, exact=True) == "u:e d:o"
    assert matched(9_600, exact=False) == "u:e d:d"
    assert matched(10_000, exact=False) == "u:e d:e"
    equal = verdict(1, (0, 10_000), basis=Basis.CONTENT, exact=False)
    assert known(verdict(0), equal, least=9_900) == "u:e d:d", "shingles would say so"
    assert matched(8_900, exact=False) == matched(8_900, exact=True) == "u:e u:o"
    assert matched(8_500, exact=False) == matched(8_500, exact=True) == "u:e u:e"


@pytest.mark.parametrize(
    ("told", "was", "said"),
    [
        ([verdict(0)], None, "no duplicate by similarity"),
        ([verdict(0), verdict(1, (0, 9_500))], None, "no duplicate with a similarity below 0.95"),
        ([unique(0), verdict(1), verdict(2, (0, 9_500))], None, "and line 2 does not tell"),
        ([verdict(0), verdict(1, (0, 9_500))], 9_200, r"0.9 is lower than --was 0.92\. At a lower"),
        (
            [unique(0, None, 9_100), unique(1, None, 9_100)],
            9_200,
            "Line 2 tells what .* similarity 0.91 on, and",
        ),
        ([unique(0), unique(1, (7, 9_100))], 9_200, "names a page that the lines before do not"),
        ([verdict(0), verdict(1, (0, 7_500))], 8_000, "less than --was 0.8"),
        ([verdict(1, (0, 9_500))], 8_000, "do not call unique"),
        ([verdict(0, change=Change.NEW)], 8_000, "the change of its URL"),
        ([unique(0), unique(1, None, 7_000)], 8_000, "Line 2 .* pages had different thresholds"),
        ([verdict(1), verdict(0)], 8_000, "Line 2 comes behind a later page of f"),
        ([verdict(1), verdict(1)], 8_000, "two files of one name"),
    ],
    ids=[
        "nothing",
        "laxer",
        "settings",
        "lower",
        "below",
        "near",
        "rules",
        "part",
        "changes",
        "settings-changed",
        "shards",
        "names",
    ],
)
def test_what_the_file_does_not_tell_is_refused(
    told: list[Verdict], was: int | None, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        known(*told, was=was)
