"""Rebalances of a Faust app over chunks, without any broker: Faust's own service completes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP

from streamer.errors import StreamerError
from streamer.kafka import faust_chunks
from streamer.kafka.faust_chunks import ChunkApp, Start
from tests.helpers.kafka_doubles import in_loop

PLACE = TP("pages", 0)
REQUEST_SECONDS = 0.02


class Seeking:
    """Stands in for the consumer: its seeks take as long as they are told."""

    def __init__(self) -> None:
        self.answer = asyncio.Event()
        self.seeks: asyncio.Queue[int] = asyncio.Queue()
        self.flows = asyncio.Event()

    def assignment(self) -> set[TP]:
        return {PLACE}

    def resume_partitions(self, _places: set[TP]) -> None: ...

    async def perform_seek(self) -> None:
        self.seeks.put_nowait(1)
        await self.answer.wait()

    def stop_flow(self) -> None:
        self.flows.clear()

    def resume_flow(self) -> None:
        self.flows.set()


def make_app(failures: list[BaseException]) -> Any:
    async def starts(_committed: Mapping[TP, int]) -> Mapping[TP, Start]:
        return {}

    app: Any = ChunkApp("group", starts, failures.append, broker="kafka://127.0.0.1:1")
    app.finalize()
    return app


@asynccontextmanager
async def recovering(app: Any, consumer: Seeking) -> AsyncIterator[None]:
    """Run the service that completes an app's rebalances."""
    app.conf.broker_request_timeout = REQUEST_SECONDS
    app._consumer = consumer  # noqa: SLF001 - what Faust keeps in it
    app._fetcher = SimpleNamespace(maybe_start=lambda: asyncio.sleep(0))  # noqa: SLF001
    await app.tables.recovery.start()
    yield
    await app.tables.recovery.stop()


async def rebalance(app: Any, consumer: Seeking, generation: int) -> None:
    """Do what Faust does when the group is made anew, but for the consumer."""
    app.on_rebalance_start()
    consumer.stop_flow()
    app.consumer_generation_id = generation
    await app.tables.recovery.on_rebalance({PLACE}, set(), set(), generation)


@in_loop
async def test_rebalances_go_on_after_a_seek_that_outlasts_the_time_of_a_request() -> None:
    failures: list[BaseException] = []
    app, consumer = make_app(failures), Seeking()
    async with recovering(app, consumer):
        await rebalance(app, consumer, 1)
        await asyncio.sleep(5 * REQUEST_SECONDS)
        assert not consumer.flows.is_set(), "nobody knows yet where to begin"
        consumer.answer.set()
        await asyncio.wait_for(consumer.flows.wait(), 5)
        await rebalance(app, consumer, 2)
        await asyncio.wait_for(consumer.flows.wait(), 5)
        assert consumer.seeks.qsize() == 2
        assert not app.rebalancing
    assert not failures


@in_loop
async def test_another_rebalance_ends_a_seek_that_is_not_answered() -> None:
    app, consumer = make_app([]), Seeking()
    async with recovering(app, consumer):
        await rebalance(app, consumer, 1)
        await asyncio.sleep(5 * REQUEST_SECONDS)
        await rebalance(app, consumer, 2)
        for _ in range(2):
            await asyncio.wait_for(consumer.seeks.get(), 5)
        consumer.answer.set()
        await asyncio.wait_for(consumer.flows.wait(), 5)


@pytest.mark.parametrize("seconds_between", [0.03, 60])
@in_loop
async def test_a_rebalance_that_does_not_end_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, seconds_between: float
) -> None:
    """Also where one follows the other before the first has ended."""
    monkeypatch.setattr(faust_chunks, "REBALANCE_SECONDS_MAX", 0.2)
    monkeypatch.setattr(faust_chunks, "WATCH_SECONDS", 0.01)

    failures: list[BaseException] = []
    app = make_app(failures)
    watching = asyncio.create_task(app._watch_rebalances(app))  # noqa: SLF001 - a task of Faust's
    app.on_rebalance_start()
    app.on_rebalance_end()
    await asyncio.sleep(0.3)
    assert not failures, "it has ended"
    async with asyncio.timeout(5):
        while not watching.done():
            app.on_rebalance_start()
            await asyncio.wait([watching], timeout=seconds_between)
    (failure,) = failures
    assert isinstance(failure, StreamerError)
    assert "group" in str(failure)
