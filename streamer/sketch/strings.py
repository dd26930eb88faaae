"""The two moulds of methods that reduce a page to strings: equal strings, duplicate pages.

A string's hash is a key. Equal hashes are verified by comparing the strings, of which the sketch
keeps a digest: 256 bits of a single one, 64 bits of each of several. A page that lacks what a
string is made of has no key for it, and in its sketch the digest of all its words: that equals only
that of a page of the same words, which meets it under the content key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from pydantic import Field

from streamer.sketch.digest import HashName, digest_of, seed_of, slots_of
from streamer.sketch.hash_functions import hash64
from streamer.sketch.method import (
    ABSENT_KEY,
    Measure,
    Method,
    MethodSignature,
    PageText,
    Parameters,
)
from streamer.sketch.packers import pack_slots


class StringParameters(Parameters):
    """The parameters of each method of strings."""

    hash: HashName = Field(default="md5", description="hash of a string that gives its key")


S = TypeVar("S", bound=StringParameters)


class SeveralStrings(Method[S], Generic[S]):
    """A method of as many strings as it has bands, compared one by one by their numbers."""

    measure: ClassVar[Measure] = Measure.SLOTS

    def __init__(self, parameters: S, secret: bytes) -> None:
        super().__init__(parameters, secret)
        self._seeds = [seed_of(secret, f"{self.name} {band}") for band in range(self.bands)]

    def strings(self, page: PageText) -> Sequence[str]:
        """Return the strings of a page, empty where it lacks something; it may have fewer."""
        raise NotImplementedError

    def sign(self, page: PageText) -> MethodSignature:
        """Return a key for each string that is there, and a slot for each."""
        strings = self.strings(page) or [""]
        slots = [slots_of(self.digest(string, page))[0] for string in strings]
        return MethodSignature(self.keys(strings), pack_slots(slots))

    def keys(self, strings: Sequence[str]) -> list[int]:
        """Return the keys of strings, each under the seed of its number."""
        return [
            hash64(string.encode(), seed, self.parameters.hash) if string else ABSENT_KEY
            for string, seed in zip(strings, self._seeds, strict=False)  # a short page has fewer
        ]

    def digest(self, string: str, page: PageText) -> int:
        """Return 256 bits of a string, or of all words of a page that lacks it."""
        if string:
            return digest_of(string, self.secret, self.name)
        return digest_of(page.content, self.secret, f"{self.name} lacking")


class OneString(SeveralStrings[S], Generic[S]):
    """A method of a single string, of which the sketch holds 256 bits."""

    fixed_threshold: ClassVar[float] = 1.0

    @property
    def bands(self) -> int:
        """Return 1: the string's hash."""
        return 1

    def string(self, page: PageText) -> str:
        """Return the string of a page; empty if the page lacks what it is made of."""
        raise NotImplementedError

    def strings(self, page: PageText) -> Sequence[str]:
        """Return the single string."""
        return [self.string(page)]

    def sign(self, page: PageText) -> MethodSignature:
        """Return the key of the string, if it is there, and its digest."""
        string = self.string(page)
        return MethodSignature(self.keys([string]), pack_slots(slots_of(self.digest(string, page))))
