from pathlib import Path

import pytest

from benchmarks import compare, machine, results

HERE = machine.Machine("a processor", 2, 24 << 30, 0.1, "a system", "3.11.7", {"numpy": "2.4"}, "c")


@pytest.mark.parametrize(("rate", "code"), [(91.0, 0), (89.0, compare.WORSE)])
def test_a_figure_more_than_a_tenth_worse_is_marked(rate: float, code: int, tmp_path: Path) -> None:
    files = [tmp_path / "old.json", tmp_path / "new.json"]
    for file, figure in zip(files, (100.0, rate), strict=True):
        subjects = {"throughput": results.encoded({"rate": figure}, 0.1)}
        results.write(file, results.Results(HERE, "2024-06-01", subjects))
    assert compare.main([str(file) for file in files]) == code
