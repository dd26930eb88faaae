"""An attacker who sees the verdicts on his own pages climbs towards a page to pass for.

The harmful order is that of forgery.py: his page must be kept before the victim's comes. What he
can do with the answers of the very index that he attacks is measured in two ways.

**What is gained** (no harm): the victim's page is in the index. He begins with its text, exchanges
a word or appends one, and keeps the change if it cost no similarity. What he ends with is far from
the victim by true resemblance, and a duplicate all the same: so it is not kept, and stands for
nobody.

**What does harm**: the victim's page is not there yet, and may not be shown: it would be kept, and
answer for itself. So he shows relatives of it, each with another part of its text exchanged, too
far from it to answer it, and asks with them which words of the victim's may be exchanged, and which
may be appended, at no cost. What costs nothing with relatives costs little with the victim. He
publishes the victim's text so changed; it is kept, as it is far from the relatives; then the victim
comes.

A sketch is an estimate, and who may ask it often enough learns where it does not look: that is
measured here, not promised away. What must hold is that it takes many questions: with
QUESTIONS_SAFE of them no victim is suppressed by a page whose true resemblance is below the bound.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from tests.campaign.campaign import Campaign, Outcome
from tests.campaign.forgery import (
    RESEMBLANCE_MAX,
    WIDTH,
    foreign_words,
    make_victim,
    shingle_set,
    true_resemblance,
)
from tests.campaign.judging import THRESHOLD, Judge

if TYPE_CHECKING:
    from pathlib import Path

QUESTIONS_SAFE = 1_000
LENGTHS = (300, 1_000, 3_000, 10_000)  # words of a victim, in turn
RELATIVES = 3
PART = 0.27  # of the victim's words that a relative has exchanged: its resemblance is about .57
MARGIN = 0.05
COST_MAX = 0.0005  # of similarity, for a change that counts as free


class Altered:
    """A page that is changed word by word, and its true resemblance to what it was at first."""

    def __init__(self, words: list[str]) -> None:
        self.words = list(words)
        self._theirs = shingle_set(words)
        self._counts = Counter(self._around(0, len(words)))
        self._distinct = self._shared = len(self._theirs)

    def _around(self, start: int, end: int) -> list[tuple[str, ...]]:
        """Return the shingles that hold a word of [start, end)."""
        first, last = max(start - WIDTH + 1, 0), min(end, len(self.words) - WIDTH + 1)
        return [tuple(self.words[i : i + WIDTH]) for i in range(first, last)]

    def _count(self, shingles: list[tuple[str, ...]], step: int) -> None:
        for shingle in shingles:
            before = self._counts[shingle] > 0
            self._counts[shingle] += step
            change = (self._counts[shingle] > 0) - before
            self._distinct += change
            self._shared += change * (shingle in self._theirs)

    def put(self, place: int, word: str) -> str:
        """Put a word in the place of another, which is returned."""
        self._count(self._around(place, place + 1), -1)
        old, self.words[place] = self.words[place], word
        self._count(self._around(place, place + 1), 1)
        return old

    def append(self, word: str) -> None:
        """Append a word."""
        self.words.append(word)
        self._count(self._around(len(self.words) - 1, len(self.words)), 1)

    def pop(self) -> None:
        """Take the last word away."""
        self._count(self._around(len(self.words) - 1, len(self.words)), -1)
        self.words.pop()

    @property
    def resemblance(self) -> float:
        """The true resemblance to the text at first."""
        return self._shared / (self._distinct + len(self._theirs) - self._shared)


class Gained(NamedTuple):
    """What climbing against the victim's own page ended with."""

    similarity: float
    true: float
    questions_to_pass: int | None  # until a page was a duplicate below the threshold - MARGIN


def climb(rng: Random, judge: Judge, victim: list[str], questions: int) -> Gained:
    """Change the victim's page until its similarity tells as little as possible."""
    copy = judge.judged
    judge.texts([" ".join(victim)])
    page = Altered(victim)
    similarity, true, passed = 1.0, 1.0, None
    for asked, word in enumerate(foreign_words(rng, questions)):
        place, old = rng.randrange(len(page.words)), ""
        if asked % 2:
            page.append(word)
        else:
            old = page.put(place, word)
        (said,) = judge.texts([" ".join(page.words)])
        answered = said.representative == copy and said.similarity is not None
        if answered and page.resemblance < THRESHOLD - MARGIN:
            passed = passed or asked + 1
        if answered and (said.similarity or 0) >= similarity - COST_MAX:
            similarity, true = said.similarity or 0, page.resemblance
        elif asked % 2:
            page.pop()
        else:
            page.put(place, old)
    return Gained(similarity, true, passed)


