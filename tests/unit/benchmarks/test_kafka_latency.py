"""The latency of several rounds."""

from __future__ import annotations

from benchmarks.kafka_latency import KafkaLatency, over_rounds


def test_the_latency_of_several_rounds_is_their_median() -> None:
    rounds = [KafkaLatency(10, 5.0, p50, 10 * p50, 20 * p50) for p50 in (3.0, 90.0, 2.0)]
    found = over_rounds(rounds)
    assert (found.pages, found.rate, found.p50, found.p99, found.p999) == (30, 5.0, 3.0, 30.0, 60.0)
    assert found.p99_rounds == [30.0, 900.0, 20.0]
