"""Streamer's own signer, its index and its stream of verdicts, as peers."""

from __future__ import annotations

import io
import tempfile
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from streamer.index.messages import IndexSettings
from streamer.pages.chunk import PageBatch
from streamer.run.index_folder import IndexFolder
from streamer.run.judge import replay_judge
from streamer.run.stages import sign
from streamer.run.warm import warm_kernels
from streamer.sketch.settings import SECRET_BYTES, SignatureSettings
from streamer.sketch.signer import NativeSigner, Signatures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamer.index.messages import Pages
    from streamer.index.ports import Found

BATCH_PAGES = 256  # a few hundred at a time, as the pipeline signs
SOURCE = 0
BATCHES_AHEAD = 4


class StreamerPeer:
    """One signer: 14 x 6 min-hashes as band keys, a content key, and the sketch."""

    def __init__(self) -> None:
        self._signer = NativeSigner(SignatureSettings(), bytes(32))

    def sign(self, texts: Sequence[bytes]) -> list[Signatures]:
        """Return the signatures of `texts`, a batch after the other."""
        return [
            self._signer.sign(batch, [0] * len(batch))  # flags 0: plain text, no JSON escapes
            for batch in (texts[i : i + BATCH_PAGES] for i in range(0, len(texts), BATCH_PAGES))
        ]


class StreamerIndex:
    """A new index in `folder`, under the default settings.

    Signed pages come in batches, as in a replay, and as there batches are looked up in the store
    some ahead of the judgement, in a thread next to it, and flushes are written in another. Every
    candidate is verified by its sketch, and a page that is kept is flushed like any other; nothing
    of that is left out.
    """

    def __init__(self, folder: Path) -> None:
        warm_kernels()
        settings = IndexSettings()
        opened = IndexFolder.open(folder / "index", SignatureSettings())
        self._judge = replay_judge(opened, settings)
        self._signer = NativeSigner(SignatureSettings(), opened.secret)
        self._ahead = ThreadPoolExecutor(1, "look-up")
        self._signed = self._judged = 0

    def sign(self, texts: Sequence[bytes]) -> Pages:
        """Return the texts as signed pages."""
        pages, begin = len(texts), self._signed
        self._signed = end = begin + pages
        batch = PageBatch(
            begin,
            end,
            sequences=list(range(begin, end)),
            message_keys=[None] * pages,
            urls=[b"https://site.example/%d" % number for number in range(begin, end)],
            bodies=list(texts),
            flags=[0] * pages,
            carried=[b""] * pages,
            times=[0] * pages,
        )
        return sign(self._signer, SOURCE, batch)

    def judge(self, batches: Sequence[Pages]) -> int:
        """Look up, verify and insert batches in order; return how many pages are duplicates."""
        waiting: deque[tuple[Pages, Future[Found]]] = deque()
        duplicates = 0
        for signed in batches:
            waiting.append((signed, self._ahead.submit(self._judge.shard.look_up, signed)))
            if len(waiting) > BATCHES_AHEAD:
                duplicates += self._judged_batch(*waiting.popleft())
        return duplicates + sum(self._judged_batch(*each) for each in waiting)

    def _judged_batch(self, signed: Pages, found: Future[Found]) -> int:
        """Verify and insert a batch; begin a flush if that is due, as a replay does."""
        judge, begin = self._judge, self._judged
        self._judged = end = begin + len(signed)
        verdicts = judge.judge(SOURCE, begin, end, signed, found.result())
        if judge.flush_is_due:
            judge.begin_flush(lambda: b"")
        return sum(int(np.count_nonzero(block.similarities >= 0)) for block in verdicts)

    def settle(self) -> None:
        """Flush what is in the memtable."""
        self._judge.flush(b"")


class StreamerStream:
    """The command `replay` under the default settings, and a key drawn from the seed."""

    def __init__(self) -> None:
        warm_kernels()  # else the first judgement would be timed with their compilation

    def judge(self, pages: Path, verdicts: Path, threshold: float, seed: int) -> float:
        """Write the verdicts of a file of pages; return the seconds from JSON lines to verdicts."""
        from streamer.cli.replay import replay  # noqa: PLC0415 - no part of the index' memory

        with tempfile.TemporaryDirectory() as scratch, redirect_stdout(io.StringIO()):
            key_file = Path(scratch) / "key"
            key_file.write_text(Random(seed).randbytes(SECRET_BYTES).hex(), encoding="ascii")
            begin = time.perf_counter()
            replay([str(pages)], verdicts=str(verdicts), threshold=threshold, key_file=key_file)
            return time.perf_counter() - begin
