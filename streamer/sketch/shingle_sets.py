"""A text's shingles as the method of an index takes them, as plain text and without hashing."""

from __future__ import annotations

from dataclasses import dataclass

from streamer.sketch.method import PageText
from streamer.sketch.scheme import scheme_of
from streamer.sketch.secret import SECRET_BYTES
from streamer.sketch.settings import NATIVE, SignatureSettings
from streamer.sketch.shingled import ShingleParameters, Shingler
from streamer.sketch.word_shingles import shingles
from streamer.text.visible import Buffer
from streamer.text.words import CanonicalOptions


@dataclass(frozen=True)
class ShingleSets:
    """Shingles of `width` words, or of as many as `shingler` says, under a canonical form."""

    width: int
    canonical: CanonicalOptions
    shingler: Shingler | None

    def of(self, body: Buffer, flags: int) -> frozenset[str]:
        """Return the distinct shingles of a body, UTF-8 as `flags` tell."""
        page = PageText.of_body(body, flags, self.canonical)
        if self.shingler is not None:
            return frozenset(self.shingler.shingles(page))
        return frozenset(shingles(page.words, self.width))


def shingle_sets(settings: SignatureSettings) -> ShingleSets | None:
    """Return the shingles that decide under these settings; None if the method has no shingles.

    Raises:
        SettingsError: the settings need a file that is not there.
    """
    if settings.is_native:
        return ShingleSets(settings.shingle_width, CanonicalOptions(), None)
    scheme = scheme_of(settings, bytes(SECRET_BYTES))
    parameters = scheme.sketch.parameters
    if isinstance(parameters, ShingleParameters):
        shingler = Shingler(parameters, bytes(SECRET_BYTES))
        return ShingleSets(parameters.shingle_width, scheme.canonical, shingler)
    if scheme.sketch.name == NATIVE:
        return ShingleSets(parameters.shingle_width, scheme.canonical, None)
    return None
