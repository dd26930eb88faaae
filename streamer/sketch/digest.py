"""Seeds and digests of methods that sign strings, all under the index's secret.

A key leads to candidates and may be of any hash, also a weak one of the older literature. What
decides is the digest: 256 bits of keyed BLAKE2b, so that two equal ones are of the same string.
"""

from __future__ import annotations

import hashlib
from typing import Annotated

from pydantic import AfterValidator

from streamer.model import SIMILARITY_ONE
from streamer.sketch.hash_functions import HASHES

DIGEST_SLOTS = 4  # of 64 bits


def _known_hash(name: str) -> str:
    if name not in HASHES:
        raise ValueError(f"there is no hash {name!r}; there are {', '.join(HASHES)}")
    return name


HashName = Annotated[str, AfterValidator(_known_hash)]


def seed_of(secret: bytes, purpose: str) -> int:
    """Return a seed of 64 bits for one purpose, independent of those for others."""
    digest = hashlib.blake2b(purpose.encode(), key=secret, digest_size=8).digest()
    return int.from_bytes(digest, "little")


def digest_of(text: str, secret: bytes, purpose: str) -> int:
    """Return 256 bits of a string, under the secret and for one purpose."""
    person = hashlib.blake2b(purpose.encode(), digest_size=16).digest()
    keyed = hashlib.blake2b(text.encode(errors="surrogatepass"), key=secret, person=person)
    return int.from_bytes(keyed.digest()[:32], "little")


def slots_of(digest: int, count: int = DIGEST_SLOTS) -> list[int]:
    """Return the lowest `count` parts of 64 bits of a digest, lowest first."""
    return [digest >> 64 * place & 0xFFFFFFFFFFFFFFFF for place in range(count)]


def share_of(part: int, whole: int) -> float:
    """Return part / whole as sketches compare: in whole ten-thousandths, rounded down."""
    return SIMILARITY_ONE * part // whole / SIMILARITY_ONE
