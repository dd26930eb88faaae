"""What `make bench` can measure: a line here is a benchmark in run.py, the report and the results.

A subject has a type for its stored result, a function of the command line's options that measures
it, and one that shows it as tables and sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from rich.table import Table

from benchmarks import (
    beside,
    collisions,
    flushes,
    growth,
    html_pages,
    library,
    lifetimes,
    lsh,
    quality,
    scale,
    shards,
    signing,
    tables,
    throughput,
)


class Options(msgspec.Struct, frozen=True):
    """How large the measurements are; `folder` is where they work."""

    folder: Path
    pages: int = throughput.PAGES
    head_pages: int | None = None
    signing_pages: int = signing.PAGES
    documents: int = lsh.DOCUMENTS
    library_texts: int = library.TEXTS
    collision_times: int = collisions.TIMES
    keys: int = quality.KEYS
    html_pages: int = html_pages.PAGES
    scale_pages: int = scale.PAGES
    shard_pages: int = shards.PAGES
    growth_pages: int = growth.PAGES
    flushes: int = flushes.FLUSHES
    lifetime_pages: int = lifetimes.PAGES
    beside_pages: int = beside.PAGES


class Subject(NamedTuple):
    """A benchmark by its name."""

    name: str
    result: Any  # the type of what `measure` returns
    measure: Callable[[Options], object]
    shown: Callable[[Any], Iterator[Table | str]]


SUBJECTS = (
    Subject(
        "throughput",
        throughput.Throughput,
        lambda asked: throughput.measure(asked.folder, asked.pages, head_pages=asked.head_pages),
        tables.throughput_tables,
    ),
    Subject(
        "signing",
        signing.Signing,
        lambda asked: signing.measure(asked.signing_pages),
        tables.signing_tables,
    ),
    Subject(
        "lsh", lsh.Lsh, lambda asked: lsh.measure(asked.folder, asked.documents), tables.lsh_tables
    ),
    Subject(
        "library",
        library.Library,
        lambda asked: library.measure(asked.library_texts),
        lambda result: iter([library.table(result)]),
    ),
    Subject(
        "collisions",
        collisions.Collisions,
        lambda asked: collisions.measure(asked.collision_times),
        lambda result: iter([collisions.table(result)]),
    ),
    Subject(
        "quality",
        list[quality.Quality],
        lambda asked: quality.measure(asked.folder / "data", asked.keys),
        tables.quality_tables,
    ),
    Subject(
        "html",
        html_pages.HtmlPages,
        lambda asked: html_pages.measure(asked.folder, asked.html_pages),
        lambda result: iter([html_pages.table(result)]),
    ),
    Subject(
        "shards",
        shards.ShardRates,
        lambda asked: shards.measure(
            asked.folder,
            asked.shard_pages,
            head_pages=asked.head_pages or shards.HEAD_PAGES,
        ),
        shards.tables,
    ),
    Subject(
        "scale",
        scale.Scale,
        lambda asked: scale.measure(asked.folder, asked.scale_pages, head_pages=asked.head_pages),
        scale.tables,
    ),
    Subject(
        "growth",
        growth.Growth,
        lambda asked: growth.measure(asked.folder, asked.growth_pages),
        lambda result: iter([growth.table(result), growth.samples_table(result)]),
    ),
    Subject(
        "flushes",
        list[flushes.Sample],
        lambda asked: flushes.measure(asked.folder, asked.flushes),
        lambda result: iter([flushes.table(result)]),
    ),
    Subject(
        "lifetimes",
        dict[str, list[lifetimes.Sample]],
        lambda asked: lifetimes.measure(asked.folder, asked.lifetime_pages),
        lambda result: iter([lifetimes.table(result)]),
    ),
    Subject(
        "beside",
        beside.Beside,
        lambda asked: beside.measure(asked.folder, asked.beside_pages),
        lambda result: iter([beside.table(result)]),
    ),
)
