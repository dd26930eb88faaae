"""Methods that keep some of the smallest hashes of shingles, or of words."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from streamer.sketch import method, method_signer
from streamer.sketch.method import Measure, Method, MethodSignature, PageText, Parameters
from streamer.sketch.method_signer import Hashes
from streamer.sketch.methods.hashes import hash64
from streamer.sketch.methods.shingled import ShingledMethod, ShingleParameters
from streamer.sketch.minhash import hash_shingles
from streamer.sketch.settings import HashSeeds, derive_seeds


def _cut_bands(distinct: Hashes, rows: int, seeds: HashSeeds) -> MethodSignature:
    """Return keys from bands of so many min-hashes of a set, and its sketch."""
    minima = method_signer.min_hashes(distinct, seeds)
    keys = method_signer.block_hashes(minima, rows, seeds.band_seed)
    sketch = method_signer.resemblance_sketch(distinct, seeds.sketch_mask)
    return MethodSignature(keys, sketch, distinct)


def _class_keys(method: ShingledMethod[Any], values: Hashes, drawn: Hashes) -> list[int]:
    """Return keys of one permutation; `drawn` modulo their number is the class of each value."""
    bands, rows = method.parameters.bands, method.parameters.rows
    return method_signer.class_keys(values, drawn, bands, rows, method.shingler.seeds.band_seed)


class MinHashParameters(Parameters):
    """The parameters of the native signature.

    Attributes:
        shingle_width: words per shingle.
        bands: keys per page.
        rows: min-hashes per key.
    """

    shingle_width: int = Field(default=5, ge=1, le=32)
    bands: int = Field(default=14, ge=1, le=48)
    rows: int = Field(default=6, ge=1, le=32)


class MinHash(Method[MinHashParameters], name="minhash", measure=Measure.RESEMBLANCE):
    """Bands of min-hashes find candidates; a one-permutation sketch verifies them.

    The default, for pages of any length and language, and the fastest by far. Use another method
    for comparison, or if texts are only a few words long.

    Keys from bands of min-hashes (Broder 1997); verified by the sketch of resemblance.py.

    It is what the native signer computes, bit for bit, for texts whose words are brought to another
    canonical form and for pairings with another method.
    """

    def __init__(self, parameters: MinHashParameters, secret: bytes) -> None:
        super().__init__(parameters, secret)
        hashes = parameters.bands * parameters.rows
        self._seeds = derive_seeds(secret, parameters.shingle_width, hashes)

    def sign(self, page: PageText) -> MethodSignature:
        """Return what the native signer returns of these words."""
        seeds = self._seeds
        hashed = [hash64(word.encode(), seeds.token_seed) for word in page.words]
        tokens = np.array(hashed, np.uint64)
        shingles = np.empty_like(tokens)
        count = hash_shingles(tokens, len(tokens), seeds.shingle_powers, shingles)
        return _cut_bands(np.unique(shingles[:count]), self.parameters.rows, seeds)


class BottomKParameters(ShingleParameters):
    """The parameters of a bottom-k sketch.

    Attributes:
        k: hashes per page.
        bands: keys per page.
        rows: classes of hashes per key.
    """

    k: int = Field(default=64, ge=4, le=method.HASHES_MAX)
    bands: int = Field(default=14, ge=1, le=48)
    rows: int = Field(default=4, ge=1, le=32)


class BottomK(ShingledMethod[BottomKParameters], name="bottom_k", measure=Measure.BOTTOM):
    """Keeps the k least shingle hashes; similarity is the share in common.

    Use it for a simple estimate with one hash per shingle. The error is 0.05 at k = 64. A text of
    fewer than k shingles is compared exactly.

    Bottom-k sampling: the k least of the union give the resemblance (Broder 1997).
    """

    def sign(self, page: PageText) -> MethodSignature:
        """Return the signature of a page: keys and sketch of its k least hashes."""
        hashes = self.shingler.hashes(page)[: self.parameters.k]
        keys = _class_keys(self, hashes, hashes)
        return MethodSignature(keys, method.pack_bottom(hashes.tolist(), self.parameters.k))


class OnePermutationParameters(ShingleParameters):
    """The parameters of keys of one permutation.

    Attributes:
        bands: keys per page.
        rows: classes per key.
    """

    bands: int = Field(default=14, ge=1, le=48)
    rows: int = Field(default=6, ge=1, le=32)


class OnePermutation(
    ShingledMethod[OnePermutationParameters], name="one_permutation", measure=Measure.RESEMBLANCE
):
    """One hash per shingle: the least hash of each class makes the keys and the sketch.

    Use it for long texts: it is as exact as many hash functions for a fraction of the work. Texts
    of fewer shingles than classes leave classes empty: lower bands or rows for them.

    One-permutation hashing (Li, Owen, Zhang 2012) for keys and sketch alike.
    """

    def sign(self, page: PageText) -> MethodSignature:
        """Return the signature of a page."""
        hashes = self.shingler.hashes(page)
        sketch = method_signer.resemblance_sketch(hashes, self.shingler.seeds.sketch_mask)
        return MethodSignature(_class_keys(self, hashes, hashes), sketch, hashes)


class ModPParameters(ShingleParameters):
    """The parameters of mod-p sampling.

    Attributes:
        p: one hash in p is kept.
        bands: keys per page.
        rows: classes of kept hashes per key.
    """

    p: int = Field(default=25, ge=1, le=1000)
    bands: int = Field(default=14, ge=1, le=48)
    rows: int = Field(default=2, ge=1, le=32)


class ModP(ShingledMethod[ModPParameters], name="mod_p", measure=Measure.SAMPLE):
    """Keeps the shingle hashes divisible by p; similarity is the samples' resemblance.

    Use it for long texts of different lengths, since a longer text keeps more hashes (the 64 least
    at most). A few hundred words keep a dozen hashes: lower p for them.

    Sampling by divisibility (Manber 1994; Broder et al. 1997 with p = 25).
    """

    def sign(self, page: PageText) -> MethodSignature:
        """Return the signature of a page; one of which nothing is kept keeps its least hash."""
        wanted = self.parameters
        hashes = self.shingler.hashes(page)
        kept = hashes[hashes % np.uint64(wanted.p) == 0]
        if not len(kept):
            kept = hashes[:1]
        keys = _class_keys(self, kept, kept // np.uint64(wanted.p))
        return MethodSignature(keys, method.pack_sample(kept.tolist()))


class BandingParameters(ShingleParameters):
    """The parameters of banded min-hashes.

    Attributes:
        bands: keys per page.
        rows: min-hashes per key.
    """

    bands: int = Field(default=14, ge=1, le=48)
    rows: int = Field(default=6, ge=1, le=64)

    @model_validator(mode="after")
    def _check_bounds(self) -> BandingParameters:
        if self.bands * self.rows > method.SLOTS_MAX:
            raise ValueError(f"bands x rows is {method.SLOTS_MAX} at most, which a sketch holds")
        return self


class Banding(ShingledMethod[BandingParameters], name="banding", measure=Measure.SLOTS):
    """84 min-hashes: 14 bands of 6 find candidates; the share of equal ones decides.

    The textbook form, for comparison with other systems. Its error is about 0.04. It finds pairs of
    resemblance s with probability 1-(1-s^rows)^bands.

    Locality-sensitive hashing of min-hashes (Indyk and Motwani 1998), b bands of r rows.
    """

    @property
    def permutations(self) -> int:
        """Return the number of min-hashes."""
        return self.parameters.bands * self.parameters.rows

    def sign(self, page: PageText) -> MethodSignature:
        """Return the signature of a page; of many min-hashes its sketch keeps 16 or 32 bits."""
        seeds = self.shingler.seeds
        minima = method_signer.min_hashes(self.shingler.hashes(page), seeds)
        keys = method_signer.block_hashes(minima, self.parameters.rows, seeds.band_seed)
        return MethodSignature(keys, method.pack_slots(minima.tolist()))


class WordsParameters(Parameters):
    """The parameters of a bag of words.

    Attributes:
        bands: keys per page.
        rows: min-hashes per key.
    """

    bands: int = Field(default=24, ge=1, le=48)
    rows: int = Field(default=8, ge=1, le=32)


class Words(Method[WordsParameters], name="words", measure=Measure.RESEMBLANCE):
    """Bag of words: compares how often each word occurs, in any order.

    Closer to what readers call the same page than runs of five words: scattered edits and moved
    parts cost little. Pages of one template or on one subject are similar too, so use texts of 100
    words or more, or `--text main`.

    The words of a page and how often each is there, in any order.

    A bag as a set: the second `rose` of a text is another thing than the first, so that the
    resemblance of two such sets is that of two multisets, sum(min) / sum(max) of the words' counts.
    The native signer computes the same, bit for bit, where the canonical form is the default one.
    """

    def __init__(self, parameters: WordsParameters, secret: bytes) -> None:
        super().__init__(parameters, secret)
        self._seeds = derive_seeds(secret, 1, parameters.bands * parameters.rows)

    def sign(self, page: PageText) -> MethodSignature:
        """Return keys from bands of min-hashes, and the one-permutation sketch, of the bag."""
        seeds = self._seeds
        hashed = [hash64(one.encode(), seeds.token_seed) for one in number_each_word(page)]
        return _cut_bands(np.unique(np.array(hashed, np.uint64)), self.parameters.rows, seeds)


def number_each_word(page: PageText) -> list[str]:
    """Return each word of a page with how many times it came before: `rose 0`, `rose 1`."""
    before: Counter[str] = Counter()
    result = []
    for word in page.words:
        result.append(f"{word} {before[word]}")
        before[word] += 1
    return result
