"""Everything in one process: read, parse and sign ahead; judge in order; write.

One thread reads and judges; others parse, sign and look up the next chunks meanwhile, in native
code without the interpreter lock, and one writes what was judged. Chunks come back in the order of
reading, so verdicts do not depend on the number of threads. With each flush of the index go the
positions in all sources and the lengths of all outputs: a run that ends in any way is taken up
where the last flush ended.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from streamer.errors import SettingsError
from streamer.index.messages import IndexSettings, Verdicts
from streamer.model import page_ref, split_ref
from streamer.pages.bytestream import Mark
from streamer.pages.chunk import Chunk, PageBatch
from streamer.run import stages
from streamer.run import totals as counts
from streamer.run.engine import Engine, Prepared
from streamer.run.first_records import FirstRecords
from streamer.run.judge import FILES
from streamer.run.kept_tables import text_reader
from streamer.run.known_archives import KnownArchives
from streamer.run.output_checks import is_table
from streamer.run.outputs import OutputFile
from streamer.run.page_outputs import PageOutputs, role_of
from streamer.run.reading import Checked, Forgotten, Input, InputReport, Pause, SourceEnd, Step
from streamer.run.revisits import Pairs, duplicate_records, originals_of, pairs_of
from streamer.run.small_files import Parsed, file_alone, gather_small_files, split_by_source
from streamer.run.verdict_files import has_near_columns, table_head, table_lines

BLOCKS_BEHIND = 32  # judged and not yet written,
PAGES_BEHIND = 8  # or so many, where they have the pages of chunks of up to 8 MiB
_NO_PAGE_OUTPUTS = PageOutputs({})
Progress = Callable[[int, int], None]  # amount read of all sources, records judged


@dataclass(slots=True)
class Outcome:
    """What a run did: its own totals, and how it ended.

    Attributes:
        examples: for each code of dead letters and skipped records, where the first one is.
        large_clusters: the largest shares first.
        shared_texts: of a few words, the most pages first.
        report: what is to be said of the sources.
        missing_fields: those to be carried that no page had.
        wrong_dates: pages dated too late to be believed.
    """

    totals: counts.Totals = field(default_factory=counts.Totals)
    seconds: float = 0.0
    interrupted: bool = False
    report: InputReport = field(default_factory=InputReport)
    examples: dict[str, str] = field(default_factory=dict)
    large_clusters: list[counts.LargeCluster] = field(default_factory=list)
    shared_texts: list[counts.SharedText] = field(default_factory=list)
    missing_fields: list[str] = field(default_factory=list)
    wrong_dates: int = 0


class Interrupted(BaseException):
    """Raised by `Replay.interrupt` out of a read that may never return."""


class Replay:
    """Run an input through an engine into output files.

    `interrupt` is for signal handlers: the run ends after the batch in hand, as if the input did.
    """

    def __init__(self, engine: Engine, threads: int, *, keep_going: bool = False) -> None:
        self._engine = engine
        self._judge, self._catalogue = engine.judge, engine.catalogue
        self._threads = threads
        mapping = engine.signing.parser.mapping
        self._mapping = mapping.id
        self._first = FirstRecords(mapping, keep_going=keep_going)
        self._archives = KnownArchives(engine.judge.store)
        self._clusters = counts.LargeClusters()  # is the writing thread's
        self._shared = counts.SharedTexts()  # so is this
        self._lost = counts.LostText()
        self.begun = False  # something of this run is in the index and the outputs
        self._outcome = Outcome()
        self._writing: deque[Future[None]] = deque()
        self._blocks_behind = BLOCKS_BEHIND
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
        page_outputs: PageOutputs = _NO_PAGE_OUTPUTS,
    ) -> Outcome:
        """Judge all records of `pages` that have not been judged; return what was done.

        `page_outputs` get the pages themselves, if there are any.

        Raises:
            StreamerError: the input or the index cannot be used; everything up to the last flush
                is kept, and the same command goes on from there.
        """
        started, dates_before = time.perf_counter(), self._wrong_dates()
        pages.enter(self._catalogue)
        steps = gather_small_files(pages.steps(), self._is_new_file)
        self._locate = self._catalogue.locator()
        self._verdicts, self._letters, self._page_outputs = verdicts, dead_letters, page_outputs
        self._outputs = [output for output in (verdicts, dead_letters) if output is not None]
        if page_outputs.with_text:
            signing = self._engine.signing
            signing.read_texts = text_reader(knows_sites=signing.sites is not None)
        for option, output in page_outputs.files.items():
            self._outputs.append(output)
            self._blocks_behind = PAGES_BEHIND
            self._catalogue.roles[output.key] = role_of(option, with_text=page_outputs.with_text)
        with (
            stages.signing_pool(self._threads) as self._pool,
            ThreadPoolExecutor(1, "write") as self._writer,
        ):
            try:
                self._handle_all(steps, progress)
            except SettingsError:
                if self.begun:
                    self._flush()  # what was judged before is kept
                raise
            self._outcome.interrupted = self._stop
            self._outcome.report = pages.report
            self._outcome.report.lost_text = self._lost.shares()
            self._outcome.missing_fields = self._engine.signing.parser.missing_fields()
            self._note_wrong_dates(dates_before)
            self._begin()
            self._flush(sweep=True)
            for source in range(len(self._catalogue.entries)):
                self._clusters.end(source, self._name_of(source))
            self._outcome.large_clusters = self._clusters.found
            self._outcome.shared_texts = self._shared.found()
        self._outcome.seconds = time.perf_counter() - started
        return self._outcome

    def flush_again(self) -> None:
        """Write the catalogue once more, after the run.

        Raises:
            StoreUnavailable: it cannot be written.
        """
        self._engine.begin_flush(partial(_sync, self._outputs, last=True))
        self._judge.finish()

    def _is_new_file(self, source: int) -> bool:
        entry = self._catalogue.entries[source]
        return entry.identity is not None and not entry.position

    def _begin(self) -> None:
        """Let the index know its sources and outputs, before anything is written to them."""
        if not self.begun:
            own, table = self._judge.shard.settings, self._verdicts
            if is_table(table.name):
                asked = own is not None and own.near_misses > 0
                self._near = has_near_columns(Path(table.name), table.length, asked=asked)
            for output in self._outputs:
                output.start()
            self._flush()
            self.begun = True
            if is_table(table.name) and not table.length:
                self._write(table, partial(table_head, near=self._near))

    # ---- ahead of the judgement ------------------------------------------------------------------

    def _take_until_stopped(self, steps: Iterator[Step]) -> Iterator[Step]:
        while (step := self._next(steps)) is not None:
            yield step

    def _submit(self, step: Step) -> Future[Prepared] | None:
        """Have a chunk parsed and signed by a thread of the pool."""
        if not isinstance(step, Chunk):
            return None
        return self._engine.signing.submit(self._pool, step, self._prepare)

    def _next(self, steps: Iterator[Step]) -> Step | None:
        """Return what is read next; None at the end of all sources, or when the run shall end."""
        try:
            self._reading = not self._stop
            return None if self._stop else next(steps, None)
        except Interrupted:
            return None
        finally:
            self._reading = False

    def _prepare(self, chunk: Chunk, turn: int) -> Prepared:
        """Parse, sign and look up a chunk, in a thread of the pool."""
        prepared = self._engine.prepare(chunk, turn)
        if prepared.texts:
            name = self._name_of(chunk.parts[0].source if chunk.parts else chunk.source)
            self._page_outputs.check_texts(chunk, prepared.pages.refs, name)
        if self._page_outputs.originals is not None:
            prepared = prepared._replace(originals=originals_of(chunk))
        return prepared

    # ---- judgement -------------------------------------------------------------------------------

    def _handle_all(self, steps: Iterator[Step], progress: Progress) -> None:
        reading = self._take_until_stopped(steps)
        steps_ahead = stages.in_order(reading, self._submit, stages.CHUNKS_AHEAD, _allow_at_pause)
        with closing(steps_ahead) as ahead:
            for step, result in ahead:
                if self._stop:
                    break
                if isinstance(step, Pause):
                    self._see_written(BLOCKS_BEHIND)
                    self._flush_if_due()
                    continue
                if not isinstance(step, Checked):
                    self._handle(step, result.result() if result else None)
                    self._flush_if_due()
                if isinstance(step, SourceEnd | Chunk | Checked):
                    progress(step.amount, self._outcome.totals.records)

    def _handle(self, step: Step, prepared: Prepared | None) -> None:
        parsed = split_by_source(prepared.chunk, prepared.batch) if prepared else []
        if parsed:
            self._check_first(parsed)
        self._begin()
        if prepared is not None:
            self._judge_chunk(prepared, parsed)
        elif isinstance(step, IndexSettings):
            self._judge.configure(step)
        elif isinstance(step, Forgotten):
            self._judge.forget(step.forget, step.number)
        elif isinstance(step, SourceEnd):
            self._finish(step.source, step.status)
            self._write_behind(partial(self._clusters.end, step.source, self._name_of(step.source)))

    def _check_first(self, parsed: Sequence[Parsed]) -> None:
        """Check the first records of a chunk's source; small files are checked as one."""
        first = next((own for own in parsed if own.dead), parsed[0])
        entry = self._catalogue.entries[first.source]
        pages = sum(own.pages for own in parsed)
        dead = [letter for own in parsed for letter in own.dead]
        self._first.check(entry.name, pages, dead, known=entry.mapping == self._mapping)

    def _finish(self, source: int, status: tuple[int, ...]) -> None:
        """Note that a source has ended."""
        entry = self._catalogue.to_change(source)
        entry.finished, entry.status = True, status

    def _judge_chunk(self, prepared: Prepared, parsed: Sequence[Parsed]) -> None:
        """Judge a chunk, have its lines written, and note the position in each source."""
        chunk, batch, pages, found = prepared.chunk, prepared.batch, prepared.pages, prepared.found
        is_next = self._engine.signing.is_next(prepared)
        assert is_next, "chunks are judged in the order of reading"
        if (first := next((own.source for own in parsed if own.pages), None)) is not None:
            self._page_outputs.check(chunk, self._name_of(first))
        self._archives.note(chunk.archives.values())
        if self._letters is not None and batch.dead:
            letters = [
                stages.dead_letter(each, self._locate(page_ref(own.source, each.sequence)))
                for own in parsed
                for each in own.dead
            ]
            self._write(self._letters, partial(stages.dead_letter_lines, letters))
        source, start, end, numbers = chunk.source, chunk.start, chunk.end, None
        if chunk.parts or not self._catalogue.entries[source].topic_id:
            source, (start, end, numbers) = FILES, self._judge.next_numbers(chunk, batch)
        each = self._catalogue.totals, self._outcome.totals
        counted = None if chunk.parts else chunk.source  # of a few pages there is no large cluster
        blocks = self._judge.judge(source, start, end, pages, found, numbers, chunk.tombstones)
        self._page_outputs.note_kept(prepared.originals, blocks)
        for block in blocks:
            self._write_block(counted, prepared, block)
            for one in each:
                one.add_verdicts(block)
        for one in each:
            one.add_batch(batch)
        self._note_examples(chunk, parsed, batch)
        for ref, lost in zip(pages.refs[: len(batch.lost)].tolist(), batch.lost, strict=True):
            self._lost.add(self._name_of(split_ref(ref)[0]), *lost)
        for own in parsed:
            self._note_read(own, chunk.heads)

    def _note_read(self, own: Parsed, heads: Sequence[Mark]) -> None:
        """Note in the catalogue what was judged of a source."""
        entry = self._catalogue.to_change(own.source)
        self._catalogue.note_order(own.source)
        if own.position:
            entry.position, entry.mark = own.position, own.mark
        if entry.identity is None:
            entry.heads += heads
        if own.pages or own.dead:
            entry.mapping = self._mapping
        if own.status is not None:
            self._finish(own.source, own.status)

    def _note_examples(self, chunk: Chunk, parsed: Sequence[Parsed], batch: PageBatch) -> None:
        """Remember where the first record of each code is."""
        examples = self._outcome.examples
        for own in parsed if batch.dead else ():
            for rejected in own.dead:
                if rejected.code not in examples:
                    at = f"record {rejected.sequence} of {self._name_of(own.source)}"
                    detail = f" ({rejected.detail})" if rejected.detail else ""
                    examples[rejected.code] = f"{at}{detail}"
        for number, own in enumerate(parsed):
            if batch.skipped.keys() <= examples.keys():
                return
            if own.skips:
                parser = self._engine.signing.parser
                found = parser.parse(file_alone(chunk, number)) if chunk.parts else batch
                where = f"{found.start} to {found.end - 1} of {self._name_of(own.source)}"
                for code in sorted(found.skipped.keys() - examples.keys()):
                    examples[code] = f"among the records {where}"

    def _wrong_dates(self) -> int:
        shard = self._judge.shard
        if shard.settings is None or not shard.settings.expire_after_ms:
            return 0
        return shard.time.wrong + len(shard.time.suspects())

    def _note_wrong_dates(self, before: int) -> None:
        """Note how many pages of this run are dated too late, and where the last one is."""
        self._outcome.wrong_dates = max(0, self._wrong_dates() - before)
        if self._outcome.wrong_dates:
            time = self._judge.shard.time
            source, number = split_ref([time.last_wrong, *time.suspects()][-1])
            self._outcome.examples["wrong_date"] = f"record {number} of {self._name_of(source)}"

    def _name_of(self, source: int) -> str:
        entry = self._catalogue.entries[source]
        return f"{entry.name}/{entry.partition}" if entry.partition else entry.name

    # ---- to the disk -----------------------------------------------------------------------------

    def _lines(self, source: int | None, block: Verdicts) -> bytes:
        """Return a block's lines, and count its clusters in a source; in the writing thread."""
        if source is not None:
            self._clusters.add(source, block)
        self._shared.add(block)
        if is_table(self._verdicts.name):
            return table_lines(block, self._locate, self._engine.fingerprint, near=self._near)
        return stages.verdict_lines(block, self._locate, self._engine.fingerprint)

    def _write(self, output: OutputFile, lines: Callable[[], bytes]) -> None:
        """Have lines made and written, after those before them; raise what failed of one before."""
        self._write_behind(lambda: output.write(lines()))

    def _write_block(self, source: int | None, prepared: Prepared, block: Verdicts) -> None:
        """Have the verdicts on pages of a chunk written, and the pages."""
        self._write(self._verdicts, partial(self._lines, source, block))
        if self._page_outputs.files:
            known = self._page_outputs.originals
            pairs = pairs_of(block, prepared.originals, known) if known else []
            packing = self._pool.submit(self._pack_pages, prepared, block, pairs)
            self._write_behind(partial(_write_packed, packing))

    def _pack_pages(
        self, prepared: Prepared, block: Verdicts, pairs: Pairs
    ) -> list[tuple[OutputFile, bytes]]:
        """Return what the outputs of pages get of a block; in a thread of the pool."""
        judged = prepared.chunk, block, pairs, self._locate, self._engine.fingerprint
        revisits = [*duplicate_records(*judged)] if pairs else []
        return self._page_outputs.pack(prepared.chunk, block, revisits, prepared.texts)

    def _write_behind(self, task: Callable[[], None]) -> None:
        """Have something done in the writing thread, after all that was judged until now."""
        self._see_written(self._blocks_behind - 1)
        self._writing.append(self._writer.submit(task))

    def _see_written(self, left: int) -> None:
        """Wait until at most `left` tasks are being written; raise what failed."""
        while self._writing and (len(self._writing) > left or self._writing[0].done()):
            self._writing.popleft().result()

    def _flush_if_due(self) -> None:
        if self._judge.flush_is_due:
            self._begin_flush()

    def _begin_flush(self, *, sweep: bool = False) -> None:
        """Have the outputs brought to the disk, then the index with their lengths.

        The writing thread syncs the outputs (`_sync`), after all lines that were judged. The flush
        thread waits for that, writes rows, state and catalogue in one step (`Store.flush`), and the
        witness last. So no length that is stored is beyond the end of its file; what a crash leaves
        after that length is cut when the run continues.
        """
        notes = self._archives.to_flush()
        if self._page_outputs.originals is not None:
            notes += self._page_outputs.originals.to_flush()
        # After all that was judged until now; a sweep is for what nothing comes after.
        lengths = self._writer.submit(_sync, self._outputs, last=sweep)
        self._engine.begin_flush(lengths.result, notes, sweep=sweep)

    def _flush(self, *, sweep: bool = False) -> None:
        """Bring everything to the disk, and see the end of it."""
        self._begin_flush(sweep=sweep)
        self._see_written(0)
        self._judge.finish()


def _write_packed(result: Future[list[tuple[OutputFile, bytes]]]) -> None:
    """Append to outputs what a thread of the pool has made for them."""
    for output, data in result.result():
        output.write_packed(data)


def _sync(outputs: Sequence[OutputFile], *, last: bool) -> dict[str, tuple[int, str]]:
    """Bring outputs to the disk; return the length of each and the digest of what it holds."""
    for output in outputs:
        output.sync(last=last)
    return {output.key: (output.length, output.digest()) for output in outputs}


def _allow_at_pause(step: Step) -> int | None:
    """Return how much work ahead may be left at a pause of the input; None: the step is none."""
    if isinstance(step, Pause):
        return 0 if step.all else stages.CHUNKS_AHEAD
    return None
