"""What a fold gives, noted down: verdicts by number, and kept pages, of which no two may match.

When a page arrived is its rank: a representative must have come before the page itself. The fold is
that of a log, or that of an index of files.

Every pair that shares a bucket is compared once more, from scratch files: what is in memory is a
few numbers a page.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamer.analysis.audit import facts
from streamer.hosts import same_url_key
from streamer.index.forgetting import BEFORE, HOST, REF, URL, names_of_host, normalize_term
from streamer.index.messages import IndexSettings, Pages, Term, Verdicts
from streamer.index.pairs import matching_pairs
from streamer.index.ports import BEFORE_ALL
from streamer.sketch.hash_sets import decide_similarity, widest_doubt
from streamer.sketch.resemblance import SKETCH_WORDS

NEVER = -BEFORE_ALL  # is an age, and a number of rows
PAIRS_MAX = 10_000  # that match under one key, and are distinguished from those under other keys

Words = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]


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
    never meet and are left out. What the limits of the index excuse is counted apart: a page looks
    at so many candidates only.
    """

    def __init__(
        self, folder: Path, bands: int, name_of: Callable[[int], str] = facts.page_name
    ) -> None:
        self._name_of = name_of
        self._keys_a_page = bands + 1
        self._keys_file, self._sketches_file = folder / "keys", folder / "sketches"
        self._sets_file, self._set_ends = folder / "sets", facts.Column(np.int64)
        self._urls_file = folder / "urls"
        # By term, how many pages there were each time that it was named, ascending.
        self._named: dict[Term, list[int]] = defaultdict(list)
        self._refs = facts.Column(np.uint64)
        self._distinct = facts.Column(np.uint8)
        self._main = facts.Column(np.bool_)
        self._times = facts.Column(np.int64)
        self._settings: set[IndexSettings] = set()
        self._refused = 0

    def note_settings(self, settings: IndexSettings) -> None:
        """Take settings that came into force somewhere in the logs."""
        self._settings.add(settings)

    def note_refused(self, postings: int) -> None:
        """Take how many postings found no place."""
        self._refused += postings

    def add(self, pages: Pages) -> None:
        """Take pages that are kept, in the order of insertion; empty ones match nothing."""
        pages = pages.take(np.flatnonzero(pages.tokens))
        _append(self._keys_file, [pages.keys.tobytes()])
        _append(self._sketches_file, [pages.sketches.tobytes()])
        _append(self._urls_file, (url + b"\n" for url in pages.urls))  # which are printable
        if pages.shingles is not None:
            before = int(self._set_ends.array()[-1]) if len(self._set_ends) else 0
            _append(self._sets_file, pages.shingles)
            self._set_ends.append(before + np.cumsum([len(each) for each in pages.shingles]))
        self._refs.append(pages.refs)
        self._distinct.append(pages.distinct)
        self._times.append(pages.times)
        self._main.append(np.ones(len(pages), np.bool_) if pages.main is None else pages.main)

    def __len__(self) -> int:
        return len(self._refs)

    def forget(self, terms: Iterable[Term]) -> None:
        """Take what is forgotten of the pages so far."""
        for term in terms:
            self._named[normalize_term(term)].append(len(self))

    def _forgotten(self) -> Rows:
        """Return how many pages there were when each was forgotten, NEVER if it was not."""
        ends = np.full(len(self), NEVER)
        if not self._named:
            return ends
        times, refs = self._times.array(), self._refs.array().tolist()
        for (kind, value), named in self._named.items():
            for end in named if kind == BEFORE else ():
                early = np.flatnonzero(times[:end] < int(value))
                ends[early] = np.minimum(ends[early], end)
        with self._urls_file.open("rb") as lines:
            for i, (ref, line) in enumerate(zip(refs, lines, strict=True)):
                url = line[:-1]
                hosts = ((HOST, name) for name in names_of_host(url))
                for term in ((URL, same_url_key(url)), (REF, ref), *hosts):
                    ends[i] = min(ends[i], self._find_named(term, i))
        return ends

    def _find_named(self, term: Term, page: int) -> int:
        """Return how many pages there were when a term named one first; NEVER if it did not."""
        named = self._named.get(term, ())
        at = bisect_right(named, page)
        return named[at] if at < len(named) else NEVER

    def compare(self, report: facts.AuditReport) -> None:
        """Report the pairs that match; of settings that changed, the strictest count."""
        count, check = len(self._refs), report.kept_pairs
        report.counts["kept pages"] += count
        report.counts["postings refused by full buckets"] += self._refused
        if not count or not self._settings:
            return
        bucket_max = min(each.bucket_max for each in self._settings)
        visible, main = (
            max(each.similarity_most(main=text) for each in self._settings)
            for text in (False, True)
        )
        least = np.where(self._main.array(), main, visible)
        measure = int(min(each.measure for each in self._settings))  # an index has one
        expire_after = min(each.expire_after_ms or NEVER for each in self._settings)
        keep_pages = min(each.keep_pages or NEVER for each in self._settings)
        exact = any(each.exact for each in self._settings)
        doubt = max(map(widest_doubt, (main, visible))) if exact else 0
        estimated = np.maximum(least - doubt, 0)
        limits = bucket_max, measure, expire_after, keep_pages
        sketches = np.asarray(np.memmap(self._sketches_file, np.uint64, "r+"))
        sketches = sketches.reshape(count, SKETCH_WORDS)
        forgotten = self._forgotten()
        report.counts["kept pages that were forgotten"] += int((forgotten < NEVER).sum())
        lives = np.stack((self._times.array(), forgotten, estimated), axis=1)
        met = np.zeros(count, np.int64)
        found = [np.empty((0, 2), np.int64)]
        for rows, starts in self._buckets(count):
            pairs = np.empty((PAIRS_MAX, 2), np.int64)
            compared, matching = matching_pairs(
                rows, starts, sketches, lives, limits, met, pairs, np.empty(bucket_max, np.int64)
            )
            check.looked_at += compared
            found.append(pairs[:matching])
        refs = self._refs.array()
        # A page that shares buckets with many earlier ones may have missed one.
        candidates_max = min(each.candidates_max for each in self._settings)
        changed = len({(each.expire_after_ms, each.keep_pages) for each in self._settings}) > 1
        for earlier, later in np.unique(np.concatenate(found), axis=0).tolist():
            both = sketches[earlier], sketches[later]
            sets = partial(self._sets_of, earlier, later)
            need = int(max(least[earlier], least[later]))
            if exact and decide_similarity(measure, *both, need, sets)[0] < need:
                continue
            if met[later] > candidates_max or (changed and self._refused > 0):
                report.counts["kept pairs that match, excused by the limits"] += 1
            else:
                pair = self._name_of(int(refs[earlier])), self._name_of(int(refs[later]))
                check.violate(f"{pair[0]} and {pair[1]} are both kept and match")

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


