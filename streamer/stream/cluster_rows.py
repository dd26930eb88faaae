"""Clusters as rows to write, one a page, and the clusters that are suspiciously large.

A row is read from the verdict file again when it is written, by the place of its line. A cluster
with a large share of a source is the sign of a block page, a login form, or a template taken for
content: then the survivor stands for pages that are no duplicates of it.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, TextIO

import msgspec
import numpy as np

from streamer.model import Location
from streamer.stream.grouping import Grouping
from streamer.stream.large_clusters import SUSPECT_PAGES_MIN
from streamer.stream.verdict_lines import verdict_at

COLUMNS = ("cluster", "pages", "survivor", "url", "topic", "partition", "offset")


class Row(msgspec.Struct, frozen=True):
    """One page of a cluster; clusters are numbered from 1, `pages` is how many it has."""

    cluster: int
    pages: int
    survivor: bool
    url: str
    page: Location


class Suspect(NamedTuple):
    """A cluster with `share` of the pages of a source."""

    source: str
    pages: int
    share: float
    survivor: str


def rows(path: Path, grouping: Grouping) -> Iterator[Row]:
    """Yield the rows of all clusters of the verdict file at `path`, in the order of `grouping`."""
    sizes = grouping.sizes.tolist()
    with path.open("rb") as file:
        places = iter(grouping.places.tolist())
        for number, size in enumerate(sizes, 1):
            for member in range(size):
                url, page = _page_at(file, next(places))
                yield Row(number, size, member == 0, url, page)


def suspects(path: Path, grouping: Grouping, share_min: float) -> list[Suspect]:
    """Return the clusters of 10 or more pages with at least `share_min` of a source's verdicts.

    The largest shares come first. Pages without a verdict in the file do not count.
    """
    own = grouping.places >= 0
    clusters = np.repeat(np.arange(len(grouping)), grouping.sizes)[own]
    parts, counts = np.unique((clusters, grouping.sources[own]), axis=1, return_counts=True)
    names = grouping.known.names()
    found = []
    with path.open("rb") as file:
        for cluster, source, count in zip(*parts.tolist(), counts.tolist(), strict=True):
            share = count / grouping.known.pages[source]
            if count >= SUSPECT_PAGES_MIN and share >= share_min:
                place = int(grouping.places[grouping.starts[cluster]])
                found.append(Suspect(names[source], count, share, _page_at(file, place)[0]))
    return sorted(found, key=lambda suspect: (-suspect.share, suspect.source))


def write_jsonl(out: TextIO, table: Iterator[Row]) -> None:
    """Write rows as JSON lines."""
    encode = msgspec.json.Encoder().encode
    out.writelines(encode(row).decode() + "\n" for row in table)


def write_csv(out: TextIO, table: Iterator[Row]) -> None:
    """Write rows as CSV, after a line of column names; `survivor` is 1 or 0."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in table:
        place = (row.page.topic, row.page.partition, row.page.offset)
        writer.writerow((row.cluster, row.pages, int(row.survivor), row.url, *place))


WRITERS: dict[str, Callable[[TextIO, Iterator[Row]], None]] = {
    ".csv": write_csv,
    ".json": write_jsonl,
    ".jsonl": write_jsonl,
    ".ndjson": write_jsonl,
}


def _page_at(file: BinaryIO, place: int) -> tuple[str, Location]:
    """Return the URL and place of a page by its line, or by ~place of one that names it."""
    judged = verdict_at(file, place if place >= 0 else ~place)
    if place >= 0:
        assert judged.page is not None, place  # read_places yields no others
        return judged.url, judged.page
    assert judged.representative is not None, place
    return judged.representative.url, judged.representative.page
