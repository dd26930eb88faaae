"""What workers with an index for each partition take: a page, a record, and a second of each."""

import pytest

from benchmarks.partitions import RATE, Measured, fit, tables


def run(workers: int, records: float) -> Measured:
    """Return a run: signers take 20 us a page, 3000 a record, 6 ms a second; owners 10, 1000, 3."""
    of_worker = workers / RATE * 1000
    own = 20 + 3000 * records + 6 * of_worker, 10 + 1000 * records + 3 * of_worker, 5
    return Measured(workers, records, [*own])


RUNS = [run(1, 0.0005), run(1, 0.004), run(4, 0.0005)]


def test_three_runs_give_what_a_page_a_record_and_a_worker_take() -> None:
    page, record, worker = fit(RUNS)
    assert page == pytest.approx([20, 10, 5])
    assert record == pytest.approx([3000, 1000, 0], abs=1e-6)
    assert worker == pytest.approx([6, 3, 0], abs=1e-6)


def test_the_tables_have_what_was_predicted_and_the_rate_of_more_cores() -> None:
    shown, rates = tables([*RUNS, run(2, 0.001)])
    own = [*shown.columns[3].cells]
    assert own[0] == "22.5"
    assert own[3:] == ["25.0 (25.0)", "20.0", "3000.0", "6.0"]
    # 21.5 us of a signer's core that has .594 left, 10.5 of an owner's that has .597.
    assert [*rates.columns[1].cells] == ["74,373", "297,491", "1,189,962"]
