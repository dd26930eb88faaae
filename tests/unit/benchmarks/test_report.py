"""The benchmarks' page and the comparison with a baseline, over results made for the test."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console
from rich.table import Table

from benchmarks import compare, machine, report, results
from benchmarks.beside import Beside, Resharding
from benchmarks.beside import Run as BesideRun
from benchmarks.collisions import Collisions, Hash
from benchmarks.corpus_file import CorpusFile
from benchmarks.figures import markdown
from benchmarks.flushes import Sample as FlushSample
from benchmarks.growth import Growth
from benchmarks.growth import Sample as GrowthSample
from benchmarks.html_pages import HtmlPages
from benchmarks.kafka_latency import KafkaLatency, over_rounds
from benchmarks.kafka_rate import KafkaRate
from benchmarks.library import Library
from benchmarks.lifetimes import Sample as LifetimeSample
from benchmarks.lsh import IndexTime, Lsh
from benchmarks.memory import Memory, Part
from benchmarks.peers.peer import Absent
from benchmarks.quality import Quality, Trial
from benchmarks.resident import Resident
from benchmarks.results import Results
from benchmarks.run import SUBJECTS
from benchmarks.run_kafka import Results as KafkaResults
from benchmarks.salted_source import SourceCost
from benchmarks.scale import Scale
from benchmarks.shards import Costs, Measured, Plan, ShardRates
from benchmarks.signing import PeerTime, Signing
from benchmarks.start_time import StartTime
from benchmarks.throughput import StageTime, Throughput
from benchmarks.timed_replay import Run, Sample, Span

HERE = machine.Machine(
    "a processor", 2, 24 << 30, 0.1, "a system", "3.11.7", {"numpy": "2.4"}, "0123456789ab"
)
SIGNING = Signing(
    pages=100,
    mean_bytes=4096.0,
    rounds=5,
    peers=[PeerTime("streamer", 10.0, 9.0, 1.0), PeerTime("a|b", 80.0, 79.0, 8.0)],
    absent=[Absent("another", "it is too large")],
    fastest="a|b",
    ratio=8.0,
)
LSH = Lsh(
    1000,
    [
        IndexTime("streamer, on disk", 900, 100, 8.0, 7.0, 20, 300 << 20, None, 3, 1.0, 1.0, 1.0),
        IndexTime("other", 900, 100, 4.0, 4.0, 20, 200 << 20, None, 3, 0.5, 0.4, 0.6),
    ],
    [],
)
RUN = Run(
    pages=1000,
    unique=800,
    duplicates=200,
    seconds=0.03,
    cpu_seconds=0.05,
    spans=[Span(500, 0.014), Span(500, 0.015)],
    index_bytes=400_000,
    index_pages=800,
    peak_rss_bytes=300 << 20,
)
THROUGHPUT = Throughput(
    corpus=CorpusFile(Path("corpus.jsonl"), 1000, 4_000_000, None),
    run=RUN,
    rate=33_333.0,
    rates=[35_000.0, 33_000.0],
    flatness=0.94,
    index_bytes_a_page=500.0,
    cpu_us=50.0,
    stages=[StageTime("sign", 12.0, 13.0), StageTime("runs: merging", 6.0, 0.3)],
)
SHARDS = ShardRates(
    1000,
    [Measured(1, 30_000.0, 50.0, 0.0)],
    Costs(20.0, 25.0, 2.0),
    {shards: {cores: Plan(3e4 * cores, 1, 1, "signing") for cores in (2, 4)} for shards in (1, 2)},
)
RESIDENT = Resident(900 << 20, 500 << 20, 950 << 20)
SCALE = Scale(
    source_alone=SourceCost(1000, 0.01),
    source=SourceCost(1000, 0.01),
    run=msgspec.structs.replace(
        RUN,
        samples=[Sample(500, 800 << 20, 400 << 20), Sample(1000, 900 << 20, 500 << 20)],
        memory=Memory(RESIDENT, 800, [Part("all", 900 << 20)], []),
    ),
    rate=33_333.0,
    rates=[35_000.0, 33_000.0],
    peak_bytes=950 << 20,
)
START = StartTime(800, 400_000, [1.0], [2.0], [2.5], 1.0, 2.0, 2.5)
HTML = HtmlPages(1000, 25_000.0, 6_000.0, [9_000.0], 9_000.0, 225.0, 100.0)
LIBRARY = Library(1000, 4_000.0, 20_000.0, 60_000.0, 2_800.0, 200)
GROWTH = Growth([GrowthSample(1000, 9.0, 10.0, 39.0, 100.0, 590.0, 1)] * 10, 1.5, 2.5, 3.5)
FLUSHES = [
    FlushSample(at, 1.0, 10, 20, 30, 40, 50, 60) for at in (*range(1000, 11_000, 1000), 10_000)
]
LIFETIMES = {
    way: [LifetimeSample(at, 100, 200, 300, 9.0) for at in range(1, 11)]
    for way in ("by age", "by number", "by age, changes tracked")
}
ALONE = BesideRun(4.7, 1 << 27, 0)
BESIDE = Beside(1000, 200, ALONE, ALONE, ALONE, Resharding(10.6, 10.7, 1 << 27, 3, 9, 6))
QUALITY = [Quality("a set", "streamer", "all", [Trial(1, 0, 0, 1.0, 1.0, 1.0, 0.1)])]
KAFKA = KafkaResults(
    msgspec.structs.replace(HERE, load=1.5),
    KafkaRate(1000, 0.05, 20_000.0, 50.0, 6.0, 900 << 20, [20_000.0], 90_000.0),
    KafkaLatency(1000, 5000.0, 8.0, 107.0, 222.0, p99_rounds=[107.0, 99.0, 251.0]),
)


def stored(subjects: Mapping[str, object], load: float = 0.1, **changed: object) -> Results:
    measured = {name: results.encoded(result, load) for name, result in subjects.items()}
    return Results(msgspec.structs.replace(HERE, **changed), "2024-06-01", measured)


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


def test_without_any_results_there_is_a_page_that_says_so(tmp_path: Path) -> None:
    text = page(tmp_path)
    assert text.count(report.NOT_MEASURED) == len(SUBJECTS) + 1
    assert "No results of `make bench` are stored." in text


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


def test_the_plot_of_a_result_that_is_gone_goes_too(folder: Path) -> None:
    pytest.importorskip("matplotlib", reason="it comes with requirements/bench.lock only")
    page(folder)
    (folder / report.KAFKA_FILE).unlink()
    assert "latency.svg" not in page(folder)
    assert not (folder / "docs" / "benchmarks" / "latency.svg").exists()
    assert (folder / "docs" / "benchmarks" / "rate.svg").exists()


def test_without_matplotlib_the_page_has_no_plots(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "benchmarks.plots", raising=False)
    monkeypatch.delattr("benchmarks.plots", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = page(folder)
    assert ".svg" not in text
    assert "| pages/s | 33,333 | 25,000 |" in text


def test_a_table_becomes_markdown_with_its_indents_and_bars_kept() -> None:
    table = Table("name", "us", title="times")
    table.add_row("a|b", "1")
    table.add_row("  of it", "2")
    assert markdown([table, "A sentence."]).splitlines() == [
        "**times**",
        "",
        "| name | us |",
        "| --- | ---: |",
        r"| a\|b | 1 |",
        "| &emsp;of it | 2 |",
        "",
        "A sentence.",
    ]


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


def test_results_with_nothing_in_common_have_an_exit_code_of_their_own(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    results.write(old, stored({"signing": SIGNING}))
    results.write(new, stored({"lsh": LSH}))
    assert compare.main([str(old), str(new)]) == compare.NOTHING


def test_every_figure_is_printed_with_its_ratio() -> None:
    text = io.StringIO()
    slower = msgspec.structs.replace(LSH.systems[0], us=12.0)
    changed = msgspec.structs.replace(LSH, systems=[slower, LSH.systems[1]])
    compare.show(
        compare.compare(stored({"lsh": LSH}), stored({"lsh": changed})),
        Console(file=text, width=160),
    )
    line = next(line for line in text.getvalue().splitlines() if "on disk us" in line)
    assert "1.500" in line
    assert "worse" in line
    assert "peak_rss_bytes" in text.getvalue()


def test_the_latency_of_several_rounds_is_their_median() -> None:
    rounds = [KafkaLatency(10, 5.0, p50, 10 * p50, 20 * p50) for p50 in (3.0, 90.0, 2.0)]
    found = over_rounds(rounds)
    assert (found.pages, found.rate, found.p50, found.p99, found.p999) == (30, 5.0, 3.0, 30.0, 60.0)
    assert found.p99_rounds == [30.0, 900.0, 20.0]
