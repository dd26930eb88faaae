"""The id of a topic: 128 bits that Kafka gives to each topic made, also to one of the same name.

An index holds offsets of its log; in a topic that was deleted and made anew they mean something
else, and only the id tells. aiokafka asks for metadata in version 5 at most, which has no ids, so
version 12 (Kafka 3.0 and later) is spelled here with its building blocks, and only that: the
client's own requests stay as they are. Layout: MetadataRequest.json and MetadataResponse.json in
the sources of Apache Kafka.

The answer is one broker's view, and brokers learn of changes one after the other: an id must not
serve to find out whether a deletion just asked for has happened.
"""

from __future__ import annotations

import asyncio
from io import BytesIO
from time import monotonic
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError, NoError, for_code
from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from streamer.errors import StreamerError

_RETRY_S = 0.1
_ID_BYTES = 16
_NO_ID = bytes(_ID_BYTES)

# aiokafka has no types: its classes are Any to mypy, which lets nobody inherit from that.


class _Uuid(AbstractType):  # type: ignore[misc]
    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(_ID_BYTES)


class _Metadata12Response(Response):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 12
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString()),
                ("port", Int32),
                ("rack", CompactString()),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString()),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("topic", CompactString()),
                ("topic_id", _Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _Metadata12(RequestStruct):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 12
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _Metadata12Response
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(("topic_id", _Uuid), ("topic", CompactString()), ("tags", TaggedFields)),
        ),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _Metadata(Request[_Metadata12]):  # type: ignore[misc]
    API_KEY = 3

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def build(self, request_struct_class: type[_Metadata12]) -> _Metadata12:
        no_tags: dict[int, bytes] = {}
        topics = [(_NO_ID, self._topic, no_tags)]
        return request_struct_class(topics, False, False, no_tags)


async def topic_id(admin: AIOKafkaAdminClient, topic: str, patience_s: float = 5.0) -> str:
    """Return the id of a topic in 32 hexadecimal digits, asked of any broker.

    A broker that does not know the topic yet, or cannot be reached, is asked again for
    `patience_s`: a topic just made takes a moment to be known everywhere.

    Raises:
        StreamerError: there is no such topic, or we may not see it, or the brokers give no ids.
    """
    deadline = monotonic() + patience_s
    while True:
        try:
            return await _ask(admin, topic)
        except (IncompatibleBrokerVersion, NotImplementedError) as error:
            raise StreamerError(
                f"The brokers give no ids of topics, as for {topic}. Apache Kafka 3.0 or later is "
                "needed."
            ) from error
        except KafkaError as error:
            if not error.retriable or monotonic() >= deadline:
                raise StreamerError(
                    f"Cannot find the topic {topic}: {error!r}. Check that it exists, and "
                    "that we may describe it."
                ) from error
        await asyncio.sleep(_RETRY_S)


async def _ask(admin: AIOKafkaAdminClient, topic: str) -> str:
    client: Any = admin._client  # noqa: SLF001 - the admin client sends no requests of others
    answer = await client.send(client.get_random_node(), _Metadata(topic))
    error_code, _, found, *_ = answer.topics[0]
    error = for_code(error_code)
    if error is not NoError:
        raise error(topic)
    if found == _NO_ID:  # an old cluster that was upgraded, but not its metadata
        raise IncompatibleBrokerVersion(topic)
    return bytes(found).hex()
