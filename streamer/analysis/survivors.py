"""The survivors of a verdict file's clusters, found among the pages that were judged.

A verdict names its page by file and ordinal. Of each verdict 14 bytes are held, in arrays ascending
by page ref: the ref, a checksum of the URL, whether the page is dropped for another one of its
cluster, and whether it was found. The pages are then read once, in the order of their files. So the
clusters (`clusters.group`) take more memory than the join.

The checksum finds pages that are not those of the verdicts. A page without a verdict is counted,
and is no survivor: a rule may have left it out, or the run was interrupted before it.
"""

import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePath

import numpy as np
import numpy.typing as npt

from streamer.analysis.clusters import Grouping, Progress, Rank, Refs, SourceNumbers, group
from streamer.errors import InputError
from streamer.model import SEQUENCE_BITS, page_ref, split_ref
from streamer.pages.chunk import PageBatch
from streamer.run.reading import name_first
from streamer.run.totals import Ints
from streamer.run.verdict_lines import VerdictLine

_REMEDY = "Name all files that were judged, and give the --fields or --preset of that run."


class JudgedPages:
    """The ref of each judged page and a checksum of its URL, in the order of the verdicts."""

    def __init__(self) -> None:
        self._refs = array("Q")
        self._sums = array("I")

    def note(self, ref: int, verdict: VerdictLine) -> None:
        """Add the page of a verdict."""
        self._refs.append(ref)
        self._sums.append(zlib.crc32(verdict.url.encode(errors="replace")))

    def ascending(self) -> tuple[Refs, npt.NDArray[np.uint32]]:
        """Return the refs, each once, ascending, and the checksums; of a repeat the first one."""
        refs, sums = np.frombuffer(self._refs, np.uint64), np.frombuffer(self._sums, np.uint32)
        if (refs[1:] > refs[:-1]).all():  # as one run writes them
            return refs, sums
        refs, firsts = np.unique(refs, return_index=True)
        return refs, sums[firsts]


