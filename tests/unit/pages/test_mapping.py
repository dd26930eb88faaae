"""Which fields of a message make a page: pointers, presets, times and what is refused."""

import base64
import gzip
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import SettingsError
from streamer.pages.chunk import Chunk, Message, MessageHeaders, PageBatch
from streamer.pages.extract import URL_BYTES_MAX
from streamer.pages.files import Source
from streamer.pages.mapping import PRESETS, FieldMapping, parse_fields
from streamer.pages.message import MISSING, parse_pointer, resolve
from streamer.pages.parse import PageParser
from streamer.pages.times import epoch_ms, normalise_time
from streamer.text.visible import ESCAPED, HTML
from tests.helpers.chunks import all_chunks

# Python 3.14 goes as deep as the stack: then the field is skipped, and there is no body.
NESTED = "invalid_json" if sys.version_info < (3, 14) else "missing_body"


def parse(value: bytes | Any, **settings: Any) -> PageBatch:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return PageParser(**settings).parse(Chunk(7, 8, messages=[(7, b"k", raw)]))


def text_of(batch: PageBatch) -> str:
    (body,), (flags,) = batch.bodies, batch.flags
    if flags & ESCAPED:
        return str(json.loads(b'"' + bytes(body) + b'"'))
    return bytes(body).decode()


def code_of(batch: PageBatch) -> str:
    assert not batch.sequences
    if batch.skipped:
        assert not batch.dead
        (code,) = batch.skipped.elements()
        return code
    (dead,) = batch.dead
    assert (dead.sequence, dead.key) == (7, b"k")
    return dead.code


MESSAGES = Path(__file__).parents[2] / "fixtures" / "messages"


def parse_fixture(path: Path) -> PageBatch:
    (chunk,) = all_chunks(Source(str(path), is_regular=True))
    return PageParser(PRESETS[path.stem], carry=["fetched_at", "content_type"]).parse(chunk)


def test_a_pointer_walks_objects_and_arrays() -> None:
    document = {"a": [{"b/c": {"~": 1}}], "": {"": 2}, "n": None}
    assert resolve(document, parse_pointer("/a/0/b~1c/~0")) == 1
    assert resolve(document, parse_pointer("//")) == 2
    assert resolve(document, parse_pointer("/n")) is None
    for text in ("/a/1", "/a/00", "/a/-", "/a/b", "/a/0/b~1c/~0/x", "/n/x", "/A"):
        assert resolve(document, parse_pointer(text)) is MISSING


