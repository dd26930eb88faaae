from __future__ import annotations

from pathlib import Path

from benchmarks import inputs


def test_each_format_has_a_rate_and_its_share(tmp_path: Path) -> None:
    first, *others = inputs.measure(tmp_path, pages=300, rounds=1)
    assert (first.suffix, first.share) == (".jsonl", 1)
    assert [each.suffix for each in others] == list(inputs.WRITERS)
    assert all(each.share == each.rate / first.rate for each in others)
    assert inputs.table([first, *others]).row_count == 4
