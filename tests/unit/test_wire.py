"""Records as bytes: what comes back, and what stops a reader."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from streamer.errors import StoreMismatch
from streamer.index.codec import pack_pages
from streamer.index.types import (
    CONFIG,
    Decisions,
    Forget,
    IndexSettings,
    Items,
    Pages,
    Record,
    Term,
)
from streamer.kafka.wire import WIRE_VERSION, LogIdentity, pack_record, unpack_record
from tests.helpers.signed_pages import family_pages

IDENTITY = LogIdentity("fingerprint", "topic-id")


def record(items: Items, count: int, source: str = "pages:0") -> Record:
    return Record(source, 10, 10 + 2 * count, np.arange(10, 10 + 2 * count, 2), items)


def pages(count: int) -> Pages:
    made = family_pages(random.Random(1), count)
    made.message_keys[:1] = [b"key"]
    made.carried[:1] = [b'{"a":1}']
    return made


def test_pages_come_back_as_they_were_and_can_be_written() -> None:
    sent = record(pages(7), 7)
    got = unpack_record(pack_record(sent, IDENTITY), IDENTITY)
    assert (got.source, got.start, got.end) == (sent.source, sent.start, sent.end)
    assert got.numbers.tolist() == sent.numbers.tolist()
    assert isinstance(got.items, Pages)
    assert isinstance(sent.items, Pages)
    assert pack_pages(got.items) == pack_pages(sent.items)
    assert got.items.keys.flags.writeable, "a kernel would be compiled anew"


def test_a_record_of_the_version_before_has_pages_without_times() -> None:
    sent = record(pages(3), 3)
    parts = msgspec.msgpack.decode(pack_record(sent, IDENTITY))
    parts[0] = 1
    del parts[-1]["columns"][6:]  # of eight
    got = unpack_record(msgspec.msgpack.encode(parts), IDENTITY).items
    assert isinstance(got, Pages)
    assert isinstance(sent.items, Pages)
    assert (got.times.tolist(), got.watermarks.tolist()) == ([0] * 3, [0] * 3)
    assert got.keys.tolist() == sent.items.keys.tolist()
    assert got.urls == sent.items.urls


def test_what_is_to_be_forgotten_comes_back() -> None:
    terms: list[Term] = [("url", b"\xff"), ("host", b".example"), ("before", -7), ("ref", 1 << 63)]
    sent = record(Forget(terms, "command"), 4)
    got = unpack_record(pack_record(sent, IDENTITY), IDENTITY)
    assert (got.items, got.numbers.tolist()) == (sent.items, sent.numbers.tolist())


def test_an_interval_without_pages_comes_back() -> None:
    got = unpack_record(pack_record(record(pages(1).take([]), 0), IDENTITY), IDENTITY)
    assert (got.start, got.end, len(got.numbers)) == (10, 10, 0)
    assert isinstance(got.items, Pages)
    assert len(got.items) == 0


def test_sets_of_shingles_come_back_and_where_there_are_none_take_no_bytes() -> None:
    plain, sent = pages(3), pages(3)
    plain.shingles, sent.shingles = None, [b"one", b"", b"three"]
    got = unpack_record(pack_record(record(sent, 3), IDENTITY), IDENTITY).items
    assert isinstance(got, Pages)
    assert got.shingles == sent.shingles
    without = pack_record(record(plain, 3), IDENTITY)
    assert b"shingles" not in without
    again = unpack_record(without, IDENTITY).items
    assert isinstance(again, Pages)
    assert again.shingles is None


def test_how_many_replacements_came_before_a_held_page_comes_back() -> None:
    plain, sent = pages(3), pages(3)
    sent.replacements = np.array([5, -1, 0])
    got = unpack_record(pack_record(record(sent, 3), IDENTITY), IDENTITY).items
    assert isinstance(got, Pages)
    assert got.replacements is not None
    assert got.replacements.tolist() == [5, -1, 0]
    without = pack_record(record(plain, 3), IDENTITY)
    assert b"replacements" not in without
    again = unpack_record(without, IDENTITY).items
    assert isinstance(again, Pages)
    assert again.replacements is None


def test_decisions_and_settings_come_back() -> None:
    sent = Decisions(np.array([5, 6], np.uint64), np.array([True, False]))
    got = unpack_record(pack_record(record(sent, 2, "shard:1"), IDENTITY), IDENTITY).items
    assert isinstance(got, Decisions)
    assert (got.refs.tolist(), got.kept.tolist()) == ([5, 6], [True, False])
    settings = IndexSettings(threshold=0.7, shards=3)
    config = Record(CONFIG, 0, 1, np.array([0]), settings)
    assert unpack_record(pack_record(config, IDENTITY), IDENTITY).items == settings


def test_equal_records_have_equal_bytes() -> None:
    assert pack_record(record(pages(5), 5), IDENTITY) == pack_record(record(pages(5), 5), IDENTITY)


def test_a_record_of_a_later_version_stops_the_reader() -> None:
    parts = msgspec.msgpack.decode(pack_record(record(pages(1), 1), IDENTITY))
    later = msgspec.msgpack.encode([WIRE_VERSION + 1, *parts[1:], "what we do not know"])
    with pytest.raises(
        StoreMismatch, match=rf"version {WIRE_VERSION + 1}, .* reads {WIRE_VERSION}.*that wrote it"
    ):
        unpack_record(later, IDENTITY)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x90", b"\xc1", b"{}", b"\x91\xa1x"])
def test_bytes_that_are_no_record_stop_the_reader(data: bytes) -> None:
    with pytest.raises(StoreMismatch, match="none of ours"):
        unpack_record(data, IDENTITY)


def test_a_record_with_another_fingerprint_stops_the_reader() -> None:
    data = pack_record(record(pages(1), 1), LogIdentity("other", "topic-id"))
    with pytest.raises(StoreMismatch, match="fingerprint other, the settings here give"):
        unpack_record(data, IDENTITY)
    assert unpack_record(data).source == "pages:0"


def test_a_record_of_a_topic_that_was_made_anew_stops_the_reader() -> None:
    data = pack_record(record(pages(1), 1), LogIdentity("fingerprint", "older"))
    with pytest.raises(StoreMismatch, match="it was made anew"):
        unpack_record(data, IDENTITY)
