"""Scopes of pages: tenants or sites, within which pages are compared.

With `--scope`, pages of two scopes share no key, so neither can find, name or displace the other. A
keyed hash of the scope is mixed into all keys of a page, those of its bands and of its content.
Nothing compares scopes later: not the index, its buckets and caps, nor its flushes.
The hash has the index's secret, or somebody who chooses the names of scopes could find two with one
hash. Mixing is a bijection, so within a scope nothing changes.
"""

# A comparison of scopes in the index would have to stand at each place that looks at candidates,
# and full buckets would still show what others publish. There is no scope `domain`: which names are
# domains changes with a list.

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from streamer.errors import StoreMismatch
from streamer.machine import uint64
from streamer.sketch.resemblance import hash_for_sketch
from streamer.sketch.signer import PageSigner, Signatures
from streamer.text.visible import Buffer

_HASHES_KEPT = 4096

Keys = npt.NDArray[np.uint64]


def keyed_hash(purpose: bytes, secret: bytes) -> Callable[[bytes], int]:
    """Return a hash of 64 bits under a secret, for one purpose; it remembers many."""
    key = hashlib.blake2b(purpose, key=secret, digest_size=32).digest()

    @lru_cache(_HASHES_KEPT)
    def hash_of(text: bytes) -> int:
        return int.from_bytes(hashlib.blake2b(text, key=key, digest_size=8).digest(), "big")

    return hash_of


class Scopes:
    """Keyed hashes of scopes; one instance a thread."""

    def __init__(self, secret: bytes) -> None:
        self.hash = keyed_hash(b"scope", secret)

    def mix(self, signed: Signatures, scopes: Sequence[bytes]) -> Signatures:
        """Return signatures with the scope of each page in its keys.

        Raises:
            StoreMismatch: not each page has a scope.
        """
        if len(scopes) != len(signed.keys):
            raise StoreMismatch(
                "The index compares pages by their scope (--scope), and a text alone has none. "
                "Ask for a page that it keeps, or for its verdict."
            )
        hashes = np.array([self.hash(scope) for scope in scopes], np.uint64)
        return signed._replace(keys=scope_keys(signed.keys, hashes))


class ScopedSigner:
    """Sign pages of which each has a scope; one instance a thread."""

    def __init__(self, signer: PageSigner, secret: bytes) -> None:
        self._signer = signer
        self._scopes = Scopes(secret)

    def sign(self, bodies: Sequence[Buffer], flags: Sequence[int]) -> Signatures:
        """Refuse to sign bodies without scopes, unless there is none.

        Raises:
            StoreMismatch: there are bodies.
        """
        return self.sign_in(bodies, flags, ())

    def sign_in(
        self, bodies: Sequence[Buffer], flags: Sequence[int], scopes: Sequence[bytes]
    ) -> Signatures:
        """Sign bodies as `PageSigner.sign`, each in its scope.

        Raises:
            StoreMismatch: not each body has a scope.
        """
        return self._scopes.mix(self._signer.sign(bodies, flags), scopes)


def scope_keys(keys: Keys, scopes: Keys) -> Keys:
    """Return uint64[n, m] keys of n pages, with the hash of each page's scope mixed in."""
    own = np.ascontiguousarray(keys ^ scopes[:, np.newaxis]).ravel()
    hash_for_sketch(own, len(own), uint64(0))
    return own.reshape(keys.shape)
