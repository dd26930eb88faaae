"""The topics of an index: their names, settings and ids.

All names of topics and groups begin with the index's name, so that an old and a new index can read
the same pages at the same time. Only dead letters are named after the pages' topic, where other
tools expect them. A topic is made with the settings that it needs; one that is there is checked, or
refused with the remedy. Its id distinguishes it from one that was deleted and made again.
"""

# aiokafka (0.14) cannot request ids, so this request is encoded by hand. The first record of a
# topic would not do: it may be missing or expired, and a mirror has it too.

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from typing import Any, Self

import structlog
from aiokafka import errors as kafka_errors
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.protocol import types
from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import RequestStruct
from aiokafka.protocol.struct import Struct

from streamer.errors import InputError, SettingsError, StoreMismatch, StreamerError
from streamer.kafka.reader import RETRY_SECONDS, Options, Reader, ask_again
from streamer.kafka.wire import LogIdentity, identity_in

_log = structlog.get_logger()
DEAD_LETTERS = "-dlt"  # after the name of the pages' topic
_LEGAL = re.compile(r"[A-Za-z0-9._-]+")


def check_name(option: str, name: str, longest: int = 249) -> None:
    """Raise SettingsError if Kafka does not take a name, or one that is made of it."""
    if not _LEGAL.fullmatch(name) or name in {".", ".."} or len(name) > longest:
        raise SettingsError(
            f"{option} cannot be {name!r}. Use at most {longest} letters, digits, '.', '_', '-'."
        )


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the index `index` over the topic `pages`.

    An index has one shard, or `per_partition` one for each partition of the pages, of its number.
    Each is a log, a folder and an owner of its own, and compares pages with its own only.

    Raises:
        SettingsError: Kafka does not take one of them.
    """

    index: str
    pages: str
    per_partition: bool = False

    def __post_init__(self) -> None:
        for option, name in (("--index-name", self.index), ("--input-topic", self.pages)):
            check_name(option, name, longest=200)

    def shards(self, partitions: int) -> range:
        """Return the shards where the topic of pages has so many partitions."""
        return range(partitions if self.per_partition else 1)

    def shard_of(self, partition: int) -> int:
        """Return the shard that judges a partition of the pages."""
        return partition if self.per_partition else 0

    def log(self, shard: int) -> str:
        """Return the topic of a shard's log."""
        return f"{self.index}.bands.{shard}"

    @property
    def verdicts(self) -> str:
        """Return the topic of verdicts."""
        return f"{self.index}.verdicts"

    def sites(self, partition: int) -> str:
        """Return the topic of what signers know of sites by a partition of the pages."""
        return f"{self.index}.sites.{partition}"

    @property
    def gauge(self) -> str:
        """Return the topic in which each shard says how far it is."""
        return f"{self.index}.gauge"

    @property
    def dead_letters(self) -> str:
        """Return the topic of dead letters."""
        return f"{self.pages}{DEAD_LETTERS}"

    @property
    def sign_group(self) -> str:
        """Return the consumer group of all signers."""
        return f"{self.index}.sign"

    def shard_group(self, shard: int) -> str:
        """Return the consumer group of a shard's owner."""
        return f"{self.index}.shard.{shard}"

    @property
    def kept_group(self) -> str:
        """Return the consumer group that copies kept pages, and the prefix of its producers."""
        return f"{self.index}.kept"


