"""What a method is: from a page's text to keys and a sketch, and how two sketches compare.

Every method of the field fits one mould. Its keys lead to candidates: pages that share one. Its
sketch, at most 33 words, says how similar a candidate is, by one of few measures (measures.py),
and from its threshold on two pages are duplicates. So each runs in the stream, in comparisons and
in evaluations alike, and two are combined by taking the keys of one and the sketch of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from streamer.sketch.resemblance import SKETCH_WORDS
from streamer.text.visible import Buffer, meta_description, visible_text
from streamer.text.words import DEFAULT_OPTIONS, CanonicalOptions, canonical_words

Sketch = npt.NDArray[np.uint64]

ABSENT_KEY = 0  # at the place of a key that a page lacks


class Measure(IntEnum):
    """How two sketches give a similarity; measures.py has the rule of each."""

    RESEMBLANCE = 0  # resemblance.py: the one-permutation sketch
    SLOTS = 1  # share of equal slots, of as many as there are
    HAMMING = 2  # share of equal bits
    SAMPLE = 3  # Jaccard of two sets of sampled hashes
    BOTTOM = 4  # Jaccard as the k least hashes of the union tell it
    WEIGHTED = 5  # equal digests, and weights near each other


class Parameters(BaseModel):
    """The parameters of a method; each has a default and a description, which the docs list."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class PageText:
    """What a method sees of a page: its visible text, and its meta description if it has one."""

    text: str
    description: str = ""
    canonical: CanonicalOptions = DEFAULT_OPTIONS

    @classmethod
    def of_body(
        cls, body: Buffer, flags: int, canonical: CanonicalOptions = DEFAULT_OPTIONS
    ) -> PageText:
        """Return what a method sees of a body (UTF-8 as `flags` tell); any bytes are a page."""
        text = visible_text(body, canonical.marks(flags))
        return cls(text, meta_description(body, flags), canonical)

    @property
    def content(self) -> str:
        """Return all words in order: what pages of equal content have in common."""
        return " ".join(self.words)

    @cached_property
    def words(self) -> list[str]:
        """Return the words of the text in canonical form, in order."""
        return canonical_words(self.text, self.canonical)


class MethodSignature(NamedTuple):
    """Keys, one of 64 bits a band, a sketch of uint64[33], and what that is of.

    A key tells its band as well, so that equal values in two bands differ. Of a key that the page
    lacks ABSENT_KEY holds the place; those behind the last one may be left out. `hashes` are the
    set whose resemblance the sketch estimates, None under other measures.
    """

    keys: Sequence[int]
    sketch: Sketch
    hashes: npt.NDArray[np.uint64] | None = None


P = TypeVar("P", bound=Parameters)


class Method(Generic[P]):
    """A method with its parameters, under one secret; subclasses are found by scheme.py.

    Attributes:
        name: as on the command line; summary: one sentence; advice: two, on when to use it.
        defaults: the class of its parameters.
        measure: how its sketches compare.
        fixed_threshold: its threshold, if no parameter moves that; others override `threshold`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    advice: ClassVar[str]
    defaults: ClassVar[type[Parameters]]
    measure: ClassVar[Measure]
    fixed_threshold: ClassVar[float]

    def __init__(self, parameters: P, secret: bytes) -> None:
        self.parameters = parameters
        self.secret = secret

    @property
    def bands(self) -> int:
        """Return how many keys a page has at most, 1 to 63."""
        raise NotImplementedError

    @property
    def threshold(self) -> float:
        """Return from which similarity on two pages are duplicates, unless the user says."""
        return self.fixed_threshold

    def sign(self, page: PageText) -> MethodSignature:
        """Return the signature of a page that has words; equal pages have equal ones."""
        raise NotImplementedError


def empty_sketch() -> Sketch:
    """Return a sketch of zeros to write into."""
    return np.zeros(SKETCH_WORDS, np.uint64)
