"""What a shard more costs, and what more shards and cores would bring.

The same pages are replayed in one process with 1, 2, 4 and 8 shards; CPU that grows with the
records handed from shard to shard is the cost of a hop. Flushes are small, so that there are more
than an index of ten million pages has: what grows with them is in these costs. A run with its
stages wrapped tells how much of a page is signing, which any core can do. From these costs a model
predicts the rate of a machine, or of several, where signers and shards have cores of their own.
What lies between processes, broker and network, is not in it: its own cost a page comes on top of
`hop_us`.

The model is held against 16 shards, which are run in one process like the others: real shards that
hand each other records by a queue in memory. It has not seen them. What it says of the sum of all,
and of the busiest, must be right to 15 %.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import msgspec

from benchmarks.corpus_file import obtain
from benchmarks.figures import empty_table
from benchmarks.timed_replay import Run, replay, warm

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.table import Table

PAGES = 1_000_000
HEAD_PAGES = 1_000  # less than a chunk brings: each one is a flush, 550 in all
SHARDS = (1, 2, 4, 8)
MODEL_SHARDS = (1, 2, 4, 8, 16)
MODEL_CORES = (2, 4, 8, 16, 32, 64)
HELD_AGAINST = 16
BANDS = 16  # of all runs: an index has at most as many shards as bands
ERROR_MAX = 0.15
SIGNING = ("reading", "JSON to fields", "sign")  # the stages that need no index


class Measured(msgspec.Struct, frozen=True):
    """A run with so many shards: pages a second, CPU and hand-overs a page, flushes in all.

    `shard_us` is the CPU a page that each shard takes to look up and judge, without flushes;
    `index_bytes` is what all shards together have on disk, a kept page.
    """

    shards: int
    rate: float
    cpu_us: float
    hops: float
    flushes: int = 0
    shard_us: list[float] = []
    index_bytes: float = 0.0


class Costs(msgspec.Struct, frozen=True):
    """Microseconds of CPU a page.

    Attributes:
        sign_us: from the record to the signature, on any core.
        shard_us: all the rest, where one shard has all bands.
        hop_us: what each hand-over to a further shard adds to the sum of all shards.
        bands_us: the part of shard_us that shards with fewer bands have less of.
    """

    sign_us: float
    shard_us: float
    hop_us: float
    bands_us: float = 0.0


class Plan(msgspec.Struct, frozen=True):
    """The best use of some cores: pages a second, who has which, and who holds the others up."""

    rate: float
    signing_cores: int
    shard_cores: int
    bottleneck: str


class Trial(msgspec.Struct, frozen=True):
    """What the model says of a run that it has not seen, in microseconds of CPU a page.

    `busiest` is what the busiest shard takes to look up and judge.
    """

    run: Measured
    predicted_us: float
    busiest_us: float
    predicted_busiest_us: float

    @property
    def errors(self) -> tuple[float, float]:
        """Return by which shares the predictions are off: of all shards, of the busiest."""
        return (
            self.predicted_us / self.run.cpu_us - 1,
            self.predicted_busiest_us / self.busiest_us - 1,
        )


class ShardRates(msgspec.Struct, frozen=True):
    """The measurement, and what follows from it for the machine's runs and larger ones."""

    pages: int
    measured: list[Measured]
    costs: Costs
    plans: dict[int, dict[int, Plan]]  # by shards, by cores
    trial: Trial | None = None


