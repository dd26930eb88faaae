"""What it costs to tell the changes of URLs: processor time a page, and bytes a URL.

The same URLs are crawled in rounds, once without the setting and once with it: first all pages are
new, then each is as it was, then a tenth is edited and a tenth replaced. Pages have no texts. Times
are of all threads, those of RocksDB too. Not part of `make bench`: it takes a minute a million.

    PYTHONPATH=. python -m benchmarks.url_changes FOLDER [--urls 1000000] [--expire-after-rounds 0]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.lifetimes import BATCH, unique_pages
from streamer.index.codec import URLS
from streamer.index.types import IndexSettings
from streamer.run.index_folder import IndexFolder
from streamer.run.judge import replay_judge
from streamer.sketch.settings import SignatureSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamer.index.types import Pages
    from streamer.run.judge import Judge

ROUNDS = ("all new", "all unchanged", "a tenth edited, a tenth replaced")


def crawled(round_number: int, first: int, urls: int) -> Pages:
    """Return pages of the URLs from the first on, as they are in this round."""
    pages = unique_pages(first, BATCH)
    if round_number == len(ROUNDS) - 1:
        pages.sketches[::10, 2] ^= 0xFFFF
        pages.keys[::10, -1] ^= 1
        others = unique_pages(urls + first, BATCH)
        pages.keys[5::10], pages.sketches[5::10] = others.keys[5::10], others.sketches[5::10]
    at = round_number * urls + first
    pages.refs += round_number * urls
    pages.times[:] = pages.watermarks[:] = range(at, at + BATCH)
    return pages


def measure(index: Path, urls: int, settings: IndexSettings) -> Iterator[tuple[float, int]]:
    """Judge all rounds; yield the microseconds a page and the bytes of versions after each."""
    judge = replay_judge(IndexFolder.open(index, SignatureSettings(), 1), settings)
    for round_number in range(len(ROUNDS)):
        making, began = 0.0, time.process_time()
        for first in range(0, urls, BATCH):
            before = time.thread_time()
            pages = crawled(round_number, first, urls)
            making += time.thread_time() - before
            start = int(pages.refs[0])
            judge.judge(0, start, start + BATCH, pages, judge.look_up(pages))
            if judge.flush_is_due:
                judge.begin_flush(lambda: b"")
        judge.finish()
        spent = time.process_time() - began - making
        judge.store.settle()  # or the size would be that of a moment
        yield 1e6 * spent / urls, _bytes_of_versions(judge)
    judge.close()


def _bytes_of_versions(judge: Judge) -> int:
    """Return the bytes of the files that hold versions of URLs."""
    database = judge.store._database  # noqa: SLF001 - only RocksDB knows which files these are
    files = database._opened.live_files() if database else []  # noqa: SLF001 - as above
    return sum(file["size"] for file in files if file["start_key"].startswith(URLS))


def main() -> int:
    """Print a line a round."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--expire-after-rounds", type=float, default=0)
    options = parser.parse_args()
    found = []
    for tracks in (False, True):
        age = round(options.expire_after_rounds * options.urls)
        settings = IndexSettings(track_changes=tracks, expire_after_ms=age)
        found.append([*measure(options.folder, options.urls, settings)])
        shutil.rmtree(options.folder)
    for name, (before, _), (after, size) in zip(ROUNDS, *found, strict=True):
        a_url = size / options.urls
        print(f"{name}: {before:.1f} us a page, {after:.1f} with changes; {a_url:.0f} bytes a URL")
    return 0


if __name__ == "__main__":
    sys.exit(main())
