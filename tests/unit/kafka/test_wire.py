"""Records as bytes: what comes back, and what stops a reader."""

import dataclasses
import random
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.errors import StoreMismatch
from streamer.index.messages import CONFIG, Forget, IndexSettings, Items, Pages, Record, Term
from streamer.kafka.wire import WIRE_VERSION, LogIdentity, pack_record, unpack_record
from tests.helpers.signed_pages import crowded_pages, family_pages

IDENTITY = LogIdentity("fingerprint", "topic-id")


def record(items: Items, count: int, source: str = "pages:0") -> Record:
    return Record(source, 10, 10 + 2 * count, np.arange(10, 10 + 2 * count, 2), items)


def pages(count: int) -> Pages:
    made = family_pages(random.Random(1), count)
    made.message_keys[:1] = [b"key"]
    made.carried[:1] = [b'{"a":1}']
    made.main = np.arange(count) == 1
    made.headers = [[("traceparent", b"00-\xff"), ("traceparent", b"")] * n for n in range(count)]
    return made


TERMS: list[Term] = [("url", b"\xff"), ("host", b".example"), ("before", -7), ("ref", 1 << 63)]


@pytest.mark.parametrize(
    "sent",
    [
        record(pages(7), 7),
        record(crowded_pages(random.Random(1), 2), 2),  # which lack some columns
        record(pages(1).take([]), 0),
        record(Forget(TERMS, "command"), 4),
        Record(CONFIG, 0, 1, np.array([0]), IndexSettings(threshold=0.7)),
    ],
    ids=["pages", "plain pages", "no pages", "forget", "settings"],
)
def test_a_record_comes_back_as_it_was_and_can_be_written(sent: Record) -> None:
    packed = pack_record(sent, IDENTITY)
    got = unpack_record(packed, IDENTITY)
    assert (got.source, got.start, got.end) == (sent.source, sent.start, sent.end)
    assert got.numbers.tolist() == sent.numbers.tolist()
    if isinstance(sent.items, Pages):
        assert isinstance(got.items, Pages)
        assert got.items.keys.flags.writeable, "a kernel would be compiled again"
    else:
        assert got.items == sent.items
    assert pack_record(got, IDENTITY) == packed


def test_a_record_of_a_later_version_stops_the_reader() -> None:
    parts = msgspec.msgpack.decode(pack_record(record(pages(1), 1), IDENTITY))
    later = msgspec.msgpack.encode([WIRE_VERSION + 1, *parts[1:], "what we do not know"])
    with pytest.raises(
        StoreMismatch, match=rf"version {WIRE_VERSION + 1}, .* reads {WIRE_VERSION}.*that wrote it"
    ):
        unpack_record(later, IDENTITY)


@pytest.mark.parametrize("data", [None, b"", b"\x00", b"\x90", b"\xc1", b"{}", b"\x91\xa1x"])
def test_what_is_no_record_stops_the_reader(data: bytes | None) -> None:
    with pytest.raises(StoreMismatch, match="did not write"):
        unpack_record(data, IDENTITY)


@pytest.mark.parametrize(
    ("identity", "said"),
    [
        (LogIdentity("other", "topic-id"), "fingerprint other, the settings here give"),
        (LogIdentity("fingerprint", "older"), "it was made again"),
    ],
)
def test_a_record_of_another_key_or_log_stops_the_reader(identity: LogIdentity, said: str) -> None:
    data = pack_record(record(pages(1), 1), identity)
    with pytest.raises(StoreMismatch, match=said):
        unpack_record(data, IDENTITY)
    assert unpack_record(data).source == "pages:0"


GARBAGE = [
    b"\xc0", b"\x01", b"\xa3abc", b"\x90", b"\x80", b"\x92\xc4\x01a\xc4\x01b", b"\x81\xa4refs\x90",
    b"\xc1", b"\xdd\xff\xff\xff\xff", b"\x91" * 100_000 + b"\xc0", b"",  # these are no values
]  # fmt: skip


def with_parts(data: bytes, **parts: object) -> bytes:
    """Return a record with other numbers, kind or items."""
    found = msgspec.msgpack.decode(data, type=list[msgspec.Raw])
    for place, name in enumerate(("numbers", "kind", "items"), 7):
        if name in parts:
            value: Any = parts[name]
            raw = name == "items" and isinstance(value, bytes)
            found[place] = msgspec.Raw(value if raw else msgspec.msgpack.encode(value))
    return msgspec.msgpack.encode(found)


@pytest.mark.parametrize("items", GARBAGE, ids=lambda data: data[:12].hex())
@pytest.mark.parametrize("kind", [1, 2, 3, 4, 5])
def test_garbled_items_after_a_valid_head_stop_the_reader(kind: int, items: bytes) -> None:
    data = with_parts(pack_record(record(pages(2), 2), IDENTITY), kind=kind, items=items)
    # Which of the two depends on the depth of the stack, where the items are no values.
    with pytest.raises(StoreMismatch, match=r"of pages:0 from 10 to 14 .* cannot be read|did not"):
        unpack_record(data, IDENTITY)


@pytest.mark.parametrize(
    "column", [each.name for each in dataclasses.fields(Pages) if each.default is not None]
)
def test_a_column_that_lacks_a_page_stops_the_reader(column: str) -> None:
    data = pack_record(record(pages(2), 2), IDENTITY)
    packed = msgspec.msgpack.decode(data)[9]
    packed[column] = packed[column][: len(packed[column]) // 2]
    with pytest.raises(StoreMismatch, match="cannot be read"):
        unpack_record(with_parts(data, items=packed), IDENTITY)


@pytest.mark.parametrize("numbers", [b"\0" * 8, b"\0" * 15])
def test_numbers_that_are_not_those_of_the_items_stop_the_reader(numbers: bytes) -> None:
    data = with_parts(pack_record(record(pages(2), 2), IDENTITY), numbers=numbers)
    with pytest.raises(StoreMismatch, match="cannot be read"):
        unpack_record(data, IDENTITY)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["pages", "settings", "forget"]),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=8),
)
def test_damaged_items_are_read_or_refused(kind: str, damage: list[tuple[float, int]]) -> None:
    kinds: dict[str, Items] = {
        "pages": pages(2),
        "settings": IndexSettings(),
        "forget": Forget([("url", b"a"), ("before", 5)], "command"),
    }
    data = pack_record(record(kinds[kind], 2), IDENTITY)
    head = len(data) - len(msgspec.msgpack.decode(data, type=list[msgspec.Raw])[9])
    hurt = bytearray(data)
    for place, byte in damage:
        hurt[min(len(data) - 1, head + int(place * (len(data) - head)))] = byte
    with suppress(StoreMismatch):
        got = unpack_record(bytes(hurt), IDENTITY)
        assert (got.source, got.start) == ("pages:0", 10)
