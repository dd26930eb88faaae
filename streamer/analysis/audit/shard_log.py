"""One shard's log under audit: read by the rule, folded afresh, and all that it gives noted down.

The fold tells which verdict has which number, and what other shards are told. When a page arrived
at a shard is its rank there: a representative must have come before the page itself, or, where the
page was held back, before its verdict. For each pair of shards, what a fold sends is held against
what a log holds. And no two kept pages may match: every pair that shares a bucket is compared once
more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamer.analysis.audit.scene import (
    ARRIVED,
    JUDGED,
    OWED,
    AuditReport,
    AuditTarget,
    Column,
    LogReading,
    PageTable,
    Places,
    PromiseCheck,
    digest,
    page_name,
)
from streamer.errors import StoreMismatch
from streamer.index.forgetting import BEFORE, HOST, REF, REPLACED, RETIRED, URL, names_of_host
from streamer.index.head import HEAD_PAGES
from streamer.index.messages import (
    Decisions,
    Forget,
    Output,
    Pages,
    Record,
    Term,
    Verdicts,
    shard_name,
)
from streamer.index.ports import BEFORE_ALL
from streamer.index.rule import matching_pairs
from streamer.index.settings import IndexSettings
from streamer.index.url_versions import REPLACED as IS_REPLACED
from streamer.index.url_versions import told_changes
from streamer.kafka.owner import topic_locator, verdict_messages
from streamer.kafka.wire import unpack_record
from streamer.model import SIMILARITY_ONE
from streamer.run.index_folder import Identity
from streamer.run.judge import LOG_FLUSHES, Judge, JudgeOptions
from streamer.run.others import OtherIndexes
from streamer.sketch.hash_sets import decided_similarity, widest_doubt
from streamer.sketch.resemblance import SKETCH_WORDS
from streamer.stored.store import Store

NEVER = -BEFORE_ALL  # is an age, and a number of rows
PAIRS_MAX = 10_000  # that match under one key, and are told apart from those under other keys

Digests = npt.NDArray[np.uint64]
Words = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]


_SHARD = shard_name(0)[:-1]  # what the name of a shard as a source begins with
_KEPT_BIT = np.uint64(63)  # of a page ref; no topic has so many partitions


def item_digests(items: Pages | Decisions | Forget) -> Digests:
    """Return 64 bits an item, over all that the receiving shard makes use of."""
    if isinstance(items, Forget):
        terms = [digest(repr(term).encode(), items.ask.encode()) for term in items.terms]
        return np.array(terms, np.uint64)
    if isinstance(items, Decisions):
        decided: Digests = items.refs ^ (items.kept.astype(np.uint64) << _KEPT_BIT)
        return decided
    numbers = zip(
        items.refs, items.keys, items.sketches, items.distinct, items.tokens, items.text_bytes,
        items.times, items.watermarks, strict=True,
    )  # fmt: skip
    sets = [None] * len(items) if items.shingles is None else items.shingles
    main = [None] * len(items) if items.main is None else [m.tobytes() for m in items.main]
    held = items.replacements
    arrived = [None] * len(items) if held is None else [each.tobytes() for each in held]
    texts = zip(items.urls, items.message_keys, items.carried, main, sets, arrived, strict=True)
    found = [
        digest(b"".join(part.tobytes() for part in columns), *strings)
        for columns, strings in zip(numbers, texts, strict=True)
    ]
    return np.array(found, np.uint64)


class _Stream:
    """The items from one shard to another, and how many of them are beyond doubt.

    `owed` of the sent ones were published before the ends were noted; `judged` of the received ones
    were received before, so that the logs that they come from were read far enough.
    """

    def __init__(self) -> None:
        self.sent = Column(np.uint64)
        self.received = Column(np.uint64)
        self.owed = 0
        self.judged = 0


class Streams:
    """All streams between the shards of an index."""

    def __init__(self) -> None:
        self._streams: dict[tuple[int, int], _Stream] = defaultdict(_Stream)

    def note_sent(
        self, source: int, to: int, items: Pages | Decisions | Forget, *, owed: bool
    ) -> None:
        """Take what the fold of `source` emits; `owed` if that was committed."""
        stream = self._streams[source, to]
        stream.sent.append(item_digests(items))
        if owed:
            stream.owed = len(stream.sent)

    def note_received(
        self, source: int, to: int, items: Pages | Decisions | Forget, *, judged: bool
    ) -> None:
        """Take the items of a record in the log of `to` that count."""
        stream = self._streams[source, to]
        stream.received.append(item_digests(items))
        if judged:
            stream.judged = len(stream.received)

    def compare(self, check: PromiseCheck) -> None:
        """Hold what was received against what was sent."""
        for (source, to), stream in sorted(self._streams.items()):
            sent, received = stream.sent.array(), stream.received.array()
            check.looked_at += len(received)
            both = min(len(sent), len(received))
            name = f"shard {source} to {to}, item"
            for item in np.flatnonzero(sent[:both] != received[:both]).tolist():
                check.violate(f"{name} {item}: another than the fold gives")
            if stream.owed > len(received):
                missing = stream.owed - len(received)
                check.violate(f"{name} {len(received)} and on: {missing} not in the log", missing)
            if stream.judged > len(sent):
                more = stream.judged - len(sent)
                check.violate(f"{name} {len(sent)} and on: {more} that the fold lacks", more)


class FreshShard(Judge):
    """Folds records into an index in `folder`, which must be empty.

    It needs no key, since signatures come from the log. Flushes keep its memory bounded, and their
    moments show in no output.
    """

    def __init__(
        self,
        folder: Path,
        number: int,
        shards: int,
        bands: int,
        head_pages: int = HEAD_PAGES,
        others: OtherIndexes | None = None,
    ) -> None:
        store = Store.open(folder / "store")
        identity: Identity = {"bands": bands, "shards": shards}
        options = JudgeOptions(LOG_FLUSHES, head_pages, others=others)
        super().__init__(store, identity, [number], options)

    def take(self, record: Record) -> list[Output]:
        """Apply a record; return what it makes the shard emit.

        Raises:
            StoreMismatch: as `Shard.apply`.
            StoreUnavailable: the scratch disk refuses.
        """
        outputs = self.apply(record)
        if self.flush_is_due:
            self.begin_flush(lambda: b"")
        return outputs


def buckets(keys: Words, posted: npt.NDArray[np.bool_]) -> tuple[Rows, Rows]:
    """Return the rows that share a key with another, by key, and where each key's rows start.

    Only rows that are `posted` count.
    """
    rows = np.flatnonzero(posted)
    order = np.argsort(keys[rows], kind="stable")
    rows = rows[order]
    ordered = keys[rows]
    firsts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    sizes = np.diff(np.append(firsts, len(ordered)))
    shared = sizes > 1
    starts = np.append(0, np.cumsum(sizes[shared]))
    return rows[np.repeat(shared, sizes)], starts.astype(np.int64)


class KeptPages:
    """The kept pages of an index, in scratch files in `folder`, in the order of insertion.

    A key's bucket takes so many postings, the earliest that have not expired: pairs of others could
    never meet and are left out. What the limits of the index excuse is counted apart: with several
    shards an undecided page may have taken a place, or have been among the newest; and a page looks
    at so many candidates only.
    """

    def __init__(self, folder: Path, shards: int, bands: int) -> None:
        self._shards = shards
        self._keys_a_page = bands + 1
        self._keys_file, self._sketches_file = folder / "keys", folder / "sketches"
        self._sets_file, self._set_ends = folder / "sets", Column(np.int64)
        self._urls_file = folder / "urls"
        # By term, of pages [start, end), as they came: ends ascend, and starts.
        self._named: dict[Term, list[tuple[int, int]]] = defaultdict(list)
        self._refs = Column(np.uint64)
        self._distinct = Column(np.uint8)
        self._times = Column(np.int64)
        self._settings: set[IndexSettings] = set()
        self._refused: dict[int, int] = {}

    def note_settings(self, settings: IndexSettings) -> None:
        """Take settings that came into force somewhere in the logs."""
        self._settings.add(settings)

    def note_refused(self, shard: int, postings: int) -> None:
        """Take how many postings found no place at a shard."""
        self._refused[shard] = postings

    def add(self, pages: Pages) -> None:
        """Take pages that are kept, in the order of insertion; empty ones match nothing."""
        pages = pages.take(np.flatnonzero(pages.tokens))
        for file, words in (
            (self._keys_file, pages.keys),
            (self._sketches_file, pages.sketches),
        ):
            with file.open("ab") as opened:
                opened.write(words.tobytes())
        if pages.shingles is not None:
            before = int(self._set_ends.array()[-1]) if len(self._set_ends) else 0
            with self._sets_file.open("ab") as opened:
                opened.writelines(pages.shingles)
            self._set_ends.append(before + np.cumsum([len(each) for each in pages.shingles]))
        with self._urls_file.open("ab") as opened:
            opened.writelines(url + b"\n" for url in pages.urls)  # which are printable
        self._refs.append(pages.refs)
        self._distinct.append(pages.distinct)
        self._times.append(pages.times)

    def __len__(self) -> int:
        return len(self._refs)

    def forget(self, start: int, terms: Iterable[Term], *, ahead: int = 0) -> None:
        """Take what a shard forgets, of the pages from the one at `start` on to those `ahead`."""
        for kind, value in terms:
            term = (RETIRED if kind == REPLACED else kind, value)
            self._named[term].append((start, len(self) + ahead))

    def _forgotten(self) -> tuple[Rows, Rows]:
        """Return how many pages there were when each was forgotten, NEVER if it was not.

        And the first page that its shard has kept.
        """
        ends, starts = np.full(len(self), NEVER), np.zeros(len(self), np.int64)
        if not self._named:
            return ends, starts
        times, refs = self._times.array(), self._refs.array().tolist()
        for (kind, value), named in self._named.items():
            for start, end in named if kind == BEFORE else ():
                early = start + np.flatnonzero(times[start:end] < int(value))
                early = early[ends[early] > end]
                starts[early], ends[early] = start, end
        with self._urls_file.open("rb") as lines:
            for i, (ref, line) in enumerate(zip(refs, lines, strict=True)):
                url = line[:-1]
                hosts = ((HOST, name) for name in names_of_host(url))
                for term in ((URL, url), (RETIRED, url), (REF, ref), *hosts):
                    start, end = self._named_at(term, i)
                    if end < ends[i]:
                        starts[i], ends[i] = start, end
        return ends, starts

    def _named_at(self, term: Term, page: int) -> tuple[int, int]:
        """Return what pages a term named when it named one first; none: NEVER."""
        named = self._named.get(term, ())
        at = bisect_right(named, page, key=lambda each: each[1])
        return named[at] if at < len(named) and named[at][0] <= page else (0, NEVER)

    def compare(self, report: AuditReport) -> None:
        """Report the pairs that match; of settings that changed, the strictest count."""
        count, check = len(self._refs), report.kept_pairs
        report.counts["kept pages"] = count
        report.counts["postings refused by full buckets"] = sum(self._refused.values())
        if not count or not self._settings:
            return
        bucket_max = min(each.bucket_max for each in self._settings)
        least = max(each.similarity_bounds[1] for each in self._settings)
        measure = int(min(each.measure for each in self._settings))  # an index has one
        expire_after = min(each.expire_after_ms or NEVER for each in self._settings)
        keep_pages = min(each.keep_pages or NEVER for each in self._settings)
        exact = any(each.exact for each in self._settings)
        estimated = max(least - widest_doubt(least), 0) if exact else least
        limits = bucket_max, estimated, measure, expire_after, keep_pages
        sketches = np.asarray(np.memmap(self._sketches_file, np.uint64, "r+"))
        sketches = sketches.reshape(count, SKETCH_WORDS)
        forgotten, firsts = self._forgotten()
        report.counts["kept pages that were forgotten"] = int((forgotten < NEVER).sum())
        lives = np.stack((self._times.array(), forgotten), axis=1)
        met = np.zeros(count, np.int64)
        found = [np.empty((0, 2), np.int64)]
        for rows, starts in self._buckets(count):
            pairs = np.empty((PAIRS_MAX, 2), np.int64)
            compared, matching = matching_pairs(
                rows,
                starts,
                sketches,
                lives,
                limits,
                met,
                pairs,
                np.empty(bucket_max, np.int64),
            )
            check.looked_at += compared
            found.append(pairs[:matching])
        refs = self._refs.array()
        for earlier, later in np.unique(np.concatenate(found), axis=0).tolist():
            both = sketches[earlier], sketches[later]
            sets = partial(self._sets_of, earlier, later)
            if exact and decided_similarity(measure, *both, least, sets)[0] < least:
                continue
            if earlier < firsts[later]:
                continue  # kept by another shard: it may have come when this one was forgotten
            if self._is_excused(int(met[later])) or self._was_overtaken(
                later, earlier, expire_after
            ):
                report.counts["kept pairs that match, excused by the limits"] += 1
            else:
                pair = page_name(int(refs[earlier])), page_name(int(refs[later]))
                check.violate(f"{pair[0]} and {pair[1]} are both kept and match")

    def _was_overtaken(self, later: int, earlier: int, expire_after: int) -> bool:
        """Return whether a page that was held had expired when the one kept before it arrived.

        Shard 0 raises times in the order of arrival, so the newer of two arrived behind the other.
        """
        times = self._times.array()
        return int(times[earlier] - times[later]) > expire_after

    def _sets_of(self, *rows: int) -> tuple[bytes, bytes]:
        """Return the sets of shingles of two rows."""
        ends = self._set_ends.array()
        with self._sets_file.open("rb") as file:
            found = []
            for row in rows:
                start = int(ends[row - 1]) if row else 0
                file.seek(start)
                found.append(file.read(int(ends[row]) - start))
        return found[0], found[1]

    def _buckets(self, count: int) -> Iterator[tuple[Rows, Rows]]:
        """Yield the rows and starts of the shared buckets under each key."""
        keys = np.asarray(np.memmap(self._keys_file, np.uint64, "r")).reshape(
            count, self._keys_a_page
        )
        comparable = self._distinct.array() >= max(each.shingles_max for each in self._settings)
        for column in range(keys.shape[1]):
            content = column == keys.shape[1] - 1
            yield buckets(keys[:, column].copy(), comparable | content)

    def _is_excused(self, met: int) -> bool:
        """Return whether a page that shares buckets with `met` earlier ones may have missed one."""
        candidates_max = min(each.candidates_max for each in self._settings)
        if len({(each.expire_after_ms, each.keep_pages) for each in self._settings}) > 1:
            return any(self._refused.values()) or met > candidates_max
        if self._shards == 1:
            return met > candidates_max
        if any(each.keep_pages for each in self._settings):
            return True
        keys = -(-self._keys_a_page // self._shards) + 1  # at one shard, at most
        bucket_max = max(each.bucket_max for each in self._settings)
        return any(self._refused.values()) or keys * bucket_max > candidates_max


@dataclass(slots=True)
class ExpectedVerdicts:
    """The verdicts that the fold of one shard gives, by number, in columns.

    Attributes:
        digests: uint64, over key and value.
        limits: uint32, of the ranks that a representative may have at the shard: below that.
        least: int32, the similarity that a duplicate must have, in ten-thousandths.
        owed: whether it was emitted at a record that is committed.
        seen: whether it was found published.
    """

    digests: npt.NDArray[np.uint64]
    limits: npt.NDArray[np.uint32]
    least: npt.NDArray[np.int32]
    owed: npt.NDArray[np.bool_]
    seen: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.digests)


class LogAudit:
    """Audits the log of shard `number`, with its scratch index in `folder`."""

    def __init__(
        self,
        scene: AuditTarget,
        number: int,
        folder: Path,
        table: PageTable,
        streams: Streams,
        kept: KeptPages,
    ) -> None:
        self.reading = LogReading()
        self._scene = scene
        self._number = number
        self._table = table
        self._streams = streams
        self._kept = kept
        self._fresh = FreshShard(folder, number, scene.shards, scene.bands, others=scene.others)
        self._locate = topic_locator(scene.names.pages)
        self._arrived = 0
        self._kept_before = len(kept)
        self._least = SIMILARITY_ONE  # that any settings so far have asked for
        self._digests = Column(np.uint64)
        self._limits = Column(np.uint32)
        self._leasts = Column(np.int32)
        self._owed = Column(np.bool_)

    def take(self, offset: int, data: bytes) -> None:
        """Take the record at `offset`, which follows the one before.

        Raises:
            StoreMismatch: it is not a record of this index, or the log has no beginning.
        """
        record = unpack_record(data, self._scene.identity)
        items = record.items
        if isinstance(items, IndexSettings) and items.shards != self._scene.shards:
            return  # the log ends: the index was given other shards, and logs of their own
        first = self.reading.accept(record)
        before = self._arrived
        if first is not None:
            self._note_taken(record, first, judged=offset < self._scene.judged_ends[self._number])
        owed = offset < self._scene.applied[self._number]
        for output in self._fresh.take(record):
            if isinstance(output.items, Verdicts):
                self._note_verdicts(output.items, output.start, before, owed=owed)
            else:
                self._streams.note_sent(self._number, output.destination, output.items, owed=owed)
                if isinstance(output.items, Forget):
                    own = [
                        term for term in output.items.terms if term[0] in {REPLACED, RETIRED, REF}
                    ]
                    self._kept.forget(self._kept_before, own)

    def _note_taken(self, record: Record, first: int, *, judged: bool) -> None:
        items = record.items
        if isinstance(items, IndexSettings):
            self._kept.note_settings(items)
            self._least = min(self._least, items.similarity_bounds[0])
            return
        if self._fresh.shard.settings is None:
            raise StoreMismatch(
                f"The log of shard {self._number} does not begin with settings: its beginning is "
                "lost. Restore it, or use another --index-name."
            )
        if isinstance(items, Pages):
            places = self._table.places(items.refs[first:])
            ranks = np.arange(self._arrived + 1, self._arrived + 1 + len(places))
            known = places >= 0
            self._table.arrivals[self._number][places[known]] = ranks[known]
            self._arrived += len(places)
            if self._number == 0:
                self._table.mark(places, ARRIVED)
        elif isinstance(items, Forget):
            self._kept.forget(self._kept_before, items.terms[first:])
        if record.source.startswith(_SHARD):
            source = int(record.source.removeprefix(_SHARD))
            self._streams.note_received(
                source, self._number, items.take(range(first, len(items))), judged=judged
            )

    def _note_verdicts(self, block: Verdicts, start: int, before: int, *, owed: bool) -> None:
        """Note verdicts, numbered from `start` on; `before`: pages that came in earlier records."""
        scene, count = self._scene, len(block)
        places = self._table.places(block.pages.refs)
        self._table.mark(places, JUDGED | OWED if owed else JUDGED)
        by_partition = verdict_messages(
            block, self._number, start, self._locate, scene.identity.fingerprint,
            scene.verdict_partitions,
        )  # fmt: skip
        digests = np.zeros(count, np.uint64)
        for messages in by_partition.values():
            for key, value, headers, _ in messages:
                digests[int(headers[0][1].partition(b":")[2]) - start] = digest(key, value)
        ranks = self._ranks(places)
        held = ranks <= before
        settings = self._fresh.shard.settings
        assert settings is not None, "a verdict before any settings"
        self._digests.append(digests)
        self._limits.append(np.where(held, self._arrived + 1, ranks))
        own, _ = settings.least_of(block.pages.urls)
        self._leasts.append(np.where(held, self._least, own))
        self._owed.append(np.full(count, owed))
        if self._scene.shards == 1 and settings.retire_replaced:
            self._note_retired(block)
        self._kept.add(block.pages.take(np.flatnonzero(block.similarities < 0)))
        self._note_retired_late(block.pages)

    def _note_retired_late(self, pages: Pages) -> None:
        """Note which pages that were held had their URLs replaced before they were kept."""
        if pages.replacements is None:
            return
        forgetting = self._fresh.shard.forgetting
        columns = zip(pages.urls, pages.refs.tolist(), pages.replacements.tolist(), strict=True)
        late = [(REF, ref) for url, ref, at in columns if forgetting.is_replaced_since(url, at)]
        self._kept.forget(self._kept_before, late)

    def _note_retired(self, block: Verdicts) -> None:
        """Note what the pages of a block retire, where they come in the order of their verdicts."""
        if block.pages.changes is None:
            return
        kept = (block.similarities < 0) & (block.pages.tokens > 0)
        before: Rows = np.cumsum(kept) - kept
        codes, _ = told_changes(block.pages.changes)
        for i in np.flatnonzero(codes == IS_REPLACED).tolist():
            retired = [(RETIRED, block.pages.urls[i])]
            self._kept.forget(self._kept_before, retired, ahead=int(before[i]))

    def _ranks(self, places: Places) -> npt.NDArray[np.int64]:
        """Return the ranks plus 1 of pages at this shard; 0 for what cannot be a page."""
        ranks, known = np.zeros(len(places), np.int64), places >= 0
        ranks[known] = self._table.arrivals[self._number][places[known]]
        return ranks

    def close(self) -> None:
        """Release the scratch index."""
        self._fresh.close()

    def finish(self, report: AuditReport) -> ExpectedVerdicts:
        """Report on the log itself; return the verdicts that must be out."""
        reading = self.reading
        report.holes.looked_at += reading.sources
        for source, mark, end in reading.unfilled():
            report.holes.violate(
                f"the log of shard {self._number} lacks {source} from {mark} on; there is more up "
                f"to {end}"
            )
        report.counts["log records"] += reading.records
        report.counts["log records passed over, seen before"] += reading.repeats
        report.counts["log records passed over, behind a hole"] += reading.ahead
        self._kept.note_refused(self._number, self._fresh.shard.refused)
        return ExpectedVerdicts(
            self._digests.array(), self._limits.array(), self._leasts.array(), self._owed.array(),
            np.zeros(len(self._digests), np.bool_),
        )  # fmt: skip
