"""The page of the benchmarks: what is not measured, of another commit, or of a busy machine."""

from __future__ import annotations

from pathlib import Path

import msgspec

from benchmarks import report, results
from benchmarks.kafka_latency import KafkaLatency, over_rounds
from benchmarks.kafka_rate import KafkaRate
from benchmarks.results import Results
from benchmarks.run_kafka import Results as KafkaResults
from benchmarks.signing import PeerTime, Signing
from tests.unit.benchmarks.test_compare import HERE

SIGNING = Signing(100, 4096.0, 5, [PeerTime("a|b", 80.0, 79.0, 8.0)], [], "a|b", 8.0)


def section(folder: Path, title: str) -> str:
    out = folder / "page.md"
    report.write(folder, out)
    return out.read_text("utf-8").partition(f"## {title}")[2].partition("\n## ")[0]


def test_the_figures_of_kafka_are_medians_of_the_rounds(tmp_path: Path) -> None:
    rounds = [KafkaLatency(10, 5000.0, p50, 10 * p50, 20 * p50) for p50 in (3.0, 90.0, 2.0)]
    rate = KafkaRate(1000, 0.05, 20_000.0, 50.0, 6.0, 900 << 20, [20_000.0], 90_000.0)
    busy = msgspec.structs.replace(HERE, load=1.5)
    found = msgspec.json.encode(KafkaResults(busy, rate, over_rounds(rounds)))
    (tmp_path / report.KAFKA_FILE).write_bytes(found)
    kafka = section(tmp_path, "Through Kafka")
    assert "| verdict latency ms, p99 | 30 | 250 |" in kafka
    assert "load was 1.5" in kafka
    assert report.NOT_MEASURED in section(tmp_path, "Signing")


def test_a_result_of_another_commit_stays_and_is_named_so(tmp_path: Path) -> None:
    path = tmp_path / results.RESULTS_FILE
    kept = {"signing": results.encoded(SIGNING, 0.9, HERE.commit)}
    results.write(path, Results(HERE, "2024-06-01", kept))
    results.write(path, Results(msgspec.structs.replace(HERE, commit="d"), "2024-06-02", {}))
    signing = section(tmp_path, "Signing")
    assert "Measured at commit c." in signing
    assert "load was 0.9" in signing
    assert r"| a\|b |" in signing
    other = msgspec.structs.replace(HERE, packages={"numpy": "0"})
    results.write(path, Results(other, "2024-06-02", {}))
    assert report.NOT_MEASURED in section(tmp_path, "Signing")


def test_a_result_of_another_version_counts_as_none(tmp_path: Path) -> None:
    path = tmp_path / results.RESULTS_FILE
    other = {"signing": results.encoded({"pages": "many"}, 0.1)}
    results.write(path, Results(HERE, "2024-06-01", other))
    assert report.NOT_MEASURED in section(tmp_path, "Signing")
    path.write_text('{"machine": 1}')
    assert results.read(path) is None
