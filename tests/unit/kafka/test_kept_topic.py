"""Which topics may have the copies of kept pages."""

import pytest

from streamer.errors import SettingsError
from streamer.kafka.kept_topic import check_kept_topic
from streamer.kafka.topics import Names, dead_letter_bytes_max, kept_topic

NAMES = Names("streamer", "pages")


OURS = ["pages", "pages-dlt", "streamer.verdicts", "streamer.gauge", "streamer.bands.11"]


@pytest.mark.parametrize("name", [*OURS, "", ".", "a b", "x" * 201])
def test_a_topic_of_the_index_and_a_name_that_kafka_does_not_take_are_refused(name: str) -> None:
    said = "this index reads or writes" if name in OURS else "--kept-topic cannot be"
    with pytest.raises(SettingsError, match=said):
        check_kept_topic(NAMES, name)


def test_copies_keep_their_time_and_have_room_for_headers() -> None:
    check_kept_topic(NAMES, "unique")
    topic = kept_topic("unique", 3, dead_letter_bytes_max(1000), 2)
    assert (topic.partitions, topic.replicas) == (3, 2)
    assert topic.config["max.message.bytes"] == str(1000 + (64 << 10))
    assert topic.config["message.timestamp.type"] == "CreateTime"
    assert "cleanup.policy" not in topic.config, "it may be compacted"
