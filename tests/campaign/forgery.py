"""Pages built to pass for someone else's page, by an attacker who knows everything but the key.

**What would be harm.** A page is suppressed if it is judged a duplicate of a page that it does not
resemble. So the attacker's page must be judged and *kept* before the victim's page comes; a forged
page that comes after its victim is at most suppressed itself, and one that is found to be a
duplicate is not kept and stands for nobody. Whoever has the victim's text before it is crawled can
also publish a plain copy first, which no hash can tell from the original; what a forgery would add
is a page in the victim's place that says something else. So a violation is: forged pages first,
then the victims, and a victim is called a duplicate of a page whose true resemblance, counted by
shingles, is below RESEMBLANCE_MAX. (That is the threshold less more than four standard deviations
of the estimate: what lies closer needs no forger.)

The attacker has no answers from the index that he attacks (one who has is in oracle.py). Under a
key that he knows, a published one or one of his own, he makes pages with a band key of the victim's
and, word by word, with its sketch, out of other words. Those must suppress their victims under his
key, or the attack would prove nothing. Then he tries them, with pages that are as near as may be,
on many other indexes of which he sees verdicts and similarities, and plays the best ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streamer.analysis.sample.prose import (
    ENGLISH,
    FRENCH,
    GERMAN,
    RUSSIAN,
    SPANISH,
    draw_topic,
    draw_words,
)
from streamer.model import SIMILARITY_ONE
from streamer.sketch.minhash import EMPTY_MINIMUM
from streamer.sketch.resemblance import similarity
from streamer.sketch.settings import HashSeeds, derive_seeds
from streamer.sketch.signer import NativeSigner, Signatures
from streamer.text.tokens import tokens
from tests.campaign.campaign import Campaign, Outcome
from tests.campaign.judging import SETTINGS, THRESHOLD, Judge
from tests.oracles import plain_signature as plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import numpy.typing as npt

    Words = npt.NDArray[np.uint64]

WIDTH = SETTINGS.shingle_width
RESEMBLANCE_MAX = 0.72
LANGUAGES = (ENGLISH, GERMAN, FRENCH, SPANISH, RUSSIAN)
PUBLISHED = bytes(32)  # the key that everybody knows
VOCABULARY = 16_384  # the attacker's own words
LOOK = (512, 4_096, VOCABULARY)  # how many of them he tries for a place, in turn
BANDS_TRIED = 30
OTHER_INDEXES = 16
NEAR_PAGES = 8
PLAYED = 3  # pages a victim, of those that did best elsewhere
_LOW = np.uint64(0xFFFFFFFF)


def shingle_set(words: Sequence[str]) -> set[tuple[str, ...]]:
    """Return the distinct shingles of canonical words."""
    return {tuple(words[i : i + WIDTH]) for i in range(len(words) - WIDTH + 1)}


def true_resemblance(one: Sequence[str], other: Sequence[str]) -> float:
    """Return the Jaccard similarity of two texts, counted."""
    a, b = shingle_set(one), shingle_set(other)
    return len(a & b) / max(len(a | b), 1)


def make_victim(rng: Random, least: int = 150, most: int = 900) -> list[str]:
    """Return a page's canonical words."""
    language = rng.choice(LANGUAGES)
    words = draw_words(rng, language, draw_topic(rng, language), rng.randint(least, most))
    return tokens(" ".join(words))


def foreign_words(rng: Random, count: int) -> list[str]:
    """Return distinct words that stand on no victim's page."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    made: dict[str, None] = {}
    while len(made) < count:
        made["".join(rng.choices(letters, k=8))] = None
    return list(made)


def _fmix(words: Words) -> Words:
    """Return MurmurHash3's finaliser of many words."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        words = (words ^ (words >> np.uint64(33))) * np.uint64(factor)
    return words ^ (words >> np.uint64(33))


