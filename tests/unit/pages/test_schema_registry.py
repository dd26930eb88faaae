"""Messages that name their schema, and a registry that answers, does not, or is none."""

import base64
import gc
import json
import ssl
import threading
import time
import uuid
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamer.errors import InvalidPage, SettingsError, StreamerError
from streamer.pages import schema_registry
from streamer.pages.chunk import Chunk, Message
from streamer.pages.mapping import DEFAULT_MAPPING
from streamer.pages.parse import PageParser
from streamer.pages.schema_registry import HEADER, RegistryAddress, SchemaRegistry, add_frame
from tests.helpers.schema_registry import (
    PAGE_SCHEMA,
    FakeRegistry,
    avro,
    avro_page,
    by_number,
    fake_registry,
)
from tests.helpers.secure_broker import Authority
from tests.helpers.wait import wait_until

TEXT = b"the quick brown fox jumps over a lazy dog"
WORD = "geheim"
GUID = uuid.UUID("89791762-2336-4186-9674-299b90a802e2")


@pytest.fixture
def reported() -> Iterator[FakeRegistry]:
    with fake_registry() as found:
        found.schemas["/schemas/ids/7"] = {"schema": PAGE_SCHEMA}
        found.schemas["/schemas/ids/8"] = {"schema": '{"type":"object"}', "schemaType": "JSON"}
        yield found


@pytest.fixture
def registry(reported: FakeRegistry) -> SchemaRegistry:
    return SchemaRegistry(RegistryAddress(reported.url), patience_s=0.0)


def code_of(registry: SchemaRegistry, value: bytes) -> str:
    with pytest.raises(InvalidPage) as refused:
        registry.decode(value)
    return refused.value.code


def test_a_schema_is_asked_for_once_by_id(reported: FakeRegistry, registry: SchemaRegistry) -> None:
    reported.schemas[f"/schemas/guids/{GUID}"] = {"schema": PAGE_SCHEMA, "schemaType": "AVRO"}
    payload = avro_page("http://a.example/", TEXT)
    for value in (by_number(7, payload), b"\1" + GUID.bytes + payload) * 3:
        assert json.loads(registry.decode(value))["url"] == "http://a.example/"
    assert registry.decode(by_number(8, b'{"url":"u"}')) == b'{"url":"u"}'
    assert [path.partition("?")[0] for path in reported.asked] == [
        "/schemas/ids/7", f"/schemas/guids/{GUID}", "/schemas/ids/8",
    ]  # fmt: skip


def test_references_are_asked_for_first(reported: FakeRegistry, registry: SchemaRegistry) -> None:
    def record(name: str, kind: str) -> str:
        fields = [{"name": "f", "type": kind}]
        return json.dumps({"type": "record", "name": name, "fields": fields})

    def refer(*names: str) -> list[dict[str, Any]]:
        return [{"name": name, "subject": f"of/{name}", "version": 3} for name in names]

    reported.schemas |= {
        path: {"schema": record(*own), "references": refer(*needed)}
        for path, own, needed in (
            ("/schemas/ids/1", ("A", "B"), "CB"), ("/subjects/of%2FB/versions/3", ("B", "C"), "C"),
            ("/subjects/of%2FC/versions/3", ("C", "int"), "A"),
            ("/subjects/of%2FA/versions/3", ("Z", "int"), "C"),
        )
    }  # fmt: skip
    assert json.loads(registry.decode(by_number(1, b"\x02"))) == {"f": {"f": {"f": 1}}}
    reported.schemas["/schemas/ids/2"] = {"schema": record("A", "B"), "references": refer("gone")}
    assert code_of(registry, by_number(2, b"\x02")) == "unknown_schema"


