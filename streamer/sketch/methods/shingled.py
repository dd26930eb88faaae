"""What methods over the hashes of shingles share, and those whose min-hashes are hashed again.

A shingle is hashed by the function that the parameters name and then mixed under the secret, so
that a function of 32 bits serves as well (it collides as before). A text shorter than a shingle is
one shingle: it is equal to itself and to nothing else.

The detector's own kernel hashes shingles without ever joining them (sketch/minhash.py). Here
they are strings, for the methods and comparisons that look at them one by one. Repeats stay: what
counts them as a list, and what as a set, is the caller's matter.
"""

from __future__ import annotations

import hashlib
import struct
import unicodedata
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Literal, Self, TypeVar

import mmh3
import numpy as np
from pydantic import Field, model_validator

from streamer.sketch import method
from streamer.sketch.method_signer import Hashes, block_hashes, min_hashes, mix
from streamer.sketch.methods.hashes import HASHES, HashName, hash64
from streamer.sketch.settings import HashSeeds, derive_seeds
from streamer.text.canonical import UNSPACED, class_of


def shingles(words: Sequence[str], width: int, stride: int = 1) -> list[str]:
    """Return the runs of `width` words, one every `stride` words, each joined by one space.

    Stride 1 overlaps as far as can be; stride `width` lays shingles end to end, and up to `width`
    - 1 last words are in none. A text of fewer words than `width` has no shingle.
    """
    starts = range(0, len(words) - width + 1, stride)
    return [" ".join(words[start : start + width]) for start in starts]


def character_shingles(text: str, n: int) -> list[str]:
    """Return the runs of `n` characters of `text`, overlapping: none if it is shorter."""
    return [text[start : start + n] for start in range(len(text) - n + 1)]


def as_characters(words: Sequence[str]) -> str:
    """Return words as one text to take characters from, each with its marks where Unicode has it.

    One space is between words, but none between characters of scripts that are written without:
    there each is a word of its own.
    """
    unspaced = [class_of(word[0]) == UNSPACED for word in words]
    spaces = ("" if a and b else " " for a, b in pairwise(unspaced))
    parts = (space + word for space, word in zip(["", *spaces], words, strict=True))
    return unicodedata.normalize("NFC", "".join(parts))


class ShingleParameters(method.Parameters):
    """Which shingles a text has, and how they are hashed.

    Attributes:
        shingle_width: words or characters per shingle.
        unit: unit of a shingle.
        stride: words from one shingle to the next; the width: end to end.
        seed: selects other functions under the same secret.
    """

    shingle_width: int = Field(default=5, ge=1, le=32)
    unit: Literal["words", "characters"] = "words"
    stride: int = Field(default=1, ge=1, le=32)
    hash: HashName = Field(default="mmh3", description=f"hash of a shingle: {', '.join(HASHES)}")
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _drop_gaps(self) -> Self:
        if self.stride > self.shingle_width:
            raise ValueError("stride is shingle_width at most, or words are left out")
        return self


class Shingler:
    """Hash the shingles of texts, under a secret; `keys` has `permutations` of these hashes."""

    def __init__(self, parameters: ShingleParameters, secret: bytes, permutations: int = 1) -> None:
        self._parameters = parameters
        seeded = f"seed {parameters.seed}".encode() + b"\0" + secret
        own = hashlib.blake2b(seeded, digest_size=32).digest() if parameters.seed else secret
        self.seeds: HashSeeds = derive_seeds(own, 1, permutations)

    def shingles(self, page: method.PageText) -> list[str]:
        """Return the shingles of a page, in order; of a page without words none."""
        wanted = self._parameters
        if wanted.unit == "characters":
            text = as_characters(page.words)
            found = character_shingles(text, wanted.shingle_width)[:: wanted.stride]
        else:
            found = shingles(page.words, wanted.shingle_width, wanted.stride)
        return found or ([" ".join(page.words)] if page.words else [])

    def hashes(self, page: method.PageText) -> Hashes:
        """Return the hashes of a page's shingles, distinct and ascending."""
        name, seed = self._parameters.hash, self.seeds.token_seed
        found = {hash64(one.encode(), seed, name) for one in self.shingles(page)}
        values = np.fromiter(found, np.uint64, len(found))
        return np.sort(mix(values, self.seeds.content_seed))


