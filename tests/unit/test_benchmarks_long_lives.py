"""The benchmarks of indexes that live long, on small ones."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console

from benchmarks import beside, flushes, growth, lifetimes

if TYPE_CHECKING:
    from rich.table import Table


def test_an_index_of_many_flushes_is_bounded_and_whole(tmp_path: Path) -> None:
    *samples, opened = flushes.measure(tmp_path, 210, samples=3)
    assert [sample.flushes for sample in (*samples, opened)] == [70, 140, 210, 210]
    assert opened.rows == 208 + 2 * flushes.LARGE_ROWS
    assert all(sample.is_bounded for sample in (*samples, opened))
    assert not msgspec.structs.replace(opened, files=flushes.FILES_MAX + 1).is_bounded
    assert "70" in shown(flushes.table([*samples, opened]))


def shown(table: Table) -> str:
    text = io.StringIO()
    Console(file=text, width=200).print(table)
    return text.getvalue()


def test_an_index_beyond_its_memory_is_opened_and_restored(tmp_path: Path) -> None:
    result = growth.measure(tmp_path, 60_000)
    assert [sample.kept for sample in result.samples] == [6_000 * at for at in range(1, 11)]
    assert min(result.opened, result.snapshot, result.restored) > 0
    assert not [*tmp_path.iterdir()]
    assert "60,000" in shown(growth.table(result))
    assert "54,000" in shown(growth.samples_table(result))


def test_every_way_to_expire_has_ten_lifetimes(tmp_path: Path) -> None:
    result = lifetimes.measure(tmp_path, 4_000)
    assert [len(samples) for samples in result.values()] == [10] * 3
    assert "by number" in shown(lifetimes.table(result))
    assert not [*tmp_path.iterdir()]


def test_pages_are_judged_beside_another_index_which_is_resharded(tmp_path: Path) -> None:
    result = beside.measure(tmp_path, 4_000, rounds=1)
    assert (result.without.duplicates, result.none_near.duplicates) == (0, 0)
    assert result.half_near.duplicates == result.pages // 2
    sizes = result.resharding
    assert sizes.disk_bytes >= sizes.new_bytes > sizes.old_bytes > 0
    assert "4,000" in shown(beside.table(result))
    assert not [*tmp_path.iterdir()]
