"""Chunks are parsed as their log has them; work ahead is taken in order, so far and no further."""

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

import pytest

from streamer.errors import StoreMismatch
from streamer.pages.chunk import Chunk
from streamer.pages.mapping import DEFAULT_MAPPING
from streamer.pages.parse import PageParser
from streamer.pages.schema_registry import RegistryAddress, SchemaRegistry
from streamer.run.stages import SIGNING_NICENESS, Ahead, OneAThread, in_order, parse, signing_pool
from tests.helpers import schema_registry

PLAIN = b'{"url": "http://a.example/", "body": "text"}'
AVRO = schema_registry.by_number(7, schema_registry.avro_page("http://a.example/", b"text"))


@pytest.fixture
def reported() -> Iterator[schema_registry.FakeRegistry]:
    with schema_registry.fake_registry() as found:
        found.schemas["/schemas/ids/7"] = {"schema": schema_registry.PAGE_SCHEMA}
        yield found


@pytest.fixture
def parser(reported: schema_registry.FakeRegistry) -> PageParser:
    registry = SchemaRegistry(RegistryAddress(reported.url), patience_s=0.0)
    return PageParser(DEFAULT_MAPPING, registry=registry)


def chunk(*values: bytes, pages: list[int]) -> Chunk:
    messages = [(offset, b"key", value) for offset, value in enumerate(values)]
    return Chunk(
        0, len(values), messages=[*messages], times=[*range(len(values))], expected_pages=pages
    )


def test_what_a_later_schema_makes_readable_is_the_old_dead_letter(parser: PageParser) -> None:
    batch = parse(parser, chunk(PLAIN, AVRO, b"{", PLAIN, AVRO, pages=[0, 3, 4]))
    assert (batch.sequences, batch.times) == ([0, 3, 4], [0, 3, 4])
    assert [(each.sequence, each.code, each.key) for each in batch.dead] == [
        (1, "unknown_schema", b"key"), (2, "invalid_json", b"key"),
    ]  # fmt: skip
    assert batch.dead[0].value == AVRO


def test_other_pages_than_the_log_has_are_refused_with_the_remedy(parser: PageParser) -> None:
    with pytest.raises(StoreMismatch, match="Give the worker's --preset or --fields"):
        parse(parser, chunk(PLAIN, PLAIN, AVRO, pages=[0, 2]))
    with pytest.raises(StoreMismatch, match="Give the worker's --preset or --fields"):
        parse(parser, chunk(PLAIN, b"{", pages=[0, 1]))


def test_a_page_whose_schema_is_not_known_any_more_names_the_registry(
    reported: schema_registry.FakeRegistry, parser: PageParser
) -> None:
    reported.schemas.clear()
    with pytest.raises(StoreMismatch, match=r"page_bytes_max and --registry-url\.$"):
        parse(parser, chunk(PLAIN, AVRO, pages=[0, 1]))


def test_items_come_in_their_order_with_so_many_begun_ahead() -> None:
    begun: list[int] = []

    def begin(item: int) -> Future[int] | None:
        begun.append(item)
        return pool.submit(lambda: 10 * item) if item % 3 else None

    with ThreadPoolExecutor(4) as pool:
        taken = []
        for item, future in in_order(range(20), begin, 5):
            assert len(begun) == min(20, item + 6)
            taken.append((item, future and future.result()))
    assert taken == [(item, 10 * item if item % 3 else None) for item in range(20)]


def test_what_nobody_asks_for_any_more_is_cancelled() -> None:
    held = threading.Event()
    futures: list[Future[bool]] = []

    def begin(_item: int) -> Future[bool]:
        futures.append(pool.submit(held.wait))
        return futures[-1]

    with ThreadPoolExecutor(1) as pool:
        with closing(in_order(range(9), begin, 4)) as ahead:
            next(ahead)
        assert [future.cancelled() for future in futures] == [False, True, True, True, True]
        held.set()


async def test_a_full_queue_holds_back_who_gives_and_hands_out_in_order() -> None:
    with ThreadPoolExecutor(2) as pool:
        ahead: Ahead[int, int] = Ahead(lambda item: pool.submit(lambda: 12 // item), 3)
        assert ahead.is_empty
        for item in (1, 2, 3):
            await ahead.put(item)
        assert ahead.is_full
        giving = asyncio.create_task(ahead.put(0))
        await asyncio.sleep(0.01)
        assert not giving.done()
        assert [await ahead.pop() for _ in range(3)] == [(1, 12), (2, 6), (3, 4)]
        await giving
        with pytest.raises(ZeroDivisionError):
            await ahead.pop()


def test_each_thread_has_one_of_its_own() -> None:
    made: list[object] = []

    def make() -> object:
        made.append(object())
        return made[-1]

    own, together = OneAThread(make), threading.Barrier(3)

    def ask(_: int) -> bool:
        together.wait()
        return own.get() is own.get()

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(ask, range(3)))
    assert len(made) == 3


def test_threads_that_sign_give_way_and_nobody_else_does() -> None:
    here = os.nice(0)
    with signing_pool(1) as pool:
        assert pool.submit(os.nice, 0).result() == min(19, here + SIGNING_NICENESS)
    assert os.nice(0) == here