class Forger:
    """Builds pages under a key that the attacker knows."""

    def __init__(self, secret: bytes, vocabulary: Sequence[str]) -> None:
        self.keys: HashSeeds = derive_seeds(secret, WIDTH, SETTINGS.hashes)
        self._words = vocabulary
        self._hashes = self._hashed(vocabulary)

    def _hashed(self, words: Iterable[str]) -> Words:
        seed = self.keys.token_seed
        return np.array([plain.murmur(word.encode(), seed) for word in words], np.uint64)

    def _shingles(self, hashes: Words) -> Words:
        windows = np.lib.stride_tricks.sliding_window_view(hashes, WIDTH)
        return _fmix((windows * self.keys.shingle_powers).sum(axis=1, dtype=np.uint64))

    def _places(self, shingles: Words) -> Words:
        return (shingles >> np.uint64(32)) * np.uint64(SETTINGS.hashes) >> np.uint64(32)

    def forge(self, rng: Random, victim: Sequence[str]) -> list[str] | None:
        """Return a page with a band and the sketch of the victim; None where no band fits."""
        hashes = self._hashed(victim)
        shingles = self._shingles(hashes)
        minima = np.full(SETTINGS.hashes, EMPTY_MINIMUM, np.uint64)
        places = self._places(shingles)
        np.minimum.at(minima, places.astype(np.int64), shingles & _LOW)
        begin = self._band(rng, victim, shingles, minima)
        if begin is None:
            return None
        page, band = begin
        guarded = np.full(SETTINGS.hashes, 0, np.uint64)
        guarded[band] = minima[band]
        return self._with_sketch(rng, page, shingles, guarded)

    def _band(
        self, rng: Random, victim: Sequence[str], shingles: Words, minima: Words
    ) -> tuple[list[str], slice] | None:
        """Return the victim's shingles that make one band, and which min-hashes those are."""
        places, low = self._places(shingles), shingles & _LOW
        for _ in range(BANDS_TRIED):
            number = rng.randrange(SETTINGS.bands)
            band = slice(number * SETTINGS.rows, (number + 1) * SETTINGS.rows)
            winners = [
                np.flatnonzero((places == place) & (low == minima[place]))
                for place in range(band.start, band.stop)
            ]
            if not all(len(each) for each in winners):
                continue
            at = [int(each[0]) for each in winners]
            rng.shuffle(at)
            page = [word for start in at for word in victim[start : start + WIDTH]]
            own = self._shingles(self._hashed(page))
            mine = np.full(SETTINGS.hashes, EMPTY_MINIMUM, np.uint64)
            np.minimum.at(mine, self._places(own).astype(np.int64), own & _LOW)
            if np.array_equal(mine[band], minima[band]):
                return page, band
        return None

    def _with_sketch(
        self, rng: Random, page: list[str], shingles: Words, guarded: Words
    ) -> list[str]:
        """Append words until the page has the sketch; they may not win in a guarded min-hash."""
        mask = np.uint64(self.keys.sketch_mask)
        goal = np.unique(_fmix(shingles ^ mask))
        level = plain.level_for(goal.tolist())
        shift = np.uint64(64 - level)
        wanted = np.zeros(1 << level, np.uint8)  # symbols that are still to be had
        for place, symbol in plain.filled_bins(goal.tolist(), level).items():
            wanted[place] = symbol
        had = np.full(1 << level, 0xFFFFFFFFFFFFFFFF, np.uint64)
        for value in _fmix(self._shingles(self._hashed(page)) ^ mask):
            had[int(value >> shift)] = min(had[int(value >> shift)], value)
        missing = int(np.count_nonzero(wanted))
        tail = self._hashed(page[-(WIDTH - 1) :])
        for _ in range(2 * missing):
            context = (tail * self.keys.shingle_powers[:-1]).sum(dtype=np.uint64)
            chosen = None
            for look in LOOK:
                start = rng.randrange(VOCABULARY)
                tried = (start + np.arange(look)) % VOCABULARY
                new = _fmix(context + self._hashes[tried])
                value = _fmix(new ^ mask)
                bins = (value >> shift).astype(np.int64)
                symbols = np.uint8(1) + ((value & _LOW) * np.uint64(3) >> np.uint64(32)).astype(
                    np.uint8
                )
                harmless = (new & _LOW) > guarded[self._places(new).astype(np.int64)]
                good = (wanted[bins] == symbols) & (value < had[bins]) & harmless
                found = np.flatnonzero(good)
                if len(found):
                    chosen = int(found[0])
                    had[bins[chosen]] = value[chosen]
                    wanted[bins[chosen]] = 0
                    break
            if chosen is None:
                break  # what is left would take more words than he has
            page.append(self._words[tried[chosen]])
            tail = np.append(tail[1:], self._hashes[tried[chosen]])
            if not wanted.any():
                break
        return page


def near_page(rng: Random, victim: Sequence[str], words: Sequence[str]) -> list[str]:
    """Return the victim's page with words exchanged until its true resemblance is below the bound.

    How far below is drawn, most often hardly.
    """
    bound = RESEMBLANCE_MAX - abs(rng.gauss(0, 0.1))
    page = list(victim)
    places = rng.sample(range(len(page)), len(page))
    for count, place in enumerate(places):
        page[place] = rng.choice(words)
        if count % 4 == 0 and true_resemblance(page, victim) < bound:
            break
    return page


class _Candidate(NamedTuple):
    victim: int
    text: str


def _collisions(signer: NativeSigner, victims: list[str], pages: list[_Candidate]) -> list[float]:
    """Return how similar each page is to its victim in an index; 0 where it is no candidate."""
    theirs = signer.sign([text.encode() for text in victims], [0] * len(victims))
    own = signer.sign([page.text.encode() for page in pages], [0] * len(pages))
    return [
        _similarity_if_found(own, number, theirs, page.victim) for number, page in enumerate(pages)
    ]