@pytest.mark.parametrize("text", ["", "url", "/a~", "/a~2b"])
def test_what_is_no_pointer_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no JSON Pointer"):
        parse_pointer(text)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"{", "invalid_json"),
        (b'{"url": "u", "body": "a\x00b"}', "invalid_json"),
        (b'{"url": "u", "body": "b"} x', "invalid_json"),
        (b'{"url": "u", "body": NaN}', "invalid_json"),
        (b'{"url": "u", "z": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", NESTED),
        (b"[]", "not_an_object"),
        (b"[" * 100_000, "not_an_object"),
        ({"body": "b"}, "missing_url"),
        ({"url": None, "body": "b"}, "missing_url"),
        ({"url": " \n", "body": "b"}, "missing_url"),
        ({"url": True, "body": "b"}, "wrong_type"),
        ({"url": ["a", "b"], "body": "b"}, "wrong_type"),
        ({"url": "x" * (URL_BYTES_MAX + 1), "body": "b"}, "url_too_long"),
        ({"url": "ä" * (URL_BYTES_MAX // 2 + 1), "body": "b"}, "url_too_long"),
        ({"url": "u"}, "missing_body"),
        ({"url": "u", "body": None}, "wrong_type"),
        ({"url": "u", "body": {"a": 1}}, "wrong_type"),
        (b'{"url": "u", "body": 1' + b"0" * 5000 + b"}", "wrong_type"),
        ({"url": "u", "body_base64": 1}, "wrong_type"),
        ({"url": "u", "body": "b", "content_type": 1.5}, "wrong_type"),
        ({"url": "u", "body": ""}, "empty_body"),
        ({"url": "u", "body": " \t\r\n\f "}, "empty_body"),
        ({"url": "u", "body_base64": ""}, "empty_body"),
        ({"url": "u", "body_base64": "IA=="}, "empty_body"),
        ({"url": "u", "body_base64": "*"}, "bad_base64"),
        ({"url": "u", "body_base64": "H4sIAAAA"}, "bad_content_encoding"),
        ({"url": "u", "body": "b", "content_type": "application/pdf; x=y"}, "type_not_text"),
        ({"url": "u", "body_base64": "iVBORw0KGgoAAAAN"}, "body_image"),
        ({"url": "u", "body_base64": "AAECAwQFBgcICQ=="}, "type_not_text"),
        (b"", "deletion"),
    ],
)
def test_a_message_that_is_no_page_has_a_code(value: object, code: str) -> None:
    assert code_of(parse(value)) == code


def test_a_whole_number_may_be_written_with_a_fraction_of_zero() -> None:
    mapping = parse_fields('{"url": "/id", "body": "/text", "status": "/status"}')
    for status in (200.0, 200, "200", None, ""):
        batch = parse({"id": 7.0, "text": "b", "status": status}, mapping=mapping, scope="id")
        assert (batch.urls, batch.scopes) == ([b"7"], [b"7"])
    gone = {"id": 7, "text": "b", "status": 404.0}
    assert code_of(parse(gone, mapping=mapping)) == "status_not_2xx"
    assert code_of(parse({"id": 7.5, "text": "b"}, mapping=mapping)) == "wrong_type"


def test_the_longest_url_passes() -> None:
    assert parse({"url": "x" * URL_BYTES_MAX, "body": "b"}).urls == [b"x" * URL_BYTES_MAX]


def test_a_value_over_the_limit_is_refused_with_its_beginning() -> None:
    batch = parse({"url": "u", "body": "b" * 100}, page_bytes_max=99)
    assert code_of(batch) == "record_too_large"
    assert batch.dead[0].value.startswith(b'{"url"')


def test_of_duplicate_names_the_last_one_counts() -> None:
    for carry in ([], ["x"]):
        batch = parse(b'{"url": "a", "body": "1", "url": "b", "body": "2"}', carry=carry)
        assert (batch.urls, text_of(batch)) == ([b"b"], "2")


def test_half_surrogate_pairs_and_broken_utf8_become_replacement_characters() -> None:
    batch = parse(rb'{"url": "a\ud83d", "body": "x\udc00y\ud83d\ude00 \\ud800"}')
    assert batch.urls == ["a\ufffd".encode()]
    assert text_of(batch) == "x\ufffdy\U0001f600 \\ud800"
    assert parse(b'{"url": "a\xff", "body": "b"}').urls == ["a\ufffd".encode()]


def test_controls_and_newlines_do_not_survive_in_a_url() -> None:
    batch = parse({"url": " \x00http://a.example/b\n c\x00d\x85\u2028\t", "body": "b"})
    assert parse({"url": "http://a\nb\x7f", "body": "b"}).urls == [b"http://ab%7F"]
    assert batch.urls == [b"http://a.example/b c%00d%C2%85%E2%80%A8"]


def test_a_byte_order_mark_before_a_message_does_no_harm() -> None:
    assert parse(b'\xef\xbb\xbf{"url": "a", "body": "b"}').urls == [b"a"]


def test_body_counts_before_body_base64_unless_it_is_blank() -> None:
    packed = base64.b64encode(b"bytes").decode()
    assert text_of(parse({"url": "u", "body": "text", "body_base64": packed})) == "text"
    assert text_of(parse({"url": "u", "body": "", "body_base64": packed})) == "bytes"
    assert text_of(parse({"url": "u", "body": None, "body_base64": packed})) == "bytes"


def test_bytes_are_decoded_by_the_declared_charset() -> None:
    packed = base64.b64encode("grün".encode("latin-1")).decode()
    by_field = parse({"url": "u", "body_base64": packed, "charset": "iso-8859-1"})
    kind = "text/plain; charset='ISO-8859-1'"
    by_type = parse({"url": "u", "body_base64": packed, "content_type": kind})
    assert text_of(by_field) == text_of(by_type) == "grün"


@pytest.mark.parametrize("body", ["<html><p>x", "\n\t <!DOCTYPE html><p>x"])
def test_markup_is_recognised_also_behind_escapes(body: str) -> None:
    value = json.dumps({"url": "u", "body": body}).encode()
    assert parse(value).flags in ([HTML], [ESCAPED | HTML])
    escaped = value.replace(b"<", rb"\u003c").replace(b">", rb"\u003E")
    assert parse(escaped).flags == [ESCAPED | HTML]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (200, None), ("204", None), (None, None), (301, "skip"), ("0", "skip"), ("200.0", None),
        (" 200 OK", None), ("HTTP/1.1 200 OK", None), ("404.0", "skip"), ("2000", "skip"),
    ],
)  # fmt: skip
def test_the_status_decides_what_is_a_page(status: object, code: str | None) -> None:
    mapping = FieldMapping.model_validate({"status": "/s"})
    batch = parse({"url": "u", "body": "b", "s": status}, mapping=mapping)
    assert batch.skipped == ({"status_not_2xx": 1} if code else {})
    assert len(batch) == (0 if code else 1)


