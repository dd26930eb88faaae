from __future__ import annotations

from pathlib import Path

from benchmarks import console


def test_every_view_of_verdicts_that_were_made_answers(tmp_path: Path) -> None:
    found = console.measure(tmp_path, count=500, rounds=1)
    assert found.verdicts == 500
    assert all(0 < view.median_s <= view.longest_s for view in found.views)
    assert found.peak_bytes > found.view_bytes > 0
    assert console.table(found).row_count == len(found.views) + 1
