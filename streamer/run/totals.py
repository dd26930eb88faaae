"""What a run counts and reports at its end: what became of records, what is lost, large clusters.

An index keeps the totals of all runs.

Clusters that take up a large part of a source, or of a host with few words, are looked for. The
former indicate a block page, a login form, or a template taken for content; the latter, pages
that scripts build in a browser. Duplicates are counted by representative, and rare representatives
are dropped now and then, so memory is bounded. A count is exact where a source has few clusters,
and lacks a small part of its pages otherwise.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt

from streamer.hosts import host_of
from streamer.index.messages import Verdicts
from streamer.index.rule import BASIS_NAMES, SIGNATURE, TOO_SHORT
from streamer.index.url_versions import count_changes
from streamer.kernel import kernel
from streamer.pages.chunk import PageBatch
from streamer.text.visible import Buffer

LOST_PAGES = 20  # of a chunk that are looked at
LOST_BYTES = 1 << 16  # of a page
LOST_SHARE_MAX = 0.01  # of the characters


class Totals(msgspec.Struct):
    """What became of all records, up to the positions in the catalogue."""

    records: int = 0
    unique: int = 0
    duplicates: dict[str, int] = {}
    too_short: int = 0
    dead: dict[str, int] = {}
    skipped: dict[str, int] = {}
    changes: dict[str, int] = {}

    def add_verdicts(self, block: Verdicts) -> None:
        """Count the verdicts of a block."""
        duplicate = block.similarities >= 0
        found = np.bincount(block.basis[duplicate], minlength=len(BASIS_NAMES)).tolist()
        self.unique += len(block) - sum(found)
        self.too_short += int(np.count_nonzero(block.basis == TOO_SHORT))
        for name, count in zip(BASIS_NAMES, found, strict=True):
            if count:
                self.duplicates[name] = self.duplicates.get(name, 0) + count
        for change, count in count_changes(block.changes):
            if count:
                self.changes[change] = self.changes.get(change, 0) + count

    def add_batch(self, batch: PageBatch) -> None:
        """Count the records that a batch was parsed from; offsets have gaps."""
        self.records += len(batch) + len(batch.dead) + batch.skipped.total()
        for rejected in batch.dead:
            self.dead[rejected.code] = self.dead.get(rejected.code, 0) + 1
        for code, count in batch.skipped.items():
            self.skipped[code] = self.skipped.get(code, 0) + count


def count_lost_characters(bodies: Sequence[Buffer]) -> list[tuple[int, int]]:
    """Return how many characters a wrong charset has lost of each first body, and how many it has.

    Lost are U+FFFD, and bytes that are not UTF-8 and are read as it.
    """
    texts = (bytes(body[:LOST_BYTES]).decode("utf-8", "replace") for body in bodies[:LOST_PAGES])
    return [(text.count("\ufffd") + text.count("\\ufffd"), len(text)) for text in texts]


class LostText:
    """Sums up what is lost, in some pages of each source."""

    def __init__(self) -> None:
        self._lost, self._all = Counter[str](), Counter[str]()

    def add(self, name: str, lost: int, count: int) -> None:
        """Take what `count_lost_characters` has found in a page of a source."""
        self._lost[name] += lost
        self._all[name] += count

    def shares(self) -> dict[str, float]:
        """Return the shares that are too large, by the names of sources, the largest first."""
        shares = {name: lost / self._all[name] for name, lost in self._lost.items() if lost}
        large = {name: round(each, 4) for name, each in shares.items() if each > LOST_SHARE_MAX}
        return dict(sorted(large.items(), key=lambda each: -each[1]))


# ---- large clusters ------------------------------------------------------------------------------


SUSPECT_PAGES_MIN = 10  # smaller clusters are no sign of anything
SHARE_MIN = 0.2
FEW_WORDS = 50  # that a page has which scripts build: a title, a menu, "please enable JavaScript"
_FOUND_MAX = 100  # of all sources, the largest
_COUNTS_MAX = 4_096  # of a source; half of them stay

Ints = npt.NDArray[np.int64]


class LargeCluster(msgspec.Struct, frozen=True):
    """A representative, by its URL, that has a `share` of the pages of a source as duplicates."""

    source: str
    representative: str
    duplicates: int
    share: float


def suspicion(source: str, pages: int, share: float, who: str) -> str:
    """Return what is said of a large cluster; `who` names a page of it, and what that is in it."""
    return (
        f"one cluster holds {share:.0%} of {source} ({pages:,} pages); its {who}. Look at that "
        "page: a block page or a template may have been taken for content."
    )


@dataclass(slots=True)
class _Counts:
    """The pages of a source, its duplicates by representative, and these' URLs."""

    pages: int = 0
    duplicates: Counter[int] = field(default_factory=Counter)
    urls: dict[int, bytes] = field(default_factory=dict)


