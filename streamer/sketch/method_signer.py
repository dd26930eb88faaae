"""Signing by any method: what the native signer does in one call, page by page in Python.

The native signer still counts and hashes the tokens of each page: equal content has an equal
content key under every method, and a page too short to compare is recognised in the same way. What
it calls distinct are here distinct words, or shingles where min-hashes make the keys.

A key that a page lacks is filled by a hash of its content key and the key's place: no page has it
but one of equal content, and those two meet under the content key anyway.

From the shingle hashes of a text to min-hashes, keys and sketch, methods go by the native signer's
kernels, which here work on the whole set at once: uint64 hashes, distinct and ascending.
"""

# If keys that a short page lacks were zero, all short pages would be candidates of each other.

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamer.errors import StoreMismatch
from streamer.machine import uint64
from streamer.rules import MAIN, VISIBLE
from streamer.sketch import minhash, resemblance
from streamer.sketch.hash_sets import pack_set
from streamer.sketch.method import ABSENT_KEY, MethodSignature, PageText, Sketch, empty_sketch
from streamer.sketch.scheme import scheme_of
from streamer.sketch.scopes import ScopedSigner
from streamer.sketch.settings import MAIN_TEXT, NATIVE, HashSeeds, SignatureSettings
from streamer.sketch.signer import NativeSigner, PageSigner, Signatures
from streamer.text.visible import Buffer

Hashes = npt.NDArray[np.uint64]


def mix(values: Hashes, mask: int = 0) -> Hashes:
    """Return MurmurHash3's finaliser of each value XOR `mask`: a bijection."""
    result = values ^ np.uint64(mask)
    resemblance.hash_for_sketch(result, len(result), uint64(0))
    return result


