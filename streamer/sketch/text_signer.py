"""Signatures of texts, for who wants to compare or store them without an index."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from streamer.errors import SettingsError
from streamer.model import SIMILARITY_ONE
from streamer.sketch.resemblance import similarity
from streamer.sketch.settings import SECRET_BYTES, SignatureSettings, read_secret
from streamer.sketch.signer import NativeSigner
from streamer.text.visible import HTML
from streamer.wrong_values import why_wrong


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """What is kept of a text to compare it: band keys, and a sketch.

    Attributes:
        keys: uint64[bands + 1], the band keys, then the key of the whole content. Texts that share
            one are worth comparing; a store of one's own can have them as its index.
        sketch: uint64[33], see sketch/resemblance.py.
        shingles: distinct ones, counted up to 32; fewer than five say little about a text.
    """

    keys: npt.NDArray[np.uint64]
    sketch: npt.NDArray[np.uint64]
    shingles: int

    def similarity(self, other: Signature) -> float:
        """Return the estimated resemblance of two texts in [0, 1]: the share of shingles in common.

        Both are of signers with the same key and shingle width; else the result means nothing. Of
        texts without a shingle, it is 1 or 0: whether their words are the same.
        """
        if not self.shingles and not other.shingles:
            return float(self.keys[-1] == other.keys[-1])
        return int(similarity(self.sketch, other.sketch)) / SIMILARITY_ONE

    def shares_key(self, other: Signature) -> bool:
        """Return whether the two would be compared in an index."""
        return bool((self.keys == other.keys).any())


class Signer:
    """Sign texts: `a, b = Signer(key=key).sign([text, other]); a.similarity(b)`.

    `key` is 32 secret bytes that all hashes depend on, or their 64 hexadecimal digits, as `openssl
    rand -hex 32` prints them; `key_file` names a file with these digits. Without either a random
    key is made, and signatures of two signers do not compare. Any thread may sign; threads take
    turns.

    Raises:
        SettingsError: a value cannot be used; the message names it, and shows no key.
    """

    def __init__(
        self,
        *,
        bands: int = 14,
        rows: int = 6,
        shingle_width: int = 5,
        key: bytes | str | None = None,
        key_file: str | os.PathLike[str] | None = None,
    ) -> None:
        secret = _secret(key, key_file)
        try:
            settings = SignatureSettings(bands=bands, rows=rows, shingle_width=shingle_width)
        except ValidationError as error:
            first = error.errors()[0]
            raise SettingsError(
                f"{first['loc'][0]} = {first['input']!r} cannot be used: {why_wrong(first)}."
            ) from None
        self._signer = NativeSigner(settings, secret)
        self._lock = threading.Lock()

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied, so that no pickle holds the key.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            "A Signer cannot be pickled or copied, since it has the key. Make one in each process, "
            "with the same key or key_file."
        )

    def sign(self, texts: Iterable[str], *, html: bool = False) -> list[Signature]:
        """Return the signatures of texts, in their order; of HTML the visible text is signed.

        Raises:
            TypeError: it is one text, whose characters would be signed.
        """
        if isinstance(texts, str):
            raise TypeError("Give a list of texts, not one text.")
        bodies = [text.encode(errors="surrogatepass") for text in texts]
        with self._lock:
            signed = self._signer.sign(bodies, [HTML if html else 0] * len(bodies))
        columns = signed.keys, signed.sketches, signed.distinct.tolist()
        return [Signature(*each) for each in zip(*columns, strict=True)]


def _secret(key: bytes | str | None, key_file: str | os.PathLike[str] | None) -> bytes:
    if key is None:
        return read_secret(Path(key_file)) if key_file else secrets.token_bytes(SECRET_BYTES)
    if key_file is not None:
        raise SettingsError("Give key or key_file, not both.")
    try:
        secret = bytes.fromhex(key) if isinstance(key, str) else bytes(key)
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES:
        kind = "characters" if isinstance(key, str) else "bytes"
        raise SettingsError(
            f"The key of {len(key)} {kind} cannot be used. It must be {SECRET_BYTES} bytes, or a "
            f"text of {2 * SECRET_BYTES} hexadecimal digits."
        )
    return secret
