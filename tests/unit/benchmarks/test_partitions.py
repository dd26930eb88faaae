"""The model of workers with an index for each partition: so much a page, so much a record."""

from __future__ import annotations

import pytest

from benchmarks.partitions import Measured, Model, tables


def run(partitions: int, records: float) -> Measured:
    """Return a run in which signers take 20 us a page and 3000 a record, owners 10 and 1000."""
    return Measured(
        partitions, 1, records, [20 + 3000 * records, 10 + 1000 * records, 5], [0.01] * 3
    )


def test_two_runs_give_what_a_page_and_a_record_take() -> None:
    model = Model.of([run(1, 0.0005), run(16, 0.004)])
    assert model.page == pytest.approx([20, 10, 5])
    assert model.record == pytest.approx([3000, 1000, 0], abs=1e-6)
    assert model.predict(0.001) == pytest.approx([23, 11, 5])


def test_the_tables_have_what_was_predicted_and_the_rate_of_more_cores() -> None:
    shown, rates = tables([run(1, 0.0005), run(16, 0.004), run(4, 0.001)])
    assert [*shown.columns[3].cells] == ["21.5", "32.0", "23.0 (23.0)", "20.0", "3000.0", "10"]
    assert [*rates.columns[1].cells] == ["58,824", "117,647", "470,588", "1,882,353"]