class LargeClusters:
    """Counts verdicts by source and representative; for one thread at a time.

    Attributes:
        found: the large clusters of the sources that have ended, the largest shares first.
    """

    def __init__(self) -> None:
        self.found: list[LargeCluster] = []
        self._sources: dict[int, _Counts] = {}

    def add(self, source: int, block: Verdicts) -> None:
        """Count the verdicts of a block."""
        counts = self._sources.setdefault(source, _Counts())
        counts.pages += len(block)
        places = np.flatnonzero(_count_named(block))
        others = block.representative_refs[places]
        refs, firsts, named = np.unique(others, return_index=True, return_counts=True)
        columns = refs.tolist(), places[firsts].tolist(), named.tolist()
        for ref, place, count in zip(*columns, strict=True):
            counts.duplicates[ref] += count
            counts.urls.setdefault(ref, block.representative_urls[place])
        if len(counts.duplicates) > _COUNTS_MAX:
            counts.duplicates = Counter(dict(counts.duplicates.most_common(_COUNTS_MAX // 2)))
            counts.urls = {ref: counts.urls[ref] for ref in counts.duplicates}

    def end(self, source: int, name: str) -> None:
        """Add the large clusters of a source to `found`, and drop its counts."""
        counts = self._sources.pop(source, None)
        if counts is None:
            return
        least = max(SUSPECT_PAGES_MIN, SHARE_MIN * counts.pages)
        for ref, count in counts.duplicates.items():
            if count >= least:
                url, share = counts.urls[ref].decode(errors="replace"), count / counts.pages
                self.found.append(LargeCluster(name, url, count, round(share, 4)))
        self.found = sorted(self.found, key=lambda each: (-each.share, each.source))[:_FOUND_MAX]


class SharedText(msgspec.Struct, frozen=True):
    """How many pages of a host have one text of a few words, and the URL of the first of all."""

    host: str
    pages: int
    words: int
    representative: str

    def __str__(self) -> str:
        """Say it in a sentence."""
        return (
            f"{self.pages:,} pages of {self.host or 'no host'} share one text of {self.words} "
            f"words, that of {self.representative}. Probably scripts build them in a browser: "
            "render them before, or they are one page here."
        )


class SharedTexts:
    """Counts pages of few words with equal content, by host; for one thread at a time."""

    def __init__(self) -> None:
        self._counts = Counter[tuple[int, str]]()  # by representative and host
        self._texts: dict[int, tuple[str, int]] = {}  # its URL and words

    def add(self, block: Verdicts) -> None:
        """Count the pages of a block; a page that is fetched again is no other page."""
        few = _count_named(block) & (block.basis != SIGNATURE) & (block.pages.tokens <= FEW_WORDS)
        for place in np.flatnonzero(few).tolist():
            url, other = block.pages.urls[place], block.representative_urls[place]
            if url == other:
                continue
            ref = int(block.representative_refs[place])
            self._counts[ref, host_of(url.decode(errors="replace"))] += 1
            self._texts[ref] = other.decode(errors="replace"), int(block.pages.tokens[place])
        if len(self._counts) > _COUNTS_MAX:
            self._counts = Counter(dict(self._counts.most_common(_COUNTS_MAX // 2)))
            self._texts = {ref: self._texts[ref] for ref, _ in self._counts}

    def found(self) -> list[SharedText]:
        """Return what SUSPECT_PAGES_MIN pages of a host share, the largest numbers first."""
        shared = []
        for (ref, host), count in self._counts.most_common(_FOUND_MAX):
            url, words = self._texts[ref]
            pages = count + (host_of(url) == host)
            if pages >= SUSPECT_PAGES_MIN:
                shared.append(SharedText(host, pages, words, url))
        return shared


def _count_named(block: Verdicts) -> npt.NDArray[np.bool_]:
    """Return which pages have a representative of this index; another's refs are not ours."""
    named = block.similarities >= 0
    if block.references is not None:
        named &= np.array([other is None for other in block.references])
    return named


@kernel
def unite(pairs: Ints, roots: Ints) -> None:
    """Unite the two of each pair; then roots[i] is the least member of i's set.

    `roots` starts as 0, 1, 2 and so on. Paths are halved on the way (Tarjan, van Leeuwen 1984).
    """
    for i in range(pairs.shape[0]):
        one, other = pairs[i, 0], pairs[i, 1]
        while roots[one] != one:
            roots[one] = roots[roots[one]]
            one = roots[one]
        while roots[other] != other:
            roots[other] = roots[roots[other]]
            other = roots[other]
        roots[max(one, other)] = min(one, other)
    for i in range(roots.shape[0]):
        roots[i] = roots[roots[i]]  # a root is no greater than its members: theirs are final