def _similarity_if_found(one: Signatures, i: int, other: Signatures, j: int) -> float:
    if not (one.keys[i] == other.keys[j]).any():
        return 0.0
    return float(similarity(one.sketches[i], other.sketches[j])) / SIMILARITY_ONE


@dataclass(slots=True)
class _Played:
    """What came of forged pages, judged before their victims."""

    suppressed: int
    lines: list[str]
    best: float = 0.0


def _play(
    folder: Path, secret: bytes, pages: list[_Candidate], victims: list[list[str]], how: str
) -> _Played:
    """Judge forged pages, then their victims; a victim's answer must truly resemble it."""
    result = _Played(0, [])
    with Judge(folder, secret) as judge:
        judge.texts([page.text for page in pages])
        said = judge.texts([" ".join(victim) for victim in victims])
    for number, verdict in enumerate(said):
        if verdict.representative is None or verdict.representative >= len(pages):
            continue
        forged = tokens(pages[verdict.representative].text)
        true = true_resemblance(forged, victims[number])
        if true < RESEMBLANCE_MAX:
            result.suppressed += 1
            result.lines.append(
                f"{how}: victim {number} passes for page {verdict.representative}, "
                f"similarity {verdict.similarity}, true resemblance {true:.3f}"
            )
    return result


def run_forgery(rounds: int, seed: int, folder: Path) -> Outcome:
    """Forge pages against `rounds` victims."""
    rng = Random(seed)
    words = foreign_words(rng, VOCABULARY)
    forger = Forger(PUBLISHED, words)
    victims = [make_victim(rng) for _ in range(rounds)]
    texts = [" ".join(victim) for victim in victims]
    forged = [
        _Candidate(number, " ".join(page))
        for number, victim in enumerate(victims)
        if (page := forger.forge(rng, victim))
    ]
    target = rng.randbytes(32)
    outcome = Outcome(rounds)
    known = _play(folder / "known", PUBLISHED, forged, victims, "known key")
    first = _play(folder / "first", target, forged, victims, f"seed {seed}: forged")
    near = [
        _Candidate(number, " ".join(near_page(rng, victim, words)))
        for number, victim in enumerate(victims)
        for _ in range(NEAR_PAGES)
    ]
    pool = forged + near
    others = [NativeSigner(SETTINGS, rng.randbytes(32)) for _ in range(OTHER_INDEXES)]
    seen = np.array([_collisions(signer, texts, pool) for signer in others])
    best = _best_elsewhere(seen, pool, rounds)
    second = _play(folder / "second", target, best, victims, f"seed {seed}: probed")
    under_target = np.array(_collisions(NativeSigner(SETTINGS, target), texts, best))
    truly = [true_resemblance(tokens(page.text), victims[page.victim]) for page in best]
    outcome.violations = first.lines + second.lines
    if known.suppressed < rounds // 2:
        outcome.violations.append(
            f"seed {seed}: the attack is too weak to mean anything: {known.suppressed} of {rounds} "
            "victims are suppressed under the key that the attacker knows"
        )
    outcome.figures = {
        "suppressed under a key that the attacker knows": known.suppressed,
        "suppressed by the same pages under the secret key": first.suppressed,
        "suppressed by the pages that did best in other indexes": second.suppressed,
        "other indexes": OTHER_INDEXES,
        "pages tried there": len(pool),
        "of these duplicates there": int((seen >= THRESHOLD).sum()),
        "highest mean similarity there": round(float(seen.mean(axis=0).max()), 4),
        "highest similarity in the attacked index": round(float(under_target.max()), 4),
        "most gained there, similarity less true resemblance": round(
            float((under_target - np.array(truly)).max()), 4
        ),
    }
    return outcome


def _best_elsewhere(
    seen: npt.NDArray[np.float64], pool: list[_Candidate], rounds: int
) -> list[_Candidate]:
    """Return for each victim the pages that were duplicates most often, then the most similar."""
    score = (seen >= THRESHOLD).sum(axis=0) + seen.mean(axis=0)
    by_victim: list[list[tuple[float, int]]] = [[] for _ in range(rounds)]
    for number, page in enumerate(pool):
        by_victim[page.victim].append((float(score[number]), number))
    return [
        pool[number] for ranked in by_victim for _, number in sorted(ranked, reverse=True)[:PLAYED]
    ]


CAMPAIGN = Campaign(
    "forgery",
    "An attacker who does not know the key forges a page against each of so many victims, with a "
    "published key and by trials on other indexes; no victim may pass for a page unlike it.",
    rounds=1_000,
    rounds_in_short=100,
    rounds_in_ci=24,
    run=run_forgery,
)
