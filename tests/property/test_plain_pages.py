"""What is found of a batch of messages at once is what is found of each one."""

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamer.pages.chunk import Chunk, Message, PageBatch
from streamer.pages.mapping import DEFAULT_MAPPING, FieldMapping, parse_fields
from streamer.pages.parse import PageParser
from streamer.pages.program_pages import AnyPage, GivenPage, MessageWriter, chunk_of
from streamer.text import json_fields
from streamer.text.json_fields import TYPE, find_page_fields, find_sure, find_type_changes, gather
from streamer.text.scan import Bytes
from streamer.text.slices import Slices
from streamer.text.visible import ESCAPED, HTML, Buffer

URL_BYTES = 12

urls = st.text("ab/ ?\x7f\x80é\u3000\\", max_size=14) | st.text(max_size=5)
tagged = ["<html>", " <p>x", "a\n<p>x</p>", "a<\\/p>"]
late = [white * 5000 + "<html>" for white in " \n"]
bodies = st.text(" \n\\a<é", max_size=4) | st.sampled_from(["text", *tagged, *late])
kinds = st.sampled_from([None, "", "text/plain", "text/html", "text/html;", "image/png", "x" * 200])
values = st.fixed_dictionaries({"url": urls, "body": bodies}, optional={"content_type": kinds})
messages = st.builds(
    lambda value, ascii_only, slash: (
        json.dumps(value, ensure_ascii=ascii_only)
        .encode(errors="surrogatepass")
        .replace(b"/", slash)
    ),
    values,
    st.booleans(),
    st.sampled_from([b"/", b"\\/"]),
) | st.sampled_from([b"", b"{", b"[]", b'{"url": "a\xff", "body": "b"}'])


def fields_of(batch: list[bytes]) -> tuple[Bytes, npt.NDArray[np.uint8], json_fields.Spans]:
    """Return the messages' bytes, and what is known of their fields."""
    slices = Slices.joined(batch)
    return slices.data, *find_page_fields(slices)


@settings(max_examples=200, deadline=None)
@given(st.lists(messages, max_size=8))
def test_pages_are_sure_that_need_no_second_look(batch: list[bytes]) -> None:
    data, reported, spans = fields_of(batch)
    sure = np.empty(len(batch), np.bool_)
    find_sure(data, reported, spans, URL_BYTES, sure)
    for i, known in enumerate(reported.tolist()):
        url, body = (data[start:end].tobytes() for start, end in spans[i, :TYPE].tolist())
        plain = 0 < len(url) <= URL_BYTES and all(
            0x20 < byte < 0x7F and byte != 0x5C for byte in url
        )
        assert sure[i] == (
            known != json_fields.UNKNOWN and plain and body[:1] not in (b" ", b"\\")
        ), batch[i]


@settings(max_examples=200, deadline=None)
@given(st.lists(messages, max_size=8))
def test_a_type_changes_where_it_is_not_the_one_before(batch: list[bytes]) -> None:
    data, _, spans = fields_of(batch)
    changes = np.empty(len(batch), np.bool_)
    find_type_changes(data, spans, changes)
    types = [data[start:end].tobytes() for start, end in spans[:, TYPE].tolist()]
    assert changes.tolist() == [i == 0 or types[i] != types[i - 1] for i in range(len(types))]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=20).map(lambda each: each.replace(b"\n", b"")), max_size=8))
@example([b""])
@example([b"", b"a", b""])
def test_strings_without_newlines_are_gathered_as_they_are(strings: list[bytes]) -> None:
    slices = Slices.joined(strings)
    assert gather(slices.data, slices.starts, slices.ends) == strings


named = [
    '{"url": "/url", "body": "/body"}',
    '{"url": "/url", "body": "/body", "fetched_at": "/content_type"}',
    '{"body": "/body", "content_type": "/content_type"}',
]
others = [
    '{"url": "/url", "body": "/url"}',
    r'{"url": "/url", "body": ["/\ud800"]}',
    '{"url": "/url", "body": "/body", "body_is": "html"}',
    '{"url": ["/content_type", "/url"], "body": "/body"}',
    '{"url": "/url", "body": "/body", "status": "/content_type"}',
]
mappings = st.just(DEFAULT_MAPPING) | st.sampled_from([*named, *others]).map(parse_fields)


