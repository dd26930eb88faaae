"""The topic for copies of kept pages (`--kept-topic`): checked, made, and described."""

from dataclasses import dataclass

from streamer.config import Settings
from streamer.errors import SettingsError
from streamer.kafka.prepare import PreparedIndex, check_groups
from streamer.kafka.reader import Reader
from streamer.kafka.topics import (
    Names,
    check_name,
    ensure_topic,
    kept_topic,
    topic_config,
    topic_id,
)


@dataclass(frozen=True, slots=True)
class KeptTopic:
    """A topic of copies as it was found, and what the copying needs to know.

    Attributes:
        bytes_max: what the topic takes of a batch.
        ids: those of the topic of verdicts and of shard 0's log.
        skips_expired: whether to go on without pages that have left their topic.
    """

    name: str
    names: Names
    partitions: int
    bytes_max: int
    ids: tuple[str, str]
    instance_id: str | None
    skips_expired: bool


def check_kept_topic(names: Names, name: str) -> None:
    """Check that a topic for kept pages is none that streamer reads or writes.

    Raises:
        SettingsError: it is, or Kafka does not take the name.
    """
    own = {names.pages, names.verdicts, names.gauge, names.dead_letters}
    if name in own or name.startswith((names.log(0)[:-1], names.sites(0)[:-1])):
        raise SettingsError(
            f"--kept-topic {name} is a topic that this index reads or writes. Name another topic."
        )
    check_name("--kept-topic", name, longest=200)


async def prepare_kept_topic(
    reader: Reader, names: Names, prepared: PreparedIndex, settings: Settings
) -> KeptTopic | None:
    """Make or check the topic that `settings` name, with as many partitions as the pages have.

    Raises:
        SettingsError: it has settings with which it cannot take all pages as they are.
        StreamerError: the brokers refuse, or this user may not join the group.
    """
    if not (name := settings.kept_topic):
        return None
    await check_groups(reader, [names.kept_group])
    config = await topic_config(reader.admin, names.pages)
    partitions, largest = await reader.partitions(names.pages), int(config["max.message.bytes"])
    await ensure_topic(reader.admin, kept_topic(name, len(partitions), largest, settings.replicas))
    own = await topic_config(reader.admin, name)
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
        (await topic_id(reader.admin, names.verdicts), prepared.log_ids[0]),
        settings.instance_id or None,
        settings.kept_expired == "skip",
    )
