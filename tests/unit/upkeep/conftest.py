"""An index of which snapshots are taken, and where they go."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.upkeep.snapshots import SnapshotFolder
from tests.helpers.object_store import running_store


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
def snapshots(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SnapshotFolder]:
    """Yield a folder for snapshots, or with the parameter "bucket" a place in an object store."""
    if getattr(request, "param", "folder") == "folder":
        yield SnapshotFolder(tmp_path / "snapshots")
    else:
        with running_store(tmp_path / "objects") as store:
            store.lead_to(monkeypatch)
            yield SnapshotFolder(store.url)