def test_unknown_schemas_are_asked_seldom(reported: FakeRegistry, registry: SchemaRegistry) -> None:
    for _ in range(3):
        assert code_of(registry, by_number(99, b"x")) == "unknown_schema"
    assert len(reported.asked) == 1
    for number in (0, 1 << 31, (1 << 32) - 1):
        assert code_of(registry, by_number(number, b"x")) == "unknown_schema"
    assert len(reported.asked) == 1
    reported.bodies["/schemas/ids/98"] = 404, b"no such path"
    assert code_of(registry, by_number(98, b"x")) == "unknown_schema"  # as Apicurio, of a GUID
    assert reported.asked[-1] == "/schemas/types"
    reported.schemas["/schemas/ids/97"] = {"schema": "x", "schemaType": "THRIFT"}
    assert code_of(registry, by_number(97, b"x")) == "unusable_schema"


def test_a_refusal_keeps_nothing_of_the_chunk_that_it_came_with(registry: SchemaRegistry) -> None:
    class Records:
        """What a chunk holds."""

    def refused() -> weakref.ref[Records]:
        held = Records()
        assert code_of(registry, by_number(99, b"x")) == "unknown_schema"
        return weakref.ref(held)

    found = refused()
    gc.collect()
    assert found() is None


def test_malformed_references_are_none(reported: FakeRegistry, registry: SchemaRegistry) -> None:
    for references in (["x"], 5):
        reported.schemas["/schemas/ids/9"] = {"schema": PAGE_SCHEMA, "references": references}
        with pytest.raises(StreamerError, match="names references in another way"):
            registry.decode(by_number(9, b"x"))


def test_what_is_kept_of_a_registry_is_bounded(
    reported: FakeRegistry, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_registry, "SCHEMAS_KEPT_MAX", 2)
    for number in (7, 8, 99, 98, 97, 8, 7):
        reported.schemas[f"/schemas/ids/{number}"] = {"schema": PAGE_SCHEMA}
        registry.decode(by_number(number, avro_page("u", TEXT)))
    assert len(registry._decoders) == 2  # noqa: SLF001 - what it holds shows nowhere else


@pytest.mark.parametrize(
    ("status", "body"),
    [(502, b""), (503, b"busy"), (429, b""), (401, b""), (302, b""), (200, b"<html>"),
     (200, b"[]")],
    ids=["502", "503", "429", "401", "302", "html", "array"],
)  # fmt: skip
def test_any_other_answer_is_none(
    reported: FakeRegistry, registry: SchemaRegistry, status: int, body: bytes
) -> None:
    reported.bodies["/schemas/ids/7"] = status, body
    with pytest.raises(StreamerError, match=r"cannot be used for \d+ seconds"):
        registry.decode(by_number(7, avro_page("u", TEXT)))
    del reported.bodies["/schemas/ids/7"]
    assert registry.decode(by_number(7, avro_page("u", TEXT)))


@pytest.mark.parametrize(
    ("status", "body"),
    [(403, b""), (500, b""), (400, b'{"error_code":400}'), (200, b"x" * (5 << 20))],
    ids=["403", "500", "400", "large"],
)
def test_a_schema_that_a_working_registry_lastingly_refuses_is_a_dead_letter(
    reported: FakeRegistry, monkeypatch: pytest.MonkeyPatch, status: int, body: bytes
) -> None:
    monkeypatch.setattr(schema_registry, "SCHEMA_SECONDS", 0.3)
    monkeypatch.setattr(schema_registry, "UNKNOWN_SECONDS", 0.5)
    registry = SchemaRegistry(RegistryAddress(reported.url), patience_s=float("inf"))
    value = by_number(7, avro_page("u", TEXT))
    reported.bodies["/schemas/ids/7"] = status, body
    began = time.monotonic()
    assert code_of(registry, value) == "schema_unavailable"
    assert time.monotonic() - began >= 0.3
    reported.asked.clear()
    assert code_of(registry, value) == "schema_unavailable"
    assert reported.asked == []
    assert registry.decode(by_number(8, b"{}")) == b"{}"
    assert registry.complaint == ""
    time.sleep(0.5)
    began = time.monotonic()  # asked again, without the wait before
    assert code_of(registry, value) == "schema_unavailable"
    assert time.monotonic() - began < 0.3
    del reported.bodies["/schemas/ids/7"]
    time.sleep(0.5)
    assert registry.decode(value)


