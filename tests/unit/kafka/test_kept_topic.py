"""Which topics may have the copies of kept pages."""

import pytest

from streamer.errors import SettingsError
from streamer.kafka.kept_topic import check_kept_topic
from streamer.kafka.topics import Names, kept_topic

NAMES = Names("streamer", "pages")


@pytest.mark.parametrize(
    "name", ["pages", "pages-dlt", "streamer.verdicts", "streamer.gauge", "streamer.bands.11"]
)
def test_a_topic_of_the_index_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="this index reads or writes"):
        check_kept_topic(NAMES, name)


@pytest.mark.parametrize("name", ["", ".", "a b", "x" * 201])
def test_a_name_that_kafka_does_not_take_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="--kept-topic cannot be"):
        check_kept_topic(NAMES, name)


def test_copies_keep_their_time_and_have_room_for_headers() -> None:
    check_kept_topic(NAMES, "unique")
    topic = kept_topic("unique", 3, 1000, 2)
    assert (topic.partitions, topic.replicas) == (3, 2)
    assert topic.config["max.message.bytes"] == str(1000 + (64 << 10))
    assert topic.config["message.timestamp.type"] == "CreateTime"
    assert "cleanup.policy" not in topic.config, "it may be compacted"
