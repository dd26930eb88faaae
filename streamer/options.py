"""The options of `Deduplicator` by name and type, for checkers of types and editors.

config.py declares the settings themselves: their defaults, bounds and meaning. What is of no use to
a program that adds pages, as a worker's settings, is not here.
"""

import os
from collections.abc import Sequence
from typing import Literal, TypedDict

AnyPath = str | os.PathLike[str]


class Options(TypedDict, total=False):
    """Settings of docs/settings.md."""

    preset: str | Sequence[str]
    threshold: float
    fallback_threshold: float
    min_shingles: int
    bucket_max: int
    candidates_max: int
    expire_after: str
    keep_pages: int
    track_changes: bool
    near_misses: float
    rules: AnyPath
    also: Sequence[str]
    method: str
    accept: str
    method_option: str | Sequence[str]
    canonical: str | Sequence[str]
    text: Literal["visible", "main"]
    site_memory: int | str
    exact: bool
    shingle_width: int
    scope: str
    bands: int
    rows: int
    key_file: AnyPath
    fields: str
    carry: str | Sequence[str]
    threads: int
    head_pages: int
    index_memory: int | str
    page_bytes_max: int
