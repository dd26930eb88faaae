"""A run that failed removes what it made, and nothing of a run that comes right after it."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from streamer.assembly import open_index
from streamer.config import Settings
from streamer.run.index_folder import IndexFolder, own_key
from streamer.stored.store import Store
from streamer.stored.witness import NAME


def test_a_second_run_keeps_the_index_and_key_that_it_has_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, settings = tmp_path / "index", Settings()
    close: Callable[..., None] = Store.close
    second: list[IndexFolder] = []

    def followed(store: Store, remove: Iterable[Path] = ()) -> None:
        close(store, remove) if remove else close(store)
        monkeypatch.undo()
        second.append(IndexFolder.open(path, settings.signature))

    with suppress(KeyError), open_index(path, settings):
        monkeypatch.setattr(Store, "close", followed)
        raise KeyError
    (other,) = second
    assert own_key(path).read_text().strip() == other.secret.hex()
    assert (path / NAME).exists()
    other.store.close()


def test_the_first_run_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), open_index(tmp_path / "new" / "index", Settings()):
        raise KeyError
    assert not list(tmp_path.iterdir())
