"""Pages built to pass for someone else's page, by an attacker who knows everything but the key.

**What would be harm.** A page is suppressed if it is judged a duplicate of a page that it does not
resemble. So forged pages are judged first, then their victims. A victim may not be called a
duplicate of a page whose true resemblance, counted by shingles, is below RESEMBLANCE_MAX: the
threshold less more than four standard deviations of the estimate. (Whoever has the victim's text
before it is crawled can also publish a plain copy first, which no hash can tell from the original.)

Under a published key the attacker makes pages with a band key of the victim's and, word by word,
with its sketch, out of other words. Those must suppress their victims under that key, or the attack
would prove nothing; under a secret key they may not suppress any.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

import numpy as np
import numpy.typing as npt

from streamer.analysis.sample import prose
from streamer.sketch.minhash import EMPTY_MINIMUM
from streamer.sketch.settings import HashSeeds, derive_seeds
from streamer.text.tokens import tokens
from tests.campaign.judging import SETTINGS, Judge
from tests.oracles import plain_signature as plain

Words = npt.NDArray[np.uint64]

WIDTH = SETTINGS.shingle_width
RESEMBLANCE_MAX = 0.72
LANGUAGES = prose.LANGUAGES[:5]  # that are written with spaces
PUBLISHED = bytes(32)  # the key that everybody knows
VOCABULARY = 16_384  # the attacker's own words
LOOK = (512, 4_096, VOCABULARY)  # how many of them he tries for a place, in turn
BANDS_TRIED = 30
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
    words = prose.draw_words(
        rng, language, prose.draw_topic(rng, language), rng.randint(least, most)
    )
    return tokens(" ".join(words))


def foreign_words(rng: Random, count: int) -> list[str]:
    """Return distinct words that are on no victim's page."""
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
        shingles = self._shingles(self._hashed(victim))
        minima = np.full(SETTINGS.hashes, EMPTY_MINIMUM, np.uint64)
        np.minimum.at(minima, self._places(shingles).astype(np.int64), shingles & _LOW)
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
        for place, symbol in plain.write_filled_bins(goal.tolist(), level).items():
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
                tried = (rng.randrange(VOCABULARY) + np.arange(look)) % VOCABULARY
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


def _suppressed(
    folder: Path, secret: bytes, forged: list[list[str]], victims: list[list[str]]
) -> list[str]:
    """Judge forged pages, then their victims; return the victims that pass for a forged page."""
    lines = []
    with Judge(folder, secret) as judge:
        judge.texts([" ".join(page) for page in forged])
        said = judge.texts([" ".join(victim) for victim in victims])
    for number, verdict in enumerate(said):
        if verdict.representative is None or verdict.representative >= len(forged):
            continue
        true = true_resemblance(forged[verdict.representative], victims[number])
        if true < RESEMBLANCE_MAX:
            lines.append(
                f"victim {number} passes for page {verdict.representative}, "
                f"similarity {verdict.similarity}, true resemblance {true:.3f}"
            )
    return lines


def run(rounds: int, seed: int, folder: Path) -> list[str]:
    """Forge pages against `rounds` victims."""
    rng = Random(seed)
    forger = Forger(PUBLISHED, foreign_words(rng, VOCABULARY))
    victims = [make_victim(rng) for _ in range(rounds)]
    forged = [page for victim in victims if (page := forger.forge(rng, victim))]
    known = len(_suppressed(folder / "known", PUBLISHED, forged, victims))
    if known < rounds // 2:
        return [f"seed {seed}: the attack is too weak: {known} of {rounds} under a known key"]
    broken = _suppressed(folder / "secret", rng.randbytes(32), forged, victims)
    return [f"seed {seed}: {each}" for each in broken]