def test_a_registry_is_waited_for(reported: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry, "SCHEMA_SECONDS", 0.0)
    registry = SchemaRegistry(RegistryAddress(reported.url), patience_s=0.5)
    reported.failure = 500
    with pytest.raises(StreamerError, match="HTTP 500"):
        registry.decode(by_number(7, avro_page("u", TEXT)))


def test_threads_share_the_wait_for_a_dead_registry(reported: FakeRegistry) -> None:
    registry, ended = SchemaRegistry(RegistryAddress(reported.url), patience_s=1.0), list[float]()
    reported.failure, began = 503, time.monotonic()

    def decode(number: int) -> None:
        for _ in range(2):
            with pytest.raises(StreamerError, match="HTTP 503"):
                registry.decode(by_number(number, b"x"))
        ended.append(time.monotonic() - began)

    waiting = [threading.Thread(target=decode, args=(number,)) for number in (7, 7, 8, 9)]
    for each in waiting:
        each.start()
    for each in waiting:
        each.join(60)
    assert len(ended) == 4
    assert max(ended) < 3.0
    reported.failure = 0
    assert registry.decode(by_number(8, b"{}")) == b"{}"


def test_a_404_of_no_registry_is_none(reported: FakeRegistry, registry: SchemaRegistry) -> None:
    reported.failure = 404
    with pytest.raises(StreamerError, match="HTTP 404"):
        registry.decode(by_number(7, avro_page("u", TEXT)))


def test_messages_wait_for_a_registry_that_is_away(reported: FakeRegistry) -> None:
    registry, found = SchemaRegistry(RegistryAddress(reported.url)), list[bytes]()
    value, reported.failure = by_number(7, avro_page("http://a.example/", TEXT)), 503
    waiting = threading.Thread(target=lambda: found.append(registry.decode(value)))
    waiting.start()
    wait_until(lambda: bool(registry.complaint))
    assert "HTTP 503" in registry.complaint
    assert found == []
    reported.failure = 0
    waiting.join(60)
    assert (len(found), registry.complaint) == (1, "")


def test_a_login_is_sent_over_tls_and_shown_nowhere(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.give("registry"))
    with fake_registry(context) as reported:
        address = RegistryAddress(reported.url, authority.cafile, "me", WORD)
        SchemaRegistry(address).check()
        other = RegistryAddress(reported.url, Authority(tmp_path, "other").cafile, "me", WORD)
        with pytest.raises(StreamerError, match="certificate verify failed") as refused:
            SchemaRegistry(other).check()
    assert WORD not in repr(address)
    assert WORD not in str(refused.value)
    (login,) = reported.logins
    assert login is not None
    assert base64.b64decode(login.removeprefix("Basic ")) == f"me:{WORD}".encode()


@pytest.mark.parametrize(
    ("url", "more", "why"),
    [
        ("registry:8081", {}, "cannot be used"),
        ("ftp://a.example", {}, "cannot be used"),
        ("https://", {}, "cannot be used"),
        ("https://a.example:99999", {}, "cannot be used"),
        ("https://a.example/?x=1", {}, "cannot be used"),
        (f"https://me:{WORD}@a.example", {}, "holds an @"),
        ("https://a.example", {"username": "me"}, "go together"),
        ("https://a.example", {"password": WORD}, "go together"),
        ("http://a.example", {"username": "me", "password": WORD}, "readable"),
        ("http://a.example", {"cafile": Path("ca.pem")}, "needs no certificates"),
        ("https://a.example", {"cafile": Path("missing.pem")}, "--registry-cafile missing.pem"),
    ],
)
def test_a_wrong_or_unsafe_address_is_refused(url: str, more: dict[str, Any], why: str) -> None:
    with pytest.raises(SettingsError, match=why) as refused:
        SchemaRegistry(RegistryAddress(url, **more))
    assert WORD not in str(refused.value)


