"""The benchmark of many flushes, on a few of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import flushes

if TYPE_CHECKING:
    from pathlib import Path


def test_an_index_of_many_flushes_is_bounded_and_whole(tmp_path: Path) -> None:
    *samples, opened = flushes.measure(tmp_path, 210, samples=3)
    assert [sample.flushes for sample in (*samples, opened)] == [70, 140, 210, 210]
    assert opened.rows == 208 + 2 * flushes.LARGE_ROWS
    assert all(sample.is_bounded for sample in (*samples, opened))
    assert not opened._replace(files=flushes.FILES_MAX + 1).is_bounded
