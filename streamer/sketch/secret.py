"""The secret that keys every hash, and what is derived from it.

Whoever knows the hash functions can build pages that look like someone else's page to us and have
it suppressed. So all randomness of a signature comes from 32 secret bytes: the seeds of the token,
content and band hashes, the multiplier of the shingle hash, the rounds of min-hashes, and,
independent of these, the hash of the resemblance sketch. Only the secret's id is ever stored in an
index.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamer.errors import SettingsError

SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class HashKeys:
    """The parameters of all hash functions of a signature.

    Attributes:
        id: 16 hexadecimal digits that name the secret without telling it.
        token_seed, content_seed, band_seed: seeds of 32 bits.
        content_step: odd, what a token's place in its text is multiplied by.
        shingle_powers: uint64[width], odd multiplier to the powers width-1 .. 0.
        round_masks: uint64[2 * hashes], of the further rounds of min-hashes (minhash.py).
        sketch_mask: XORed to a shingle's hash before the sketch's own finaliser.
    """

    id: str
    token_seed: int
    content_seed: int
    content_step: int
    band_seed: int
    shingle_powers: npt.NDArray[np.uint64]
    round_masks: npt.NDArray[np.uint64]
    sketch_mask: int


def derive_keys(secret: bytes, width: int, hashes: int) -> HashKeys:
    """Derive the parameters for shingles of `width` tokens and `hashes` min-hashes."""

    def stream(purpose: str, words: int) -> npt.NDArray[np.uint32]:
        material = hashlib.shake_256(purpose.encode() + b"\0" + secret).digest(4 * words)
        return np.frombuffer(material, "<u4").copy()

    seeds = stream("seeds", 3)
    base = int.from_bytes(stream("shingle", 2).tobytes(), "little") | 1
    powers = [pow(base, width - 1 - i, 1 << 64) for i in range(width)]
    return HashKeys(
        id=stream("id", 2).tobytes().hex(),
        token_seed=int(seeds[0]),
        content_seed=int(seeds[1]),
        content_step=int.from_bytes(stream("content", 2).tobytes(), "little") | 1,
        band_seed=int(seeds[2]),
        shingle_powers=np.array(powers, np.uint64),
        round_masks=stream("rounds", 4 * hashes).view(np.uint64),
        sketch_mask=int.from_bytes(stream("sketch", 2).tobytes(), "little"),
    )


def read_secret(path: Path) -> bytes:
    """Return the secret in a key file: 64 hexadecimal digits.

    Raises:
        SettingsError: the file cannot be read or holds something else.
    """
    try:
        text = path.read_text(encoding="ascii").strip()
        secret = bytes.fromhex(text)
    except (OSError, ValueError) as error:
        raise SettingsError(f"Cannot use the key file {path}: {error}. {_REMEDY}") from error
    if len(secret) != SECRET_BYTES:
        raise SettingsError(
            f"The key file {path} holds {len(secret)} bytes, not {SECRET_BYTES}. {_REMEDY}"
        )
    return secret


_REMEDY = "It must hold 64 hexadecimal digits; `openssl rand -hex 32` makes such a file."


def create_secret(path: Path) -> bytes:
    """Write a new random secret to `path`, readable by its owner only, and return it.

    Raises:
        FileExistsError: there is a file already; a secret is never overwritten.
    """
    secret = secrets.token_bytes(SECRET_BYTES)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(secret.hex() + "\n")
        file.flush()
        os.fsync(file.fileno())
    return secret
