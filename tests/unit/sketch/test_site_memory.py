"""What is known of sites is a fold of the judged pages, whatever was learned ahead of them."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from threading import Event

import numpy as np
import pytest

from streamer.sketch.site_memory import PART_BYTES, SiteKeys, SiteMemory, SiteTables
from streamer.text.furniture import COUNT_MAX, COUNT_SHIFT, WAYS, Furniture
from streamer.text.site_pages import PageBlocks

SIZE = 4 * PART_BYTES


def chunks(seed: int, count: int = 12) -> list[PageBlocks]:
    """Return chunks of pages that share some blocks."""
    rng = Random(seed)
    found = []
    for _ in range(count):
        sizes = [rng.randrange(12) for _ in range(rng.randrange(1, 4))]
        keys = [rng.randrange(1, 300) * 0x9E3779B97F4A7C15 % 2**64 for _ in range(sum(sizes))]
        words = np.array([rng.randrange(1, 40) for _ in keys], np.int32)
        urls = np.array([rng.randrange(20) for _ in sizes], np.uint64)
        found.append(PageBlocks(np.array(keys, np.uint64), words, np.cumsum(sizes), urls))
    return found


def serial(crawl: list[PageBlocks]) -> list[list[int]]:
    memory = SiteMemory(SIZE)
    return [memory.learn_judged(own).tolist() for own in crawl]


def judged(memory: SiteMemory, turn: int, own: PageBlocks, repeats: list[int]) -> list[int]:
    """Return the repeats of a chunk that is judged next, learned again if it has to be."""
    return repeats if memory.settle(turn) else memory.learn_judged(own).tolist()


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_learn_in_the_order_of_reading(threads: int) -> None:
    memory, crawl = SiteMemory(SIZE), chunks(1)

    def work(own: PageBlocks, turn: int) -> tuple[int, list[int]]:
        return turn, memory.learn(turn, own).tolist()

    with ThreadPoolExecutor(threads) as pool:
        futures = [memory.submit(pool, work, own) for own in crawl]
        found = [(own, *future.result()) for own, future in zip(crawl, futures, strict=True)]
    assert [repeats for _, _, repeats in found] == serial(crawl)
    assert all(memory.settle(turn) for _, turn, _ in found)


@pytest.mark.parametrize("seed", range(20))
def test_another_order_of_judging_or_a_restart_changes_nothing(seed: int) -> None:
    rng, crawl = Random(seed), chunks(seed, 20)
    memory, stored = SiteMemory(SIZE), dict[int, bytes]()
    waiting: list[tuple[int, PageBlocks, list[int]]] = []
    wanted: list[list[int]] = []
    order: list[PageBlocks] = []
    left = list(crawl)
    while left or waiting:
        action = rng.randrange(6)
        if action <= 2 and left:
            own = left.pop(0)
            turn = memory._turns = memory._turns + 1  # noqa: SLF001 - as `submit` counts
            waiting.append((turn, own, memory.learn(turn, own).tolist()))
        elif action <= 4 and waiting:
            turn, own, repeats = waiting.pop(
                rng.randrange(len(waiting)) if rng.random() < 0.2 else 0
            )
            order.append(own)
            wanted.append(judged(memory, turn, own, repeats))
        elif left:
            memory.repeats(left[0])  # a question changes nothing
            flushed = memory.to_flush()
            stored |= dict(flushed.parts)
            left = [own for _, own, _ in waiting] + left  # they are lost, and read again
            waiting = []
            memory = SiteMemory(SIZE, flushed._replace(parts=list(stored.items())))
    assert wanted == serial(order)


def test_a_cancelled_or_failed_chunk_keeps_none_waiting() -> None:
    memory, crawl, gate = SiteMemory(SIZE), chunks(3), Event()

    def work(own: PageBlocks | None, turn: int) -> list[int]:
        gate.wait()
        if own is None:
            raise ValueError("no chunk")
        return list(memory.learn(turn, own).tolist())

    with ThreadPoolExecutor(1) as pool:
        futures: list[Future[list[int]]] = [
            memory.submit(pool, work, own) for own in (crawl[0], None, crawl[1], crawl[2])
        ]
        assert futures[2].cancel()
        gate.set()
        assert [futures[0].result(), futures[3].result()] == serial([crawl[0], crawl[2]])
        assert isinstance(futures[1].exception(), ValueError)


def test_a_flush_with_what_was_learned_ahead_would_be_noticed() -> None:
    """The mutant stores the table as it is, with pages that a killed run reads again."""

    class Hasty(SiteMemory):
        @contextmanager
        def as_judged(self) -> Iterator[Furniture]:
            yield self._furniture

    found = []
    for kind in (SiteMemory, Hasty):
        crawl = chunks(5)
        memory = kind(SIZE)
        first = memory.learn_judged(crawl[0]).tolist()
        for turn, own in enumerate(crawl[1:6], 1):
            memory.learn(turn, own)
        after = SiteMemory(SIZE, memory.to_flush())
        found.append([first, *(after.learn_judged(own).tolist() for own in crawl[1:])])
    assert found[0] == serial(crawl)
    assert found[1] != found[0]


def test_hashes_of_hosts_need_the_secret_and_pages_without_a_host_have_none() -> None:
    urls = [b"https://A.example:80/x", b"http://a.example/y", b"b", b""]
    hosts = SiteKeys(bytes(32)).hosts(urls).tolist()
    assert hosts[0] == hosts[1] != 0
    assert hosts[2:] == [0, 0]
    assert SiteKeys(b"1" * 32).hosts(urls)[0] != hosts[0]
    assert len(set(SiteKeys().urls(urls).tolist())) == len(urls)


def page(number: int, *keys: int) -> PageBlocks:
    """Return a page of some blocks, which share no words with its versions."""
    own = np.array([key * 0x9E3779B97F4A7C15 % 2**64 for key in (*keys, 1000 + number)], np.uint64)
    words = np.array([1] * len(keys) + [90], np.int32)
    return PageBlocks(own, words, np.array([len(own)]), np.array([number], np.uint64))


def known(memory: SiteMemory, own: PageBlocks) -> list[int]:
    """Return on how many other pages the blocks of pages were that were judged before."""
    with memory.as_judged() as furniture:
        buckets = furniture.entries.reshape(-1, WAYS, 2)
        place = (own.keys >> np.uint64(32)) * np.uint64(len(buckets)) >> np.uint64(32)
        found = buckets[place.astype(np.int64)]
    is_own = found[..., 0] >> np.uint64(32) == (own.keys & np.uint64(0xFFFF_FFFF))[:, None]
    counts = found[..., 1] >> np.uint64(COUNT_SHIFT) & np.uint64(COUNT_MAX)
    most: list[int] = np.where(is_own, counts, 0).max(axis=1).tolist()
    return most


def test_of_several_tables_the_one_that_knows_most_of_a_block_is_asked() -> None:
    tables = SiteTables(SIZE)
    for number, crawl in ((1, [page(n, 1, 2) for n in range(5)]), (2, [page(5, 2, 3)] * 9)):
        for own in crawl:
            tables.of(number).learn_judged(own)
    asked = page(99, 1, 2, 3, 4)
    for number, wanted in ((1, [4, 4, 0, 0, 0]), (2, [0, 0, 0, 0, 0])):
        assert known(tables.of(number), asked) == wanted
    tables.of(2).learn_judged(page(6, 2, 3))
    assert tables.repeats(asked).tolist() == [5, 5, 2, 0, 0]