def min_hashes(hashes: Hashes, seeds: HashSeeds) -> minhash.Minima:
    """Return the min-hashes of a set: uint32[hashes of `keys`]."""
    minima = np.full(len(seeds.round_masks) // 2, minhash.EMPTY_MINIMUM, np.uint32)
    minhash.lower_minima(hashes, len(hashes), minima)
    further = np.sort(mix(hashes, seeds.sketch_mask))
    _, firsts = np.unique(further >> np.uint64(64 - resemblance.DENSE_LEVEL), return_index=True)
    if len(firsts) > resemblance.LISTED_MAX or len(further) > minhash.FEW_MAX:
        further = further[firsts]  # the least one of each bin
    minhash.fill_empty(further, len(further), seeds.round_masks, minima)
    return minima


def block_hashes(minima: minhash.Minima, rows: int, seed: int) -> list[int]:
    """Return one 64-bit hash for each `rows` minima; the block's number is in its seed."""
    result = np.empty(len(minima) // rows, np.uint64)
    minhash.fill_band_keys(minima, rows, uint64(seed), result)
    return [int(value) for value in result]


def resemblance_sketch(hashes: Hashes, mask: int) -> Sketch:
    """Return the one-permutation sketch of resemblance.py, under the mask of the secret."""
    masked = np.sort(mix(hashes, mask))
    sketch = empty_sketch()
    if not resemblance.pack_listed(masked, len(masked), sketch):
        bins = np.full(resemblance.BINS, resemblance.EMPTY_BIN, np.uint64)
        resemblance.lower_bins(masked, len(masked), bins)
        resemblance.pack_dense(bins, sketch)
    return sketch


def class_keys(values: Hashes, drawn: Hashes, bands: int, rows: int, seed: int) -> list[int]:
    """Return keys of one permutation: the least value of each class, `rows` classes a key.

    What is `drawn` for a value, modulo bands x rows, is its class. Two sets have the same least
    value in a class with about the probability of their resemblance, as with min-hashes, for one
    hash a shingle. A key whose classes are all empty is ABSENT_KEY.
    """
    minima = np.full(bands * rows, minhash.EMPTY_MINIMUM, np.uint32)
    classes = drawn % np.uint64(bands * rows)
    found, firsts = np.unique(classes, return_index=True)  # the first one of a class is its least
    minima[found.astype(np.int64)] = values[firsts] >> np.uint64(32)
    keys = block_hashes(minima, rows, seed)
    empty = (minima.reshape(bands, rows) == minhash.EMPTY_MINIMUM).all(axis=1).tolist()
    return [ABSENT_KEY if none else key for key, none in zip(keys, empty, strict=True)]


def hash_set(hashes: Hashes | None) -> bytes:
    """Return the set of what a sketch of resemblance is of, as bytes (hash_sets.py)."""
    return b"" if hashes is None else pack_set(mix(hashes))


_SPREAD = 0x9E3779B97F4A7C15  # odd: the places of the filled keys differ


class MethodSigner:
    """Sign pages by the method of the settings; one instance a thread."""

    def __init__(self, settings: SignatureSettings, secret: bytes) -> None:
        self.settings = settings
        self._scheme = scheme_of(settings, secret)
        width = settings.shingle_width if settings.method == NATIVE else 1
        text = MAIN_TEXT if settings.takes_main_text else ()
        native = SignatureSettings(shingle_width=width, bands=1, rows=1, canonical=text)
        self._native = NativeSigner(native, secret)

    def sign(self, bodies: Sequence[Buffer], flags: Sequence[int]) -> Signatures:
        """Sign `bodies` (UTF-8 as `flags` say: text/visible.py); any bytes have a signature."""
        read_as = [self._scheme.canonical.marks(marks) for marks in flags]
        native = self._native.sign(bodies, read_as)
        keys = _fill_keys(native.keys[:, -1], self.settings.bands)
        sketches = np.empty_like(native.sketches)
        sets: list[bytes] | None = [] if self.settings.exact else None
        for i, (body, marks) in enumerate(zip(bodies, flags, strict=True)):
            own, sketches[i], hashes = self._sign(body, marks)
            _put_keys(own, keys[i, :-1])
            if sets is not None:
                sets.append(hash_set(hashes))
        return native._replace(keys=keys, sketches=sketches, shingles=sets)

    def _sign(self, body: Buffer, flags: int) -> MethodSignature:
        """Return the signature of one page; one without words has no key."""
        page = PageText.of_body(body, flags, self._scheme.canonical)
        return self._scheme.sign(page) if page.words else MethodSignature((), empty_sketch())


def _fill_keys(content: Hashes, bands: int) -> Hashes:
    """Return uint64[n, bands + 1]: keys that match no other page's, then the content keys."""
    places = np.arange(1, bands + 1, dtype=np.uint64) * np.uint64(_SPREAD)
    flat = mix((content[:, np.newaxis] + places).ravel())
    return np.column_stack((flat.reshape(len(content), bands), content))


def _put_keys(own: Sequence[int], row: npt.NDArray[np.uint64]) -> None:
    """Write the keys that a page has; one that comes twice counts once."""
    assert len(own) <= len(row), (len(own), len(row))
    seen = {ABSENT_KEY}
    for place, key in enumerate(own):
        if key not in seen:
            seen.add(key)
            row[place] = key


class BagSigner:
    """Sign pages by the method `words` in native code: bit for bit as MethodSigner does."""

    def __init__(self, settings: SignatureSettings, secret: bytes) -> None:
        rows = scheme_of(settings, secret).keys.parameters.rows
        native = SignatureSettings(
            shingle_width=1, bands=settings.bands, rows=rows, canonical=settings.canonical,
            exact=settings.exact,
        )  # fmt: skip
        self.settings = settings
        self._native = NativeSigner(native, secret, of_bags=True)

    def sign(self, bodies: Sequence[Buffer], flags: Sequence[int]) -> Signatures:
        """Sign `bodies` (UTF-8 as `flags` say: text/visible.py); any bytes have a signature."""
        signed = self._native.sign(bodies, flags)
        without_words = signed.tokens == 0
        content = signed.keys[without_words, -1]
        signed.keys[without_words] = _fill_keys(content, self.settings.bands)
        signed.sketches[without_words] = 0
        return signed


OTHER_TEXT = 8  # among a page's flags: a rule says that the other text of it is compared


class _BothTexts:
    """Sign of each page the text that most pages are compared by, or the other one."""

    def __init__(self, settings: SignatureSettings, secret: bytes) -> None:
        texts = (VISIBLE, MAIN) if settings.text == VISIBLE else (MAIN, VISIBLE)
        self._signers = [make_signer(settings.of_text(text), secret) for text in texts]

    def sign(self, bodies: Sequence[Buffer], flags: Sequence[int]) -> Signatures:
        """Sign `bodies` (UTF-8 as `flags` say, OTHER_TEXT among them)."""
        other = np.array([bool(marks & OTHER_TEXT) for marks in flags], np.bool_)
        order = np.concatenate((np.flatnonzero(~other), np.flatnonzero(other)))
        parts = []
        for signer, asked in zip(self._signers, (~other, other), strict=True):
            places = np.flatnonzero(asked).tolist()
            own = [flags[i] & ~OTHER_TEXT for i in places]
            signed = signer.sign([bodies[i] for i in places], own)
            main = np.zeros(len(places), np.bool_) if signed.main is None else signed.main
            parts.append(signed._replace(main=main))
        back = np.argsort(order)
        *columns, sets = zip(*parts, strict=True)
        each: list[Any] = [np.concatenate(pair)[back] for pair in columns]
        joined = Signatures(*each)
        if sets[0] is None:
            return joined
        in_parts = list(itertools.chain.from_iterable(sets))
        return joined._replace(shingles=[in_parts[i] for i in back.tolist()])


def make_signer(settings: SignatureSettings, secret: bytes) -> PageSigner:
    """Return the signer of these settings: the native one where it is the native method.

    Raises:
        StoreMismatch: it needs what an index knows of sites (run/site_store.py).
    """
    if settings.site_memory:
        raise StoreMismatch(
            "The index signs pages by what it knows of their sites (--site-memory), which this "
            "command does not read."
        )
    if settings.scope:
        own = settings.model_copy(update={"scope": ""})
        return ScopedSigner(make_signer(own, secret), secret)
    if settings.text_rules:
        return _BothTexts(settings, secret)
    if settings.is_native:
        return NativeSigner(settings, secret)
    if settings.are_native_bags:
        return BagSigner(settings, secret)
    return MethodSigner(settings, secret)
