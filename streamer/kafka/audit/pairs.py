"""No two kept pages match: every pair that shares a bucket is compared once more.

Kept pages are written to scratch files as the fold gives them, in the order of insertion. A key's
bucket takes so many postings, the earliest: pairs of later ones could never meet and are left out.
What the limits of the index excuse is counted apart: with several shards an undecided page may have
taken a place, and a page looks at so many candidates only.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamer.index.candidates import matching_pairs
from streamer.index.records import Pages
from streamer.index.settings import IndexSettings
from streamer.kafka.audit.columns import Column
from streamer.kafka.audit.report import Report
from streamer.kafka.audit.table import page_name
from streamer.sketch.compact import SKETCH_WORDS

PAIRS_MAX = 10_000  # that match under one key, and are told apart from those under other keys

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
    """The kept pages of an index, in scratch files in `folder`."""

    def __init__(self, folder: Path, shards: int, bands: int) -> None:
        self._shards = shards
        self._keys_a_page = bands + 1
        self._keys_file, self._sketches_file = folder / "keys", folder / "sketches"
        self._refs = Column(np.uint64)
        self._distinct = Column(np.uint8)
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
        self._refs.append(pages.refs)
        self._distinct.append(pages.distinct)

    def compare(self, report: Report) -> None:
        """Report the pairs that match; of settings that changed, the strictest count."""
        count, check = len(self._refs), report.kept_pairs
        report.counts["kept pages"] = count
        report.counts["postings refused by full buckets"] = sum(self._refused.values())
        if not count or not self._settings:
            return
        bucket_max = min(each.bucket_max for each in self._settings)
        least = max(each.similarity_min for each in self._settings)
        measure = int(min(each.measure for each in self._settings))  # an index has one
        sketches = np.asarray(np.memmap(self._sketches_file, np.uint64, "r+"))
        met = np.zeros(count, np.int64)
        found = [np.empty((0, 2), np.int64)]
        for rows, starts in self._buckets(count):
            pairs = np.empty((PAIRS_MAX, 2), np.int64)
            compared, matching = matching_pairs(
                rows,
                starts,
                sketches.reshape(count, SKETCH_WORDS),
                (bucket_max, least, measure),
                met,
                pairs,
            )
            check.looked_at += compared
            found.append(pairs[:matching])
        refs = self._refs.array()
        for earlier, later in np.unique(np.concatenate(found), axis=0).tolist():
            if self._is_excused(int(met[later])):
                report.counts["kept pairs that match, excused by the limits"] += 1
            else:
                pair = page_name(int(refs[earlier])), page_name(int(refs[later]))
                check.violate(f"{pair[0]} and {pair[1]} are both kept and match")

    def _buckets(self, count: int) -> Iterator[tuple[Rows, Rows]]:
        """Yield the rows and starts of the shared buckets under each key."""
        keys = np.asarray(np.memmap(self._keys_file, np.uint64, "r")).reshape(
            count, self._keys_a_page
        )
        comparable = self._distinct.array() >= max(each.shingles_min for each in self._settings)
        for column in range(keys.shape[1]):
            content = column == keys.shape[1] - 1
            yield buckets(keys[:, column].copy(), comparable | content)

    def _is_excused(self, met: int) -> bool:
        """Tell whether a page that shares buckets with `met` earlier ones may have missed one."""
        candidates_max = min(each.candidates_max for each in self._settings)
        if self._shards == 1:
            return met > candidates_max
        keys = -(-self._keys_a_page // self._shards) + 1  # at one shard, at most
        bucket_max = max(each.bucket_max for each in self._settings)
        return any(self._refused.values()) or keys * bucket_max > candidates_max