def test_patterns_for_status_and_type_can_be_named() -> None:
    mapping = parse_fields(
        '{"url": "/u", "body": "/b", "status": "/s", "content_type": "/t",'
        ' "pages_status": [404, "2xx"], "pages_type": "application/*+json"}'
    )
    statuses = ("404", "299", "400", "20")
    assert [each for each in statuses if mapping.accepts_status(each)] == ["404", "299"]
    assert mapping.accepts_type("Application/ld+JSON; charset=x")
    assert not mapping.accepts_type("application/json")
    assert mapping.accepts_type("")


def test_the_content_encoding_is_read_from_the_message() -> None:
    mapping = parse_fields(
        '{"url": "/u", "body": "/b", "base64": "yes", "content_encoding": "/h/enc"}'
    )
    packed = base64.b64encode(gzip.compress(b"words")).decode()
    batch = parse({"u": ["u"], "b": packed, "h": {"enc": ["gzip"]}}, mapping=mapping)
    assert text_of(batch) == "words"


def test_fields_come_from_a_file_and_only_the_named_ones_count(tmp_path: Path) -> None:
    path = tmp_path / "fields.json"
    path.write_text('{"url": ["/u", "/v"], "body": "/b"}')
    mapping = parse_fields(str(path))
    assert mapping.content_type == ()
    assert parse({"u": None, "v": "x", "b": "y"}, mapping=mapping).urls == [b"x"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no-such-file", "'no-such-file' is no preset, no JSON object and no readable file"),
        ("{", "not JSON"),
        ('{"url": "/u", "body": "/b", "uri": "/x"}', "uri: no such field; the fields are url,"),
        ('{"url": "u", "body": "/b"}', "url: 'u' is no JSON Pointer: it begins with /"),
        ('{"url": 1, "body": "/b"}', "url: "),
        ('{"url": "/u"}', "body: a page needs one"),
        ('{"url": "/u", "body": "/b", "base64": "maybe"}', "base64: "),
        ('{"url": "/u", "body": "/b", "pages_status": "ok"}', "pages_status: 'ok' is no status"),
    ],
)
def test_a_mapping_that_cannot_be_used_is_a_clear_settings_error(text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_fields(text)
    assert message in str(caught.value)


def test_carried_fields_come_in_the_order_asked_for() -> None:
    message = {"url": "u", "body": "b", "fetched_at": 1767225600}
    message |= {"depth": {"n": [3]}, "big": "x" * 5000, "odd": "\ud800"}
    carry = ["fetched_at", "/depth/n", "odd", "nowhere", "big", "url"]
    (carried,) = parse(message, carry=carry).carried
    assert carried == (
        '{"fetched_at":"2026-01-01T00:00:00Z","/depth/n":[3],"odd":"\ufffd","url":"u"}'.encode()
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05.250+02:00", "2026-01-02T01:04:05.250Z"),
        ("2026-01-02 03:04:05", "2026-01-02T03:04:05Z"),
        (1767225600, "2026-01-01T00:00:00Z"),
        ("1767225600.5", "2026-01-01T00:00:00.500Z"),
        (1767225600123, "2026-01-01T00:00:00.123Z"),
        ("20260102030405", "2026-01-02T03:04:05Z"),
        ("20260102030405678", "2026-01-02T03:04:05.678Z"),
        ("Fri Jan 02 03:04:05 UTC 2026", "2026-01-02T03:04:05Z"),
        ("Fri, 02 Jan 2026 03:04:05 GMT", "2026-01-02T03:04:05Z"),
        *((value, None) for value in ("soon", "20261399000000", True, None, 1e300, "9" * 100)),
        ("0001-01-01T00:00:00+14:00", None),
        ("\u00e9", None),
        ("1900-01-01T00:00:00Z", "1900-01-01T00:00:00Z"),
        (["2026-01-02T03:04:05Z"], "2026-01-02T03:04:05Z"),
        ({"at": 1767225600}, None),
        (MISSING, None),
    ],
)
@pytest.mark.parametrize("ascii_only", [False, True])
def test_a_page_has_the_time_of_its_fetching_whichever_way_it_is_read(
    value: object, expected: str | None, *, ascii_only: bool
) -> None:
    seconds = datetime.fromisoformat(expected).timestamp() if expected else 0
    fields = {"url": "http://a.example/", "body": "some words"}
    if value is not MISSING:
        fields |= {"fetched_at": value}  # type: ignore[dict-item]
    raw = json.dumps(fields, ensure_ascii=ascii_only).encode()
    for how in ({}, {"carry": ["fetched_at"]}):
        batch = parse(raw, **how)
        assert (batch.times, batch.dead) == ([max(0, round(1000 * seconds))], [])
    carried = {} if value in (MISSING, None) else {"fetched_at": expected or value}
    assert json.loads(batch.carried[0] or b"{}") == carried