MESSAGE_BYTES_MAX = 4 << 20  # of one message: a page in base64 with its envelope
LOG_BYTES_MAX = 16 << 20  # of one record: the fields of a chunk, and 400 bytes a page
SITES_SEGMENT_BYTES = 64 << 20
VISIBLE_SECONDS_MAX = 30.0
CHECK_SECONDS = 60.0  # from one look at the topics' ids to the next
HEADERS_BYTES_MAX = 64 << 10  # what a dead letter has in addition to the original
# Kafka 4 refuses what is dated an hour after the broker's own time: a worker whose clock is ahead
# could publish nothing. Older brokers take all, and do not know the setting. Topics of pages keep
# the brokers' limit, which refuses wrong dates where they are made.
ANY_TIME = {"message.timestamp.after.max.ms": str((1 << 63) - 1)}
_LARGEST = "max.message.bytes"
_RETENTION = {"retention.ms", "retention.bytes"}
KEPT_FOR_EVER = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it must be; `config` holds the settings that matter, as Kafka names them.

    An existing one may have more partitions, unless it is a `log`: there order is all. With
    `any_count` it may have fewer as well. The retention of one that `may_expire` is its user's.
    With `any_time` it takes messages of any time.
    """

    name: str
    partitions: int
    replicas: int
    config: Mapping[str, str] = field(default_factory=dict)
    log: bool = False
    any_count: bool = False
    may_expire: bool = False
    any_time: bool = True


def pages_topic(name: str, partitions: int, replicas: int) -> Topic:
    """Return the topic of crawled pages: nothing expires, since verdicts name offsets in it."""
    config = {**KEPT_FOR_EVER, "max.message.bytes": str(MESSAGE_BYTES_MAX)}
    return Topic(name, partitions, replicas, config, any_time=False)


def kept_topic(name: str, partitions: int, bytes_max: int, replicas: int) -> Topic:
    """Return the topic of copies of kept pages; whether they expire, or are compacted, is open."""
    config = {
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "max.message.bytes": str(bytes_max),
        "message.timestamp.type": "CreateTime",
    }
    return Topic(name, partitions, replicas, config, any_count=True, may_expire=True)


def sites_topic(names: Names, partition: int, replicas: int) -> Topic:
    """Return the topic of what signers know of sites: of each part of the table the newest counts.

    A start reads all of it, and the newest segment is never compacted, so segments are small.
    """
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": str(SITES_SEGMENT_BYTES),
        "min.cleanable.dirty.ratio": "0.1",
        "max.message.bytes": str(MESSAGE_BYTES_MAX),
    }
    return Topic(names.sites(partition), 1, replicas, config, log=True)


def index_topics(
    names: Names, pages: tuple[int, int], verdict_partitions: int, replicas: int
) -> list[Topic]:
    """Return the topics of an index over `pages`, a topic's partitions and largest message.

    Logs are kept for ever, since an index is rebuilt from them; of a shard's gauges the newest is.
    With 0 `verdict_partitions` there are as many as the pages had at first.
    """
    partitions, page_bytes_max = pages
    log = {**KEPT_FOR_EVER, "max.message.bytes": str(LOG_BYTES_MAX)}
    letter = {**KEPT_FOR_EVER, "max.message.bytes": str(dead_letter_bytes_max(page_bytes_max))}
    small = {"segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.1"}
    gauge = {"cleanup.policy": "compact", **small}
    own, any_count = verdict_partitions or partitions, not verdict_partitions
    return [
        *(Topic(names.log(n), 1, replicas, log, log=True) for n in names.shards(partitions)),
        Topic(names.verdicts, own, replicas, log, any_count=any_count, may_expire=True),
        Topic(names.gauge, 1, replicas, gauge, log=True),
        Topic(names.dead_letters, partitions, replicas, letter, any_count=True, may_expire=True),
    ]


def dead_letter_bytes_max(page_bytes_max: int) -> int:
    """Return what the topic of dead letters takes, where that of the pages takes so much."""
    return page_bytes_max + HEADERS_BYTES_MAX


async def ensure_topic(admin: AIOKafkaAdminClient, topic: Topic, *, check: bool = True) -> bool:
    """Make a topic, or (`check`) check the existing one; return whether it is new.

    Who may not make topics can use one that is there.

    Raises:
        SettingsError: it exists with other settings, or with fewer partitions.
        StreamerError: the brokers refuse to make it.
    """
    name, config = topic.name, dict(topic.config)
    for more in (ANY_TIME if topic.any_time else {}, {}):
        new = NewTopic(name, topic.partitions, topic.replicas, topic_configs=config | more)
        try:
            answer = await admin.create_topics([new])
        except kafka_errors.KafkaError as error:
            raise StreamerError(f"Cannot make the topic {name}: {error}.") from error
        _, code, *reason = answer.topic_errors[0]
        if code != kafka_errors.InvalidConfigurationError.errno:
            break
    if code == kafka_errors.TopicAuthorizationFailedError.errno:
        if (await admin.describe_topics([name]))[0]["error_code"]:
            raise StreamerError(
                f"The topic {name} is missing, or hidden from this user, who may not make "
                "it. Make it beforehand, and allow this user to describe it."
            )
    elif code not in {0, kafka_errors.TopicAlreadyExistsError.errno}:
        why = reason[0] or kafka_errors.for_code(code)
        raise StreamerError(f"Cannot make the topic {name}: {why}.")
    partitions = await partition_count(admin, name)
    if check and code:
        await _check(admin, topic, partitions)
    return bool(code == 0)


async def partition_count(admin: AIOKafkaAdminClient, name: str) -> int:
    """Return how many partitions a topic has, once the brokers agree that it is there."""
    for _ in range(round(VISIBLE_SECONDS_MAX / RETRY_SECONDS)):
        partitions = (await admin.describe_topics([name]))[0]["partitions"]
        if partitions and not any(each["error_code"] for each in partitions):
            return len(partitions)
        await asyncio.sleep(RETRY_SECONDS)
    raise StreamerError(
        f"The topic {name} has no leaders after {VISIBLE_SECONDS_MAX:.0f} seconds. See that all "
        "brokers are up, and start again."
    )


async def _check(admin: AIOKafkaAdminClient, topic: Topic, partitions: int) -> None:
    if topic.log and partitions > 1:
        raise SettingsError(
            f"The topic {topic.name} has {partitions} partitions, a log has one. Use another "
            "--index-name."
        )
    if partitions < topic.partitions and not topic.any_count:
        raise SettingsError(
            f"The topic {topic.name} has {partitions} partitions, {topic.partitions} are asked "
            "for. Ask for as many, or add partitions to it."
        )
    config = await topic_config(admin, topic.name)
    for name, wanted in topic.config.items():
        found = config.get(name, "")
        if found == wanted or (name == _LARGEST and found.isdigit() and int(found) >= int(wanted)):
            continue
        if topic.may_expire and name in _RETENTION:
            _log.warning("messages_expire", topic=topic.name, setting=name, value=found)
            continue
        raise SettingsError(
            f"The topic {topic.name} has {name} = {found}, {wanted} is needed. "
            "Alter it with kafka-configs, or name another topic."
        )


async def topic_config(admin: AIOKafkaAdminClient, name: str) -> dict[str, str]:
    """Return a topic's settings as strings, as Kafka names them.

    Raises:
        StreamerError: the brokers refuse the request.
    """
    answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
    ((code, _, _, _, entries),) = [each for answer in answers for each in answer.resources]
    if code:
        raise StreamerError(
            f"Cannot see the settings of the topic {name}: {kafka_errors.for_code(code).__name__}. "
            "Check that it exists, and that this user may describe it (DescribeConfigs)."
        )
    return {entry[0]: entry[1] for entry in entries}


_ID_BYTES = 16
_NO_ID = bytes(_ID_BYTES)

# aiokafka has no types: its classes are Any to mypy, which forbids to inherit from that.


class OwnRequest(RequestStruct):  # type: ignore[misc]
    """A request in a version that aiokafka does not know; RESPONSE_TYPE is what answers it.

    Its fields are those of the sources of Apache Kafka, clients/src/main/resources.
    """

    API_KEY = API_VERSION = -1
    SCHEMA = RESPONSE_TYPE = types.Schema()
    FLEXIBLE_VERSION = True

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> Self:
        """Return the request, as the client asks for it, if the broker knows its version."""
        least, most = versions.get(self.API_KEY, (0, -1))
        if not least <= self.API_VERSION <= most:
            raise kafka_errors.IncompatibleBrokerVersion(
                f"{type(self).__name__} {self.API_VERSION}"
            )
        return self


# aiokafka asks for metadata in version 5 at most, and only from version 12 on (Kafka 3.0) it has
# ids of topics. Of the response there is what is before the first topic's id, and that; the client
# skips the rest.


class _Uuid(AbstractType):  # type: ignore[misc]
    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(_ID_BYTES)


class _TopicIdResponse(Struct):  # type: ignore[misc]
    _BROKER = (("node", types.Int32), ("host", types.CompactString()), ("port", types.Int32))
    _MORE = (("rack", types.CompactString()), ("tags", types.TaggedFields))
    SCHEMA = types.Schema(
        ("throttle_time_ms", types.Int32),
        ("brokers", types.CompactArray(*_BROKER, *_MORE)),
        ("cluster_id", types.CompactString()),
        ("controller_id", types.Int32),
        # One more than there are topics; the fields of the first follow.
        ("topics", types.UnsignedVarInt32),
        ("error_code", types.Int16),
        ("topic", types.CompactString()),
        ("topic_id", _Uuid),
    )


class _TopicIdRequest(OwnRequest):
    API_KEY, API_VERSION = 3, 12
    RESPONSE_TYPE = _TopicIdResponse
    _TOPIC = (("topic_id", _Uuid), ("topic", types.CompactString()), ("tags", types.TaggedFields))
    SCHEMA = types.Schema(
        ("topics", types.CompactArray(*_TOPIC)),
        ("allow_auto_topic_creation", types.Boolean),
        ("include_topic_authorized_operations", types.Boolean),
        ("tags", types.TaggedFields),
    )


async def check_there(reader: Reader, names: Names) -> None:
    """Raise InputError unless there is an index of this name."""
    if names.log(0) not in await reader.admin.list_topics():
        raise InputError(
            f"There is no index {names.index}: the topic {names.log(0)} is missing. Name one with "
            "--index-name."
        )


async def check_pages(reader: Reader, names: Names, origin: str | None = None) -> None:
    """Raise unless the index of this name is there, and is of the pages in the topic named.

    `origin` is the id of its pages' topic; None: the newest record of its log has it.

    Raises:
        InputError: there is no such index.
        StoreMismatch: it is of other pages.
    """
    if origin is None:
        newest = await newest_identity(reader, names)
        if newest is None:
            return
        origin = newest.origin
    found = await topic_id(reader.admin, names.pages)
    if origin != found:
        raise StoreMismatch(
            f"The index {names.index} is of the pages in the topic with the id {origin}, the topic "
            f"{names.pages} has the id {found}. Name its topic with --input-topic, or the index of "
            "this one with --index-name."
        )


async def newest_identity(reader: Reader, names: Names) -> LogIdentity | None:
    """Return the identity that the newest record of the first log has; None of an empty log.

    Raises:
        InputError: there is no index of this name.
    """
    await check_there(reader, names)
    start, end = await reader.bounds(names.log(0), 0)
    newest = await reader.value_at(names.log(0), end - 1) if start < end else None
    return identity_in(newest) if newest else None


async def topic_id(admin: AIOKafkaAdminClient, topic: str, patience_s: float = 5.0) -> str:
    """Return the 128 bits that Kafka gives to each topic made, in 32 hexadecimal digits.

    An index holds offsets; in a topic that was deleted and made again they mean something else, and
    only the id shows it: it does so while the topic is empty and once its first messages have
    expired, and without the right to read. A broker that does not know the topic yet, or cannot be
    reached, is asked again for `patience_s`: a topic just made takes a moment to be known
    everywhere. It is one broker's view, and so no way to find out whether a deletion just asked for
    has happened.

    Raises:
        StreamerError: there is no such topic, or we may not see it, or the brokers give no ids.
    """
    try:
        return await ask_again(partial(_ask_for_id, admin, topic), patience_s)
    except kafka_errors.IncompatibleBrokerVersion as error:
        raise StreamerError(
            f"The brokers give no ids of topics, as for {topic}. Apache Kafka 3.0 or later is "
            "needed."
        ) from error
    except kafka_errors.KafkaError as error:
        raise StreamerError(
            f"Cannot find the topic {topic}: {error!r}. Check that it exists, and our rights."
        ) from error


async def _ask_for_id(admin: AIOKafkaAdminClient, topic: str) -> str:
    client: Any = admin._client  # noqa: SLF001 - the admin client sends no requests of others
    request = _TopicIdRequest([(_NO_ID, topic, {})], False, False, {})
    answer = await client.send(client.get_random_node(), request)
    error = kafka_errors.for_code(answer.error_code)
    if error is not kafka_errors.NoError:
        raise error(topic)
    if answer.topic_id == _NO_ID:  # an old cluster that was upgraded, but not its metadata
        raise kafka_errors.IncompatibleBrokerVersion(topic)
    return bytes(answer.topic_id).hex()


class TopicWatch:
    """Compares the ids of topics with `ids`: those of the pages and of all logs, by name.

    A topic that is deleted and made again keeps its name, but its offsets name other messages. A
    consumer does not notice: it reads on from its offset as soon as there is a message after it. So
    the brokers are asked at each rebalance and every minute. They are asked as well whether the
    pages have more partitions, which no worker has an index for. `client` are what clients take.
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
        except (kafka_errors.KafkaError, StreamerError) as error:
            _log.warning("topics_not_checked", reason=str(error))
            return
        finally:
            await admin.close()
        for topic, wanted in self._ids.items():
            if found[topic] != wanted:
                raise StoreMismatch(
                    f"The topic {topic} was deleted and made again: its id was {wanted}, and is "
                    f"{found[topic]} now. The offsets in this index are those of the deleted "
                    "topic. Use another --index-name and --index."
                )
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
