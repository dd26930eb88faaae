"""Compiling the kernels ahead: those of a new version take half a minute, once a machine.

Whoever must answer soon, a worker that joins a group, does this before.
"""

from __future__ import annotations

import numpy as np

from streamer.index.filter import KeyFilter
from streamer.index.lookup import NO_HITS, FlushedRows, Hits, KeptRows, Keys
from streamer.index.postings import block_starts, joined_blocks, search_blocks, split_blocks
from streamer.index.records import CONFIG, Record, source_name
from streamer.index.row_blocks import PADDING, RowPlaces, gather_marks, gather_rows, pack_rows
from streamer.index.settings import IndexSettings
from streamer.index.shard import Shard
from streamer.sketch.compact import SKETCH_WORDS
from streamer.sketch.method_signer import make_signer
from streamer.sketch.settings import SignatureSettings
from streamer.stream.batch import ESCAPED, HTML, PageBatch
from streamer.stream.stages import sign

NATIVE_SIGNATURE = SignatureSettings()


class _Nothing:
    """The look-ups of an index with no runs."""

    def find(self, keys: Keys) -> Hits:
        """Find nothing, by way of the kernels that would."""
        key_filter = KeyFilter(len(keys))
        key_filter.add(keys.reshape(-1)[:0])
        key_filter.places(keys.reshape(-1))
        empty = np.empty(0, np.int64)
        data, limits = joined_blocks([])  # read-only, as what the store gives
        search_blocks(data, limits, keys[:0, 0].copy(), empty, empty)
        split_blocks(data, limits, keys[:0, 0].copy(), np.empty(0, np.uint32))
        return NO_HITS

    def rows(self, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> KeptRows:
        """Return no rows."""
        return KeptRows(np.empty((len(rows), SKETCH_WORDS), np.uint64), [], [])


def warm_kernels(signature: SignatureSettings = NATIVE_SIGNATURE) -> None:
    """Compile every kernel on the way of a page, or load it from the cache."""
    batch = PageBatch(
        0, 1, [0], [None], ["u"], [b"<p>a b c d e f g h i j k l m n"], [ESCAPED | HTML], [b""]
    )
    pages = sign(make_signer(signature, bytes(32)), 0, batch)
    shard = Shard(0, 1, signature.bands, _Nothing())
    shard.apply(Record(CONFIG, 0, 1, np.array([0]), IndexSettings()))
    shard.apply(Record(source_name(0), 0, 1, np.array([0]), pages))
    flushed = shard.snapshot()
    block_starts(flushed.posting_keys, 1)
    _warm_rows(flushed)
    shard.flushed()


def _warm_rows(flushed: FlushedRows) -> None:
    """Compile what writes and reads kept rows: the first flush must not wait for it."""
    (block,) = pack_rows(flushed.refs, flushed.sketches, flushed.marks, flushed.urls)
    zero, one = np.zeros(1, np.int64), np.ones(1, np.int64)
    data, _ = joined_blocks([block, PADDING])
    places = RowPlaces(data, zero, one, one * flushed.marks.shape[1], zero)
    gather_marks(places, flushed.marks.shape[1])
    gather_rows(places)
