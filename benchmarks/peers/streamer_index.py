"""Streamer's detector with its index in a folder: look up, verify, insert, flush when it is due.

Signed pages come in batches, as in a replay, and each batch is looked up in the runs and judged in
the calling thread. Every candidate is verified by its sketch, and a page that is kept is flushed
and merged like any other; nothing of that is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streamer.index.settings import IndexSettings
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import Signer
from streamer.stream.batch import PageBatch
from streamer.stream.detector import Detector
from streamer.stream.index_folder import IndexFolder
from streamer.stream.stages import sign
from streamer.stream.warm import warm_kernels

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from streamer.index.records import Pages

SOURCE = 0


class StreamerIndex:
    """A new index in `folder`, under the default settings."""

    def __init__(self, folder: Path) -> None:
        warm_kernels()
        settings = IndexSettings()
        opened = IndexFolder.open(folder / "index", SignatureSettings(), settings.shards)
        self._detector = Detector(opened, settings)
        self._signer = Signer(SignatureSettings(), opened.secret)
        self._signed = self._judged = 0

    def sign(self, texts: Sequence[bytes]) -> Pages:
        """Return the texts as signed pages."""
        pages, begin = len(texts), self._signed
        self._signed = end = begin + pages
        batch = PageBatch(
            begin,
            end,
            sequences=list(range(begin, end)),
            keys=[None] * pages,
            urls=[b"https://site.example/%d" % number for number in range(begin, end)],
            bodies=list(texts),
            flags=[0] * pages,
            carried=[b""] * pages,
        )
        return sign(self._signer, SOURCE, batch)

    def judge(self, signed: Pages) -> int:
        """Look up, verify and insert a batch; begin a flush if that is due, as a replay does."""
        detector, begin = self._detector, self._judged
        self._judged = end = begin + len(signed)
        found = detector.look_up(signed)
        verdicts = detector.judge(SOURCE, begin, end, signed, found)
        if detector.flush_is_due:
            detector.begin_flush(lambda: b"")
        return sum(int(np.count_nonzero(block.similarities >= 0)) for block in verdicts)

    def settle(self) -> None:
        """Flush what is in the head."""
        self._detector.flush(b"")