class Survivors:
    """Which pages of which files survive.

    Attributes:
        written, dropped, excluded: how many judged pages were chosen, were left out for another
            one, or by their URL.
        unjudged: how many pages had no verdict.
    """

    def __init__(
        self, verdicts: Path, grouping: Grouping, judged: JudgedPages, excluded: frozenset[str]
    ) -> None:
        self._verdicts = verdicts
        self._known: SourceNumbers = grouping.known
        self._excluded = excluded
        self._refs, self._sums = judged.ascending()
        self._is_dropped = np.zeros(len(self._refs), np.bool_)
        self._is_dropped[self._find(grouping.dropped)[0]] = True
        self._is_found = np.zeros(len(self._refs), np.bool_)
        self._numbers: dict[str, int] = {}
        self.written = self.dropped = self.excluded = self.unjudged = 0

    def _find(self, refs: Refs) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return the places of the pages that were judged, and which of `refs` these are."""
        places = np.searchsorted(self._refs, refs)
        is_judged = np.searchsorted(self._refs, refs, "right") > places
        return places[is_judged], is_judged

    def expect(self, names: Sequence[str], *, some: bool = False) -> None:
        """Find the sources of the verdicts among files of these names.

        A file that was moved is known by its own name without the folder, where only one has it.
        With `some` there may be others whose pages are not wanted.

        Raises:
            InputError: files of the verdicts are not there.
        """
        sources = [
            (name, number)
            for (name, _), number in self._known.numbers.items()
            if self._known.pages[number]
        ]
        counts = Counter(name for name, _ in sources)  # pipes of one name are its partitions
        judged = {name: number for name, number in sources if counts[name] == 1}
        self._numbers = {name: judged[name] for name in names if name in judged}
        moved = _group_by_last_part(name for name in names if name not in judged)
        gone = _group_by_last_part(name for name in judged if name not in self._numbers)
        self._numbers |= {moved[last]: judged[gone[last]] for last in moved.keys() & gone.keys()}
        lacking = {*self._known.pages} - {*self._numbers.values()}
        if lacking and not (some and self._numbers):
            count = sum(self._known.pages[number] for number in lacking)
            all_names = self._known.names()
            others = name_first([all_names[number] for number in sorted(lacking)])
            raise InputError(
                f"{self._verdicts}: the pages of {count:,} verdicts are not in these files, but in "
                f"{others}. {_REMEDY}"
            )

    def among(self, source: str, batch: PageBatch) -> Refs:
        """Return the ordinals of a file's pages that survive, ascending.

        Raises:
            InputError: a page has another URL than the one that was judged in its place.
        """
        if source not in self._numbers:
            self.unjudged += len(batch)
            return np.empty(0, np.uint64)
        ordinals = np.array(batch.sequences, np.uint64)
        places, is_judged = self._find(np.uint64(page_ref(self._numbers[source], 0)) + ordinals)
        self.unjudged += len(batch) - len(places)
        ordinals = ordinals[is_judged]
        urls = [batch.urls[at] for at in np.flatnonzero(is_judged).tolist()]
        other = self._sums[places] != np.fromiter(map(zlib.crc32, urls), np.uint32, len(urls))
        if other.any():
            at = int(np.argmax(other))
            raise InputError(
                f"{self._verdicts}: record {ordinals[at]:,} of {source} was another page when it "
                f"was judged, now it is {urls[at].decode(errors='replace')}. {_REMEDY}"
            )
        self._is_found[places] = True
        excluded = [url.decode(errors="replace") in self._excluded for url in urls]
        is_excluded = np.array(excluded, np.bool_)
        is_dropped = self._is_dropped[places] & ~is_excluded
        survivors: Refs = ordinals[~is_dropped & ~is_excluded]
        self.written += len(survivors)
        self.dropped += int(is_dropped.sum())
        self.excluded += int(is_excluded.sum())
        return survivors

    def check_found(self) -> None:
        """Raise InputError unless the files had all pages of their verdicts; call it at the end."""
        is_read = np.zeros(len(self._known.numbers), np.bool_)
        is_read[[*self._numbers.values()]] = True
        is_missing = is_read[self._refs >> np.uint64(SEQUENCE_BITS)] & ~self._is_found
        if is_missing.any():
            number, ordinal = split_ref(int(self._refs[np.argmax(is_missing)]))
            raise InputError(
                f"{self._verdicts}: the pages of {is_missing.sum():,} verdicts are not in these "
                f"files, first record {ordinal:,} of {self._known.names()[number]}. {_REMEDY}"
            )


def find_survivors(
    verdicts: Path,
    rank: Rank,
    scope: Callable[[str], int],
    excluded: frozenset[str] = frozenset(),
    progress: Progress = lambda _bytes: None,
) -> tuple[Grouping, Survivors]:
    """Return the clusters of a verdict file, as `group` does, and the survivors.

    A page whose URL is `excluded` is chosen in no cluster that has another page.

    Raises:
        InputError: as `group`.
    """

    def ranked(judged: VerdictLine) -> tuple[float, ...]:
        return judged.url in excluded, *rank(judged)

    judged = JudgedPages()
    grouping = group(verdicts, ranked if excluded else rank, scope, progress, note=judged.note)
    return grouping, Survivors(verdicts, grouping, judged, excluded)


def read_urls(path: Path) -> frozenset[str]:
    """Return the URLs in a file, one a line; space around them and empty lines do not count.

    Raises:
        InputError: the file cannot be read, or is no UTF-8.
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            return frozenset(url for line in file if (url := line.strip()))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def _group_by_last_part(names: Iterable[str]) -> dict[str, str]:
    """Return the names by their last part, where only one has it."""
    all_names = [(PurePath(name).name, name) for name in names]
    counts = Counter(last for last, _ in all_names)
    return {last: name for last, name in all_names if counts[last] == 1}
