"""The file of results: what is kept of an earlier run, and what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks import machine, results, signing, throughput
from tests.helpers.benchmark_results import THROUGHPUT


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    new = results.Results(machine.describe(), "2024-06-01")
    new.subjects["throughput"] = results.encoded(THROUGHPUT, 0.5)
    results.write(path, new)
    found = results.read(path)
    assert found is not None
    assert found.found("throughput", throughput.Throughput) == THROUGHPUT
    assert found.found("signing", signing.Signing) is None
    assert found.found("throughput", signing.Signing) is None


@pytest.mark.parametrize("field", ["load", "commit", "processor", "packages"])
def test_other_subjects_results_stay_where_machine_and_packages_are_the_same(
    field: str, tmp_path: Path
) -> None:
    path, here = tmp_path / "results.json", machine.describe()
    one = results.Results(here, "2024-06-01", {"one": results.encoded(1, 0.0)})
    results.write(path, one)
    other: dict[str, Any] = {
        "load": here.load + 1, "commit": "other", "processor": "other", "packages": {"numpy": "0"}
    }  # fmt: skip
    there = msgspec.structs.replace(here, **{field: other[field]})
    results.write(path, results.Results(there, "2024-06-02", {"two": results.encoded(2, 0.0)}))
    found = results.read(path)
    assert found is not None
    assert found.machine == there
    assert found.subjects.keys() == ({"one", "two"} if field in {"load", "commit"} else {"two"})


def test_results_of_another_version_are_written_over(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text('{"machine": 1}')
    assert results.read(path) is None
    results.write(path, results.Results(machine.describe(), "2024-06-01"))
    assert results.read(path) is not None
