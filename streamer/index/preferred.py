"""The best copy of each cluster so far (`--prefer`), and what a better one supersedes.

The kept page of a cluster goes on answering, whatever comes, so no rule of the index changes. Only
verdicts say more: a duplicate that is a better copy than all before it supersedes the best of
these, which is the kept page itself at first. Ranks (sketch/preference.py) say which one is better,
and of equals the earlier one stays.

Shard 0 decides that, in the order of its log. A duplicate that another shard has found goes back to
it, without a verdict, if its rank is above that of its representative. All others supersede
nothing, and have their verdicts at once. So only a cluster with a better copy than its kept page
takes room: one entry among the versions of URLs (url_versions.py). It has their layout, so flushes,
sweeps and resharding carry it, and it is forgotten by the URL or time of the better copy. Then the
kept page is the best copy again.

A better copy is known as long as a page of its time and row would answer at shard 0. So it is known
as long as the kept page answers there, which came before it.

An entry has the ref of the kept page in place of a content key, and the better copy's ref and rank
as the first words of its sketch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from streamer.index.forgetting import Forgetting
from streamer.index.messages import Keys, Match, Pages, Superseded, Verdicts
from streamer.index.ports import FoundUrls
from streamer.index.url_versions import (
    VERSION_WORDS,
    UrlVersions,
    is_hidden,
    rows_before,
    time_of,
    url_of,
)
from streamer.sketch.preference import ranks_in

_NO_URL = b"\xff"  # no URL begins so, since they are UTF-8
_TIME, _ROWS, _RECORDS, _REF, _RANK = range(1, 6)  # words of an entry

Places = npt.NDArray[np.int64]


def better_copies(block: Verdicts, ranks: Keys) -> Places:
    """Return the places of duplicates with higher ranks than their representatives: `ranks`."""
    is_better = (block.similarities >= 0) & (ranks_in(block.pages.sketches) > ranks)
    return np.flatnonzero(is_better)


def matched(block: Verdicts, ranks: Keys, places: Places) -> Pages:
    """Return the duplicates at `places` with their matches, as they go back to shard 0.

    They have what shard 0 needs for verdicts. `ranks` are those of all representatives.
    """
    chosen = block.take(places)
    exact = [False] * len(chosen) if chosen.exact is None else chosen.exact.tolist()
    columns = zip(
        chosen.similarities.tolist(), chosen.basis.tolist(), chosen.representative_refs.tolist(),
        chosen.representative_urls, ranks[places].tolist(), exact, strict=True,
    )  # fmt: skip
    return replace(
        chosen.pages, matches=[Match(*each) for each in columns], shingles=None, nearest=None,
        containers=None, replacements=None,
    )  # fmt: skip


def verdicts_of(pages: Pages, *, exact: bool) -> Verdicts:
    """Return the verdicts on duplicates that have come back; `exact`: the index has sets."""
    matches = pages.matches
    assert matches is not None, "pages that are to be judged"
    return Verdicts(
        replace(pages, matches=None),
        np.array([each.similarity for each in matches], np.int32),
        np.array([each.basis for each in matches], np.uint8),
        np.array([each.ref for each in matches], np.uint64),
        [each.url for each in matches],
        np.array([each.exact for each in matches]) if exact else None,
    )


def names_of(matches: Sequence[Match]) -> list[bytes]:
    """Return for the kept page of each match what stands for it in place of a URL."""
    return [_NO_URL + match.ref.to_bytes(8, "big") for match in matches]


@dataclass(frozen=True, slots=True)
class BestCopies:
    """The best copies of clusters at one moment, where these are not the kept pages.

    Attributes:
        versions: where they are; forgetting: which of them are forgotten.
        oldest_time: one that is older than that is not known any more.
        keep_pages, oldest_row: nor is one with so many rows behind it, or before that row.
    """

    versions: UrlVersions
    forgetting: Forgetting
    oldest_time: int
    keep_pages: int
    oldest_row: int

    def supersede(
        self, pages: Pages, found: FoundUrls, rows: Sequence[int], *, keep: bool = True
    ) -> list[Superseded | None]:
        """Return what each of the pages with matches supersedes, in order.

        With `keep` a better copy is the best one from then on. `found` is what the store has of
        `names_of` their matches, `rows` how many rows came before each page.
        """
        matches = pages.matches
        assert matches is not None, "pages that are to be judged"
        result: list[Superseded | None] = []
        ranks, refs = ranks_in(pages.sketches).tolist(), pages.refs.tolist()
        for i, match in enumerate(matches):
            key = found.keys[i]
            best, rank = self._best(match, self.versions.recent(key) or found.versions[i], rows[i])
            if ranks[i] <= rank or self.forgetting.is_named_open(refs[i]):
                result.append(None)
                continue
            result.append(best)
            if keep:
                words = np.zeros(VERSION_WORDS, "<u8")
                words[0], words[_REF], words[_RANK] = match.ref, refs[i], ranks[i]
                words[_TIME] = pages.times[i : i + 1].view(np.uint64)[0]
                words[_ROWS], words[_RECORDS] = rows[i], self.forgetting.records
                self.versions.put(key, words.tobytes() + pages.urls[i])
        return result

    def _best(self, match: Match, entry: bytes | None, rows: int) -> tuple[Superseded, int]:
        """Return the best copy of a match's cluster, and its rank."""
        oldest_row = max(self.oldest_row, rows - self.keep_pages)
        if (
            entry is not None
            and time_of(entry) >= self.oldest_time
            and rows_before(entry) >= oldest_row
            and not is_hidden(self.forgetting, entry)
        ):
            words = np.frombuffer(entry, "<u8", VERSION_WORDS)
            if int(words[0]) == match.ref:
                return Superseded(int(words[_REF]), url_of(entry)), int(words[_RANK])
        return Superseded(match.ref, match.url), match.rank
