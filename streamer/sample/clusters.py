"""The largest clusters of a verdict file: a kept page and all duplicates of it.

The file is read once; memory is one number for each representative, never one for each page, and so
a repeated verdict counts again. One cluster with a large share of all pages is the sign of a block
page or of a template taken for content.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streamer.model import Location
    from streamer.sample.verdict_file import Said

LARGEST = 10


@dataclass(frozen=True, slots=True)
class Cluster:
    """A kept page with its duplicates: `size` counts it too, `share` is of all pages judged."""

    url: str
    size: int
    share: float


def largest_clusters(verdicts: Iterable[Said], count: int = LARGEST) -> list[Cluster]:
    """Return the `count` largest clusters of two or more pages, the largest first, ties by URL."""
    judged = 0
    sizes: Counter[Location] = Counter()
    urls: dict[Location, str] = {}
    for said in verdicts:
        judged += 1
        if said.representative is not None:
            place = said.representative.page
            sizes[place] += 1
            urls.setdefault(place, said.representative.url)
    clusters = (
        Cluster(urls[place], duplicates + 1, (duplicates + 1) / judged)
        for place, duplicates in sizes.items()
    )
    return heapq.nsmallest(count, clusters, key=lambda cluster: (-cluster.size, cluster.url))
