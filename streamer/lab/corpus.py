"""A corpus in memory: texts under labels, and which of them are near-duplicates of which.

The small way to use the package's signatures: in one process, without an index on disk. A text is
signed once and then forgotten; its band keys and its sketch are kept. Texts that share a band key
are compared by their sketches. The native kernels that sign are compiled at the first use of a
version. One thread at a time may change a corpus.

Shingles are of words, or of characters: the native kernel then gets each character as a word of its
own. The seed stands in place of an index's secret: equal seeds, equal signatures.

Keys and sketches lie in numpy arrays, a row a text; a dictionary leads from each band key to its
rows. A row that is removed is given to the next signature. What a row stands for is not known here.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Generic, Literal, TypeVar, overload

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from streamer.errors import SettingsError, StreamerError
from streamer.model import SIMILARITY_ONE
from streamer.sketch.resemblance import SKETCH_WORDS, similarity
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import NativeSigner, Signatures
from streamer.wrong_values import why_wrong

Words = npt.NDArray[np.uint64]
_WHITE_SPACE = re.compile(r"\s+")


def _signature_settings(n_gram: int, permutations: int, bands: int) -> SignatureSettings:
    """Return the settings of the signer.

    Raises:
        SettingsError: a number is out of its range, or permutations are no multiple of bands.
    """
    if bands < 1 or permutations % bands:
        raise SettingsError(
            f"permutations must be a multiple of bands; {permutations} and {bands} are not."
        )
    rows = permutations // bands
    try:
        return SignatureSettings(shingle_width=n_gram, bands=bands, rows=rows)
    except ValidationError as error:
        first = error.errors()[0]
        name = {"shingle_width": "n_gram", "rows": "permutations / bands"}.get(
            str(first["loc"][0]), "bands"
        )
        raise SettingsError(
            f"{name} = {first['input']!r} cannot be used: {why_wrong(first)}."
        ) from error


def _band_keys(signed: Signatures) -> Words:
    """Return the band keys; a text without a shingle has keys from its content in their place.

    All such texts have the same minima; by the content they meet only if their words are equal.
    """
    keys, content = signed.keys[:, :-1], signed.keys[:, -1:]
    by_content = content + np.arange(keys.shape[1], dtype=np.uint64)
    return np.where(signed.distinct[:, None] > 0, keys, by_content)


def characters_as_words(text: str) -> str:
    """Return a text whose words are the characters of `text`, marks with their letters.

    A run of white space becomes an underscore, which the canonical form keeps as a character of
    words; of the other separators nothing remains.
    """
    joined = _WHITE_SPACE.sub("_", text.strip())
    return "".join(c if unicodedata.category(c)[0] == "M" else f" {c}" for c in joined)


ROWS_FIRST = 1024

Keys = npt.NDArray[np.uint32 | np.uint64]


class SignatureTable:
    """Rows of `bands` keys, of the unsigned type `key_type`, and a sketch each."""

    def __init__(self, bands: int, key_type: type[np.uint32 | np.uint64]) -> None:
        self._keys: Keys = np.zeros((ROWS_FIRST, bands), key_type)
        self._sketches: Words = np.zeros((ROWS_FIRST, SKETCH_WORDS), np.uint64)
        self._buckets: dict[int, list[int]] = {}
        self._free: list[int] = []
        self._end = 0  # rows from here on were never used

    def new_row(self) -> int:
        """Return a row that is in no bucket: the one removed last, else the next."""
        if self._free:
            return self._free.pop()
        if self._end == len(self._keys):
            self._keys = np.concatenate((self._keys, np.zeros_like(self._keys)))
            self._sketches = np.concatenate((self._sketches, np.zeros_like(self._sketches)))
        self._end += 1
        return self._end - 1

    def put(self, rows: Sequence[int], keys: npt.NDArray[np.uint64], sketches: Words) -> None:
        """Write signatures into distinct rows that are in no bucket; keys keep their low bits."""
        self._keys[rows] = keys.astype(self._keys.dtype)
        self._sketches[rows] = sketches
        buckets = self._buckets
        for row, row_keys in zip(rows, self._keys[rows].tolist(), strict=True):
            for key in row_keys:
                if key in buckets:
                    buckets[key].append(row)
                else:
                    buckets[key] = [row]

    def unlink(self, row: int) -> None:
        """Take a row out of its buckets, to be put again."""
        for key in self._keys[row].tolist():
            bucket = self._buckets[key]
            bucket.remove(row)
            if not bucket:
                del self._buckets[key]

    def remove(self, row: int) -> None:
        """Take a row out of its buckets and set it free."""
        self.unlink(row)
        self._free.append(row)

    def similar_to_row(
        self, row: int, min_jaccard: float, sensitivity: int, after: int = -1
    ) -> list[tuple[int, float]]:
        """Return the other rows behind `after` that are like `row`, as `similar` does."""
        own = self._keys[row], self._sketches[row]
        found = self.similar(*own, min_jaccard, sensitivity, after)
        return [(other, value) for other, value in found if other != row]

    def similar(
        self, keys: Keys, sketch: Words, min_jaccard: float, sensitivity: int, after: int = -1
    ) -> list[tuple[int, float]]:
        """Return (row, estimated resemblance) of the rows behind `after` that are like a signature.

        They share at least `sensitivity` keys and have at least the resemblance `min_jaccard`. The
        most similar come first, equal ones by row.
        """
        shared = Counter(
            row
            for key in keys.astype(self._keys.dtype).tolist()
            for row in self._buckets.get(key, ())
            if row > after
        )
        estimated = (
            (row, similarity(sketch, self._sketches[row]) / SIMILARITY_ONE)
            for row, count in shared.items()
            if count >= sensitivity
        )
        found = [(row, value) for row, value in estimated if value >= min_jaccard]
        return sorted(found, key=lambda one: (-one[1], one[0]))


BATCH_TEXTS = 256  # signed in one native call
KEY_TYPES: dict[int, type[np.uint32 | np.uint64]] = {32: np.uint32, 64: np.uint64}

L = TypeVar("L", bound=Hashable)


class UnknownLabel(StreamerError, KeyError):  # noqa: N818 - as the other errors of this package
    """Report a label that no text of the corpus has."""

    def __str__(self) -> str:
        """Return the message as it is; KeyError would put it into quotes."""
        return str(self.args[0])


class Corpus(Generic[L]):
    """Texts by label, which can be any hashable value; a text under a known label replaces it.

    >>> corpus = Corpus([("a", "one two three four five six"), ("b", "six five four three")])
    >>> corpus.update([("c", "One, two, three: four, five, six!")])
    >>> corpus.query("a")
    [('c', 1.0)]
    >>> "b" in corpus, len(corpus)
    (True, 3)
    """

    def __init__(
        self,
        documents: Iterable[tuple[L, str]] = (),
        *,
        n_gram: int = 5,
        n_gram_type: Literal["word", "character"] = "word",
        permutations: int = 84,
        bands: int = 14,
        bits: int = 64,
        seed: int = 0,
    ) -> None:
        """Make a corpus of (label, text) pairs.

        Args:
            documents: what to begin with; more can follow by `update`.
            n_gram: words or characters a shingle, 1 to 32.
            n_gram_type: whether a shingle is of words or of characters (for short texts).
            permutations: min-hashes a text, a multiple of `bands`.
            bands: band keys a text, 1 to 64, of permutations / bands min-hashes each.
            bits: of a band key, 64 or 32; with 32 two keys in 4 billion are equal by chance.
            seed: another one gives other hash functions; equal seeds give equal answers.

        Raises:
            SettingsError: one of these cannot be as given.
        """
        if bits not in KEY_TYPES:
            raise SettingsError(f"bits is 32 or 64, not {bits!r}.")
        if n_gram_type not in {"word", "character"}:
            raise SettingsError(f"n_gram_type is word or character, not {n_gram_type!r}.")
        settings = _signature_settings(n_gram, permutations, bands)
        self.bands = bands
        self._of_characters = n_gram_type == "character"
        self._signer = NativeSigner(settings, hashlib.sha256(str(seed).encode()).digest())
        self._rows: dict[L, int] = {}
        self._labels: dict[int, L] = {}
        self._table = SignatureTable(bands, KEY_TYPES[bits])
        self.update(documents)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, label: object) -> bool:
        return label in self._rows

    def __iter__(self) -> Iterator[L]:
        return iter(self._rows)

    def contains(self, label: L) -> bool:
        """Tell whether a text has this label."""
        return label in self._rows

    def update(self, documents: Iterable[tuple[L, str]]) -> None:
        """Add (label, text) pairs; the last text under a label is the one that stays.

        >>> corpus = Corpus([("a", "an old text under this label")])
        >>> corpus.update([("a", "a new text under this label"), ("b", "and another one")])
        >>> list(corpus)
        ['a', 'b']
        """
        waiting = iter(documents)
        while batch := dict(islice(waiting, BATCH_TEXTS)):
            keys, sketches = self._sign(batch.values())
            rows = [self._row_for(label) for label in batch]
            self._table.put(rows, keys, sketches)

    def remove(self, label: L) -> None:
        """Forget the text of a label.

        >>> corpus = Corpus([("a", "some text")])
        >>> corpus.remove("a")
        >>> corpus.contains("a")
        False

        Raises:
            UnknownLabel: there is none.
        """
        row = self._known(label)
        self._table.remove(row)
        del self._rows[label], self._labels[row]

    def query(
        self, label: L, *, min_jaccard: float = 0.0, sensitivity: int = 1
    ) -> list[tuple[L, float]]:
        """Return the labels of texts like that of `label`, with the estimated resemblance.

        `sensitivity` is how many band keys must be shared, 1 to `bands`: more of them find less and
        cost less. The most similar come first, and equal ones in the order of their places, which a
        new text takes from a removed one.

        >>> corpus = Corpus({"a": "x y z", "b": "x y z", "c": "z y x"}.items(), n_gram=2)
        >>> corpus.query("a", min_jaccard=0.5)
        [('b', 1.0)]

        Raises:
            UnknownLabel: no text has this label.
            SettingsError: `min_jaccard` is not from 0 to 1, or `sensitivity` not from 1 to `bands`.
        """
        self._check(min_jaccard, sensitivity)
        row = self._known(label)
        found = self._table.similar_to_row(row, min_jaccard, sensitivity)
        return [(self._labels[other], value) for other, value in found]

    def query_text(
        self, text: str, *, min_jaccard: float = 0.0, sensitivity: int = 1
    ) -> list[tuple[L, float]]:
        """Return the labels of texts like `text`, which is not added; otherwise as `query`.

        >>> Corpus([("a", "to be or not to be")], n_gram=2).query_text("To be, or not to be?")
        [('a', 1.0)]
        """
        self._check(min_jaccard, sensitivity)
        keys, sketches = self._sign([text])
        found = self._table.similar(keys[0], sketches[0], min_jaccard, sensitivity)
        return [(self._labels[row], value) for row, value in found]

    def adjacency_list(self, *, min_jaccard: float = 0.0, sensitivity: int = 1) -> dict[L, list[L]]:
        """Return for each label those that `query` returns.

        >>> Corpus([(1, "x y"), (2, "X Y"), (3, "y x")], n_gram=2).adjacency_list()
        {1: [2], 2: [1], 3: []}
        """
        self._check(min_jaccard, sensitivity)
        similar = self._table.similar_to_row
        return {
            label: [self._labels[other] for other, _ in similar(row, min_jaccard, sensitivity)]
            for label, row in self._rows.items()
        }

    @overload
    def edge_list(
        self,
        *,
        min_jaccard: float = ...,
        sensitivity: int = ...,
        jaccard_weighted: Literal[False] = ...,
    ) -> list[tuple[L, L]]: ...

    @overload
    def edge_list(
        self, *, min_jaccard: float = ..., sensitivity: int = ..., jaccard_weighted: Literal[True]
    ) -> list[tuple[L, L, float]]: ...

    def edge_list(
        self, *, min_jaccard: float = 0.0, sensitivity: int = 1, jaccard_weighted: bool = False
    ) -> list[tuple[L, L]] | list[tuple[L, L, float]]:
        """Return each pair of labels that find each other once, with its resemblance if wanted.

        >>> corpus = Corpus([(1, "x y"), (2, "X Y"), (3, "y x")], n_gram=2)
        >>> corpus.edge_list(), corpus.edge_list(jaccard_weighted=True)
        ([(1, 2)], [(1, 2, 1.0)])
        """
        self._check(min_jaccard, sensitivity)
        weighted: list[tuple[L, L, float]] = [
            (label, self._labels[other], value)
            for label, row in self._rows.items()
            for other, value in self._table.similar_to_row(row, min_jaccard, sensitivity, after=row)
        ]
        if jaccard_weighted:
            return weighted
        return [(one, other) for one, other, _ in weighted]

    def _sign(self, texts: Iterable[str]) -> tuple[Words, Words]:
        """Return the band keys, uint64[n, bands], and the sketches of texts."""
        if self._of_characters:
            texts = map(characters_as_words, texts)
        bodies = [text.encode(errors="replace") for text in texts]
        signed = self._signer.sign(bodies, [0] * len(bodies))
        return _band_keys(signed), signed.sketches

    def _row_for(self, label: L) -> int:
        """Return the row for a label's text: its own, out of its buckets, or a new one."""
        row = self._rows.get(label)
        if row is not None:
            self._table.unlink(row)
            return row
        row = self._rows[label] = self._table.new_row()
        self._labels[row] = label
        return row

    def _known(self, label: L) -> int:
        try:
            return self._rows[label]
        except KeyError:
            raise UnknownLabel(
                f"No text has the label {label!r}; add it by `update` first."
            ) from None

    def _check(self, min_jaccard: float, sensitivity: int) -> None:
        if not 0 <= min_jaccard <= 1:
            raise SettingsError(f"min_jaccard is from 0 to 1, not {min_jaccard!r}.")
        if not 1 <= sensitivity <= self.bands:
            raise SettingsError(
                f"sensitivity is from 1 to the number of bands ({self.bands}), not {sensitivity!r}."
            )