@given(st.text(max_size=30) | st.floats() | st.integers())
def test_no_value_of_a_time_raises(value: object) -> None:
    for name in ("auto", "iso", "epoch_s", "epoch_ms", "digits", "java"):
        result = normalise_time(value, name)
        assert result is None or result.endswith("Z")
        assert epoch_ms(value, name) >= 0


def test_a_number_that_is_none_is_no_time() -> None:
    raw = b'{"url": "http://a.example/", "body": "some words", "fetched_at": 1%s}' % (b"0" * 400)
    for how in ({}, {"carry": ["other"]}):
        assert parse(raw, **how).times == [0]


def test_a_message_of_a_topic_has_the_time_that_the_topic_has() -> None:
    values = [
        b'{"url": "u", "body": "a", "fetched_at": 1767225600}',
        b"{broken",
        b'{"url": "u\\u0041", "body": "b"}',
    ]
    messages: list[Message] = [(place, None, value) for place, value in enumerate(values)]
    batch = PageParser().parse(Chunk(0, 3, messages=messages, times=[500, 600, 700]))
    assert (batch.sequences, batch.times) == ([0, 2], [500, 700])


FLAGS = {0: "plain", HTML: "html", ESCAPED: "escaped", ESCAPED | HTML: "escaped html"}


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_messages_of_a_crawler_are_read_as_expected(name: str) -> None:
    """What is expected is next to the messages, in `expected.json`."""
    (path,) = MESSAGES.glob(f"{name}.*")
    batch = parse_fixture(path)
    pages = zip(batch.sequences, batch.urls, batch.bodies, batch.flags, batch.carried, strict=True)
    expected = json.loads((MESSAGES / "expected.json").read_text("utf-8"))[name]
    assert expected == {
        "pages": [
            [number, url.decode(), bytes(body).decode(), FLAGS[flags], json.loads(carried or b"{}")]
            for number, url, body, flags, carried in pages
        ],
        "skipped": batch.skipped,
        "dead": [[dead.sequence, dead.code, dead.detail] for dead in batch.dead],
    }


def test_a_mapping_may_name_no_id() -> None:
    assert parse({"body": "c"}, mapping=parse_fields('{"body": "/body"}')).urls == [b""]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ('{"url": "/url"}', "url: with --value body, write /key or /headers/NAME"),
        ('{"url": ["/key", "/headers/a/b"]}', "url: with --value body, write /key or"),
        ('{"charset": "/headers"}', "charset: with --value body, write /key or /headers/NAME"),
        ('{"url": "/key", "body": "/b"}', "body: with --value body the value is the body; leave"),
        ('{"url": "/key", "body_base64": "/b"}', "body_base64: with --value body the value is"),
        ('{"url": "/key", "value": "body"}', "value: no such field; give --value"),
    ],
)
def test_fields_that_a_message_with_a_body_has_not_are_refused(fields: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        parse_fields(fields, "body")


def test_a_value_that_is_a_body_has_its_fields_in_key_and_headers() -> None:
    mapping = parse_fields('{"url": "/key", "content_type": "/headers/type"}', "body")
    parser = PageParser(mapping, carry=["/headers/etag"])
    keys = b"http://a/", None, b"\xff"
    messages: list[Message] = [(n, key, b"<p>text</p>") for n, key in enumerate(keys)]
    named = [("type", b"text/plain"), ("type", b"text/html"), ("etag", b"1")]
    headers: list[MessageHeaders] = [named, [], []]
    batch = parser.parse(Chunk(0, 3, messages=messages, headers=headers))
    assert (batch.urls, batch.flags, batch.carried) == (
        [b"http://a/"], [HTML], [b'{"/headers/etag":"1"}'],
    )  # fmt: skip
    assert [(each.code, each.value) for each in batch.dead] == [("missing_url", b"<p>text</p>")] * 2
    without = parser.parse(Chunk(0, 1, messages=messages[:1]))  # as dead letters of a file are
    assert (without.urls, without.flags) == ([b"http://a/"], [HTML])
