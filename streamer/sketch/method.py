"""What a method is: from a page's text to keys and a sketch, and how two sketches compare.

Every method of the field fits one mould. Its keys lead to candidates: pages that share one. Its
sketch, at most 33 words, says how similar a candidate is, by one of few measures, and from its
threshold on two pages are duplicates. So each runs in the stream, in comparisons and in evaluations
alike, and two are combined by taking the keys of one and the sketch of the other.

Two sketches give one number in ten-thousandths, whatever the method. A sketch is uint64[33], laid
out as resemblance.py says for RESEMBLANCE, and as is described here for all others. One of zeros is
that of a page with nothing to go by: equal to another such, and to no other. An index keeps one
measure, so a batch takes the same branch everywhere. Word 0 says what the 32 words of payload hold:

    SLOTS           count | bits << 16; 128 slots of 16 bits, 64 of 32 or 32 of 64, lowest first
    HAMMING         number of bits, 2,048 at most
    SAMPLE, BOTTOM  count | cut << 16 | k << 32; hashes of 32 bits, ascending, 64 at most
    WEIGHTED        weights; the digest in words 1 and 2, a float64 in each word after them

A change here changes what an index holds (METHODS_VERSION).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import ClassVar, Generic, NamedTuple, TypeVar, get_args

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from streamer.kernel import inline_kernel, kernel
from streamer.machine import int64, popcount, uint64
from streamer.model import SIMILARITY_ONE
from streamer.sketch.resemblance import PAYLOAD_WORDS, SKETCH_WORDS, similarity
from streamer.text.visible import Buffer, meta_description, visible_text
from streamer.text.words import DEFAULT_OPTIONS, CanonicalOptions, canonical_words

Sketch = npt.NDArray[np.uint64]

ABSENT_KEY = 0  # at the place of a key that a page lacks


class Measure(IntEnum):
    """How two sketches give a similarity; `sketch_similarity` has the rule of each."""

    RESEMBLANCE = 0  # resemblance.py: the one-permutation sketch
    SLOTS = 1  # share of equal slots, of as many as there are
    HAMMING = 2  # share of equal bits
    SAMPLE = 3  # Jaccard of two sets of sampled hashes
    BOTTOM = 4  # Jaccard estimated from the k least hashes of the union
    WEIGHTED = 5  # equal digests, and weights near each other


class Parameters(BaseModel):
    """The parameters of a method; each has a default, and a text in `Attributes:` of its class."""

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
        """Return what a method sees of a body (UTF-8 as `flags` say); any bytes are a page."""
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

    A key includes its band, so that equal values in two bands differ. Of a key that the page
    lacks ABSENT_KEY holds the place; those after the last one may be left out. `hashes` are the
    set whose resemblance the sketch estimates, None under other measures.
    """

    keys: Sequence[int]
    sketch: Sketch
    hashes: npt.NDArray[np.uint64] | None = None


P = TypeVar("P", bound=Parameters)


class Method(Generic[P]):
    """A method with its parameters, under one secret; subclasses are found by scheme.py.

    The head of its class says what a method is: `class X(Method[XParameters], name="x", ...)`,
    and a docstring. Its first line is the summary, one sentence; the paragraph after that is the
    advice, on when to use the method. The documents and `streamer methods` show both.

    Attributes:
        name: as on the command line; a class without one is a mould for others.
        defaults: the class of its parameters.
        measure: how its sketches compare.
        fixed_threshold: its threshold, if no parameter moves that; others override `threshold`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    advice: ClassVar[str]
    defaults: ClassVar[type[Parameters]]
    measure: ClassVar[Measure]
    fixed_threshold: ClassVar[float] = 0.8

    def __init_subclass__(
        cls, *, name: str = "", measure: Measure | None = None, threshold: float | None = None
    ) -> None:
        """Take what the head of a class says."""
        super().__init_subclass__()
        if measure is not None:
            cls.measure = measure
        if threshold is not None:
            cls.fixed_threshold = threshold
        if name:
            paragraphs = (cls.__doc__ or "\n\n").split("\n\n")
            cls.summary, cls.advice = (" ".join(each.split()) for each in paragraphs[:2])
            cls.name = name
            cls.defaults = get_args(cls.__orig_bases__[0])[0]  # type: ignore[attr-defined]

    def __init__(self, parameters: P, secret: bytes) -> None:
        self.parameters = parameters
        self.secret = secret

    @property
    def bands(self) -> int:
        """Return how many keys a page has at most, 1 to 63: the parameter `bands`, or else 1."""
        bands: int = getattr(self.parameters, "bands", 1)
        return bands

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


SLOT_BITS_LEAST = 16
SLOTS_MAX = 64 * PAYLOAD_WORDS // SLOT_BITS_LEAST
BITS_MAX = 64 * PAYLOAD_WORDS
HASHES_MAX = 2 * PAYLOAD_WORDS  # of 32 bits
WEIGHTS_MAX = PAYLOAD_WORDS - 2


def pack_slots(values: Sequence[int]) -> Sketch:
    """Return a SLOTS sketch of at most 128 values, of each as many low bits as there is room for.

    Raises:
        ValueError: there are more.
    """
    count = len(values)
    if count > SLOTS_MAX:
        raise ValueError(f"a sketch has {SLOTS_MAX} slots at most, not {count}")
    bits = 64 if count <= PAYLOAD_WORDS else 32 if count <= 2 * PAYLOAD_WORDS else SLOT_BITS_LEAST
    result = empty_sketch()
    if count:
        slots = np.fromiter((value & (1 << bits) - 1 for value in values), np.uint64, count)
        result[1:].view(f"<u{bits // 8}")[:count] = slots
        result[0] = count | bits << 16
    return result


def pack_bits(value: int, bits: int) -> Sketch:
    """Return a HAMMING sketch of the `bits` (2,048 at most) low bits of `value`.

    Raises:
        ValueError: there are more.
    """
    if not 0 < bits <= BITS_MAX:
        raise ValueError(f"a sketch has 1 to {BITS_MAX} bits, not {bits}")
    result = empty_sketch()
    payload = (value & (1 << bits) - 1).to_bytes(8 * PAYLOAD_WORDS, "little")
    result[1:] = np.frombuffer(payload, "<u8")
    result[0] = bits
    return result


def _pack_hashes(hashes: Iterable[int], limit: int) -> tuple[Sketch, bool]:
    """Return a sketch of the `limit` least hashes' upper halves, and whether there are more."""
    ordered = sorted({value >> 32 for value in hashes})
    result = empty_sketch()
    kept = ordered[:limit]
    result[1:].view("<u4")[: len(kept)] = kept
    result[0] = len(kept)
    return result, len(ordered) > limit


