"""Verdicts at a stricter threshold: what is called certain is what judging again gives."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import msgspec
import pytest

from streamer.analysis.rethreshold import Certainty, Rethreshold, RethresholdedVerdict
from streamer.errors import InputError
from streamer.model import Basis, Change, Decision, Location, Representative, Verdict

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


@dataclass
class Pages:
    """Pages on a line: their similarity is one less their distance."""

    places: list[int]

    def judged(self, least: int) -> list[Verdict]:
        """Return the verdicts of the plain rule: the most similar kept page, the earliest."""
        kept: list[int] = []
        found = []
        for number, place in enumerate(self.places):
            near = [(-(ONE - abs(place - self.places[each])), each) for each in kept]
            similarity, other = min(near, default=(0, -1))
            if other >= 0 and -similarity >= least:
                found.append(verdict(number, (other, -similarity)))
            else:
                kept.append(number)
                found.append(verdict(number))
        return found


def plain(found: RethresholdedVerdict) -> Verdict:
    names = Verdict.__struct_fields__
    return Verdict(**{name: getattr(found, name) for name in names})


@pytest.mark.parametrize("seed", range(60))
def test_what_is_certain_is_what_judging_again_gives(seed: int) -> None:
    random = Random(seed)
    pages = Pages([random.randrange(30_000) for _ in range(random.randrange(1, 120))])
    was, least = 8_000, random.choice([8_000, 8_500, 9_000, 9_900])
    told = Rethreshold(least, was)
    found = list(told.verdicts(pages.judged(was)))
    wanted = pages.judged(least)
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
    found = Rethreshold(least, was).verdicts(told)
    return " ".join(f"{each.verdict[0]}:{each.known[0]}" for each in found)


def test_until_the_first_page_that_is_kept_anew_all_is_exact() -> None:
    told = [verdict(0), verdict(1, (0, 9_500)), verdict(2, (0, 8_500)), verdict(3)]
    told += [verdict(4, (0, 9_500)), verdict(5, (0, 10_000)), verdict(6, (0, 8_500))]
    told += [verdict(7, (3, 9_500))]
    assert known(*told) == "u:e d:e u:e u:o d:d d:e u:o d:o"


def test_equal_content_decides_at_any_threshold_and_short_pages_match_nothing_else() -> None:
    told = [verdict(0), verdict(1, (0, 8_500)), verdict(2, basis=Basis.TOO_SHORT)]
    told += [verdict(3, (2, 10_000), basis=Basis.TOO_SHORT)]
    told += [verdict(4, (0, 10_000), basis=Basis.CONTENT)]
    assert known(*told) == "u:e u:e u:e d:e d:e"


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
        ([verdict(0), verdict(1, (0, 7_500))], 8_000, "less than --was 0.8"),
        ([verdict(1, (0, 9_500))], 8_000, "do not call unique"),
        ([verdict(0, change=Change.NEW)], 8_000, "the change of its URL"),
        ([verdict(1), verdict(0)], 8_000, "Line 2 comes behind a later page of f"),
        ([verdict(1), verdict(1)], 8_000, "two files of one name"),
    ],
    ids=["nothing", "laxer", "rules", "part", "changes", "shards", "names"],
)
def test_what_the_file_does_not_tell_is_refused(
    told: list[Verdict], was: int | None, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        known(*told, was=was)
    assert Rethreshold(9_500).lowest is None
