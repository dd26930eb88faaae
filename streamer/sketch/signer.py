"""A batch of bodies to signatures in one native call, without the interpreter between the steps.

For each page: undo JSON escapes, take the visible text, hash tokens, then shingles, and let these
lower the min-hashes and the sketch's bins. A page goes through in blocks of tokens, so scratch
memory depends on the longest body of a batch and on nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from streamer.kernel import kernel, uint64
from streamer.sketch.compact import (
    BINS,
    EMPTY_BIN,
    SKETCH_WORDS,
    pack_dense,
    pack_listed,
)
from streamer.sketch.few import FEW_MAX, SLOTS, add_distinct, may_be_few, sorted_members
from streamer.sketch.minhash import (
    EMPTY_MINIMUM,
    absorb_content,
    content_hash,
    fill_band_keys,
    lower_minima,
)
from streamer.sketch.resemblance import hash_for_sketch, lower_bins
from streamer.sketch.secret import HashKeys, derive_keys
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.shingles import count_distinct, hash_shingles
from streamer.text.canonical import canonical_table
from streamer.text.slices import Slices
from streamer.text.tokens import SPARE, hash_tokens
from streamer.text.visible import Buffer, scratch_bytes, visible_span

TOKENS_BLOCK = 4096
DISTINCT_MAX = 32  # enough for any sensible least number of shingles to compare


@dataclass(frozen=True, slots=True)
class Signatures:
    """The signatures of n pages.

    Attributes:
        keys: uint64[n, bands + 1], the band keys, then the content key.
        sketches: uint64[n, 33], see compact.py.
        distinct: uint8[n], distinct shingles, counted no further than DISTINCT_MAX.
        tokens: uint32[n], tokens of the visible text.
        text_bytes: int64[n], visible text in UTF-8 bytes.
    """

    keys: npt.NDArray[np.uint64]
    sketches: npt.NDArray[np.uint64]
    distinct: npt.NDArray[np.uint8]
    tokens: npt.NDArray[np.uint32]
    text_bytes: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.keys.shape[0])


@kernel
def _shift_tail(tokens: npt.NDArray[np.uint64], count: int, width: int) -> int:
    """Move the last width - 1 tokens to the front: the next block's shingles begin with them."""
    kept = min(count, width - 1)
    for i in range(kept):
        tokens[i] = tokens[count - kept + i]
    return kept


@kernel
def _sign_text(  # noqa: PLR0913 - a kernel takes its arrays one by one
    text: npt.NDArray[np.uint8],
    place: int,
    end: int,
    seeds: npt.NDArray[np.uint64],
    powers: npt.NDArray[np.uint64],
    multipliers: npt.NDArray[np.uint32],
    offsets: npt.NDArray[np.uint32],
    table: tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.uint8]],
    tokens: npt.NDArray[np.uint64],
    shingles: npt.NDArray[np.uint64],
    minima: npt.NDArray[np.uint32],
    bins: npt.NDArray[np.uint64],
    slots: npt.NDArray[np.uint64],
    seen: npt.NDArray[np.uint64],
    sketch: npt.NDArray[np.uint64],
) -> tuple[int, int, int]:
    """Lower `minima` by one text and write its sketch; return (content hash, tokens, distinct)."""
    content = np.zeros(4, np.uint64)
    content[:2] = uint64(seeds[1])
    minima[:] = np.uint32(EMPTY_MINIMUM)
    bins[:] = uint64(EMPTY_BIN)
    slots[:] = uint64(EMPTY_BIN)
    distinct = kept = members = 0
    more = few = True
    while more:
        place, count = hash_tokens(
            text, place, end, seeds[0], table[0], table[1], table[2], tokens, kept
        )
        more = place < end
        absorb_content(tokens, kept, count, content)
        found = hash_shingles(tokens, count, powers, shingles)
        distinct = count_distinct(shingles, found, seen, distinct)
        lower_minima(shingles, found, multipliers, offsets, minima)
        hash_for_sketch(shingles, found, seeds[3], shingles)
        lower_bins(shingles, found, bins)
        few = few and may_be_few(bins)
        if few:
            members = add_distinct(shingles, found, slots, members)
            few = members <= FEW_MAX
        kept = _shift_tail(tokens, count, powers.shape[0])
    if not few or not pack_listed(shingles, sorted_members(slots, shingles), sketch):
        pack_dense(bins, sketch)
    return content_hash(content), content[3], distinct


