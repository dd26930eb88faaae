"""Signing by any method: what the native signer does in one call, page by page in Python.

The native signer still counts and hashes the tokens of each page: equal content has an equal
content key under every method, and a page too short to compare is told in the same way. What it
calls distinct are here distinct words, or shingles where min-hashes make the keys.

A key that a page lacks is filled by a hash of its content key and the key's place: no page has it
but one of equal content, and those two meet under the content key anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from streamer.sketch.from_shingles import mixed
from streamer.sketch.method import ABSENT_KEY, MethodSignature, PageText, empty_sketch
from streamer.sketch.scheme import scheme_of
from streamer.sketch.settings import NATIVE, SignatureSettings
from streamer.sketch.signer import PageSigner, Signatures, Signer
from streamer.text.visible import Buffer

_SPREAD = 0x9E3779B97F4A7C15  # odd: the places of the filled keys differ


class MethodSigner:
    """Sign pages by the method of the settings; one instance a thread."""

    def __init__(self, settings: SignatureSettings, secret: bytes) -> None:
        self.settings = settings
        self._scheme = scheme_of(settings, secret)
        width = settings.shingle_width if settings.method == NATIVE else 1
        self._native = Signer(SignatureSettings(shingle_width=width, bands=1, rows=1), secret)

    def sign(self, bodies: Sequence[Buffer], flags: Sequence[int]) -> Signatures:
        """Sign `bodies` (UTF-8 as `flags` tell, see text/form.py); any bytes have a signature."""
        read_as = [self._scheme.canonical.marks(marks) for marks in flags]
        native = self._native.sign(bodies, read_as)
        keys = self._filled_keys(native.keys[:, -1])
        sketches = np.empty_like(native.sketches)
        for i, (body, marks) in enumerate(zip(bodies, flags, strict=True)):
            own, sketches[i] = self._sign(body, marks)
            _put_keys(own, keys[i, :-1])
        return replace(native, keys=keys, sketches=sketches)

    def _sign(self, body: Buffer, flags: int) -> MethodSignature:
        """Return the signature of one page; one without words has no key."""
        page = PageText.of_body(body, flags, self._scheme.canonical)
        return self._scheme.sign(page) if page.words else MethodSignature((), empty_sketch())

    def _filled_keys(self, content: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Return uint64[n, bands + 1]: keys that match no other page's, then the content keys."""
        bands = self.settings.bands
        places = np.arange(1, bands + 1, dtype=np.uint64) * np.uint64(_SPREAD)
        flat = mixed((content[:, np.newaxis] + places).ravel())
        return np.column_stack((flat.reshape(len(content), bands), content))


def _put_keys(own: Sequence[int], row: npt.NDArray[np.uint64]) -> None:
    """Write the keys that a page has; one that comes twice counts once."""
    assert len(own) <= len(row), (len(own), len(row))
    seen = {ABSENT_KEY}
    for place, key in enumerate(own):
        if key not in seen:
            seen.add(key)
            row[place] = key


def make_signer(settings: SignatureSettings, secret: bytes) -> PageSigner:
    """Return the signer of these settings: the native one where it is the native method."""
    if settings.is_native:
        return Signer(settings, secret)
    return MethodSigner(settings, secret)
