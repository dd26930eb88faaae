"""A worker whose brokers are away: it says so, is not ready, and ends when it is asked to."""

import asyncio
import json
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from streamer.kafka.connection import Connection
from streamer.kafka.reader import await_brokers
from streamer.kafka.topics import Names
from tests.helpers.broker import broker, make_topic, running_broker, send
from tests.helpers.fleet import Fleet, fleet
from tests.helpers.ports import free_port
from tests.helpers.wait import wait_until
from tests.integration.test_worker import asked

PROMISED_SECONDS = 30.0
SLOW = 4.0  # a machine that others use too


@dataclass
class Away:
    """A worker of everything, and a broker that only it uses."""

    workers: Fleet
    folder: Path
    port: int
    health: int

    def start(self) -> None:
        """Start the broker again."""
        broker("start", self.folder, self.port)

    def kill(self) -> None:
        """Kill the broker."""
        broker("kill", self.folder)

    def ready(self) -> dict[str, Any]:
        """Return what /health/ready answers."""
        return dict(json.loads(asked(self.health, "health/ready")))

    def stop(self, name: str) -> tuple[int, float]:
        """Send SIGTERM; return the exit code and the seconds until the end."""
        began = time.monotonic()
        return self.workers.kill(name, signal.SIGTERM), time.monotonic() - began


@pytest.fixture
def away(tmp_path: Path, names: Names) -> Iterator[Away]:
    port, folder = free_port(), tmp_path / "broker"
    with (
        running_broker(folder, port) as brokers,
        fleet(tmp_path / "workers", brokers, names, options=("--log-format", "json")) as workers,
    ):
        make_topic(brokers, names.pages)
        page = {"url": "http://a.example/1", "body": "a page of some words " * 9}
        send(brokers, names.pages, [(None, json.dumps(page).encode())])
        yield Away(workers, folder, port, free_port())


def test_a_worker_without_brokers_says_so_goes_on_with_them_and_ends_without(away: Away) -> None:
    index = away.workers.folder / "index"
    away.workers.start("all", "--index", index, "--health-port", away.health)
    away.workers.wait_for_log("all", "worker_started")
    away.workers.wait_until_settled()
    away.kill()
    wait_until(lambda: "brokers_unreachable" in away.workers.log("all"))
    wait_until(lambda: not away.ready()["ready"])
    assert "no broker has answered since" in " ".join(away.ready()["reasons"])
    away.start()
    wait_until(lambda: away.ready()["ready"])
    lines = [json.loads(line) for line in away.workers.log("all").splitlines()]
    (back,) = [line for line in lines if line["event"] == "brokers_reachable_again"]
    assert 0 < back["seconds"] < 90
    away.kill()
    wait_until(lambda: not away.ready()["ready"])
    code, seconds = away.stop("all")
    assert code == 1
    assert seconds < PROMISED_SECONDS * SLOW
    last = [json.loads(line) for line in away.workers.log("all").splitlines()][-1]
    assert last["event"] == "worker_failed"
    assert "no broker has answered since" in last["reason"]


def test_a_command_that_starts_before_its_broker_goes_on_when_that_is_up(
    away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamer.kafka.reader.ANSWER_SECONDS", 90.0)
    away.kill()
    said: list[str] = []

    def note(reason: str) -> None:
        said.append(reason)
        away.start()

    asyncio.run(await_brokers(Connection(away.workers.brokers), note))
    assert len(said) == 1
    assert "Trying again for 90 seconds." in said[0]


def members_wait(brokers: str, group: str) -> bool:
    """Return whether a rebalance of a group waits for a member that does not come."""

    async def state() -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
        await admin.start()
        try:
            (answer,) = await admin.describe_consumer_groups([group])
            return answer.groups[0][2]
        finally:
            await admin.close()

    return bool(asyncio.run(state()) == "PreparingRebalance")


def test_a_worker_that_joins_its_group_ends_without_brokers_too(away: Away, names: Names) -> None:
    workers = away.workers
    workers.start("first", "--role", "sign")
    workers.wait_for_log("first", "worker_started")
    workers.start("second", "--role", "sign")
    workers.wait_for_log("second", "worker_starting")
    workers.running["first"].send_signal(signal.SIGSTOP)  # the second one waits for its session
    group = names.sign_group
    wait_until(
        lambda: members_wait(workers.brokers, group) or "worker_started" in workers.log("second")
    )
    away.kill()
    code, seconds = away.stop("second")
    assert code == 1
    assert seconds < PROMISED_SECONDS * SLOW
    assert "worker_failed" in workers.log("second")
