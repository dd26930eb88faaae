"""SimHash: 64 bits of which pages that share most of their features differ in few.

Each feature (a word or a shingle) has a hash of 64 bits and a weight. A bit of the signature is 1
if the weights of the features whose hash has a 1 there outweigh those whose hash has a 0 (Charikar
2002, Similarity estimation techniques from rounding algorithms). Pages are duplicates if they
differ in at most k bits; of k + 1 blocks of bits one is then the same, so blocks are the keys
(Manku, Jain and Das Sarma 2007, Detecting near-duplicates for web crawling). Weights are whole
numbers: a sum does not depend on the order of features.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from itertools import pairwise

import numpy as np
from pydantic import Field

from streamer.sketch.collection import CollectionOption, idf, shares_for
from streamer.sketch.method import Measure, Method, MethodSignature, PageText, Parameters, pack_bits
from streamer.sketch.methods.hashes import HashName, digest_of, hash64, seed_of, share_of
from streamer.sketch.methods.shingled import shingles

BITS = 64
IDF_STEPS = 1000  # an IDF counts in whole thousandths


class Weight(StrEnum):
    """What a feature weighs."""

    FREQUENCY = "frequency"
    IDF = "idf"


class SimHashParameters(Parameters):
    """The parameters of `simhash`.

    Attributes:
        distance: k: bits by which duplicates may differ.
        width: words per feature.
        weight: count of a feature, or count times IDF.
        hash: hash of a feature.
    """

    distance: int = Field(default=3, ge=0, le=15)
    width: int = Field(default=1, ge=1, le=32)
    weight: Weight = Weight.FREQUENCY
    collection: CollectionOption = None
    hash: HashName = "mmh3"


def simhash(weights: Mapping[int, int]) -> int:
    """Return the 64 bits that weighted hashes of 64 bits vote for; a draw gives 0."""
    hashes = np.fromiter(weights.keys(), "<u8", len(weights))
    ones = np.unpackbits(hashes.view(np.uint8), bitorder="little").reshape(-1, BITS)
    votes = np.fromiter(weights.values(), np.int64, len(weights)) @ (2 * ones.astype(np.int64) - 1)
    return int.from_bytes(np.packbits(votes > 0, bitorder="little").tobytes(), "little")


def blocks(value: int, count: int) -> list[int]:
    """Return the 64 bits in `count` blocks, lowest first, whose sizes differ by one at most."""
    borders = [BITS * i // count for i in range(count + 1)]
    return [value >> low & (1 << high - low) - 1 for low, high in pairwise(borders)]


class SimHash(Method[SimHashParameters], name="simhash", measure=Measure.HAMMING):
    """64 bits by a weighted vote of the words; duplicates differ in 3 or fewer.

    Use it for large numbers of long pages: it takes the least space, and compares two pages in one
    instruction. On short pages one changed word flips many bits, so use minhash.

    Pages whose features give nearly the same bits.
    """

    def __init__(self, parameters: SimHashParameters, secret: bytes) -> None:
        super().__init__(parameters, secret)
        self._feature_seed = seed_of(secret, f"{self.name} feature")
        self._block_seeds = [seed_of(secret, f"{self.name} {band}") for band in range(self.bands)]

    @property
    def bands(self) -> int:
        """Return the number of blocks: one more than bits may differ."""
        return self.parameters.distance + 1

    @property
    def threshold(self) -> float:
        """Return the similarity of two pages that differ in k bits."""
        return share_of(BITS - self.parameters.distance, BITS)

    def weights(self, page: PageText) -> Counter[int]:
        """Return the weight of each feature's hash."""
        rarity = self._rarity()
        result: Counter[int] = Counter()
        for feature, count in Counter(shingles(page.words, self.parameters.width)).items():
            hashed = hash64(feature.encode(), self._feature_seed, self.parameters.hash)
            result[hashed] += count * rarity(feature)
        return result

    def sign(self, page: PageText) -> MethodSignature:
        """Return a key for each block, and the 64 bits; without features there is no key."""
        weights = self.weights(page)
        if not any(weights.values()):
            lacking = digest_of(page.content, self.secret, f"{self.name} lacking")
            return MethodSignature([], pack_bits(lacking, BITS))
        value = simhash(weights)
        parts = zip(blocks(value, self.bands), self._block_seeds, strict=True)
        keys = [hash64(block.to_bytes(8, "little"), seed) for block, seed in parts]
        return MethodSignature(keys, pack_bits(value, BITS))

    def _rarity(self) -> Callable[[str], int]:
        """Return what one occurrence of a feature weighs: by IDF the sum of its words' IDFs."""
        if self.parameters.weight is Weight.FREQUENCY:
            return lambda _feature: 1
        shares = shares_for(self.parameters.collection)
        return lambda feature: sum(
            round(IDF_STEPS * idf(word, shares)) for word in feature.split(" ")
        )
