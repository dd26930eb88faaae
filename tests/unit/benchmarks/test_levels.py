"""The curve of an index of many levels, on a small one."""

from pathlib import Path

from benchmarks import levels


def test_a_small_index_has_levels_and_its_figures_are_counted(tmp_path: Path) -> None:
    table = levels.measure(tmp_path, 240_000, memory=1 << 20, step_bytes=1 << 16)
    filters, blocks, written = (
        [float(str(cell)) for cell in table.columns[at].cells] for at in (3, 4, 7)
    )
    assert table.row_count == 10
    assert 1 < max(filters) < 15
    assert 0 < max(blocks) < 15
    assert max(written) > 100, "a posting takes some bytes, and is written more than once"
