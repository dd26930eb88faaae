"""What shapes a signature, and its fingerprint: two pages compare only under the same.

The native method is described by its three numbers alone. Of any other (scheme.py makes these
settings) all parameters are written out, so that a default that changes later is not mistaken for
the old one.

Whoever knows the hash functions can build pages that look like someone else's page to us and have
it suppressed. So all randomness of a signature comes from 32 secret bytes: the seeds of the token,
content and band hashes, the multiplier of the shingle hash, the rounds of min-hashes, and,
independent of these, the hash of the resemblance sketch. Only the secret's id is ever stored in an
index.
"""

# With the published seed of a well-known library, pages were built whose estimated resemblance to a
# victim was 1.00; the true one was .01 to .06. Verdicts leak the key too: a sketch looks at some
# shingles only, and verdicts on one's own pages reveal which. 10,000 queries about one victim are
# enough to suppress it. Rounding the similarity would only slow this down.

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from streamer.errors import SettingsError, on_failure
from streamer.given_file import read_given
from streamer.rules import BETWEEN, MAIN, VISIBLE, Text
from streamer.sketch.method import Measure
from streamer.sketch.resemblance import BINS
from streamer.text.canonical import UNICODE
from streamer.text.canonical import VERSION as CANONICAL_VERSION
from streamer.text.main_text import MODEL, SITE_MODEL, Model, read_model

SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class HashSeeds:
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


