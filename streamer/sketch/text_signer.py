"""Texts to band keys and sketches, for callers who have strings and no pages.

Shingles are of words, or of characters: the native kernel then gets each character as a word of its
own. The seed stands in place of an index's secret: equal seeds, equal signatures.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from streamer.errors import SettingsError
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import Signatures, Signer

Words = npt.NDArray[np.uint64]
_WHITE_SPACE = re.compile(r"\s+")


class TextSigner:
    """Sign texts by the native method; one instance a thread."""

    def __init__(
        self,
        n_gram: int,
        n_gram_type: Literal["word", "character"],
        permutations: int,
        bands: int,
        seed: int,
    ) -> None:
        """Take the parameters as `Corpus` explains them.

        Raises:
            SettingsError: one of these cannot be as given.
        """
        if n_gram_type not in {"word", "character"}:
            raise SettingsError(f"n_gram_type is word or character, not {n_gram_type!r}.")
        settings = _signature_settings(n_gram, permutations, bands)
        self._of_characters = n_gram_type == "character"
        self._signer = Signer(settings, hashlib.sha256(str(seed).encode()).digest())

    def sign(self, texts: Iterable[str]) -> tuple[Words, Words]:
        """Return the band keys, uint64[n, bands], and the sketches of texts."""
        if self._of_characters:
            texts = map(characters_as_words, texts)
        bodies = [text.encode(errors="replace") for text in texts]
        signed = self._signer.sign(bodies, [0] * len(bodies))
        return _band_keys(signed), signed.sketches


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
        raise SettingsError(f"{name} = {first['input']!r} cannot be: {first['msg']}.") from error


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