def measure(
    folder: Path,
    pages: int = PAGES,
    *,
    shards: Sequence[int] = SHARDS,
    held_against: int = HELD_AGAINST,
    head_pages: int = HEAD_PAGES,
) -> ShardRates:
    """Replay `pages` pages with each number of shards, and once more with the stages wrapped.

    Raises:
        DiskTooSmall: corpus and index do not fit.
        subprocess.CalledProcessError: a replay failed; it has said why on standard error.
    """
    corpus = obtain(folder, pages).path
    warm(folder)
    *measured, unseen = [
        _measured(replay(folder, corpus, head_pages=head_pages, shards=number, bands=BANDS), number)
        for number in (*shards, held_against)
    ]
    wrapped = replay(folder, corpus, head_pages=head_pages, bands=BANDS, stages=True)
    signing = sum(wrapped.stages[name] for name in SIGNING) / wrapped.cpu_seconds
    costs = fitted(measured, signing)
    plans = {
        number: {cores: plan(costs, number, cores) for cores in MODEL_CORES}
        for number in MODEL_SHARDS
    }
    return ShardRates(pages, measured, costs, plans, tried(measured, costs, unseen))


def _measured(run: Run, shards: int) -> Measured:
    us = [1e6 * seconds / run.pages for seconds in run.shard_seconds]
    return Measured(
        shards, run.rate, run.cpu_us, run.hops / run.pages, run.flushes, us,
        run.index_bytes_a_page,
    )  # fmt: skip


def tried(measured: Sequence[Measured], costs: Costs, unseen: Measured) -> Trial:
    """Return what the model that was fitted to `measured` says of another run."""
    whole_us, bands_us = _first_shard(measured)
    return Trial(
        unseen, cpu_us(costs, unseen.hops), max(unseen.shard_us),
        whole_us - bands_us * (1 - 1 / unseen.shards),
    )  # fmt: skip


def _first_shard(measured: Sequence[Measured]) -> tuple[float, float]:
    """Return what the first shard takes with all bands, and how much of it the bands do.

    That is to look up and judge. By least squares: what the bands do falls as 1 / S.
    """
    first = [one.shard_us[0] for one in measured]
    if len(first) == 1:
        return first[0], 0.0
    fit = statistics.linear_regression([1 / one.shards for one in measured], first)
    if fit.slope <= 0:  # noise is more than what the bands do
        return statistics.mean(first), 0.0
    return fit.intercept + fit.slope, fit.slope


def fitted(measured: Sequence[Measured], signing_share: float) -> Costs:
    """Return the costs by least squares: CPU a page is a line over the hand-overs a page.

    `signing_share` is the part of the CPU without hand-overs that is signing.
    """
    hop_us = 0.0
    if len(measured) > 1:
        fit = statistics.linear_regression(
            [one.hops for one in measured], [one.cpu_us for one in measured]
        )
        hop_us = max(0.0, fit.slope)  # noise may be more than the cost
    alone_us = statistics.mean(one.cpu_us - hop_us * one.hops for one in measured)
    bands_us = _first_shard(measured)[1]
    return Costs(signing_share * alone_us, (1 - signing_share) * alone_us, hop_us, bands_us)


def cpu_us(costs: Costs, hops: float) -> float:
    """Return microseconds of CPU a page of all processes, at so many hand-overs a page."""
    return costs.sign_us + costs.shard_us + costs.hop_us * hops


def one_shard_us(costs: Costs, shards: int) -> float:
    """Return microseconds of CPU a page that the busiest shard takes, which is the first.

    It has 1/S of the bands and all pages: shard_us - bands_us (1 - 1/S). Most of what it does, it
    does for each page, whatever bands it has. Shards further on see fewer pages, and take less.
    """
    return costs.shard_us - min(costs.bands_us, costs.shard_us) * (1 - 1 / shards)