S = TypeVar("S", bound=ShingleParameters)


class ShingledMethod(method.Method[S]):
    """A method over the hashes of shingles, which `shingler` makes with the parameters."""

    def __init__(self, parameters: S, secret: bytes) -> None:
        super().__init__(parameters, secret)
        self.shingler = Shingler(parameters, secret, self.permutations)

    @property
    def permutations(self) -> int:
        """Return of how many hash functions a page's least hashes are kept."""
        return 1


MIN_HASHES_MAX = 1024


class SupershingleParameters(ShingleParameters):
    """The parameters of supershingles.

    Attributes:
        blocks: supershingles per page.
        block_size: min-hashes per supershingle.
    """

    blocks: int = Field(default=6, ge=2, le=11)
    block_size: int = Field(default=14, ge=1, le=128)

    @model_validator(mode="after")
    def _check_bounds(self) -> SupershingleParameters:
        if self.blocks * self.block_size > MIN_HASHES_MAX:
            raise ValueError(f"blocks x block_size is {MIN_HASHES_MAX} at most")
        return self


class Supershingles(
    ShingledMethod[SupershingleParameters],
    name="supershingles",
    measure=method.Measure.SLOTS,
    threshold=1 / 3,
):
    """One hash for each of 6 blocks of 14 min-hashes; 2 of 6 equal make a duplicate.

    Use it for copies that hardly differ: it finds 88 of 100 pairs of resemblance 0.95, and 3 of 100
    pairs of 0.8. A threshold of 0.16 requires one equal block instead of two.

    84 min-hashes as 6 blocks of 14 (Broder 2000; Fetterly, Manasse, Najork 2003).
    """

    @property
    def permutations(self) -> int:
        """Return the number of min-hashes."""
        return self.parameters.blocks * self.parameters.block_size

    @property
    def bands(self) -> int:
        """Return the number of supershingles."""
        return self.parameters.blocks

    def sign(self, page: method.PageText) -> method.MethodSignature:
        """Return the supershingles of a page, as keys and as the slots of its sketch."""
        seeds = self.shingler.seeds
        minima = min_hashes(self.shingler.hashes(page), seeds)
        blocks = block_hashes(minima, self.parameters.block_size, seeds.band_seed)
        return method.MethodSignature(blocks, method.pack_slots(blocks))


class Megashingles(Supershingles, name="megashingles"):
    """One key for each of the 15 pairs of 6 supershingles; any equal pair is a duplicate.

    Decides like `supershingles`, but compares only the pairs that it will accept. With large
    buckets that is less work, at more than twice the keys.

    The 15 pairs of 6 supershingles (Fetterly, Manasse, Najork 2003).
    """

    @property
    def bands(self) -> int:
        """Return the number of pairs."""
        return self.parameters.blocks * (self.parameters.blocks - 1) // 2

    def sign(self, page: method.PageText) -> method.MethodSignature:
        """Return the megashingles of a page; its sketch holds the supershingles themselves."""
        signed = super().sign(page)
        return signed._replace(keys=megashingles_of(signed.keys, self.shingler.seeds.band_seed))


def megashingles_of(blocks: Sequence[int], seed: int) -> list[int]:
    """Return a 64-bit hash of each pair of supershingles; which pair it is goes into the hash."""
    pairs = enumerate(combinations(blocks, 2))
    packed = (struct.pack("<QQI", *pair, number) for number, pair in pairs)
    return [mmh3.hash64(each, seed, signed=False)[0] for each in packed]
