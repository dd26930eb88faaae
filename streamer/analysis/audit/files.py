"""An index of files, held against its promises: its pages are folded afresh, each line compared.

The fold is the one of a replay, with an index of its own in a scratch folder. So it finds every
line of the verdicts and of the dead letters, in their order, and every row of the index. A line has
one place: one that is missing, doubled, altered, or exchanged for another is noticed, and so is a
row or a count of the index that is another one.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from streamer.analysis.audit import facts
from streamer.analysis.audit.file_target import FileTarget
from streamer.analysis.audit.folded import ExpectedVerdicts, FoldedVerdicts, KeptPages, Words
from streamer.analysis.audit.published import VerdictAudit
from streamer.errors import InputError
from streamer.index.messages import Verdicts
from streamer.model import DeadLetter, Location, page_ref, split_ref
from streamer.pages.chunk import Chunk, PageBatch
from streamer.pages.stored_file import explaining_disk
from streamer.run import stages
from streamer.run.engine import Prepared, Signing
from streamer.run.judge import FILES, REPLAY_FLUSHES, Judge, JudgeOptions
from streamer.run.output_checks import owner_file
from streamer.run.site_store import new_sites
from streamer.run.small_files import gather_small_files, split_by_source
from streamer.run.totals import Totals
from streamer.run.verdict_files import open_verdicts
from streamer.stored.rows import scan_rows
from streamer.stored.store import Store

_LINES_A_REPORT = 1_000


class FileReport(facts.AuditReport):
    """The checks of an index of files."""

    def __init__(self) -> None:
        super().__init__()
        self.verdict_bytes = facts.PromiseCheck(
            "lines are those that a fresh fold of the pages gives"
        )
        self.numbers = facts.PromiseCheck("each line is there once, in the order of judgement")
        self.index_rows = facts.PromiseCheck(
            "the index holds the pages that the fold keeps, and counts"
        )

    @property
    def checks(self) -> dict[str, facts.PromiseCheck]:
        """Return the checks by name, without those that only topics have."""
        own = ("outcomes", "existing", "numbers", "verdict_bytes", "representatives")
        return {name: getattr(self, name) for name in (*own, "kept_pairs", "index_rows")}


def verify_files(
    target: FileTarget,
    verdicts: Sequence[Path],
    dead_letters: Sequence[Path],
    threads: int,
    progress: facts.Progress,
) -> FileReport:
    """Audit an index of files, and the files that it has written.

    Raises:
        InputError: a file is missing, or is not as the index has read or written it.
        StreamerError: the index, or the scratch disk, cannot be used.
    """
    for path in [*verdicts, *dead_letters]:
        _check_whole(target, path)
    with (
        tempfile.TemporaryDirectory(prefix="streamer-verify-") as folder,
        closing(_FileFold(target, Path(folder))) as fold,
    ):
        fold.run(threads, progress)
        said = _VerdictLines(fold)
        for path in verdicts:
            _read_lines(path, said.take, progress)
        said.finish()
        letters = _DeadLetterLines(fold)
        for path in dead_letters:
            _read_lines(path, letters.take, progress)
        fold.check_outcomes()
        progress("comparing kept pages", 0, 0)
        fold.check_index()
        return fold.report


def _check_whole(target: FileTarget, path: Path) -> None:
    """Raise InputError where a killed run has left lines that the index does not know."""
    known = target.catalogue.known_length(str(path))
    if known is not None and owner_file(str(path)).exists() and path.stat().st_size > known:
        raise InputError(
            f"{path} has more than the index knows of: a run was killed, or goes on. Run the same "
            "replay again until it ends, then verify."
        )


def _read_lines(path: Path, take: Callable[[bytes, str], None], progress: facts.Progress) -> None:
    with explaining_disk(str(path), "check the path"), open_verdicts(path) as file:
        for number, line in enumerate(file, 1):
            take(line, f"{path}:{number}")
            if number % _LINES_A_REPORT == 0:
                progress(path.name, number, 0)


class _FileFold:
    """The fold of all that an index has read, and what it finds."""

    def __init__(self, target: FileTarget, folder: Path) -> None:
        self.report = FileReport()
        self.target = target
        entries = target.catalogue.entries
        self._locate = target.catalogue.locator()
        self._numbers = {(e.name, e.partition): number for number, e in enumerate(entries)}
        ends = {number: entry.position for number, entry in enumerate(entries)}
        self.table = facts.PageTable(ends, self._name_of)
        self.lines = np.zeros(sum(ends.values()), np.int64)  # number plus 1 of each place's line
        self._kept = KeptPages(folder, int(target.index.identity["bands"]), self._name_of)
        self._folded = FoldedVerdicts(self.table, self._kept)
        self._letters = facts.Column(np.uint64)
        self._totals = Totals()
        options = JudgeOptions(
            REPLAY_FLUSHES, index_memory=target.index_memory, references=target.references
        )
        store = Store.open(folder / "store")
        index = target.index
        self._judge = Judge(store, index.identity, options, index.secret)
        self._judge.configure(index.settings)
        self._folded.note_settings(index.settings)
        sites = new_sites(index.signature)
        self._signing = Signing.of(target.parser, index.signature, index.secret, sites)

    def close(self) -> None:
        """Release the scratch index."""
        self._judge.close()

    @property
    def expected(self) -> ExpectedVerdicts:
        """Return the verdicts by their lines."""
        return self._folded.finish()

    @property
    def letters(self) -> Words:
        """Return digests of the dead letters by their lines."""
        return self._letters.array()

    def place_of(self, page: Location) -> int:
        """Return the place of a record, -1 where there is none."""
        number = self._numbers.get((page.topic, page.partition), -1)
        return self.table.place(number, page.offset)

    def _name_of(self, ref: int) -> str:
        number, ordinal = split_ref(ref)
        return f"{self.target.catalogue.entries[number].name}, record {ordinal}"

    # ---- the fold --------------------------------------------------------------------------------

    def run(self, threads: int, progress: facts.Progress) -> None:
        """Judge all that the index has judged, in its order."""
        chunks = (
            step
            for step in gather_small_files(self.target.steps(), lambda _source: True)
            if isinstance(step, Chunk)
        )
        with (
            stages.signing_pool(threads) as pool,
            closing(
                stages.in_order(chunks, partial(self._signing.submit, pool), stages.CHUNKS_AHEAD)
            ) as ahead,
        ):
            for chunk, result in ahead:
                assert result is not None, chunk
                self._take(result.result())
                progress("records", self._totals.records, self.target.catalogue.totals.records)
        self._judge.flush(b"")

    def _take(self, prepared: Prepared) -> None:
        chunk, batch, pages, *_ = prepared
        self._signing.is_next(prepared)
        self._totals.add_batch(batch)
        self._note_letters(chunk, batch)
        self._folded.note_arrived(pages.refs)
        start, end, numbers = self._judge.next_numbers(chunk, batch)
        for block in self._judge.judge(FILES, start, end, pages, None, numbers):
            self._totals.add_verdicts(block)
            self._note_verdicts(block)
        if self._judge.flush_is_due:
            self._judge.begin_flush(lambda: b"")

    def _note_verdicts(self, block: Verdicts) -> None:
        fingerprint = str(self.target.index.identity["fingerprint"])
        lines = stages.verdict_lines(block, self._locate, fingerprint).splitlines(keepends=True)
        self._number(block.pages.refs, len(self._folded))
        self._folded.note_verdicts(block, _digests(lines))

    def _note_letters(self, chunk: Chunk, batch: PageBatch) -> None:
        parts = split_by_source(chunk, batch)
        dead = [(each, page_ref(own.source, each.sequence)) for own in parts for each in own.dead]
        if not dead:
            return
        letters = [stages.dead_letter(each, self._locate(ref)) for each, ref in dead]
        lines = stages.dead_letter_lines(letters).splitlines(keepends=True)
        self._number(np.array([ref for _, ref in dead], np.uint64), len(self._letters))
        self._letters.append(_digests(lines))

    def _number(self, refs: Words, first: int) -> None:
        """Number the lines of records, from `first` on."""
        self.lines[self.table.places(refs)] = np.arange(first + 1, first + 1 + len(refs))

    # ---- what it finds ---------------------------------------------------------------------------

    def check_outcomes(self) -> None:
        """See that each record has what the fold gives it, and that the index counts the same."""
        check, flags = self.report.outcomes, self.table.flags
        check.looked_at += self._totals.records
        for place in np.flatnonzero(
            (flags & (facts.JUDGED | facts.VERDICT)) == facts.JUDGED
        ).tolist():
            check.violate(f"{self.table.name(place)}: no verdict")
        is_dead = (self.lines > 0) & (flags & (facts.JUDGED | facts.DEAD) == 0)
        for place in np.flatnonzero(is_dead).tolist():
            check.violate(f"{self.table.name(place)}: no dead letter")
        for code, count in self._totals.skipped.items():
            self.report.counts[f"skipped: {code}"] = count
        own, known = self._totals, self.target.catalogue.totals
        for name in ("records", "unique", "duplicates", "too_short", "dead", "skipped", "changes"):
            found, expected = getattr(own, name), getattr(known, name)
            if found != expected:
                self.report.index_rows.violate(
                    f"{name}: {expected} in the index, {found} by the fold"
                )

    def check_index(self) -> None:
        """Hold the rows of the index against those of the fold, and kept pages with each other."""
        settings, judge = self.target.index.settings, self._judge
        self._kept.note_refused(judge.shard.refused)
        self._kept.compare(self.report)
        may_go = bool(settings.expire_after_ms or settings.keep_pages)
        self._compare_rows(judge.store, self.target.index.store, may_go=may_go)

    def _compare_rows(self, own: Store, other: Store, *, may_go: bool) -> None:
        """Compare the rows of two stores; those that expire go in their time."""
        check, name = self.report.index_rows, self.table.name
        wanted = np.zeros(len(self.lines), np.uint64)
        for places, digests in self._rows(own):
            wanted[places] = digests
        for places, digests in self._rows(other):
            check.looked_at += len(places)
            known = np.where(places >= 0, wanted[places], 0)
            strange = (known != digests) & ~(may_go & (known == 0))
            for place in places[strange].tolist():
                which = name(place) if place >= 0 else "an unknown record"
                check.violate(f"{which}: its row in the index is not one of the fold")
            wanted[places[places >= 0]] = 0
        for place in np.flatnonzero(wanted).tolist() if not may_go else ():
            check.violate(f"{name(place)}: the fold keeps it, and the index has no row of it")

    def _rows(self, store: Store) -> Iterator[tuple[facts.Places, Words]]:
        for scanned in scan_rows(store):
            rows = scanned.rows
            columns = zip(rows.urls, rows.sketches, scanned.halves, rows.times, strict=True)
            parts = [
                facts.digest(url, sketch.tobytes(), marks.tobytes(), time.tobytes())
                for url, sketch, marks, time in columns
            ]
            yield self.table.places(np.array(rows.refs, np.uint64)), np.array(parts, np.uint64)


@dataclass(slots=True)
class _LineOrder:
    """See that each line is there once, after those before it; `what` it is, for examples.

    `flag` is set of records whose line was read.
    """

    fold: _FileFold
    what: str
    flag: int
    last: int = -1

    def number(self, place: int, at: str) -> int | None:
        """Return the number of the line that the fold gives for a record; None if it gives none."""
        fold, flags = self.fold, int(self.fold.table.flags[place])
        numbers, name = fold.report.numbers, fold.table.name(place)
        number = int(fold.lines[place]) - 1
        if number < 0 or bool(flags & facts.JUDGED) == (self.flag == facts.DEAD):
            fold.report.outcomes.violate(f"{at}: {name} has no {self.what} by the fold")
            return None
        if flags & self.flag:
            numbers.violate(f"{at}: a second {self.what} of {name}")
            return None
        if number < self.last:
            numbers.violate(f"{at}: the {self.what} of {name} is before others")
        self.last = max(number, self.last)
        return number


class _VerdictLines(VerdictAudit):
    """Takes the lines of verdict files."""

    def __init__(self, fold: _FileFold) -> None:
        super().__init__(fold.table, [fold.expected], fold.report)
        self._fold = fold
        self._order = _LineOrder(fold, "verdict", facts.VERDICT)

    def place_of(self, page: Location) -> int:
        """Return the place of a record of the files."""
        return self._fold.place_of(page)

    def take(self, line: bytes, at: str) -> None:
        """Take one line."""
        verdict = self._decoded(line, at)
        if verdict is None or (place := self._place_or_violation(verdict.page, at)) < 0:
            return
        self.report.verdict_bytes.looked_at += 1
        number = self._order.number(place, at)
        if number is not None:
            found = facts.digest(line)
            self._check_bytes((0, number), found, at)
            self._take_first(place, found, verdict, (0, number), at)


class _DeadLetterLines:
    """Takes the lines of files of dead letters."""

    def __init__(self, fold: _FileFold) -> None:
        self._fold = fold
        self._order = _LineOrder(fold, "dead letter", facts.DEAD)
        self._decode = msgspec.json.Decoder(DeadLetter).decode

    def take(self, line: bytes, at: str) -> None:
        """Take one line."""
        fold, report = self._fold, self._fold.report
        report.verdict_bytes.looked_at += 1
        try:
            letter = self._decode(line)
        except msgspec.MsgspecError:
            report.verdict_bytes.violate(f"{at}: no dead letter of this schema")
            return
        place = fold.place_of(letter.page)
        if place < 0:
            report.existing.violate(f"{at}: there is no such record")
            return
        number = self._order.number(place, at)
        if number is not None:
            fold.table.flags[place] |= np.uint8(facts.DEAD)
            report.counts["pages dead-lettered"] += 1
            if fold.letters[number] != facts.digest(line):
                report.verdict_bytes.violate(f"{at}: not the dead letter that the fold gives")


def _digests(lines: Sequence[bytes]) -> Words:
    return np.array([facts.digest(line) for line in lines], np.uint64)