def test_a_start_says_what_is_wrong(reported: FakeRegistry) -> None:
    SchemaRegistry(RegistryAddress(reported.url)).check()
    reported.failure = 401
    with pytest.raises(StreamerError, match=r"refuses the login \(HTTP 401\)\. Check"):
        SchemaRegistry(RegistryAddress(reported.url)).check()
    with pytest.raises(StreamerError, match=r"cannot be used: .*refused"):
        SchemaRegistry(RegistryAddress("http://127.0.0.1:1")).check()


def test_a_header_names_the_schema_as_what_precedes_a_value_does() -> None:
    guid, number = b"\1" + GUID.bytes, b"\0\0\0\0\7"
    assert add_frame(b"x", [("other", b"y"), (HEADER, guid)]) == guid + b"x"
    assert add_frame(b"x", [(HEADER, number), (HEADER, guid)]) == number + b"x"
    for nothing in (b"", b"\0\0\0\7", b"\1" + GUID.bytes[1:], b"\2" * 17, guid + b"\0", None):
        assert add_frame(b"x", [(HEADER, nothing)]) == b"x"
    assert add_frame(None, [(HEADER, guid)]) is None
    assert add_frame(b"", [(HEADER, guid)]) == b""
    assert [
        schema_registry.is_framed(each) for each in (None, b"", b"{}", b"\0", number, guid)
    ] == [False] * 6
    assert schema_registry.is_framed(number + b"x")
    assert schema_registry.is_framed(guid + b"x")


def message(offset: int, value: bytes | None) -> Message:
    return offset, b"key", value


def test_a_chunk_gets_the_json_of_what_names_its_schema(registry: SchemaRegistry) -> None:
    page = {"url": "http://a.example/4", "body": TEXT.decode()}
    large = by_number(7, avro_page("http://a.example/", b"x" * 5000))
    chunk = Chunk(0, 8, messages=[
        message(0, by_number(7, avro_page("http://a.example/0", TEXT))),
        message(1, by_number(99, b"x")),
        message(2, None),
        message(3, by_number(7, b"\xff" * 9)),
        message(4, json.dumps(page).encode()),
        message(5, by_number(7, avro_page("", TEXT))),
        message(6, large),
        message(7, by_number(7, avro_page("http://a.example/7", b"na\xefve text " * 9))),
    ], times=[*range(8)])  # fmt: skip
    parser = PageParser(DEFAULT_MAPPING, ["headers"], page_bytes_max=4000, registry=registry)
    batch = parser.parse(chunk)
    assert batch.sequences == [0, 4, 7]
    assert batch.times == [0, 4, 7]
    assert batch.urls[0] == b"http://a.example/0"
    assert bytes(batch.bodies[0]) == TEXT
    assert b"ve text" in bytes(batch.bodies[2])
    assert batch.carried[0] == b'{"headers":{"server":"test"}}'
    assert [(each.sequence, each.code) for each in batch.dead] == [
        (1, "unknown_schema"), (3, "schema_mismatch"), (5, "missing_url"), (6, "record_too_large"),
    ]  # fmt: skip
    assert batch.dead[0].value == by_number(99, b"x")
    assert json.loads(chunk.messages[0][2] or b"")["url"] == "http://a.example/0"
    assert chunk.messages[3] == message(3, by_number(7, b"\xff" * 9))
    assert batch.skipped["deletion"] == 1


def test_without_a_registry_only_json_is_read() -> None:
    page = b'{"url":"http://a.example/","body":"' + TEXT + b'"}'
    chunk = Chunk(0, 4, messages=[
        message(0, by_number(7, avro_page("http://a.example/0", TEXT))),
        message(1, b"\1" + GUID.bytes + page),
        message(2, by_number(8, page)),
        message(3, b"\1" + GUID.bytes + avro('"bytes"', b"")),
    ])  # fmt: skip
    batch = PageParser().parse(chunk)
    assert batch.sequences == [1, 2]
    assert [(each.code, each.detail) for each in batch.dead] == [
        ("no_registry", "it names the schema 7, and no registry is set"),
        ("no_registry", f"it names the schema {GUID}, and no registry is set"),
    ]
