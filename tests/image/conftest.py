"""The images, built once for all tests of them, and podman to run them."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.helpers.podman import ROOT, Podman, need_podman


@pytest.fixture(scope="session", autouse=True)
def _built() -> None:
    """Build both images; what has not changed since the last time is taken from it."""
    need_podman()
    done = subprocess.run(
        [str(ROOT / "deploy" / "image"), "build"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    print(done.stdout)  # noqa: T201 - how long it took, and how large they are


@pytest.fixture(scope="session")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    made = Podman(tmp_path_factory.mktemp("podman"))
    yield made
    made.remove_all()
