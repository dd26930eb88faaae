"""Check that the topics of an index are still the ones with which the worker started.

A topic that is deleted and made again keeps its name, but its offsets name other messages. A
consumer does not notice: it reads on from its offset as soon as there is a message after it. Only
the topic's id differs, so the brokers are asked for it at each rebalance and every minute. They are
asked as well whether the pages have more partitions, which no worker has an index for.
"""

import asyncio
from collections.abc import Mapping

import structlog
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from streamer.errors import StoreMismatch, StreamerError
from streamer.kafka.reader import Options
from streamer.kafka.topics import Names, partition_count, topic_id

CHECK_SECONDS = 60.0

_log = structlog.get_logger()


class TopicWatch:
    """Compares the ids of topics with `ids`: those of the pages and of all logs, by name.

    `client` are what clients take.
    """

    def __init__(self, client: Options, ids: Mapping[str, str], names: Names) -> None:
        self._client, self._ids, self._names = client, ids, names

    async def check(self) -> None:
        """Ask for the ids, and compare them. Brokers that do not answer are asked the next time.

        Raises:
            StoreMismatch: a topic was deleted and made again.
            StreamerError: a partition has no index.
        """
        admin = AIOKafkaAdminClient(**self._client)
        try:
            await admin.start()
            found = {topic: await topic_id(admin, topic) for topic in self._ids}
            shards = self._names.shards(await partition_count(admin, self._names.pages))
        except (KafkaError, StreamerError) as error:
            _log.warning("topics_not_checked", reason=str(error))
            return
        finally:
            await admin.close()
        for topic, wanted in self._ids.items():
            if found[topic] != wanted:
                raise StoreMismatch(_describe_made_again(topic, wanted, found[topic]))
        if len(shards) >= len(self._ids):
            raise StreamerError(
                f"The topic {self._names.pages} has more partitions than at the start. Start the "
                "workers again: each new partition gets an index of its own."
            )

    async def run(self) -> None:
        """Check every minute; never returns.

        Raises:
            StreamerError: as `check`.
        """
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            await self.check()


def _describe_made_again(topic: str, wanted: str, found: str) -> str:
    return (
        f"The topic {topic} was deleted and made again: its id was {wanted}, and is {found} now. "
        "The offsets in this index are those of the deleted topic. Use another --index-name and "
        "--index."
    )