def pack_sample(hashes: Iterable[int]) -> Sketch:
    """Return a SAMPLE sketch of 64-bit hashes; of more than 64, the least ones are kept."""
    result, cut = _pack_hashes(hashes, HASHES_MAX)
    result[0] |= np.uint64(int(cut) << 16)
    return result


def pack_bottom(hashes: Iterable[int], k: int) -> Sketch:
    """Return a BOTTOM sketch of the k (64 at most) least of 64-bit hashes.

    Raises:
        ValueError: k is out of range.
    """
    if not 0 < k <= HASHES_MAX:
        raise ValueError(f"k is 1 to {HASHES_MAX}, not {k}")
    result, _ = _pack_hashes(hashes, k)
    if result[0]:
        result[0] |= np.uint64(k << 32)
    return result


def pack_weighted(digest128: int, weights: Sequence[float] = ()) -> Sketch:
    """Return a WEIGHTED sketch of a 128-bit digest and at most 30 weights.

    Raises:
        ValueError: there are more weights.
    """
    if len(weights) > WEIGHTS_MAX:
        raise ValueError(f"a sketch has {WEIGHTS_MAX} weights at most, not {len(weights)}")
    result = empty_sketch()
    result[0] = len(weights)
    result[1], result[2] = digest128 & (1 << 64) - 1, digest128 >> 64
    result[3 : 3 + len(weights)].view(np.float64)[:] = weights
    return result


_RESEMBLANCE, _SLOTS, _HAMMING, _SAMPLE, _BOTTOM, _ = map(int, Measure)
_HALF = 32  # bits of a hash
_COUNT_MASK = 0xFFFF


@inline_kernel
def _count(sketch: Sketch) -> int:
    """Return how many entries a sketch holds (HAMMING: bits)."""
    return int64(sketch[0] & uint64(_COUNT_MASK))


@inline_kernel
def _entry(sketch: Sketch, place: int, bits: int) -> int:
    """Return the entry of `bits` (16, 32 or 64) at `place`."""
    at = place * bits
    word = sketch[1 + (at >> 6)] >> uint64(at & 63)
    entry: int = word & (uint64(0xFFFFFFFFFFFFFFFF) >> uint64(64 - bits))
    return entry


