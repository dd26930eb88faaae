"""Headers of a page's message that pass to its verdict: those that are named, within bounds."""

from typing import Any

import pytest

from streamer.config import load_settings
from streamer.errors import SettingsError
from streamer.index.messages import Headers, Pages
from streamer.kafka.reader import Fetched
from streamer.kafka.signing import HEADERS_MAX, PASSED_BYTES_MAX, ChunkSigner, select_headers
from streamer.kafka.wire import LogIdentity, unpack_record
from streamer.pages.parse import PageParser
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import NativeSigner
from tests.helpers.kafka_doubles import FakeMessage

IDENTITY = LogIdentity("fingerprint", "topic-id")
NAMES = frozenset({"traceparent", "b3"})


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ([], []),
        ([("Traceparent", b"a"), ("b3", b"\xff"), ("other", b"c"), ("b3", b"")], [1, 3]),
        ([("b3", None), ("b3", b"a")], [1]),
        ([("b3", bytes(PASSED_BYTES_MAX - 1)), ("b3", b"a")], [1]),
        ([("b3", bytes(PASSED_BYTES_MAX - 3)), ("b3", b"a"), ("b3", b"")], [0]),
        ([("b3", bytes(PASSED_BYTES_MAX - 2)), ("traceparent", b"")], [0]),
        ([("b3", b"")] * (HEADERS_MAX + 1), range(HEADERS_MAX)),
    ],
    ids=["none", "by name", "no value", "too large", "no room", "all room", "too many"],
)
def test_headers_pass_by_name(given: list[tuple[str, bytes | None]], passed: list[int]) -> None:
    assert select_headers(given, NAMES) == [given[i] for i in passed]


def test_the_record_of_a_chunk_has_the_headers_of_its_pages_and_of_nothing_else() -> None:
    body = b'{"url": "http://a/", "body": "some text"}'
    chunk = Fetched(
        "pages", 0, 3, 9,
        [
            FakeMessage(3, body, headers=(("b3", b"first"), ("x", b""))),
            FakeMessage(4, b"{no page", headers=(("b3", b"no page"),)),
            FakeMessage(6, body),
            FakeMessage(8, body, headers=(("b3", b"last"),)),
        ],
    )  # fmt: skip
    for names, expected in (((), None), (("no",), None), (("b3",), [b"first", None, b"last"])):
        assert _headers(chunk, names) == (
            None if expected is None else [[("b3", value)] if value else [] for value in expected]
        )


def _headers(chunk: Any, names: tuple[str, ...]) -> list[Headers] | None:
    signature = SignatureSettings()
    signer = ChunkSigner(
        PageParser(), lambda: NativeSigner(signature, bytes(32)), IDENTITY, pass_headers=names
    )
    [data] = signer.sign(chunk).records
    items = unpack_record(data, IDENTITY).items
    assert isinstance(items, Pages)
    return items.headers


def test_headers_that_streamer_writes_cannot_be_named() -> None:
    with pytest.raises(SettingsError, match=r"streamer\.sequence cannot be given"):
        load_settings(pass_headers=("traceparent", "streamer.sequence"))
    assert load_settings(pass_headers=("traceparent",)).pass_headers == ("traceparent",)
