"""Ask a streamer worker about each page, and drop near-duplicates.

A page goes to the worker's topic; its verdict comes back on the topic of verdicts. Scrapy crawls on
meanwhile. The worker copies the field `id` into the verdict (`--carry id`), so that the verdict
finds its item, also where several crawlers share the topics.
"""

import asyncio
import json
import logging
import uuid
from typing import Any, Self

from aiokafka import AIOKafkaProducer
from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem
from scrapy.settings import BaseSettings

from streamer import Verdict, follow

PATIENCE_SECONDS = 300
log = logging.getLogger(__name__)


class DropDuplicates:
    """Drop the items whose pages are near-duplicates of others."""

    def __init__(self, settings: BaseSettings) -> None:
        self._brokers = settings["STREAMER_BROKERS"]
        self._topic = settings["STREAMER_INPUT_TOPIC"]
        self._index = settings["STREAMER_INDEX_NAME"]
        self._waiting: dict[str, asyncio.Future[Verdict]] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the pipeline of a crawl."""
        return cls(crawler.settings)

    async def open_spider(self) -> None:
        """Connect to the brokers."""
        self._producer = AIOKafkaProducer(
            bootstrap_servers=self._brokers, enable_idempotence=True, max_request_size=4 << 20
        )
        await self._producer.start()
        self._follower = asyncio.create_task(self._follow())

    async def close_spider(self) -> None:
        """Disconnect; no item waits any more."""
        self._follower.cancel()
        await asyncio.wait([self._follower])
        await self._producer.stop()

    async def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return the item with its verdict.

        Raises:
            DropItem: it is a near-duplicate.
            StreamerError: verdicts cannot be read.
        """
        verdict = await self._judge(item["url"], item["html"])
        if verdict is None:
            log.warning("No verdict on %s: the item is kept. Is there a dead letter?", item["url"])
        elif verdict.representative is not None:
            raise DropItem(f"{item['url']} is like {verdict.representative.url}")
        return item

    async def _judge(self, url: str, html: str) -> Verdict | None:
        """Send a page; return its verdict, or None if there is none in time."""
        number = uuid.uuid4().hex
        verdict = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            page = json.dumps({"url": url, "body": html, "id": number}).encode()
            await self._producer.send_and_wait(self._topic, page, key=url.encode())
            first = asyncio.FIRST_COMPLETED
            await asyncio.wait(
                [verdict, self._follower], timeout=PATIENCE_SECONDS, return_when=first
            )
        finally:
            del self._waiting[number]
        if self._follower.done():
            self._follower.result()
        return verdict.result() if verdict.done() else None

    async def _follow(self) -> None:
        """Hand verdicts to the items that wait for them; those of other crawls to none."""
        async for verdict in follow(self._brokers, self._index):
            waiting = self._waiting.get(str(verdict.carried.get("id")))
            if waiting and not waiting.done():  # after a crash, a verdict may come again
                waiting.set_result(verdict)
