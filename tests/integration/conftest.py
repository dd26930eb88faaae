"""What integration tests share: the broker of the run, names of topics, a store, a crawl."""

import gc
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.kafka.topics import Names
from tests.helpers.broker import need_broker, shared_broker
from tests.helpers.object_store import ObjectStore, running_store
from tests.helpers.place import Place
from tests.helpers.secure_broker import SecureBroker, running_secure_broker
from tests.integration.chaos import make_crawl

LONG = "tests/integration/test_campaign.py"
_numbers = itertools.count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes minutes, so that no process is left with it alone at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Collect what a test left, so that an unclosed connection is reported where it was made."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
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


@pytest.fixture
def topic() -> str:
    return f"topic-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def names() -> Names:
    number = next(_numbers)
    return Names(f"index-{os.getpid()}-{number}", f"pages-{os.getpid()}-{number}")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """Run an object store that the environment leads to."""
    with running_store(tmp_path / "objects") as running:
        running.lead_to(monkeypatch)
        yield running


@pytest.fixture(scope="session")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_crawl(tmp_path_factory.mktemp("crawl"), 3_000)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with running_secure_broker(tmp_path_factory.mktemp("secure")) as started:
        yield started


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