def _append(path: Path, parts: Iterable[bytes]) -> None:
    with path.open("ab") as file:
        file.writelines(parts)


@dataclass(slots=True)
class ExpectedVerdicts:
    """The verdicts that a fold gives, by number, in columns.

    Attributes:
        digests: uint64, over key and value.
        limits: uint32, of the ranks that a representative may have: below that.
        least: int32, the similarity that a duplicate must have, in ten-thousandths.
        owed: whether it was emitted at a record that is committed.
        seen: whether it was found published.
    """

    digests: Words
    limits: npt.NDArray[np.uint32]
    least: npt.NDArray[np.int32]
    owed: npt.NDArray[np.bool_]
    seen: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.digests)


class FoldedVerdicts:
    """Takes what a fold is given and gives."""

    def __init__(self, table: facts.PageTable, kept: KeptPages) -> None:
        self._table = table
        self._kept = kept
        self._arrived = 0
        self._settings: IndexSettings | None = None
        self._digests = facts.Column(np.uint64)
        self._limits = facts.Column(np.uint32)
        self._leasts = facts.Column(np.int32)
        self._owed = facts.Column(np.bool_)

    def __len__(self) -> int:
        return len(self._digests)

    def note_settings(self, settings: IndexSettings) -> None:
        """Take settings that are in force from here on."""
        self._settings = settings
        self._kept.note_settings(settings)

    def note_arrived(self, refs: Words) -> facts.Places:
        """Take the refs of pages that come now; return their places."""
        places = self._table.places(refs)
        ranks = np.arange(self._arrived + 1, self._arrived + 1 + len(places))
        known = places >= 0
        self._table.arrivals[places[known]] = ranks[known]
        self._arrived += len(places)
        return places

    def note_verdicts(self, block: Verdicts, digests: Words, *, owed: bool = True) -> None:
        """Take the next verdicts, and digests of them."""
        places, settings = self._table.places(block.pages.refs), self._settings
        assert settings is not None, "a verdict before any settings"
        self._table.mark(places, facts.JUDGED | facts.OWED if owed else facts.JUDGED)
        least, _ = settings.least_of(block.pages.urls, block.pages.main)
        self._digests.append(digests)
        self._limits.append(self._ranks(places))
        self._leasts.append(least)
        self._owed.append(np.full(len(block), owed))
        self._kept.add(block.pages.take(np.flatnonzero(block.similarities < 0)))

    def _ranks(self, places: facts.Places) -> Rows:
        """Return the ranks plus 1 of pages; 0 for what cannot be a page."""
        ranks, known = np.zeros(len(places), np.int64), places >= 0
        ranks[known] = self._table.arrivals[places[known]]
        return ranks

    def finish(self) -> ExpectedVerdicts:
        """Return the verdicts that must be out."""
        return ExpectedVerdicts(
            self._digests.array(), self._limits.array(), self._leasts.array(), self._owed.array(),
            np.zeros(len(self._digests), np.bool_),
        )  # fmt: skip
