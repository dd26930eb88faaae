"""A store on disk."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from streamer.stored.store import Store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "index" / "store"


@pytest.fixture
def store(folder: Path) -> Iterator[Store]:
    with closing(Store.open(folder)) as made:
        yield made
