"""The pytest plugin: fixtures for replays, golden files and a broker (docs/testing.md)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing
from typing import NoReturn

import pytest

from streamer.testing import GoldenVerdicts, Replayer
from streamer.testing.broker import missing_for_broker, shared_broker

UPDATE = "--streamer-update-golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option that writes golden files."""
    parser.getgroup("streamer").addoption(
        UPDATE, action="store_true", help="write the files that streamer_golden compares with"
    )


def leave_out(missing: str, remedy: str) -> NoReturn:
    """Skip a test for which something is missing, and say how to install it; under CI, fail."""
    reason = f"{missing}: {remedy}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def need_broker() -> None:
    """Leave a test out where no broker can be started."""
    if missing := missing_for_broker():
        leave_out(*missing)


@pytest.fixture(scope="session")
def streamer_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield HOST:PORT of Apache Kafka: that of STREAMER_TEST_BROKER, else one of this run."""
    if named := os.environ.get("STREAMER_TEST_BROKER"):
        yield named
        return
    need_broker()
    run = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        run = run.parent  # of all processes
    with shared_broker(run / "brokers") as started:
        yield started


@pytest.fixture(scope="session")
def streamer_replay(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replayer]:
    """Yield what judges a file, pages or a topic, with a key that is always the same."""
    replayer = Replayer(
        lambda: tmp_path_factory.mktemp("streamer"),
        lambda: str(request.getfixturevalue("streamer_broker")),
    )
    with closing(replayer):
        yield replayer


@pytest.fixture
def streamer_golden(request: pytest.FixtureRequest) -> GoldenVerdicts:
    """Return what compares verdicts with a file beside the test."""
    test = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")
    path = request.path.with_name(f"{request.path.stem}.{test}.jsonl")
    return GoldenVerdicts(path, update=request.config.getoption(UPDATE))
