import json
from typing import Any, NoReturn

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamer.text import json_fields
from streamer.text.json_fields import BODY, DEPTH_MAX, PLAIN, UNKNOWN, URL, skip_value
from streamer.text.slices import Slices
from streamer.text.tokens import SLACK

texts = st.text(st.characters(codec="utf-8"), max_size=40)
names = st.text(st.characters(codec="utf-8", exclude_characters='"\\', exclude_categories=["Cc"]))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=20,
)  # fmt: skip
layouts = st.sampled_from([{}, {"indent": 1}, {"separators": (",", ":")}, {"indent": "\t\r"}])


def end_of(value: bytes) -> int:
    """Return where the kernel sees the end of a value that other bytes follow."""
    return skip_value(np.frombuffer(value + b'"]}', np.uint8), 0, len(value))


def refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def is_json(value: bytes) -> bool:
    try:
        json.loads(value.decode("latin-1"), parse_constant=refuse)
    except ValueError:
        return False
    return True


@given(values, layouts, st.booleans())
def test_every_value_is_passed_to_its_end(value: Any, layout: Any, ascii_only: bool) -> None:
    written = json.dumps(value, ensure_ascii=False, **layout).encode()
    assert end_of(written) == len(written)
    if ascii_only and isinstance(value, str | list):
        escaped = json.dumps([value] if isinstance(value, str) else value).encode()
        assert end_of(escaped) in {len(escaped), -1}


pieces = st.sampled_from(
    [
        *(b"{", b"}", b"[", b"]", b",", b":", b'"', b'"a"', b'"a":', b" ", b"\n"),
        *(b"0", b"-1.5e+3", b"01", b"1.", b"-", b".5", b"1e", b"true", b"nul", b"null", b"NaN"),
        *(b'"\\u00e9"', b'"\\q"', b"\x01", b"\xff", b"\\", b'"\t"'),
    ]
)


@given(st.lists(pieces, max_size=9).map(b"".join))
@example(b"[1,]")
@example(b'{"a":1,}')
@example(b'{"a" 1}')
@example(b"[1 2]")
@example(b"[}")
def test_what_is_passed_whole_is_json(value: bytes) -> None:
    if end_of(value) == len(value):
        assert is_json(value)


@pytest.mark.parametrize("pair", [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_has_a_limit(pair: tuple[bytes, bytes]) -> None:
    def nested(depth: int) -> bytes:
        return pair[0] * depth + b"1" + pair[1] * depth

    assert end_of(nested(DEPTH_MAX)) == len(nested(DEPTH_MAX))
    assert end_of(nested(DEPTH_MAX + 1)) == -1


def reported(*messages: bytes) -> list[tuple[int, tuple[bytes, ...]]]:
    """Return what is known of each message, and its URL, body and type as they are in it."""
    joined = Slices.joined(messages)
    found = json_fields.find_page_fields(joined)
    return [
        (known, tuple(joined.data[start:end].tobytes() for start, end in places))
        for known, places in zip(found.states.tolist(), found.spans.tolist(), strict=True)
    ]


plain_texts = st.text(
    st.characters(codec="utf-8", exclude_characters='"\\', exclude_categories=["Cc"]), min_size=1
)
members = st.fixed_dictionaries(
    {"url": plain_texts, "body": texts.filter(bool)},
    optional={
        "content_type": plain_texts | st.none(),
        "status": values,
        "body2": values,
        "fetched_at": st.none() | st.integers() | texts,
    },
)


@given(
    st.lists(members.flatmap(lambda one: st.permutations(list(one.items()))), max_size=5), layouts
)
def test_fields_are_found_in_any_order(messages: list[list[tuple[str, Any]]], layout: Any) -> None:
    written = [json.dumps(dict(m), ensure_ascii=False, **layout).encode() for m in messages]
    for message, (known, fields) in zip(messages, reported(*written), strict=True):
        page = dict(message)
        inside = json.dumps(page["body"], ensure_ascii=False).encode()[1:-1]
        assert known == (json_fields.ESCAPES if b"\\" in inside else PLAIN)
        assert fields[URL] == page["url"].encode()
        assert fields[BODY] == inside
        assert fields[json_fields.TYPE] == (page.get("content_type") or "").encode()
        time = json.dumps(page.get("fetched_at"), ensure_ascii=False).encode()
        assert fields[json_fields.TIME] == (time if "fetched_at" in page else b"")


PARTS = rb"""
    {} [] {"url":"u"} {"body":"b"} {"url":"u","body":""} {"url":"","body":"b"}
    {"url":"u","body":"b","url":"v"} {"url":"u","body":"b","\u0075rl":"v"}
    {"url":"u","body":"b","content_type":null,"content_type":"a/b"}
    {"url":"u","body":"b","content_type":5} {"url":"u","body":"b","content_type":nil}
    {"url":"u","body":["b"]} {"url":"u","body":null} {"url":"u","body":"b" {"url":"u","body":"b"]
    {"url":"u","body":"b",} {"url":"u","body":"b"}} {"url":"u","body":"b","z":[1,}
    {"url":"u","body":"a\xb"} {"url":"u","body":"a\u12"}
"""
ODD = [
    *PARTS.split(), b"", b'{"url":"u","body":"b"} x', b'{"url":"u","body":"a\x00b"}',
    b'\xef\xbb\xbf{"url":"u","body":"b"}',
]  # fmt: skip


@pytest.mark.parametrize("message", ODD)
def test_of_what_is_out_of_the_ordinary_nothing_is_told(message: bytes) -> None:
    good = b' {"url" : "u", "body":"b" }\r\n'
    assert [known for known, _ in reported(good, message, good)] == [PLAIN, UNKNOWN, PLAIN]


@given(st.binary(max_size=60), st.integers(0, 40), st.integers(0, 40))
def test_damaged_messages_are_told_as_parsers_do(damage: bytes, start: int, length: int) -> None:
    good = b'{"url":"http://a/","body":"a \\n b","z":[1,{"a":null}]}'
    message = good[:start] + damage + good[start + length :]
    ((known, fields),) = reported(message)
    if known != UNKNOWN:
        read = json.loads(message.decode("latin-1"), parse_constant=refuse)
        assert read["url"].encode("latin-1") == fields[URL]
        assert read["body"] == json.loads(b'"' + fields[BODY].decode("latin-1").encode() + b'"')


def test_strings_that_are_joined_come_out_again() -> None:
    joined = Slices.joined([b"a", bytearray(b""), memoryview(b"bc")])
    assert list(joined) == [b"a", b"", b"bc"]
    assert list(joined[1:]) == [b"", b"bc"]
    assert joined[-1] == b"bc"
    assert joined.lengths.tolist() == [1, 0, 2]
    assert len(joined.data) >= 3 + SLACK
    assert Slices.joined(joined) is joined
