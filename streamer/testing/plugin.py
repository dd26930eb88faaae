"""The pytest plugin: fixtures for replays and golden files (docs/testing.md)."""

import re

import pytest

from streamer.testing import GoldenVerdicts, Replayer

UPDATE = "--streamer-update-golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option that writes golden files."""
    parser.getgroup("streamer").addoption(
        UPDATE, action="store_true", help="write the files that streamer_golden compares with"
    )


@pytest.fixture(scope="session")
def streamer_replay(tmp_path_factory: pytest.TempPathFactory) -> Replayer:
    """Return what judges a file, pages or a topic, with a key that is always the same."""
    return Replayer(lambda: tmp_path_factory.mktemp("streamer"))


@pytest.fixture
def streamer_golden(request: pytest.FixtureRequest) -> GoldenVerdicts:
    """Return what compares verdicts with a file next to the test."""
    test = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")
    path = request.path.with_name(f"{request.path.stem}.{test}.jsonl")
    return GoldenVerdicts(path, update=request.config.getoption(UPDATE))
