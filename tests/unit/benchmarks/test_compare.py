"""A run is compared with a baseline: what is worse, what is noise, what cannot be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks import compare, results
from benchmarks.collisions import Collisions, Hash
from benchmarks.results import Results
from benchmarks.run import SUBJECTS
from benchmarks.throughput import StageTime
from tests.helpers.benchmark_results import (
    BESIDE,
    FLUSHES,
    GROWTH,
    HTML,
    LIBRARY,
    LIFETIMES,
    LSH,
    QUALITY,
    SCALE,
    SHARDS,
    SIGNING,
    START,
    THROUGHPUT,
    stored,
)


def compared(old: Results, new: Results) -> dict[str, compare.Change]:
    return {change.name: change for change in compare.compare(old, new).changes}


def test_a_figure_that_got_worse_by_more_than_a_tenth_is_marked() -> None:
    old = stored({"throughput": THROUGHPUT})
    for rate, worse in ((30_001.0, False), (29_999.0, True), (60_000.0, False)):
        changed = msgspec.structs.replace(THROUGHPUT, rate=rate)
        change = compared(old, stored({"throughput": changed}))["throughput: rate"]
        assert change.worse is worse, rate
        assert change.ratio == pytest.approx(rate / 33_333)


def test_more_time_is_worse_and_less_is_not() -> None:
    old = stored({"throughput": THROUGHPUT})
    for us, worse in ((56.0, True), (30.0, False)):
        changed = msgspec.structs.replace(THROUGHPUT, cpu_us=us)
        assert compared(old, stored({"throughput": changed}))["throughput: cpu_us"].worse is worse


def test_a_difference_below_the_noise_is_none() -> None:
    stages = [StageTime("sign", 12.0, 13.0), StageTime("runs: merging", 6.0, 0.7)]
    changed = msgspec.structs.replace(THROUGHPUT, stages=stages)
    changes = compared(stored({"throughput": THROUGHPUT}), stored({"throughput": changed}))
    change = changes["throughput: stages runs: merging cpu_us"]
    assert change.ratio > 2
    assert not change.worse


@pytest.mark.parametrize("field", ["processor", "cores", "memory_bytes"])
def test_between_machines_only_what_is_relative_is_compared_and_that_is_said(field: str) -> None:
    other: dict[str, Any] = {"processor": "other", "cores": 4, "memory_bytes": 8 << 30}
    subjects = {"throughput": THROUGHPUT, "signing": SIGNING}
    found = compare.compare(stored(subjects), stored(subjects, **{field: other[field]}))
    assert {change.name for change in found.changes} == {
        "throughput: flatness",
        "throughput: index_bytes_a_page",
        "signing: peers streamer ratio",
        "signing: peers a|b ratio",
    }
    assert "The machines differ" in found.sentences[0]


def test_another_version_of_a_package_is_named() -> None:
    found = compare.compare(stored({}), stored({}, packages={"numpy": "2.5", "numba": "1"}))
    assert "numpy was 2.4, is 2.5." in found.sentences
    assert "numba was absent, is 1." in found.sentences


def test_measurements_of_another_size_are_not_compared() -> None:
    other = msgspec.structs.replace(SIGNING, pages=200)
    found = compare.compare(stored({"signing": SIGNING}), stored({"signing": other}))
    assert found.changes == []
    assert any(line.startswith("signing is not compared: one measured") for line in found.sentences)


def test_what_one_of_the_two_lacks_is_named() -> None:
    found = compare.compare(stored({"signing": SIGNING}), stored({"lsh": LSH}))
    assert "lsh is not compared: the baseline does not have it." in found.sentences
    assert "signing is not compared: the new run does not have it." in found.sentences


def test_all_that_is_watched_is_there() -> None:
    assert compare.SUBJECTS.keys() == {one.name for one in SUBJECTS}
    watched = {
        "throughput": THROUGHPUT,
        "signing": SIGNING,
        "lsh": LSH,
        "library": LIBRARY,
        "collisions": Collisions([1, 2], [0, 1], [Hash("elf", 28, [0, 1], 594)]),
        "shards": SHARDS,
        "scale": msgspec.structs.replace(SCALE, start=START),
        "html": HTML,
        "quality": QUALITY,
        "growth": GROWTH,
        "flushes": FLUSHES,
        "lifetimes": LIFETIMES,
        "beside": BESIDE,
    }
    assert watched.keys() == compare.SUBJECTS.keys()
    for name, result in watched.items():
        decoded = msgspec.json.decode(results.encoded(result, 0.0).result)
        subject = compare.SUBJECTS[name]
        for path in filter(None, (subject.size, *(one.path for one in subject.figures))):
            assert list(compare.values(decoded, path)), (name, path)


@pytest.mark.parametrize(
    ("rate", "code"), [(33_000.0, 0), (20_000.0, compare.WORSE), (None, compare.NOTHING)]
)
def test_the_exit_code_tells_whether_something_got_worse(
    rate: float | None, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    results.write(old, stored({"throughput": THROUGHPUT}))
    if rate is not None:
        changed = msgspec.structs.replace(THROUGHPUT, rate=rate)
        results.write(new, stored({"throughput": changed}))
    assert compare.main([str(old), str(new)]) == code
    said = capsys.readouterr().out
    assert ("worse" in said) is (code == compare.WORSE)
    assert ("is not there" in said) is (code == compare.NOTHING)
