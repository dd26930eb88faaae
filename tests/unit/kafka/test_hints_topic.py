"""What is sent so that a topic holds the hints of some hosts; a broker is in test_hints.py."""

from __future__ import annotations

import pytest
import xxhash

from streamer.errors import SettingsError
from streamer.kafka.hints_topic import Publication, _changes
from streamer.kafka.kept_topic import check_kept_topic
from streamer.kafka.topics import Names, hints_topic


def test_only_what_differs_from_the_topic_is_sent() -> None:
    values = {"a": b"1", "b": b"2", "c": b"3"}
    before = {host.encode(): xxhash.xxh3_64_intdigest(values[host]) for host in "ab"}
    before |= {b"c": 7, b"z": 8, b"y": 9}
    done = Publication()
    sent = list(_changes(values.items(), before, done))
    assert sent == [(b"c", b"3"), (b"y", None), (b"z", None)]
    assert (done.changed, done.withdrawn, done.unchanged) == (1, 2, 2)


def test_the_topic_is_compacted_and_is_none_for_copies_of_pages() -> None:
    names = Names("streamer", "pages")
    topic = hints_topic(names, 3)
    assert (topic.name, topic.replicas) == ("streamer.hints", 3)
    assert topic.config["cleanup.policy"] == "compact"
    with pytest.raises(SettingsError, match="Name another topic"):
        check_kept_topic(names, names.hints)
