"""The page of the benchmarks, over results made for the test."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks import report, results
from benchmarks.results import Results
from benchmarks.run import SUBJECTS
from tests.helpers.benchmark_results import (
    FLUSHES,
    GROWTH,
    HERE,
    KAFKA,
    LIFETIMES,
    LSH,
    SCALE,
    SHARDS,
    SIGNING,
    THROUGHPUT,
    stored,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Hold the results of all subjects with plots, and of Kafka; none of the others."""
    subjects = {
        "throughput": THROUGHPUT,
        "signing": SIGNING,
        "lsh": LSH,
        "shards": SHARDS,
        "scale": SCALE,
        "growth": GROWTH,
        "flushes": FLUSHES,
        "lifetimes": LIFETIMES,
    }
    results.write(tmp_path / results.RESULTS_FILE, stored(subjects))
    (tmp_path / report.KAFKA_FILE).write_bytes(msgspec.json.encode(KAFKA))
    return tmp_path


def page(folder: Path) -> str:
    out = folder / "docs" / "benchmarks.md"
    out.parent.mkdir(exist_ok=True)
    report.write(folder, out)
    return out.read_text(encoding="utf-8")


def section(text: str, title: str) -> str:
    return text.partition(f"## {title}")[2].partition("\n## ")[0]


def test_the_page_has_targets_beside_what_was_measured_and_on_what(folder: Path) -> None:
    text = page(folder)
    assert "Measured 2024-06-01 on a processor, 2 cores, 24 GiB" in text
    assert "commit 0123456789ab" in text
    assert "| pages/s | 33,333 | 25,000 |" in section(text, "Throughput")
    assert "| sign | 13.00 | 12 |" in section(text, "Throughput")
    assert "| other | 3 | 4.0 | 4.0 | 0.50 (0.40 to 0.60) |" in section(text, "Query and insert")
    assert "another is not compared: it is too large." in section(text, "Signing")
    assert "| verdict latency ms, p99 | 107 | 250 |" in section(text, "Through Kafka")


def test_figures_of_another_commit_are_told_as_such(folder: Path) -> None:
    path = folder / results.RESULTS_FILE
    results.write(path, stored({"signing": SIGNING}, commit="fedcba987654"))
    new = msgspec.structs.replace(HERE, commit="fedcba987654")
    kept = {"lsh": results.encoded(LSH, 0.1, HERE.commit)}
    results.write(path, Results(new, "2024-06-02", kept))
    text = page(folder)
    assert "Measured at commit 0123456789ab." in section(text, "Query and insert")
    assert "Measured at commit" not in section(text, "Signing")


def test_every_section_names_the_command_of_its_figures(folder: Path) -> None:
    text = page(folder)
    commands = [one.command for one in (*report.SECTIONS, report.KAFKA_SECTION)]
    assert text.count("\n## ") == len(commands)
    assert [line[10:-1] for line in text.splitlines() if line.startswith("Command: ")] == commands


def test_every_subject_has_its_section() -> None:
    assert {one.subject for one in report.SECTIONS} == {one.name for one in SUBJECTS}


def test_what_is_not_measured_is_named_so(folder: Path) -> None:
    text = page(folder)
    assert report.NOT_MEASURED in section(text, "Quality")
    assert text.count(report.NOT_MEASURED) == len(SUBJECTS) - 8


def test_a_result_of_another_version_counts_as_none(folder: Path) -> None:
    results.write(folder / results.RESULTS_FILE, stored({"signing": {"pages": "many"}}))
    assert report.NOT_MEASURED in section(page(folder), "Signing")


def test_figures_of_a_busy_machine_are_marked(folder: Path) -> None:
    assert "The machine was busy" not in section(page(folder), "Signing")
    assert "load was 1.5" in section(page(folder), "Through Kafka")
    results.write(folder / results.RESULTS_FILE, stored({"signing": SIGNING}, load=0.9))
    assert "load was 0.9" in section(page(folder), "Signing")


def test_plots_lie_beside_the_page_and_come_out_the_same_again(folder: Path) -> None:
    pytest.importorskip("matplotlib", reason="it comes with requirements/bench.lock only")
    text = page(folder)
    plots = {path.name: path.read_bytes() for path in (folder / "docs" / "benchmarks").iterdir()}
    names = [name for one in (*report.SECTIONS, report.KAFKA_SECTION) for name, _ in one.plots]
    assert plots.keys() == {f"{name}.svg" for name in names}
    assert all(f"](benchmarks/{name})" in text for name in plots)
    assert all(plot.startswith(b"<?xml") and b"<dc:date>" not in plot for plot in plots.values())
    page(folder)
    for path in (folder / "docs" / "benchmarks").iterdir():
        assert path.read_bytes() == plots[path.name], path