def derive_seeds(secret: bytes, width: int, hashes: int) -> HashSeeds:
    """Derive the parameters for shingles of `width` tokens and `hashes` min-hashes."""

    def stream(purpose: str, words: int) -> npt.NDArray[np.uint32]:
        material = hashlib.shake_256(purpose.encode() + b"\0" + secret).digest(4 * words)
        return np.frombuffer(material, "<u4").copy()

    seeds = stream("seeds", 3)
    base = int.from_bytes(stream("shingle", 2).tobytes(), "little") | 1
    powers = [pow(base, width - 1 - i, 1 << 64) for i in range(width)]
    return HashSeeds(
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
    """Return the secret in a key file: 64 hexadecimal digits; warn where all users may read it.

    Raises:
        SettingsError: the file cannot be read or holds something else.
    """
    try:
        text = read_given(path).decode("ascii").strip()
        secret = bytes.fromhex(text)
        is_open = path.stat().st_mode & stat.S_IROTH
    except (OSError, ValueError) as error:
        raise SettingsError(f"Cannot use the key file {path}: {error}. {_REMEDY}") from error
    if len(secret) != SECRET_BYTES:
        raise SettingsError(
            f"The key file {path} holds {len(secret)} bytes, not {SECRET_BYTES}. {_REMEDY}"
        )
    if is_open:
        warnings.warn(
            f"All users may read the key file {path}, and build pages with it that pass for "
            "others. Run chmod 600 on it.",
            stacklevel=1,  # wherever it is read, so that Python shows it once
        )
    return secret


_REMEDY = "It must hold 64 hexadecimal digits; `openssl rand -hex 32 > FILE` makes one."


def create_secret(path: Path) -> bytes:
    """Write a new random secret to `path`, readable by its owner only, and return it.

    Raises:
        FileExistsError: there is a file already; a secret is never overwritten.
    """
    secret = secrets.token_bytes(SECRET_BYTES)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    # A half of it would pass for the key that an index has lost.
    with on_failure(path.unlink), os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(secret.hex() + "\n")
        file.flush()
        os.fsync(file.fileno())
    return secret


SKETCH_VERSION = 2  # of the hashes' definitions in this package
METHODS_VERSION = 3  # of the definitions in sketch/methods/
NATIVE = "minhash"
MAIN_TEXT = ("text=main",)  # the one option of canonical form that the native signer has as well
HOST = "host"  # the scope that a URL has; other names are those of fields
WORDS = "words"  # bags of words, which the native signer has as well
MIN_SHINGLES = 5  # distinct ones; fewer say little about a page


class SignatureSettings(BaseModel):
    """The parameters of signatures; the defaults find 98.6 % of pairs at resemblance 0.8.

    Of a method that is not the native one, `options` are the parameters that were given, and
    `parameters` all of them with their values (of a file its fingerprint); `canonical` are the
    options of canonical form that are not the defaults. All are `name=value`, ascending.

    Attributes:
        shingle_width: tokens a shingle; bands: band keys a page; rows: min-hashes a band.
        method, accept: what makes the keys, and the sketch; empty: the same.
        text_rules: whose pages give another text.
        scope: which field has the scopes of pages; empty: there is one.
        measure: how sketches compare.
        site_memory: bytes of the table of what sites repeat; 0: there is none.
        exact: whether sets of shingles are kept as well.
        threshold, min_shingles: of duplicates, and of pages to compare, unless the user says.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    shingle_width: int = Field(default=5, ge=1, le=32)
    bands: int = Field(default=14, ge=1, le=64)
    rows: int = Field(default=6, ge=1, le=32)
    method: str = NATIVE
    accept: str = ""
    options: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    canonical: tuple[str, ...] = ()
    text_rules: tuple[str, ...] = ()
    scope: str = ""
    measure: Measure = Measure.RESEMBLANCE
    site_memory: int = Field(default=0, ge=0)
    exact: bool = False
    threshold: float = 0.8
    min_shingles: int = MIN_SHINGLES

    @property
    def hashes(self) -> int:
        """Return the number of min-hashes: bands x rows."""
        return self.bands * self.rows

    @property
    def is_native(self) -> bool:
        """Return whether the native signer computes these signatures."""
        return self.method == NATIVE and not self.accept and self.canonical in {(), MAIN_TEXT}

    @property
    def are_native_bags(self) -> bool:
        """Return whether the native signer computes these signatures, of bags of words."""
        return self.method == WORDS and not self.accept and self.canonical in {(), MAIN_TEXT}

    @property
    def takes_main_text(self) -> bool:
        """Return whether the main text of HTML is signed, of all pages or by a rule of some."""
        asked = (rule.endswith(f" {MAIN}") for rule in self.text_rules)
        return MAIN_TEXT[0] in self.canonical or any(asked)

    @property
    def model(self) -> Model:
        """Return the model that finds main text."""
        return read_model(SITE_MODEL if self.site_memory else MODEL)

    @property
    def text(self) -> Text:
        """Return what of HTML is signed where no rule says otherwise."""
        return MAIN if MAIN_TEXT[0] in self.canonical else VISIBLE

    def of_text(self, text: Text | None) -> SignatureSettings:
        """Return the settings for pages of which this text is signed; None: the one of most."""
        others = {each for each in self.canonical if each not in MAIN_TEXT}
        own = {*others, *(MAIN_TEXT if (text or self.text) == MAIN else ())}
        return self.model_copy(update={"canonical": tuple(sorted(own)), "text_rules": ()})

    def identity(self) -> dict[str, str | int]:
        """Return what two indexes must have in common, by name."""
        numbers = {"bands": self.bands, "rows": self.rows, "shingle_width": self.shingle_width}
        result: dict[str, str | int] = dict(numbers)
        if not self.is_native:
            result = {"method": self.method, "accept": self.accept}
            result |= numbers if self.method == NATIVE else {"bands": self.bands}
        for kind, pairs in (("option", self.parameters), ("canonical", self.canonical)):
            for pair in pairs:
                name, _, value = pair.partition("=")
                result[f"{kind}.{name}"] = value
        more: dict[str, str | int] = {
            "exact": "yes" if self.exact else "",
            "scope": self.scope,
            "site_memory": self.site_memory,
            "text_rules": BETWEEN.join(self.text_rules),
        }
        return result | {name: value for name, value in more.items() if value}

    def fingerprint(self, key_id: str) -> str:
        """Return 16 hexadecimal digits over everything that changes a signature."""
        parts = {
            **self.identity(),
            "bins": BINS,
            "canonical": CANONICAL_VERSION,
            "key": key_id,
            "sketch": SKETCH_VERSION,
            "unicode": UNICODE,
        }
        if not self.is_native:
            parts["methods"] = METHODS_VERSION
        if self.takes_main_text:
            parts["main_text"] = self.model.digest
        text = json.dumps(parts, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
