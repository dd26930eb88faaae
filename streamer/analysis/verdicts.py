"""The lines of a verdict file, as the commands of analysis read them.

Lines without a `verdict` (dead letters in the same stream) are skipped. A line that is no JSON
object of this shape ends the reading with its number: a result of half a file would mislead. A
verdict is found again by the place of its line, so that no text has to be kept.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from streamer.errors import InputError
from streamer.model import Location
from streamer.pages.stored_file import explaining_disk
from streamer.run.verdict_files import open_verdicts
from streamer.run.verdict_lines import VerdictCheck, VerdictLine

REPORT_LINES = 10_000  # after so many lines `progress` is called
_DECODE = msgspec.json.Decoder(VerdictLine).decode


def read_places(
    path: Path, progress: Callable[[int], None] = lambda _bytes: None
) -> Iterator[tuple[int, VerdictLine]]:
    """Yield (place of the line in bytes, verdict) of a JSON-lines file, in its order.

    `progress` gets the bytes read so far, now and then.

    Raises:
        InputError: the file cannot be read, has lines and no verdict, or a line is not a verdict;
            the message has its number.
    """
    with explaining_disk(str(path), "check the path"), open_verdicts(path) as file:
        place, any_verdict, check = file.tell(), False, VerdictCheck(path)
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    judged = _DECODE(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    raise InputError(f"{path}:{number}: not a verdict ({error})") from error
                if judged.verdict is not None:
                    check.check(judged, number)
                    any_verdict = True
                    yield place, judged
            place += len(line)
            if number % REPORT_LINES == 0:
                progress(place)
        progress(place)
        if place and not any_verdict:
            raise InputError(f"{path}: has no verdict; give what `replay --verdicts` wrote")


def read_verdicts(path: Path) -> Iterator[VerdictLine]:
    """Yield the verdicts of a JSON-lines file as `read_places` does, without their places."""
    return (judged for _, judged in read_places(path))


def read_verdict_at(file: BinaryIO, place: int) -> VerdictLine:
    """Return the verdict whose line begins at `place`, as `read_places` yields it."""
    file.seek(place)
    return _DECODE(file.readline())


LARGEST = 10


class Cluster(msgspec.Struct, frozen=True):
    """A kept page with its duplicates: `size` counts it too, `share` is of all pages judged."""

    url: str
    size: int
    share: float


def largest_clusters(verdicts: Iterable[VerdictLine], count: int = LARGEST) -> list[Cluster]:
    """Return the `count` largest clusters of two or more pages, the largest first, ties by URL.

    Of repeated verdicts of a page the first counts. One cluster with a large share of all pages is
    the sign of a block page or of a template taken for content.
    """
    judged = set[Location]()
    sizes: Counter[Location] = Counter()
    urls: dict[Location, str] = {}
    for said in verdicts:
        if said.page in judged:
            continue
        judged.add(said.page)
        if said.representative is not None:
            place = said.representative.page
            sizes[place] += 1
            urls.setdefault(place, said.representative.url)
    clusters = (
        Cluster(urls[place], duplicates + 1, (duplicates + 1) / len(judged))
        for place, duplicates in sizes.items()
    )
    return heapq.nsmallest(count, clusters, key=lambda cluster: (-cluster.size, cluster.url))
