"""What is said of a record that is no JSON."""

import pytest

from streamer.errors import InvalidPage
from streamer.pages.message import read_message


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"<html><p>text", "HTML"), (b"\xef\xbb\xbf <p>text", "HTML"),
        (b"\x1f\x8b\x08\x00", "compressed"), (b"{'url': 'u'}", "single quotes"),
        (b"# a comment", "comment"), (b'{"a": 1} {"b": 2}', "a line of its own"),
        (b'{"a": 1},', "a line of its own"), (b'{"url": "u", "score": NaN}', "write null"),
        (b'{"score": [-Infinity]}', "write null"), (b"json failed to parse", "own encoding"),
        (b'data: {"a": 1}', "precedes its object"), (b'7 INFO {"a": 1}', "precedes its object"),
        (b'"a text"', "got `str`"), (b"7", "got `int`"), (b'"{"', "got `str`"),
        (b'{"a": "b", "c": True}', "Python's"), (b'{"a": [None]}', "Python's"),
        (b'{"_id" : ObjectId("5f"), "a": "b"}', "MongoDB"), (b'{"a":new Date(5)}', "MongoDB"),
        (b'cb.on({"a": 1});', "JSONP"), (b'/**/ cb([{"a": 1}])', "JSONP"),
        (b'{"body": "NaN', "truncated"), (b'{"NaN": x}', "invalid character"),
    ],
)  # fmt: skip
def test_a_record_that_is_no_json_is_named_as_what_it_is(value: bytes, said: str) -> None:
    with pytest.raises(InvalidPage) as caught:
        read_message(value)
    assert said in str(caught.value.detail)
