from __future__ import annotations

from pathlib import Path

from benchmarks import pipe_latency


def test_every_line_is_timed_from_going_in_to_coming_out(tmp_path: Path) -> None:
    found = pipe_latency.measure(tmp_path, rate=50, seconds=0.5)
    assert (found.rate, found.lines) == (50, 25)
    assert 0 < found.median_s <= found.p99_s <= found.max_s
    assert pipe_latency.table([found]).row_count == 1
