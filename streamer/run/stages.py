"""The stage functions: the same for files and for Kafka, called a batch at a time.

    parse (parse.py)  records    -> PageBatch     fields and bodies, dead letters, skips
    sign              PageBatch  -> Pages         signatures, with what a verdict needs
    apply (shard.py)  Pages      -> outputs       verdicts, pages and decisions for other shards
    verdict_lines     Verdicts   -> bytes         one JSON document a verdict

None of them does I/O or knows where a batch came from but for the number of its source.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np

from streamer.index.rule import BASIS_NAMES
from streamer.index.types import Pages, Verdicts
from streamer.model import (
    SEQUENCE_BITS,
    SIMILARITY_ONE,
    DeadLetter,
    Decision,
    Location,
    Representative,
    SignedText,
    Verdict,
)
from streamer.pages.chunk import PageBatch, Rejected
from streamer.sketch.signer import PageSigner

Locate = Callable[[int], Location]

_encoder = msgspec.json.Encoder()
_SIMILARITIES = [i / SIMILARITY_ONE for i in range(SIMILARITY_ONE + 1)]
_NOTHING: dict[str, Any] = {}


def sign(signer: PageSigner, source: int, batch: PageBatch) -> Pages:
    """Sign the pages of a batch of source number `source`."""
    refs = np.array(batch.sequences, np.uint64) | np.uint64(source << SEQUENCE_BITS)
    signed = signer.sign(batch.bodies, batch.flags)
    times = np.array(batch.times, np.int64)
    return Pages(
        refs, signed.keys, signed.sketches, signed.distinct, signed.tokens, signed.text_bytes,
        batch.urls, batch.keys, batch.carried, times, times, signed.main,
    )  # fmt: skip


def _texts(main: list[bool]) -> list[Any]:
    return [SignedText.MAIN if each else SignedText.VISIBLE for each in main]


def verdicts(block: Verdicts, locate: Locate, fingerprint: str) -> Iterator[Verdict]:
    """Yield the verdicts of a block; `locate` turns a page ref into a place."""
    pages = block.pages
    texts = [msgspec.UNSET] * len(pages) if pages.main is None else _texts(pages.main.tolist())
    columns = zip(
        pages.refs.tolist(),
        pages.urls,
        pages.text_bytes.tolist(),
        pages.carried,
        block.similarities.tolist(),
        block.basis.tolist(),
        block.representative_refs.tolist(),
        block.representative_urls,
        block.others or [None] * len(pages),
        texts,
        strict=True,
    )
    for (
        ref, url, text_bytes, carried, similarity, basis, other_ref, other_url, elsewhere, text,
    ) in columns:  # fmt: skip
        fields: Any = msgspec.Raw(carried) if carried else _NOTHING
        if similarity < 0:
            yield Verdict(
                locate(ref), url.decode(), Decision.UNIQUE, BASIS_NAMES[basis], None, None, False,
                text_bytes, fingerprint, fields, text,
            )  # fmt: skip
        else:
            other = (
                Representative(locate(other_ref), other_url.decode())
                if elsewhere is None
                else Representative(
                    elsewhere.locate(other_ref), other_url.decode(), elsewhere.corpus.name
                )
            )
            yield Verdict(
                locate(ref), url.decode(), Decision.DUPLICATE, BASIS_NAMES[basis],
                _SIMILARITIES[similarity], other, url == other_url,
                text_bytes, fingerprint, fields, text,
            )  # fmt: skip


def verdict_lines(block: Verdicts, locate: Locate, fingerprint: str) -> bytes:
    """Return the verdicts of a block as JSON lines; equal verdicts give equal bytes."""
    return _encoder.encode_lines(list(verdicts(block, locate, fingerprint)))


def dead_letter(rejected: Rejected, location: Location) -> DeadLetter:
    """Return the dead letter for a rejected record."""
    key = rejected.key
    return DeadLetter(
        location,
        rejected.code,
        rejected.detail,
        None if key is None else base64.b64encode(key).decode(),
        base64.b64encode(rejected.value).decode(),
        rejected.value_bytes,
        truncated=len(rejected.value) < rejected.value_bytes,
    )


def dead_letter_lines(letters: list[DeadLetter]) -> bytes:
    """Return dead letters as JSON lines."""
    return _encoder.encode_lines(letters)
