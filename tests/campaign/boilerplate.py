"""Pages that are hardly more than their site's template: which of them are called duplicates.

A template has some slots, and a page has 5 to 30 words of its own in them. So the share of a page
that is template goes from a half to nearly all, and with it the exact resemblance of two pages of a
template, from far below the threshold to far above. A duplicate is false where its exact
resemblance to its representative is below the threshold.

Similarity is an estimate, so some false ones lie close to the threshold. How many further away than
the margin chance allows is computed: as if each page were compared with as many kept pages of its
template as its buckets hold, the likeliest to be mistaken for its like, by the estimate's variance.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.corpus import SYLLABLES
from streamer.analysis.sample.reference import Exact, TextShingler, resemblance
from streamer.analysis.sample.score import VerdictLine, read_verdicts
from streamer.model import Decision
from tests.campaign.campaign import Campaign, Outcome
from tests.helpers.replayed import replay

TEMPLATES = 20
WORDS_MIN, WORDS_MAX = 30, 900  # of a template; the sizes are equally far apart by their ratio
OWN_MIN, OWN_MAX = 5, 30
SLOTS_MAX = 4
THRESHOLD = 0.8
MARGIN = 0.05
COMPARED_MAX = 15 * 64  # kept pages a page: its keys, and what a bucket holds
ALLOWED_DEVIATIONS = 5  # of a count from what is expected of it
SHARES = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0)


class Template(NamedTuple):
    """The words of a template, and before which of them a page's own words come."""

    words: list[str]
    slots: list[int]


class Made(NamedTuple):
    """A page: its text, and the share of its words that are its template's."""

    text: str
    template: int
    share: float


def templates(draw: random.Random) -> list[Template]:
    """Return the templates, from small to large."""
    ratio: float = (WORDS_MAX / WORDS_MIN) ** (1 / (TEMPLATES - 1))
    found = []
    for number in range(TEMPLATES):
        words = [_word(draw, 3) for _ in range(round(WORDS_MIN * ratio**number))]
        slots = sorted(draw.sample(range(len(words)), draw.randint(1, SLOTS_MAX)))
        found.append(Template(words, slots))
    return found


def pages(count: int, seed: int) -> Iterator[Made]:
    """Yield pages of all templates, in random order."""
    draw = random.Random(seed)
    made = templates(draw)
    for _ in range(count):
        number = draw.randrange(TEMPLATES)
        template = made[number]
        own = [_word(draw, 4) for _ in range(draw.randint(OWN_MIN, OWN_MAX))]
        cuts = sorted(draw.sample(range(1, len(own)), len(template.slots) - 1))
        words: list[str] = []
        before = 0
        for slot, start, end in zip(template.slots, [0, *cuts], [*cuts, len(own)], strict=True):
            words += template.words[before:slot] + own[start:end]
            before = slot
        words += template.words[before:]
        yield Made(" ".join(words), number, len(template.words) / len(words))


def _word(draw: random.Random, syllables: int) -> str:
    return "".join(draw.choices(SYLLABLES, k=syllables))


@dataclass
class Bucket:
    """Pages whose template has a like share of them."""

    pages: int = 0
    duplicates: int = 0
    false: int = 0
    beyond: int = 0
    least: float = 1.0  # exact resemblance of a duplicate to its representative

    def __str__(self) -> str:
        """Return the counts as a line of the report."""
        return (
            f"{self.pages:,} pages, {self.duplicates / max(1, self.pages):.1%} called duplicates,"
            f" {self.false:,} of them false, {self.beyond:,} beyond the margin"
            + (f"; least resemblance {self.least:.3f}" if self.duplicates else "")
        )


@dataclass
class Tally:
    """What was judged of one template: kept pages by their shingles, and all of them so."""

    shared: int = 0  # shingles that its pages have in common
    judged: Counter[int] = field(default_factory=Counter)
    kept: Counter[int] = field(default_factory=Counter)


def run(rounds: int, seed: int, folder: Path) -> Outcome:
    """Judge the pages, and hold each verdict against the exact resemblance."""
    made = list(pages(rounds, seed))
    lines = (
        msgspec.json.encode(
            {"url": f"https://t/{number}", "body": page.text, "content_type": "text/plain"}
        )
        + b"\n"
        for number, page in enumerate(made)
    )
    done = replay(folder / "judged", lines, seed)
    outcome = Outcome(rounds)
    shingler = TextShingler()
    exact = [shingler.exact(page.text) for page in made]
    buckets: dict[float, Bucket] = defaultdict(Bucket)
    tallies = _tallies(made, exact)
    judged = 0
    examples: list[str] = []
    for said in read_verdicts(done.verdicts):
        judged += 1
        _count(said, made, exact, buckets, tallies, examples)
    if judged != rounds:
        outcome.violations.append(f"seed {seed}: {judged:,} verdicts of {rounds:,} pages")
    if not _bound(buckets, tallies, outcome):
        outcome.violations += [f"seed {seed}: {line}" for line in examples]
    _report(buckets, outcome)
    return outcome


