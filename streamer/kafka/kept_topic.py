"""The topic for copies of kept pages (`--kept-topic`), and how far these are copied.

How far, says an offset in the verdicts that is committed in each transaction. It carries what else
a reader must know to go on: by shard, the number of the next verdict that is not copied, since an
owner that was restarted repeats verdicts with their numbers; and the ids of the topics that offset
and numbers belong to.

A transaction that has ended is complete before its offsets can be read. So they are asked for with
`require_stable` (KIP-447): the brokers refuse to answer as long as an offset is pending. aiokafka
asks in version 3 at most, which has no such field; so the request is spelled here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaTimeoutError, for_code
from aiokafka.protocol import types
from aiokafka.protocol.struct import Struct

from streamer.config import Settings
from streamer.errors import SettingsError
from streamer.kafka import topics
from streamer.kafka.dead_letters import is_of_index
from streamer.kafka.owner import SEQUENCE
from streamer.kafka.prepare import PreparedIndex, check_groups
from streamer.kafka.reader import COORDINATOR_SECONDS, Reader, ask_again

COPIES_BEFORE = 100  # offsets at a partition's end among which a copy is looked for first
_UNSTABLE = 88  # UNSTABLE_OFFSET_COMMIT


@dataclass(frozen=True, slots=True)
class KeptTopic:
    """A topic of copies as it was found, and what the copying needs to know.

    Attributes:
        bytes_max: what the topic takes of a batch.
        ids: those of the topic of verdicts and of shard 0's log.
        skips_expired: whether to go on without pages that have left their topic.
    """

    name: str
    names: topics.Names
    partitions: int
    bytes_max: int
    ids: tuple[str, str]
    instance_id: str | None
    skips_expired: bool


def check_kept_topic(names: topics.Names, name: str) -> None:
    """Check that a topic for kept pages is none that streamer reads or writes.

    Raises:
        SettingsError: it is, or Kafka does not take the name.
    """
    own = {names.pages, names.verdicts, names.gauge, names.dead_letters}
    if name in own or name.startswith((names.log(0)[:-1], names.sites(0)[:-1])):
        raise SettingsError(
            f"--kept-topic {name} is a topic that this index reads or writes. Name another topic."
        )
    topics.check_name("--kept-topic", name, longest=200)


async def prepare_kept_topic(
    reader: Reader, names: topics.Names, prepared: PreparedIndex, settings: Settings
) -> KeptTopic | None:
    """Make or check the topic that `settings` name, with as many partitions as the pages have.

    Raises:
        SettingsError: it has settings with which it cannot take all pages as they are.
        StreamerError: the brokers refuse, or this user may not join the group.
    """
    if not (name := settings.kept_topic):
        return None
    await check_groups(reader, [names.kept_group])
    partitions, largest = await reader.partitions(names.pages), prepared.dead_letter_bytes_max
    topic = topics.kept_topic(name, len(partitions), largest, settings.replicas)
    await topics.ensure_topic(reader.admin, topic)
    own = await topics.topic_config(reader.admin, name)
    if names.per_partition and "compact" in own["cleanup.policy"]:
        raise SettingsError(
            f"The topic {name} is compacted: it would keep one page of each key, and with "
            "--per-partition many pages share one. Set its cleanup.policy to delete."
        )
    return KeptTopic(
        name,
        names,
        len(await reader.partitions(name)),
        int(own["max.message.bytes"]),
        (await topics.topic_id(reader.admin, names.verdicts), prepared.log_ids[0]),
        settings.instance_id or None,
        settings.kept_expired == "skip",
    )


# ---- how far it is -------------------------------------------------------------------------------


class CopyProgress(msgspec.Struct):
    """What a committed offset carries.

    Attributes:
        verdicts: the id of the topic of verdicts, in which the offset is.
        log: the id of shard 0's log; numbers begin again where logs do.
        following: by shard, the number of the next verdict that is not copied.
    """

    verdicts: str
    log: str
    following: dict[int, int] = {}

    def advance(self, headers: Iterable[tuple[str, bytes | None]]) -> bool | None:
        """Return whether a verdict with these headers is a new one, and count it as copied.

        None: it has no number, so streamer did not write it.
        """
        number = next((value for name, value in headers if name == SEQUENCE), None)
        shard, _, rest = (number or b"").partition(b":")
        if not (shard.isdigit() and rest.isdigit()):
            return None
        is_new = int(rest) >= self.following.get(int(shard), 0)
        if is_new:
            self.following[int(shard)] = int(rest) + 1
        return is_new

    def encode(self) -> str:
        """Return it as the text that an offset is committed with."""
        return msgspec.json.encode(self).decode()


def decode_progress(text: str | None) -> CopyProgress | None:
    """Return what an offset was committed with; None: another program committed it."""
    try:
        return msgspec.json.decode(text or "", type=CopyProgress)
    except msgspec.MsgspecError:
        return None


class _StableOffsetsResponse(Struct):  # type: ignore[misc]  # aiokafka has no types
    _PARTITION = (
        ("partition", types.Int32),
        ("offset", types.Int64),
        ("leader_epoch", types.Int32),
        ("metadata", types.CompactString()),
        ("error_code", types.Int16),
        ("tags", types.TaggedFields),
    )
    _TOPIC = (
        ("topic", types.CompactString()),
        ("partitions", types.CompactArray(*_PARTITION)),
        ("tags", types.TaggedFields),
    )
    SCHEMA = types.Schema(
        ("throttle_time_ms", types.Int32),
        ("topics", types.CompactArray(*_TOPIC)),
        ("error_code", types.Int16),
        ("tags", types.TaggedFields),
    )


class _StableOffsetsRequest(topics.OwnRequest):
    API_KEY, API_VERSION = 9, 7
    RESPONSE_TYPE = _StableOffsetsResponse
    _TOPIC = (
        ("topic", types.CompactString()),
        ("partitions", types.CompactArray(types.Int32)),
        ("tags", types.TaggedFields),
    )
    SCHEMA = types.Schema(
        ("group", types.CompactString()),
        ("topics", types.CompactArray(*_TOPIC)),
        ("require_stable", types.Boolean),
        ("tags", types.TaggedFields),
    )


class _OffsetPendingError(KafkaTimeoutError):  # type: ignore[misc]  # as above
    retriable = True


async def stable_offsets(reader: Reader, group: str, topic: str) -> dict[int, tuple[int, str]]:
    """Return by partition what a group has committed, and with which text; waits for transactions.

    Nothing is returned of partitions of which it has committed nothing.

    Raises:
        KafkaError: the brokers refuse, or an offset is pending for COORDINATOR_SECONDS.
    """
    partitions = await reader.partitions(topic)
    request = _StableOffsetsRequest(group, [(topic, partitions, {})], True, {})
    return await ask_again(partial(_ask, reader.admin, group, request), COORDINATOR_SECONDS)


async def _ask(
    admin: AIOKafkaAdminClient, group: str, request: topics.OwnRequest
) -> dict[int, tuple[int, str]]:
    client: Any = admin._client  # noqa: SLF001 - the admin client sends no requests of others
    node = await admin.find_coordinator(group)

    answer = await client.send(node, request)
    rows = [row for _, partitions, _ in answer.topics for row in partitions]
    codes = {answer.error_code, *(row[4] for row in rows)} - {0}
    if _UNSTABLE in codes:
        raise _OffsetPendingError(f"The brokers do not say yet what {group} has committed.")
    for code in codes:
        raise for_code(code)(group)
    return {row[0]: (row[1], row[3] or "") for row in rows if row[1] >= 0}


async def has_copies(reader: Reader, topic: str, index: str) -> bool:
    """Return whether a topic has a copy of a page of an index; it is looked for from the ends on.

    Raises:
        InputError: there is no such topic, or it cannot be decoded.
        KafkaError: the brokers refuse.
    """
    for partition in await reader.partitions(topic):
        start, end = await reader.bounds(topic, partition)
        count = COPIES_BEFORE
        while start < end:  # in growing steps: aborted or other copies may be last, however many
            first = max(start, end - count)
            async for chunk in reader.read(topic, partition, first, end):
                if any(is_of_index(each, index) for each in chunk.records):
                    return True
            end, count = first, 2 * count
    return False
