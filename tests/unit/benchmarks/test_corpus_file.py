"""The file of the corpus: made once, whole, and where there is room."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import corpus, corpus_file
from benchmarks.corpus_file import DiskTooSmall, obtain


def test_a_corpus_is_made_once(tmp_path: Path) -> None:
    made, found = obtain(tmp_path, 20), obtain(tmp_path, 20)
    assert made.seconds is not None
    assert found.seconds is None
    assert found.path.read_bytes() == b"".join(corpus.generate(20))
    assert found.size_bytes == found.path.stat().st_size


def test_another_size_or_seed_is_another_corpus(tmp_path: Path) -> None:
    made = [obtain(tmp_path, pages, seed).path for pages, seed in ((20, 1), (21, 1), (20, 2))]
    assert len({path.read_bytes() for path in made}) == 3


def test_a_corpus_that_was_not_finished_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(_pages: int, _seed: int) -> Iterator[bytes]:
        yield b"{}\n"
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(corpus, "generate", stopped)
        with pytest.raises(KeyboardInterrupt):
            obtain(tmp_path, 20)
    assert obtain(tmp_path, 20).seconds is not None


def test_a_corpus_that_is_there_needs_room_for_its_replay_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    obtain(tmp_path, 20)
    usage = shutil.disk_usage(tmp_path)

    def leave(free: int) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=free))

    leave(20 * corpus_file.REPLAY_BYTES)
    assert obtain(tmp_path, 20).seconds is None
    leave(20 * corpus_file.REPLAY_BYTES - 1)
    with pytest.raises(DiskTooSmall):
        obtain(tmp_path, 20)