def shared_core_us(costs: Costs, shards: int, cores: int) -> float:
    """Return microseconds of CPU a page of the busiest core, where shards have so many cores.

    The first one has a core alone if it can; a further shard takes hop_us.
    """
    first, others = one_shard_us(costs, shards), shards - 1
    if cores == 1:
        return first + others * costs.hop_us
    return max(first, -(-others // (cores - 1)) * costs.hop_us)


def predict(costs: Costs, shards: int, cores: int) -> float:
    """Return pages a second with S shards on C cores, C at least 2.

    The shards have d cores to themselves, each shard one thread on one of them, and signers have
    the others. The slower side sets the rate, and d is chosen for the best one:

        max over d in 1 .. min(S, C - 1) of min((C - d) / sign_us, 1 / shared_core_us(S, d))

    times a million.
    """
    return plan(costs, shards, cores).rate


def plan(costs: Costs, shards: int, cores: int) -> Plan:
    """Return how `predict` comes to its rate; of equal plans the one with more signing cores."""
    assert cores > 1, cores
    plans = [_divided(costs, shards, cores, d) for d in range(1, min(shards, cores - 1) + 1)]
    return max(plans, key=lambda one: (one.rate, one.signing_cores))


def _divided(costs: Costs, shards: int, cores: int, shard_cores: int) -> Plan:
    signing_rate = 1e6 * (cores - shard_cores) / costs.sign_us
    busiest_us, first_us = shared_core_us(costs, shards, shard_cores), one_shard_us(costs, shards)
    shard_rate = 1e6 / busiest_us
    if signing_rate <= shard_rate:
        bottleneck = "signing"
    else:
        bottleneck = "first shard" if busiest_us == first_us else "shards that share a core"
    return Plan(min(signing_rate, shard_rate), cores - shard_cores, shard_cores, bottleneck)


def table(result: ShardRates) -> Table:
    """Return what was measured, beside what the model says of the same two cores."""
    costs = result.costs
    lines = empty_table(
        f"shards in one process, {result.pages:,} pages, two cores: signing {costs.sign_us:.1f} us,"
        f" one shard {costs.shard_us:.1f} us ({costs.bands_us:.1f} by bands), a hand-over"
        f" {costs.hop_us:.1f} us of CPU a page",
        "shards", "pages/s", "predicted", "CPU us a page", "fitted", "hand-overs a page",
        "flushes", "index bytes a kept page",
    )  # fmt: skip
    trial = [result.trial.run] if result.trial else []
    for one in [*result.measured, *trial]:
        lines.add_row(
            f"{one.shards}",
            f"{one.rate:,.0f}",
            f"{predict(costs, one.shards, 2):,.0f}",
            f"{one.cpu_us:.1f}",
            f"{cpu_us(costs, one.hops):.1f}",
            f"{one.hops:.2f}",
            f"{one.flushes:,}",
            f"{one.index_bytes:,.0f}",
        )
    return lines


def trial_table(result: ShardRates) -> Table:
    """Return how far the model is off, of shards that it has not seen."""
    lines = empty_table(
        f"the model and a run that it has not seen; within {ERROR_MAX:.0%} is the target",
        "CPU us a page", "measured", "predicted", "off by",
    )  # fmt: skip
    if (trial := result.trial) is not None:
        number, (all_off, one_off) = trial.run.shards, trial.errors
        lines.add_row(
            f"{number} shards, all", f"{trial.run.cpu_us:.1f}", f"{trial.predicted_us:.1f}",
            f"{all_off:+.0%}",
        )  # fmt: skip
        lines.add_row(
            f"the busiest of {number}, look-ups and judgement", f"{trial.busiest_us:.2f}",
            f"{trial.predicted_busiest_us:.2f}", f"{one_off:+.0%}",
        )  # fmt: skip
    return lines


def prediction_table(result: ShardRates) -> Table:
    """Return the predicted pages a second, by shards and cores, and what bounds them."""
    lines = empty_table(
        "predicted pages/s without what lies between processes (s: signing bounds it,"
        " f: the first shard, c: shards that share a core)",
        "shards", *(f"{cores} cores" for cores in MODEL_CORES),
    )  # fmt: skip
    letters = {"signing": "s", "first shard": "f", "shards that share a core": "c"}
    for number, plans in result.plans.items():
        cells = (f"{one.rate:,.0f} {letters[one.bottleneck]}" for one in plans.values())
        lines.add_row(f"{number}", *cells)
    return lines
