"""Workers that are killed, halted, joined and deprived while pages come in: nothing is lost."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from streamer.kafka.topics import Names
from tests.helpers.broker import free_port, running_broker
from tests.integration.chaos import Run, disturb

RUNS = (
    Run("kills", 3, 20, 20_000),
    Run("rebalances+zombies+takeovers", 3, 2, 20_000, 30),
    Run("kills+lost-indexes+broker-kills", 1, 2, 10_000, 14),
)


# The client library drops a connection that the broker has ended, without closing it, if a request
# comes before it notices; the crawler of these tests is such a client.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.scenario}-{run.shards}")
def test_workers_keep_the_promises_under(
    run: Run, brokers: str, names: Names, crawl: Path, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        if "broker-kills" in run.scenario:  # not that of all other tests
            brokers = stack.enter_context(running_broker(tmp_path / "broker", free_port()))
        verified = disturb(run, tmp_path, brokers, names, crawl).verified
    assert "no two kept pages match" in verified
