"""What it costs to tell the changes of URLs: processor time a page, and bytes a URL.

The same URLs are crawled in rounds, once without the setting and once with it: first all pages are
new, then each is as it was, then a tenth is edited and a tenth replaced. Pages have no texts. Times
are of all threads, those of RocksDB too. Not part of `make bench`: it takes a minute a million.

    PYTHONPATH=. python -m benchmarks.url_changes FOLDER [--urls 1000000] [--expire-after-rounds 0]

With `--recrawl SETTING` the URLs are crawled again and again in one process under one setting, and
one in so many is replaced each time: give the settings in turns.

    PYTHONPATH=. python -m benchmarks.url_changes FOLDER --recrawl none|track|retire [--one-in 20]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from benchmarks.growth import judge_batch
from benchmarks.lifetimes import BATCH, unique_pages
from streamer.index.codec import URLS
from streamer.index.settings import IndexSettings
from streamer.run.index_folder import IndexFolder
from streamer.run.judge import replay_judge
from streamer.sketch.settings import SignatureSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streamer.index.messages import Pages
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


class Spent(NamedTuple):
    """What judging a crawl took, in seconds: by the clock, and of CPU with what was left to do."""

    clock: float
    cpu: float


def judged(judge: Judge, urls: int, made: Callable[[int], Pages]) -> Spent:
    """Judge a crawl, of which `made` gives the pages from a URL on; return what that took."""
    clock = making = 0.0
    cpu = time.process_time()
    for first in range(0, urls, BATCH):
        before = time.thread_time()
        pages = made(first)
        making += time.thread_time() - before
        began = time.perf_counter()
        judge_batch(judge, int(pages.refs[0]), pages)
        clock += time.perf_counter() - began
    judge.finish()
    return Spent(clock, time.process_time() - cpu - making)


def measure(index: Path, urls: int, settings: IndexSettings) -> Iterator[tuple[float, int]]:
    """Judge all rounds; yield the microseconds a page and the bytes of versions after each."""
    judge = replay_judge(IndexFolder.open(index, SignatureSettings(), 1), settings)
    for number in range(len(ROUNDS)):
        spent = judged(judge, urls, partial(crawled, number, urls=urls))
        judge.store.settle()  # or the size would be that of a moment
        yield 1e6 * spent.cpu / urls, _bytes_of_versions(judge)
    judge.close()


def recrawled(crawl: int, first: int, urls: int, one_in: int) -> Pages:
    """Return pages of the URLs from the first on, of which one in so many is replaced each time."""
    pages = unique_pages(first, BATCH)
    at = np.arange(first, first + BATCH)
    times = sum((at % one_in == each % one_in).astype(np.uint64) for each in range(1, crawl + 1))
    content = (times + np.zeros(BATCH, np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    pages.keys ^= content[:, None]
    pages.sketches[:, 1:] ^= content[:, None]
    pages.refs += np.uint64(crawl * urls)
    pages.times[:] = pages.watermarks[:] = crawl * urls + at
    return pages


def measure_recrawl(index: Path, options: argparse.Namespace) -> Iterator[str]:
    """Crawl the URLs again and again; yield a line a time."""
    settings = IndexSettings(
        shards=options.shards,
        track_changes=options.recrawl != "none",
        retire_replaced=options.recrawl == "retire",
    )
    folder = IndexFolder.open(index, SignatureSettings(), settings.shards)
    judge = replay_judge(folder, settings)
    urls, one_in = options.urls, options.one_in
    for crawl in range(options.crawls):
        spent = judged(judge, urls, partial(recrawled, crawl, urls=urls, one_in=one_in))
        assert judge.store.meta is not None, "nothing was flushed"
        [own, *_] = judge.store.meta.shards
        yield (
            f"{options.recrawl}, crawl {crawl}: {urls / spent.clock:,.0f} pages/s, "
            f"{1e6 * spent.cpu / urls:.1f} us of CPU a page; "
            f"{own.rows:,} rows, {own.forgotten:,} swept, state of {len(own.state):,} bytes, "
            f"{judge.store.size_bytes() >> 20} MiB"
        )
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
    parser.add_argument("--recrawl", choices=("none", "track", "retire"))
    parser.add_argument("--one-in", type=int, default=20)
    parser.add_argument("--crawls", type=int, default=4)
    parser.add_argument("--shards", type=int, default=1)
    options = parser.parse_args()
    if options.recrawl:
        for line in measure_recrawl(options.folder, options):
            print(line, flush=True)
        return 0
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
