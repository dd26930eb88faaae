"""The parts of the memory: each array counts once."""

from __future__ import annotations

from mmap import mmap

import numpy as np

from benchmarks import memory


class Holder:
    """An object with arrays in many places."""

    def __init__(self) -> None:
        self.words = np.zeros(100, np.uint64)
        self.view = self.words[10:20]
        self.again = {"x": self.words, "y": [np.zeros(5, np.uint8)]}
        self.itself = self
        self.mapped = mmap(-1, 4096)


def test_each_array_counts_once_under_its_path() -> None:
    sizes = memory.array_bytes(Holder())
    assert sizes[".words"] + sizes[".view"] == 800
    assert sizes[".again[][]"] == 5
    assert sizes[".mapped"] == 4096
    kinds = [memory._kind(path) for path in (".shards[].head.keys", "._lookups[].table._memory[]")]  # noqa: SLF001 - its parts
    assert kinds == ["head", "key table"]