class Harm(NamedTuple):
    """What became of a victim behind a page that was made with the help of its relatives.

    Attributes:
        kept: whether the attacker's page was.
        similarity: of the victim to that page, if it stands for the victim.
        true: their true resemblance.
        held: the share of the victim's shingles that stand on that page.
    """

    kept: bool
    similarity: float | None
    true: float
    held: float


class _Relative:
    """A page that has a part of the victim's words exchanged, and what it is answered."""

    def __init__(self, victim: list[str], number: int, words: list[str]) -> None:
        size = int(len(victim) * PART)
        start = (len(victim) - size) * number // (RELATIVES - 1)
        self.own = range(start, start + size)
        self.words = list(victim)
        for place in self.own:
            self.words[place] = words.pop()
        self.similarity = 1.0


def harm(rng: Random, judge: Judge, victim: list[str], questions: int) -> Harm:
    """Learn from relatives which changes cost nothing; publish the victim so changed first."""
    words = foreign_words(rng, questions + RELATIVES * len(victim))
    relatives = [_Relative(victim, number, words) for number in range(RELATIVES)]
    first = judge.judged
    judge.texts([" ".join(relative.words) for relative in relatives])
    page, tail = list(victim), [words.pop() for _ in range(WIDTH)]
    for relative in relatives:
        (said,) = judge.texts([" ".join([*relative.words, *tail])])
        relative.similarity = said.similarity or 0
    asked = RELATIVES
    while asked < questions:
        word = words.pop()
        place = None if asked % 2 else rng.randrange(len(victim))
        answers: dict[int, float] = {}
        for number, relative in enumerate(relatives):
            if place is not None and place in relative.own:
                continue
            text = [*relative.words, *tail]
            if place is None:
                text.append(word)
            else:
                text[place] = word
            (said,) = judge.texts([" ".join(text)])
            asked += 1
            similarity = said.similarity if said.representative == first + number else None
            if similarity is None or similarity < relative.similarity - COST_MAX:
                break
            answers[number] = similarity
        else:
            for number, similarity in answers.items():
                relatives[number].similarity = similarity
            if place is None:
                tail.append(word)
                continue
            for changed in (page, *(relative.words for number in answers)):
                changed[place] = word
    forged = judge.judged
    (own,) = judge.texts([" ".join([*page, *tail])])
    (said,) = judge.texts([" ".join(victim)])
    theirs, ours = shingle_set(victim), shingle_set([*page, *tail])
    return Harm(
        own.representative is None,
        said.similarity if said.representative == forged else None,
        true_resemblance([*page, *tail], victim),
        len(theirs & ours) / len(theirs),
    )


def run(rounds: int, seed: int, folder: Path) -> Outcome:
    """Ask `rounds` questions about each of a few victims, of different lengths, in each way."""
    outcome = Outcome(rounds)
    for length in LENGTHS:
        rng = Random(f"{seed}/{length}")
        victim = make_victim(rng, length, length)
        with Judge(folder / f"gain-{length}", rng.randbytes(32)) as judge:
            gained = climb(rng, judge, victim, rounds)
        name = f"{length} words: "
        outcome.figures[name + "similarity"] = gained.similarity
        outcome.figures[name + "true resemblance then"] = round(gained.true, 4)
        if gained.questions_to_pass:
            outcome.figures[name + "questions until a page below .75 passes"] = (
                gained.questions_to_pass
            )
        for questions in sorted({rounds, min(rounds, QUESTIONS_SAFE)}):
            with Judge(folder / f"harm-{length}-{questions}", rng.randbytes(32)) as judge:
                done = harm(rng, judge, victim, questions)
            stands = done.kept and done.similarity is not None
            name = f"{length} words, {questions} questions to relatives: "
            outcome.figures[name + "victim suppressed"] = "yes" if stands else "no"
            outcome.figures[name + "true resemblance"] = round(done.true, 4)
            outcome.figures[name + "share of its text held"] = round(done.held, 4)
            if stands and done.true < RESEMBLANCE_MAX and questions <= QUESTIONS_SAFE:
                outcome.violations.append(
                    f"seed {seed}: a victim of {length} words is suppressed after {questions} "
                    f"questions by a page of true resemblance {done.true:.3f}"
                )
    return outcome


CAMPAIGN = Campaign(
    "oracle",
    "An attacker asks the index about so many pages of his own for each of four victims, and "
    "climbs; with a thousand questions he may not suppress a victim by a page unlike it. "
    "What he gains is measured.",
    rounds=10_000,
    rounds_in_short=1_000,
    rounds_in_ci=300,
    run=run,
)