@kernel
def _sign_batch(  # noqa: PLR0913 - as _sign_text
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    flags: npt.NDArray[np.uint8],
    scratch: tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]],
    seeds: npt.NDArray[np.uint64],
    powers: npt.NDArray[np.uint64],
    multipliers: npt.NDArray[np.uint32],
    offsets: npt.NDArray[np.uint32],
    table: tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.uint8]],
    rows: int,
    keys: npt.NDArray[np.uint64],
    sketches: npt.NDArray[np.uint64],
    distinct: npt.NDArray[np.uint8],
    token_counts: npt.NDArray[np.uint32],
    text_bytes: npt.NDArray[np.int64],
) -> None:
    """Sign the bodies data[starts[i]:ends[i]] into the five result arrays."""
    bands = keys.shape[1] - 1
    tokens = np.empty(TOKENS_BLOCK + SPARE, np.uint64)
    shingles = np.empty(TOKENS_BLOCK + SPARE, np.uint64)
    minima = np.empty(multipliers.shape[0], np.uint32)
    bins = np.empty(BINS, np.uint64)
    slots = np.empty(SLOTS, np.uint64)
    seen = np.empty(DISTINCT_MAX, np.uint64)
    for i in range(flags.shape[0]):
        text, start, end = visible_span(data, starts[i], ends[i], flags[i], scratch[0], scratch[1])
        content, token_counts[i], distinct[i] = _sign_text(
            text, start, end, seeds, powers, multipliers, offsets, table,
            tokens, shingles, minima, bins, slots, seen, sketches[i],
        )  # fmt: skip
        fill_band_keys(minima, rows, seeds[2], keys[i, :bands])
        keys[i, bands] = content
        text_bytes[i] = end - start


class PageSigner(Protocol):
    """What signs pages, by whichever method; one instance a thread."""

    def sign(self, bodies: Sequence[Buffer], flags: Sequence[int]) -> Signatures:
        """Sign `bodies` (UTF-8 as `flags` tell, see text/form.py); any bytes have a signature."""


class Signer:
    """Sign pages under one secret and one set of settings; one instance a thread."""

    def __init__(self, settings: SignatureSettings, secret: bytes) -> None:
        self.settings = settings
        self._keys: HashKeys = derive_keys(secret, settings.shingle_width, settings.hashes)
        keys = self._keys
        seeds = (keys.token_seed, keys.content_seed, keys.band_seed, keys.sketch_mask)
        self._seeds = np.array(seeds, np.uint64)
        table = canonical_table()
        self._table = (table.entries, table.sequences, table.combining)
        self._scratch = (np.empty(1 << 16, np.uint8), np.empty(1 << 16, np.uint8))

    def sign(self, bodies: Sequence[Buffer], flags: Sequence[int]) -> Signatures:
        """Sign `bodies` (UTF-8 as `flags` tell, see text/form.py); any bytes have a signature."""
        texts = Slices.joined(bodies)
        self._grow(scratch_bytes(int(texts.lengths.max(initial=0))))
        pages, keys = len(bodies), self._keys
        result = Signatures(
            np.empty((pages, self.settings.bands + 1), np.uint64),
            np.empty((pages, SKETCH_WORDS), np.uint64),
            np.empty(pages, np.uint8),
            np.empty(pages, np.uint32),
            np.empty(pages, np.int64),
        )
        _sign_batch(
            texts.data, texts.starts, texts.ends, np.array(flags, np.uint8), self._scratch,
            self._seeds,
            keys.shingle_powers, keys.multipliers, keys.offsets, self._table,
            self.settings.rows, result.keys, result.sketches, result.distinct, result.tokens,
            result.text_bytes,
        )  # fmt: skip
        return result

    def _grow(self, size: int) -> None:
        """Fit the scratch to the longest body, and let go of what only a giant needed."""
        if not size <= len(self._scratch[0]) <= max(4 * size, 1 << 22):
            size = max(size, 1 << 16)
            self._scratch = (np.empty(size, np.uint8), np.empty(size, np.uint8))
