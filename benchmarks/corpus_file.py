"""The corpus as a file that is made once and used again.

The name holds all that decides the bytes: seed, pages, and a digest of the generator's source. So a
file that is there is the right one, and it gets its name only when it is complete. Files of another
version of the generator are removed, since nothing will ask for them again.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchmarks import corpus

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE_BYTES = 4_600  # of JSON, a little above the mean
REPLAY_BYTES = 1_400  # a kept page takes about 530 in the index, its verdict 700


class DiskTooSmall(Exception):  # noqa: N818 - a state of the disk, told in one sentence and skipped
    """Report in one sentence that corpus, index and verdicts do not fit the disk."""


class CorpusFile(msgspec.Struct, frozen=True):
    """A corpus on disk; `seconds` is what it took to make it, null where it was there already."""

    path: Path
    pages: int
    size_bytes: int
    seconds: float | None


def obtain(folder: Path, pages: int, seed: int = corpus.SEED) -> CorpusFile:
    """Return the corpus of these pages in `folder`; make it if it is not there.

    Raises:
        DiskTooSmall: it, or what a replay of it writes, would not fit.
    """
    path, exists = place(folder, f"corpus-{seed}-{pages}", corpus.__file__)
    _check_disk(folder, pages * (REPLAY_BYTES + (0 if exists else PAGE_BYTES)))
    seconds = None if exists else write(path, corpus.generate(pages, seed))
    return CorpusFile(path, pages, path.stat().st_size, seconds)


def place(folder: Path, name: str, *sources: str) -> tuple[Path, bool]:
    """Return where a file that these sources make lies, and whether it is there.

    Files of the same kind, which is the name's first word, of other versions of them are removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    version = _version(*sources)
    for old in folder.glob(f"{name.partition('-')[0]}-*.jsonl*"):
        if not old.name.endswith(f"-{version}.jsonl"):
            old.unlink()
    path = folder / f"{name}-{version}.jsonl"
    return path, path.exists()


def _version(*sources: str) -> str:
    """Return a digest of a generator's sources: another generator makes another corpus."""
    data = b"".join(Path(source).read_bytes() for source in sources)
    return hashlib.blake2b(data, digest_size=4).hexdigest()


def _check_disk(folder: Path, needed_bytes: int) -> None:
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise DiskTooSmall(
            f"{folder} has {free_bytes / 1e9:.1f} GB free, a run needs {needed_bytes / 1e9:.1f} GB."
            " Free some, or give fewer --pages."
        )


def write(path: Path, lines: Iterable[bytes]) -> float:
    """Write a file, which has its name when it is whole; return the seconds that took."""
    begin = time.perf_counter()
    partial = path.with_suffix(".jsonl.partial")
    with partial.open("wb", buffering=1 << 20) as file:
        file.writelines(lines)
    partial.rename(path)
    return time.perf_counter() - begin
