"""A run is compared with a baseline: what is worse, what is noise, what cannot be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks import compare, machine, results
from benchmarks.results import Results

HERE = machine.Machine("a processor", 2, 24 << 30, 0.1, "a system", "3.11.7", {"numpy": "2.4"}, "c")


def stored(figures: dict[str, Any], subject: str = "throughput", **changed: Any) -> Results:
    here = msgspec.structs.replace(HERE, **changed)
    return Results(here, "2024-06-01", {subject: results.encoded(figures, 0.1)})


@pytest.mark.parametrize(
    ("path", "old", "new", "code"),
    [
        ("rate", 100.0, 91.0, 0),
        ("rate", 100.0, 89.0, compare.WORSE),
        ("cpu_us", 10.0, 11.5, compare.WORSE),
        ("cpu_us", 10.0, 5.0, 0),
        ("stages.sign.cpu_us", 0.3, 0.7, 0),  # below the noise
        ("stages.sign.cpu_us", 12.0, 14.0, compare.WORSE),
    ],
)
def test_a_figure_that_got_worse_by_more_than_a_tenth_and_the_noise_is_marked(
    path: str, old: float, new: float, code: int, tmp_path: Path
) -> None:
    files = []
    for number, figure in enumerate((old, new)):
        figures: dict[str, Any] = {path: figure}
        if path.startswith("stages"):
            figures = {"stages": [{"name": "sign", "cpu_us": figure}]}
        files.append(tmp_path / f"{number}.json")
        results.write(files[-1], stored(figures))
    assert compare.main([str(file) for file in files]) == code


def test_what_cannot_be_compared_is_named() -> None:
    old = stored({"rate": 2.0, "flatness": 0.9, "corpus": {"pages": 1}})
    found = compare.compare(old, stored({"rate": 1.0, "flatness": 0.9, "corpus": {"pages": 2}}))
    assert "throughput is not compared: one measured more than the other." in found.sentences
    found = compare.compare(old, stored({}, "lsh"))
    assert "throughput is not compared: the new run does not have it." in found.sentences
    assert "lsh is not compared: the baseline does not have it." in found.sentences


@pytest.mark.parametrize("field", ["processor", "cores", "memory_bytes"])
def test_between_machines_only_what_is_relative_is_compared_and_that_is_said(field: str) -> None:
    other: dict[str, Any] = {"processor": "other", "cores": 4, "memory_bytes": 8 << 30}
    figures = {"rate": 2.0, "flatness": 0.9}
    changed = {field: other[field], "packages": {"numpy": "2.5"}}
    found = compare.compare(stored(figures), stored(figures, **changed))
    assert [change.name for change in found.changes] == ["throughput: flatness"]
    assert "The machines differ" in found.sentences[0]
    assert "numpy was 2.4, is 2.5." in found.sentences
