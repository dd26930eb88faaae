"""The model of shards: costs fitted to measurements, and rates that follow from them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import shards
from benchmarks.shards import Costs, Measured, cpu_us, fitted, plan, predict

CORES = range(2, 65)
COSTS = Costs(sign_us=33, shard_us=24, hop_us=4, bands_us=20)
costs_drawn = st.builds(
    Costs, st.floats(1, 100), st.floats(1, 100), st.floats(0, 20), st.floats(0, 200)
)


def test_fitted_costs_hit_measured_points_on_a_line() -> None:
    hops = (0.0, 0.8, 2.4)
    points = [
        Measured(s, 1.0, 57 + 4 * h, h, shard_us=[10 + 12 / s])
        for s, h in zip((1, 2, 4), hops, strict=True)
    ]
    costs = fitted(points, 33 / 57)
    assert costs.sign_us == pytest.approx(33)
    assert costs.hop_us == pytest.approx(4)
    assert costs.bands_us == pytest.approx(12)
    for one in points:
        assert cpu_us(costs, one.hops) == pytest.approx(one.cpu_us)


def test_a_run_on_the_line_is_predicted_without_error() -> None:
    def run(number: int) -> Measured:
        each = [4 + 20 / number, *[4] * (number - 1)]  # as `one_shard_us` has it
        return Measured(number, 1.0, 57 + 4 * (number - 1), number - 1.0, shard_us=each)

    found = shards.tried([run(1), run(2), run(4)], COSTS, run(16))
    assert found.errors == pytest.approx((0, 0))
    slow = msgspec.structs.replace(run(16), cpu_us=2 * run(16).cpu_us)
    assert shards.tried([run(1), run(2), run(4)], COSTS, slow).errors[0] == pytest.approx(-0.5)


@given(costs_drawn, st.integers(1, 16), st.sampled_from(CORES))
def test_a_prediction_takes_no_more_than_there_is(costs: Costs, number: int, cores: int) -> None:
    best = plan(costs, number, cores)
    assert best.signing_cores + best.shard_cores == cores
    assert best.rate * costs.sign_us <= 1e6 * best.signing_cores * (1 + 1e-9)
    assert best.rate * shards.one_shard_us(costs, number) <= 1e6 * (1 + 1e-9)
    all_us = shards.one_shard_us(costs, number) + (number - 1) * costs.hop_us
    assert best.rate * all_us <= 1e6 * best.shard_cores * (1 + 1e-9)


@pytest.mark.parametrize(
    ("number", "cores", "rate", "bottleneck"),
    [
        (1, 2, 1e6 / 33, "signing"),
        (1, 64, 1e6 / 24, "first shard"),
        (2, 64, 1e6 / 14, "first shard"),
        (2, 4, 2e6 / 33, "signing"),
        (16, 2, 1e6 / (4 + 20 / 16 + 15 * 4), "shards that share a core"),
    ],
)
def test_the_bottleneck_is_named(number: int, cores: int, rate: float, bottleneck: str) -> None:
    best = plan(COSTS, number, cores)
    assert best.rate == predict(COSTS, number, cores) == pytest.approx(rate)
    assert best.bottleneck == bottleneck
