from __future__ import annotations

import asyncio
import socket
import time

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from prometheus_client import generate_latest

from streamer.console.workers import WorkerWatch, ask_workers, checked_addresses, figures_in
from streamer.errors import SettingsError
from streamer.metrics import Metrics


def metrics() -> Metrics:
    made = Metrics()
    made.ready.set(1)
    for shard in "01":
        made.shards.log_position.labels(shard).set(100)
        made.shards.flushed_offset.labels(shard).set(70)
        made.shards.index_bytes.labels(shard).set(1000)
        made.shards.snapshot_timestamp.labels(shard).set(1_700_000_000 + int(shard))
    return made


def test_the_figures_are_those_of_the_worker() -> None:
    found = figures_in("http://w:1", generate_latest(metrics().registry).decode())
    assert (found.problem, found.is_ready, found.snapshot) == ("", True, "2023-11-14T22:13:21Z")
    assert (found.index_bytes, found.unflushed_records, found.kept_pages) == (2000, 60, None)
    assert found.memory_bytes
    assert found.memory_limit_bytes


def test_workers_that_do_not_answer_are_told_from_others() -> None:
    text = generate_latest(metrics().registry)
    answers = {
        "/a": web.Response(body=text),
        "/b": web.Response(text="<html>"),
        "/c": web.Response(status=404),
        "/d": web.Response(body=b"x 1\n" * (2 << 20)),
        "/e": web.Response(body=text + b"streamer_shard_kept_pages +Inf\n"),
        "/f": web.Response(body=text + b"streamer_shard_kept_pages 1e300\n"),
        "/g": web.Response(body=b"x{a=\n"),
        "/h": web.Response(body=b"# TYPE\n{ 1\n"),
    }

    async def answer(request: web.Request) -> web.Response:
        return answers[request.path.removesuffix("/metrics")]

    async def run() -> list[str]:
        app = web.Application()
        app.router.add_get("/{name}/metrics", answer)
        async with TestServer(app) as server:
            addresses = [str(server.make_url(name)) for name in answers]
            found = await ask_workers([*addresses, "http://127.0.0.1:1"])
            return [each.problem for each in found]

    sound, *problems = asyncio.run(run())
    assert sound == ""
    silent = ["It does not answer" in each for each in problems]
    assert silent == [False, True, False, False, False, False, False, True]
    assert all(problems)
    assert asyncio.run(ask_workers([])) == []


def test_a_worker_that_is_silent_delays_no_caller() -> None:
    text = generate_latest(metrics().registry)
    with socket.create_server(("127.0.0.1", 0)) as server:
        watch = WorkerWatch([f"http://127.0.0.1:{server.getsockname()[1]}"])
        watch.look()
        watch.look()  # back before the worker has answered
        assert watch.figures == []
        with server.accept()[0] as worker:
            worker.recv(1 << 16)
            worker.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + text)
        for _ in range(500):
            if not watch.figures:
                time.sleep(0.01)
                watch.look()
        watch.close()
    assert [each.problem for each in watch.figures] == [""]


@pytest.mark.parametrize("address", ["w:8080", "ftp://w", "http://", "http://u:p@w", "http://w/x"])
def test_what_is_no_address_is_refused(address: str) -> None:
    assert checked_addresses(["http://w:8080/"]) == ["http://w:8080"]
    with pytest.raises(SettingsError, match="no address of a health port"):
        checked_addresses([address])
