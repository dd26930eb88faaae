"""The detector in one process: read, parse and sign ahead; judge in order; write.

One thread reads and judges; others parse and sign the next batches meanwhile, in native code
without the interpreter lock, and one writes what was judged. Batches come back in the order of
reading, so verdicts do not depend on the number of threads. With each flush of the index go the
positions in all sources and the lengths of all outputs: a run that ends in any way is taken up
where the last flush stands.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from streamer.index.place import BASIS_NAMES, TOO_SHORT
from streamer.index.prefetch import Found
from streamer.index.records import Pages, Verdicts
from streamer.model import page_ref
from streamer.sketch.signer import PageSigner
from streamer.stream.batch import PageBatch
from streamer.stream.catalogue import Catalogue, Totals, pack_catalogue
from streamer.stream.detector import Detector
from streamer.stream.outputs import OutputFile
from streamer.stream.parse import PageParser
from streamer.stream.reading import Chunk, ChunkRead, Input, SettingsChange, SourceEnd, Step
from streamer.stream.stages import dead_letter, dead_letter_lines, sign, verdict_lines

CHUNKS_AHEAD = 6  # of up to 8 MiB: what is signed while a flush keeps the judging thread
SIGNING_NICENESS = 5
BLOCKS_BEHIND = 32  # judged and not yet written

Prepared = tuple[PageBatch, Pages, Found]
Work = tuple[Step, Future[Prepared] | None]  # a step, and what becomes of its chunk
Progress = Callable[[int, int], None]  # amount read of all sources, records judged


@dataclass(slots=True)
class Outcome:
    """What a run did: its own totals, and how it ended."""

    totals: Totals = field(default_factory=Totals)
    seconds: float = 0.0
    interrupted: bool = False
    sources_done_before: int = 0


class Interrupted(BaseException):
    """Raised by `Replay.interrupt` out of a read that may never return."""


class Replay:
    """Run an input through a detector into output files.

    `interrupt` is for signal handlers: the run ends after the batch in hand, as if the input did.
    """

    def __init__(
        self,
        detector: Detector,
        catalogue: Catalogue,
        parser: PageParser,
        make_signer: Callable[[], PageSigner],
        fingerprint: str,
        threads: int,
    ) -> None:
        self._detector = detector
        self._catalogue = catalogue
        self._parser = parser
        self._make_signer = make_signer
        self._fingerprint = fingerprint
        self._threads = threads
        self._local = threading.local()
        self._outcome = Outcome()
        self._writing: deque[Future[None]] = deque()
        self._stop = False
        self._reading = False

    def interrupt(self) -> None:
        """Ask the run to end; to be called in the thread that runs it.

        Raises:
            Interrupted: the thread is reading, and might wait for input for ever.
        """
        self._stop = True
        if self._reading:
            raise Interrupted

    def run(
        self,
        pages: Input,
        verdicts: OutputFile,
        dead_letters: OutputFile | None,
        progress: Progress = lambda _bytes, _records: None,
    ) -> Outcome:
        """Judge all records of `pages` that have not been judged; return what was done.

        Raises:
            StreamerError: the input or the index cannot be used; everything up to the last flush
                stands, and the same command goes on from there.
        """
        started = time.perf_counter()
        pages.enter(self._catalogue)
        self._locate = self._catalogue.locator()
        outputs = [output for output in (verdicts, dead_letters) if output is not None]
        with (
            ThreadPoolExecutor(self._threads, "sign", initializer=_give_way) as pool,
            ThreadPoolExecutor(1, "write") as self._writer,
        ):
            self._flush(outputs)  # from here on the index knows its sources and outputs
            for step, result in self._ahead(pool, pages.steps()):
                self._take(step, result, verdicts, dead_letters)
                if not isinstance(step, SettingsChange):
                    progress(step.amount, self._outcome.totals.records)
                if self._detector.flush_is_due:
                    self._begin_flush(outputs)
            self._outcome.interrupted = self._stop
            self._outcome.sources_done_before = pages.sources_done_before
            self._flush(outputs)
        self._outcome.seconds = time.perf_counter() - started
        return self._outcome

    # ---- ahead of the judgement ------------------------------------------------------------------

    def _ahead(self, pool: ThreadPoolExecutor, steps: Iterator[Step]) -> Iterator[Work]:
        """Yield work in the order of reading, with some of it parsed and signed ahead."""
        waiting: deque[Work] = deque()
        while (step := self._next(steps)) is not None:
            result = None
            if isinstance(step, ChunkRead):
                result = pool.submit(self._prepare, step.source, step.chunk)
            waiting.append((step, result))
            if len(waiting) > CHUNKS_AHEAD:
                yield waiting.popleft()
        while waiting and not self._stop:
            yield waiting.popleft()
        for _, result in waiting:
            if result:
                result.cancel()

    def _next(self, steps: Iterator[Step]) -> Step | None:
        """Return what is read next; None at the end of all sources, or when the run shall end."""
        try:
            self._reading = not self._stop
            return None if self._stop else next(steps, None)
        except Interrupted:
            return None
        finally:
            self._reading = False

    def _prepare(self, number: int, chunk: Chunk) -> Prepared:
        """Parse, sign and look up a chunk, in a thread of the pool."""
        signer: PageSigner | None = getattr(self._local, "signer", None)
        if signer is None:
            signer = self._local.signer = self._make_signer()
        batch = chunk.parse(self._parser)
        pages = sign(signer, number, batch)
        batch.bodies = ()  # nothing needs them any more
        return batch, pages, self._detector.look_up(pages)

    # ---- judgement -------------------------------------------------------------------------------

    def _take(
        self,
        step: Step,
        result: Future[Prepared] | None,
        verdicts: OutputFile,
        dead_letters: OutputFile | None,
    ) -> None:
        if isinstance(step, SettingsChange):
            self._detector.configure(step.settings)
        elif isinstance(step, SourceEnd):
            self._catalogue.entries[step.source].finished = True
        else:
            assert result is not None, step
            self._judge(step.source, step.chunk, result.result(), verdicts, dead_letters)

    def _judge(
        self,
        source: int,
        chunk: Chunk,
        prepared: Prepared,
        verdicts: OutputFile,
        dead_letters: OutputFile | None,
    ) -> None:
        batch, pages, found = prepared
        if dead_letters is not None and batch.dead:
            letters = [
                dead_letter(d, self._locate(page_ref(source, d.sequence))) for d in batch.dead
            ]
            self._write(dead_letters, partial(dead_letter_lines, letters))
        for block in self._detector.judge(source, chunk.start, chunk.end, pages, found):
            lines = partial(verdict_lines, block, self._locate, self._fingerprint)
            self._write(verdicts, lines)
            _count_verdicts(block, self._catalogue.totals, self._outcome.totals)
        for totals in (self._catalogue.totals, self._outcome.totals):
            _count_batch(totals, batch)
        entry = self._catalogue.entries[source]
        entry.position = chunk.end
        entry.last_digest = chunk.last_digest()

    def _write(self, output: OutputFile, lines: Callable[[], bytes]) -> None:
        """Have lines made and written, after those before them; raise what failed of one before."""
        if len(self._writing) >= BLOCKS_BEHIND:
            self._writing.popleft().result()
        self._writing.append(self._writer.submit(lambda: output.write(lines())))

    def _begin_flush(self, outputs: Sequence[OutputFile]) -> None:
        """Have the outputs brought to the disk, then the index with their lengths."""
        state = self._catalogue.snapshot()
        lengths = self._writer.submit(_sync, outputs)  # after all that was judged until now

        def owner_state() -> bytes:
            for key, (length, digest) in lengths.result().items():
                state.outputs[key], state.digests[key] = length, digest
            return pack_catalogue(state)

        self._detector.begin_flush(owner_state)

    def _flush(self, outputs: Sequence[OutputFile]) -> None:
        """Bring everything to the disk, and see the end of it."""
        self._begin_flush(outputs)
        while self._writing:
            self._writing.popleft().result()
        self._detector.finish()


def _sync(outputs: Sequence[OutputFile]) -> dict[str, tuple[int, str]]:
    """Bring outputs to the disk; return the length of each and the digest of what it holds."""
    for output in outputs:
        output.sync()
    return {output.key: (output.length, output.digest()) for output in outputs}


def _give_way() -> None:
    """Let this thread come after the judging one, for which all wait, where a core is short."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), SIGNING_NICENESS)


def _count_verdicts(block: Verdicts, *each: Totals) -> None:
    duplicate = block.similarities >= 0
    found = np.bincount(block.basis[duplicate], minlength=len(BASIS_NAMES)).tolist()
    unique, too_short = len(block) - sum(found), int(np.count_nonzero(block.basis == TOO_SHORT))
    for totals in each:
        totals.unique += unique
        totals.too_short += too_short
        for name, count in zip(BASIS_NAMES, found, strict=True):
            if count:
                totals.duplicates[name] = totals.duplicates.get(name, 0) + count


def _count_batch(totals: Totals, batch: PageBatch) -> None:
    totals.records += len(batch) + len(batch.dead) + batch.skipped.total()  # offsets have gaps
    for rejected in batch.dead:
        totals.dead[rejected.code] = totals.dead.get(rejected.code, 0) + 1
    for code, count in batch.skipped.items():
        totals.skipped[code] = totals.skipped.get(code, 0) + count