@kernel
def _slots(a: Sketch, b: Sketch) -> int:
    """Return the share of equal slots, of the longer sketch's, without those equal by chance.

    Slots of 16 bits keep a part of their values, of which one in 2**16 is equal by chance: of n, m
    equal, J = (m/n - c) / (1 - c) with c = 2**-16 (Li and Koenig 2010, b-bit min-wise hashing,
    theorem 1 for sets small compared with the universe). That costs 1/(1 - c) of variance, nothing
    to speak of; wider slots need no correction.
    """
    count, longer = min(_count(a), _count(b)), max(_count(a), _count(b))
    if longer == 0:
        return int64(SIMILARITY_ONE)
    bits = int64((a[0] >> uint64(16)) & uint64(_COUNT_MASK))
    if count == 0 or bits != int64((b[0] >> uint64(16)) & uint64(_COUNT_MASK)):
        return int64(0)
    equal = int64(0)
    for i in range(count):
        equal += _entry(a, i, bits) == _entry(b, i, bits)
    if bits != SLOT_BITS_LEAST:
        return SIMILARITY_ONE * equal // longer
    scale = int64(1) << int64(SLOT_BITS_LEAST)
    return max(SIMILARITY_ONE * (scale * equal - longer) // (longer * (scale - 1)), int64(0))


@kernel
def _hamming(a: Sketch, b: Sketch) -> int:
    """Return the share of equal bits; 0 if the numbers of bits differ."""
    if a[0] != b[0]:
        return int64(0)
    bits = int64(a[0])
    if bits == 0:
        return int64(SIMILARITY_ONE)
    differing = int64(0)
    for i in range(1, 1 + ((bits + 63) >> 6)):
        differing += int64(popcount(a[i] ^ b[i]))
    return SIMILARITY_ONE * (bits - differing) // bits


@kernel
def _least_of_union(a: Sketch, b: Sketch, limit: int, bound: int) -> int:
    """Return the Jaccard similarity among the `limit` least hashes of the union, up to `bound`."""
    count_a, count_b = _count(a), _count(b)
    if count_a == 0 or count_b == 0:
        return int64(SIMILARITY_ONE if count_a == count_b else 0)
    i = j = 0
    union = both = int64(0)
    while union < limit and (i < count_a or j < count_b):
        first = int64(_entry(a, i, _HALF)) if i < count_a else int64(1) << int64(32)
        second = int64(_entry(b, j, _HALF)) if j < count_b else int64(1) << int64(32)
        if min(first, second) > bound:
            break
        union += 1
        both += first == second
        i += first <= second
        j += second <= first
    return SIMILARITY_ONE * both // union if union else int64(0)


@inline_kernel
def _reach(sketch: Sketch) -> int:
    """Return up to which hash a sample is whole: its last one if it was cut."""
    if (sketch[0] >> uint64(16)) & uint64(1):
        return int64(_entry(sketch, _count(sketch) - 1, _HALF))
    return int64(0xFFFFFFFF)


@kernel
def _sample(a: Sketch, b: Sketch) -> int:
    """Return the Jaccard similarity of two samples, as far as both are whole."""
    return _least_of_union(a, b, int64(2 * HASHES_MAX), min(_reach(a), _reach(b)))


@kernel
def _bottom(a: Sketch, b: Sketch) -> int:
    """Return the share of the union's k least hashes that both have (Broder 1997, section 3).

    k is the lesser of the two; a sketch with fewer than its k hashes holds the whole set.
    """
    limit = min(int64(a[0] >> uint64(32)), int64(b[0] >> uint64(32)))
    return _least_of_union(a, b, limit, int64(0xFFFFFFFF))


@kernel
def _weigh(a: Sketch, b: Sketch) -> int:
    """Return how near the weights are if the digests are equal, else 0.

    It is one less the greatest (v - w)**2 / (v**2 + w**2) of a pair of weights v and w, so that
    the rule "all pairs below a" is the threshold 1 - a.
    """
    if a[0] != b[0] or a[1] != b[1] or a[2] != b[2]:
        return int64(0)
    weights_a, weights_b = a.view(np.float64), b.view(np.float64)
    apart = 0.0
    for i in range(3, 3 + int64(a[0])):
        v, w = weights_a[i], weights_b[i]
        squares = v * v + w * w
        if squares > 0.0:  # two zeros are equal
            apart = max(apart, (v - w) ** 2 / squares)
    return max(int64(int(SIMILARITY_ONE * (1.0 - apart))), int64(0))


@kernel
def _other_similarity(measure: int, a: Sketch, b: Sketch) -> int:
    """Return the similarity under any measure but RESEMBLANCE."""
    if measure == _SLOTS:
        return _slots(a, b)
    if measure == _HAMMING:
        return _hamming(a, b)
    if measure == _SAMPLE:
        return _sample(a, b)
    if measure == _BOTTOM:
        return _bottom(a, b)
    return _weigh(a, b)


@inline_kernel
def compare_sketches(measure: int, a: Sketch, b: Sketch) -> int:
    """Return the similarity of two sketches, for kernels.

    Inlined, since one more call would cost the default a third of a comparison of long pages.
    """
    return similarity(a, b) if measure == _RESEMBLANCE else _other_similarity(measure, a, b)


@kernel
def sketch_similarity(measure: int, a: Sketch, b: Sketch) -> int:
    """Return the similarity of two sketches under `measure` (a Measure), in ten-thousandths."""
    return compare_sketches(measure, a, b)


def similarity_of(measure: Measure, a: Sketch, b: Sketch) -> float:
    """Return the similarity of two sketches as a share, for callers in Python."""
    return int(sketch_similarity(int(measure), a, b)) / SIMILARITY_ONE
