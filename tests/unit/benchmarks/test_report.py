from pathlib import Path

import msgspec

from benchmarks import report
from benchmarks.kafka_latency import KafkaLatency, over_rounds
from benchmarks.kafka_rate import KafkaRate
from benchmarks.run_kafka import Results
from tests.unit.benchmarks.test_compare import HERE


def test_figures_of_kafka_are_on_the_page_and_what_is_not_measured_is_named(tmp_path: Path) -> None:
    rounds = [KafkaLatency(10, 5000.0, p50, 10 * p50, 20 * p50) for p50 in (3.0, 90.0, 2.0)]
    rate = KafkaRate(1000, 0.05, 20_000.0, 50.0, 6.0, 900 << 20, [20_000.0], 90_000.0)
    found = msgspec.json.encode(Results(HERE, rate, over_rounds(rounds)))
    (tmp_path / report.KAFKA_FILE).write_bytes(found)
    report.write(tmp_path, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text("utf-8")
    assert "| verdict latency ms, p99 | 30 | 250 |" in page
    assert page.count(report.NOT_MEASURED) == len(report.SECTIONS)