def _tallies(made: list[Made], exact: list[Exact]) -> dict[int, Tally]:
    """Return what is known of templates before any verdict: the shingles that pages share."""
    tallies: dict[int, Tally] = defaultdict(Tally)
    firsts: dict[int, Exact] = {}
    for page, its in zip(made, exact, strict=True):
        first = firsts.setdefault(page.template, its)
        if first is not its and not tallies[page.template].shared:
            value = resemblance(first, its)
            both = len(first.shingles) + len(its.shingles)
            tallies[page.template].shared = round(both * value / (1 + value))
    return tallies


def _count(
    said: VerdictLine,
    made: list[Made],
    exact: list[Exact],
    buckets: dict[float, Bucket],
    tallies: Mapping[int, Tally],
    examples: list[str],
) -> None:
    """Count one verdict; name a false duplicate that is further away than the margin."""
    number = _number(said.url)
    page = made[number]
    tally, shingles = tallies[page.template], len(exact[number].shingles)
    tally.judged[shingles] += 1
    bucket = buckets[next(share for share in SHARES if page.share <= share)]
    bucket.pages += 1
    if said.verdict is not Decision.DUPLICATE:
        tally.kept[shingles] += 1
        return
    assert said.representative is not None, said
    other = _number(said.representative.url)
    value = resemblance(exact[number], exact[other])
    bucket.duplicates += 1
    bucket.false += value < THRESHOLD
    bucket.least = min(bucket.least, value)
    if value < THRESHOLD - MARGIN:
        bucket.beyond += 1
        examples.append(f"page {number} is like page {other} by {value:.4f}")


def _number(url: str) -> int:
    return int(url.rpartition("/")[2])


def _bound(buckets: Mapping[float, Bucket], tallies: Mapping[int, Tally], outcome: Outcome) -> bool:
    """Return whether no more false duplicates are beyond the margin than chance allows."""
    expected = sum(
        count * mistaken(shingles, tally)
        for tally in tallies.values()
        for shingles, count in tally.judged.items()
    )
    allowed = math.ceil(expected + ALLOWED_DEVIATIONS * math.sqrt(expected))
    beyond = sum(bucket.beyond for bucket in buckets.values())
    outcome.figures["false duplicates beyond the margin"] = beyond
    outcome.figures["of these chance allows at most"] = allowed
    return beyond <= allowed


def mistaken(shingles: int, tally: Tally) -> float:
    """Return how many kept pages a page is mistaken for the like of at most, as expected."""
    chances = sorted(
        ((_chance(shingles, other, tally.shared), count) for other, count in tally.kept.items()),
        reverse=True,
    )
    expected, left = 0.0, COMPARED_MAX
    for chance, count in chances:
        expected += chance * min(count, left)
        left -= min(count, left)
    return min(1.0, expected)


def _chance(one: int, other: int, shared: int) -> float:
    """Return the chance that pages of so many shingles, unlike beyond the margin, seem alike.

    By the normal distribution. Its variance is that of sampling, without repetition, one shingle of
    the union a filled bin, and of symbols that agree by chance where both have one.
    """
    union = one + other - shared
    value = shared / union
    if value >= THRESHOLD - MARGIN:
        return 0.0
    bins = 2.0 ** min(_level(one), _level(other))
    filled = bins * (1 - math.exp(-union / bins))
    sampling = value * (1 - value) / filled * max(0.0, union - filled) / max(1, union - 1)
    both = 1 - math.exp(-max(one, other) / bins)
    symbols = (1 - value) * both / 2 / filled
    deviation = math.sqrt(sampling + symbols)
    return math.erfc((THRESHOLD - value) / deviation / math.sqrt(2)) / 2


def _level(shingles: int) -> int:
    """Return the finest level at which a page's bins fit into its sketch."""
    return next((level for level in range(22, 10, -1) if shingles * (level - 5) <= 1792), 10)


def _report(buckets: Mapping[float, Bucket], outcome: Outcome) -> None:
    """Report the counts by the share of a page that is template."""
    below = 0.0
    for share in SHARES:
        if share in buckets:
            outcome.figures[f"template share {below:.0%} to {share:.0%}"] = str(buckets[share])
        below = share


CAMPAIGN = Campaign(
    "boilerplate",
    "A page of one of 20 templates with 5 to 30 words of its own is judged. Where it is called a"
    " duplicate, the exact resemblance to its representative is at least the threshold less the"
    " margin of 0.05, but for as many as chance allows.",
    rounds=100_000,
    rounds_in_short=20_000,
    rounds_in_ci=5_000,
    run=run,
)
