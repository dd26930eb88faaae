"""What methods over shingles share: the parameters of shingles, their hashes, and the mould.

A shingle is hashed by the function that the parameters name and then mixed under the secret, so
that a function of 32 bits serves as well (it collides as before). A text shorter than a shingle is
one shingle: it is equal to itself and to nothing else.
"""

from __future__ import annotations

import hashlib
from typing import Literal, Self, TypeVar

import numpy as np
from pydantic import Field, model_validator

from streamer.sketch.digest import HashName
from streamer.sketch.from_shingles import Hashes, mixed
from streamer.sketch.hash_functions import HASHES, hash64
from streamer.sketch.method import Method, PageText, Parameters
from streamer.sketch.secret import HashKeys, derive_keys
from streamer.sketch.word_shingles import as_characters, character_shingles, shingles


class ShingleParameters(Parameters):
    """Which shingles a text has, and how they are hashed."""

    shingle_width: int = Field(default=5, ge=1, le=32, description="words or characters a shingle")
    unit: Literal["words", "characters"] = Field(
        default="words", description="what a shingle is made of"
    )
    stride: int = Field(
        default=1,
        ge=1,
        le=32,
        description="words from one shingle to the next; the width: end to end",
    )
    hash: HashName = Field(default="mmh3", description=f"hash of a shingle: {', '.join(HASHES)}")
    seed: int = Field(default=0, ge=0, description="chooses other functions under the same secret")

    @model_validator(mode="after")
    def _without_gaps(self) -> Self:
        if self.stride > self.shingle_width:
            raise ValueError("stride is shingle_width at most, or words are left out")
        return self


class Shingler:
    """Hash the shingles of texts, under a secret; `keys` has `permutations` of these hashes."""

    def __init__(self, parameters: ShingleParameters, secret: bytes, permutations: int = 1) -> None:
        self._parameters = parameters
        seeded = f"seed {parameters.seed}".encode() + b"\0" + secret
        own = hashlib.blake2b(seeded, digest_size=32).digest() if parameters.seed else secret
        self.keys: HashKeys = derive_keys(own, 1, permutations)

    def shingles(self, page: PageText) -> list[str]:
        """Return the shingles of a page, in order; of a page without words none."""
        wanted = self._parameters
        if wanted.unit == "characters":
            text = as_characters(page.words)
            found = character_shingles(text, wanted.shingle_width)[:: wanted.stride]
        else:
            found = shingles(page.words, wanted.shingle_width, wanted.stride)
        return found or ([" ".join(page.words)] if page.words else [])

    def hashes(self, page: PageText) -> Hashes:
        """Return the hashes of a page's shingles, distinct and ascending."""
        name, seed = self._parameters.hash, self.keys.token_seed
        found = {hash64(one.encode(), seed, name) for one in self.shingles(page)}
        values = np.fromiter(found, np.uint64, len(found))
        return np.sort(mixed(values, self.keys.content_seed))


S = TypeVar("S", bound=ShingleParameters)


class ShingledMethod(Method[S]):
    """A method over the hashes of shingles, which `_shingler` makes with the parameters."""

    def __init__(self, parameters: S, secret: bytes) -> None:
        super().__init__(parameters, secret)
        self._shingler = Shingler(parameters, secret, self.permutations)

    @property
    def permutations(self) -> int:
        """Return of how many hash functions a page's least hashes are kept."""
        return 1