@pytest.mark.parametrize("fields", named)
def test_fields_by_name_and_escapes_in_url_and_type_need_no_more_care(
    fields: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PageParser, "_careful_page", None)
    page = rb'{"url": "http:\/\/a.example?a\u0026b", "content_type": "text\/html", "body": "text"}'
    batch = PageParser(parse_fields(fields)).parse(Chunk(0, 1, messages=[(0, b"", page)]))
    assert batch.urls == [b"http://a.example?a&b" if '"url"' in fields else b""]
    assert batch.flags == [HTML if '"content_type"' in fields else 0]


def text_of(body: Buffer, flags: int) -> str:
    if not flags & ESCAPED:
        return bytes(body).decode()
    text = str(json.loads(b'"' + bytes(body) + b'"'))
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@settings(max_examples=300, deadline=None)
@given(st.lists(messages, max_size=8), mappings)
def test_a_batch_gives_the_pages_of_the_careful_way_in_order(
    batch: list[bytes], mapping: FieldMapping
) -> None:
    listed: list[Message] = [(i, b"k%d" % i, value) for i, value in enumerate(batch)]
    quick = PageParser(mapping).parse(Chunk(0, len(batch), messages=listed))
    careful = PageParser(mapping, carry=["nothing"]).parse(Chunk(0, len(batch), messages=listed))
    assert_same_pages(quick, careful)


def assert_same_pages(quick: PageBatch, careful: PageBatch) -> None:
    assert (quick.sequences, quick.message_keys, quick.urls, quick.carried, quick.skipped) == (
        careful.sequences, careful.message_keys, careful.urls, careful.carried, careful.skipped,
    )  # fmt: skip
    assert list(map(text_of, quick.bodies, quick.flags)) == list(
        map(text_of, careful.bodies, careful.flags)
    )
    assert [flags & HTML for flags in quick.flags] == [flags & HTML for flags in careful.flags]
    assert [letter.code for letter in quick.dead] == [letter.code for letter in careful.dead]
    assert {len(quick), len(quick.flags), len(quick.bodies)} == {len(quick)}


heads = st.sampled_from(["", "%PDF-1", "ID3\3", "MM\0*", "PK\3\4", "\ufeff", "\\n", "\\u003c"])
texts = st.builds(
    lambda *parts: "".join(parts),
    heads,
    st.text('<>"/\\ \n\t\0\x07\x85é\ud800p', max_size=12),
    st.sampled_from(["", *tagged, *late, '<p class="a">\\', "<p>x<\\/p>", "\\u003c/p>"]),
)
packed = st.builds(
    lambda text, charset: text.encode(charset, "replace"),
    texts,
    st.sampled_from(["utf-8", "utf-16", "cp1252"]),
)
rows = st.fixed_dictionaries(
    {"url": urls | st.just('a"'), "body": texts | packed | st.binary(max_size=20)},
    optional={"content_type": kinds | st.just("text/html; charset=cp1252")},
)


@settings(max_examples=400, deadline=None)
@given(st.lists(rows, min_size=1, max_size=8))
@example([{"url": "a", "body": "\n"}])
@example([{"url": "a", "body": "\0" * 40}])
@example([{"url": "a", "body": "a<p>x<\\/p>"}])
@example([{"url": "a\\\\b", "body": "x"}])
@example([{"url": "a", "body": b"b" * 160}])
def test_pages_of_a_program_are_those_of_their_messages(pages: list[dict[str, Any]]) -> None:
    parser = PageParser(page_bytes_max=200)
    writer = MessageWriter(parser.mapping, parser.columns, 200)
    added = [writer.added(page) for page in pages]
    messages = chunk_of([writer.message(page) for page in pages])
    assert_same_pages(parser.parse(chunk_of(added)), parser.parse(messages))


def test_pages_with_a_body_alone_need_no_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GivenPage, "message", None)
    parser = PageParser()
    writer = MessageWriter(parser.mapping, parser.columns, 200)
    more = {"content_type": None, "title": object()}
    pages: list[AnyPage] = [("u", "one"), {"url": "u", "body": "<p>t", **more}, ("u", b"\xe9t\xe9")]
    batch = parser.parse(chunk_of([writer.added(page) for page in pages]))
    assert batch.urls == [b"u"] * 3
    assert list(map(bytes, batch.bodies)) == [b"one", b"<p>t", "été".encode()]
