"""Check that the topics of an index are still the ones with which the worker started.

A topic that is deleted and made again keeps its name, but its offsets name other messages. A
consumer does not notice: it reads on from its offset as soon as there is a message after it. Only
the topic's id differs, so the brokers are asked for it at each rebalance and every minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import structlog
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from streamer.errors import StoreMismatch, StreamerError
from streamer.kafka.topics import topic_id

CHECK_SECONDS = 60.0

_log = structlog.get_logger()


class TopicWatch:
    """Compares the ids of topics with `ids`, by name; `client_options` are what clients take."""

    def __init__(self, client_options: Mapping[str, Any], ids: Mapping[str, str]) -> None:
        self._client_options = client_options
        self._ids = ids

    async def check(self) -> None:
        """Ask for the ids, and compare them. Brokers that do not answer are asked the next time.

        Raises:
            StoreMismatch: a topic was deleted and made again.
        """
        admin = AIOKafkaAdminClient(**self._client_options)
        try:
            await admin.start()
            found = {topic: await topic_id(admin, topic) for topic in self._ids}
        except (KafkaError, StreamerError) as error:
            _log.warning("topics_not_checked", reason=str(error))
            return
        finally:
            await admin.close()
        for topic, wanted in self._ids.items():
            if found[topic] != wanted:
                raise StoreMismatch(_made_again(topic, wanted, found[topic]))

    async def run(self) -> None:
        """Check every minute; never returns.

        Raises:
            StoreMismatch: as `check`.
        """
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            await self.check()


def _made_again(topic: str, wanted: str, found: str) -> str:
    return (
        f"The topic {topic} was deleted and made again: its id was {wanted}, and is {found} now. "
        "The offsets in this index are those of the deleted topic. Use another --index-name and "
        "--index."
    )
