"""`streamer worker --site-memory`: signers remember what sites repeat, by a topic of the index."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import closing, suppress
from pathlib import Path

import pytest

from streamer import Deduplicator
from streamer.errors import StoreMismatch
from streamer.kafka.publisher import Publisher
from streamer.kafka.reader import open_reader
from streamer.kafka.sites_topic import SharedSites
from streamer.kafka.topics import Names
from streamer.run.explanation import KeptIndex
from streamer.sketch.site_memory import SiteMemory
from tests.helpers.broker import delete_topic, messages_of, verdicts_of
from tests.helpers.fleet import Fleet, fleet
from tests.integration.chaos import load
from tests.integration.test_sites import SITES, crawl
from tests.unit.kafka.test_sites_topic import ASKED, SIZE, learn, page

OPTIONS = ("--preset", "balanced", "--site-memory", "1MiB")
PAGES, EARLY = 40, 20  # in all, and before the worker stops: the long articles are among those


def test_signers_remember_what_sites_repeat_through_a_stop_a_kill_and_a_lost_topic(
    brokers: str, names: Names, tmp_path: Path
) -> None:
    """Short articles come late: whoever has not learned from long ones takes them for versions."""
    pages = crawl(PAGES)
    with fleet(tmp_path, brokers, names, options=OPTIONS) as workers:
        _judge(workers, tmp_path, pages[:EARLY])
        assert workers.kill("all", signal.SIGTERM) == 0
        assert messages_of(brokers, names.sites)[0], "a worker that stops publishes"
        _judge(workers, tmp_path, pages[EARLY:])
        workers.kill("all")
        workers.see_that_all_holds()
        delete_topic(brokers, names.sites)
        workers.start("all")
        workers.wait_for_log("all", "sites_folded")
        assert workers.kill("all", signal.SIGTERM) == 0, "the topic is made again"
        assert messages_of(brokers, names.sites)[0] == []
    with closing(KeptIndex(tmp_path / "index", tmp_path / "key")) as kept:
        assert kept.sites is not None, "empty: a page is explained as the first of its host"
        with pytest.raises(StoreMismatch, match="is a worker's"):
            kept.site_figures()
    found = {each["url"]: each for each in map(json.loads, verdicts_of(brokers, names))}
    assert found.keys() == {url for url, _ in pages}
    bodies = [body for _, body in pages]
    late = [url for url, body in pages[EARLY:] if bodies.count(body) == 1]
    assert [url for url in late if found[url]["verdict"] == "duplicate"] == []
    with Deduplicator(**SITES) as alone:
        forgetful = {each.url for each in alone.add(pages[EARLY:]) if each.is_duplicate}
    assert forgetful & {*late}, "a worker that does not remember would be noticed"


def test_signers_learn_from_each_other_while_they_run(brokers: str, names: Names) -> None:
    async def taught() -> list[int]:
        client = {"bootstrap_servers": brokers}
        async with open_reader(client) as reader:
            one, other = [
                await SharedSites.prepared(reader, names, SiteMemory(SIZE), "f", 1)
                for _ in range(2)
            ]
        publisher = Publisher(client)
        await publisher.start()
        following = asyncio.create_task(other.follow(client))
        try:
            for number in (0, 4):  # two messages of each part, the second one while it listens
                learn(one, *(page(number + n, 1, 2) for n in range(4)))
                await one.publish(publisher)
                async with asyncio.timeout(20):
                    while other.memory.known(ASKED)[0] < number + 3:  # noqa: ASYNC110 - it sets no event
                        await asyncio.sleep(0.05)
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
            await publisher.stop()
        return [*map(int, other.memory.known(ASKED))]

    assert asyncio.run(taught()) == [7, 7, 0, 0]


def _judge(workers: Fleet, folder: Path, pages: list[tuple[str, str]]) -> None:
    """Send pages, and have a worker judge them."""
    file = folder / "pages.jsonl"
    file.write_text("".join(json.dumps({"url": url, "body": body}) + "\n" for url, body in pages))
    load(workers.brokers, workers.names, file, partitions=2)
    workers.settle("all", "--index", folder / "index")
