"""A better copy that is forgotten leaves no byte of its URL, though no row is its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from streamer.index.forgetting import URL
from streamer.index.messages import Forget
from streamer.index.settings import IndexSettings
from streamer.sketch.preference import stamp
from tests.helpers.signed_pages import made_pages, opened, sketch_with

if TYPE_CHECKING:
    from pathlib import Path

NAME = b"http://better.example/copy"


@pytest.mark.parametrize("shards", [1, 2])
def test_nothing_of_a_better_copy_that_is_forgotten_stays(tmp_path: Path, shards: int) -> None:
    pages = made_pages([[*range(1, 16)]] * 4, [sketch_with(0)] * 4)
    stamp(pages.sketches, np.array([1, 9, 5, 7], np.uint64))
    pages.urls[1] = NAME
    judge = opened(tmp_path / "index", IndexSettings(prefers=True, shards=shards))
    judge.judge(0, 0, 2, pages.take([0, 1]))
    judge.flush(b"")
    assert NAME in all_bytes(tmp_path)
    judge.forget_next(Forget([(URL, NAME)]))
    judge.begin_flush(lambda: b"", sweep=True)
    judge.finish()
    assert NAME not in all_bytes(tmp_path)
    blocks = judge.judge(0, 2, 4, pages.take([2, 3]))
    over = [each for block in blocks for each in block.supersedes or ()]
    assert over == [(0, b"u0"), (2, b"u2")]
    judge.close()


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
