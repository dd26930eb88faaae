"""Protobuf messages as JSON objects, by schemas as text and as descriptors."""

from __future__ import annotations

import base64
import errno
import importlib
import json
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from streamer.errors import InvalidPage, StreamerError
from streamer.pages.avro import VALUES_MAX, Decode
from streamer.pages.protobuf import protobuf_decoder

ROOT = Path(__file__).parents[3]
HOST = 'syntax = "proto3"; package shared; message Host { string name = 1; }'
CRAWL = """syntax = "proto3";
package crawl;
import "google/protobuf/timestamp.proto";
import "shared/host.proto";
message Crawl {
  message Page {
    string url = 1;
    bytes body = 2;
    map<string, string> headers = 3;
    repeated Page frames = 4;
    repeated int32 sizes = 5;
    google.protobuf.Timestamp fetched_at = 6;
    int64 status_code = 7;
  }
  Page page = 1;
  shared.Host host = 2;
}
"""


def varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def part(field: int, value: bytes | int) -> bytes:
    """Return a field: text, bytes or a message; or a number."""
    if isinstance(value, int):
        return varint(field << 3) + varint(value)
    return varint(field << 3 | 2) + varint(len(value)) + value


PAGE = part(1, b"http://a.example/") + part(2, b"na\xefve") + part(7, 200)
FIRST, NESTED = b"\0", b"\x04\0\0"  # the indexes of Crawl, and of Page in it


@pytest.fixture(scope="module")
def decode() -> Decode:
    return protobuf_decoder(CRAWL, {"shared/host.proto": HOST})


def test_a_message_becomes_an_object_under_the_names_of_its_schema(decode: Decode) -> None:
    headers = part(3, part(1, b"server") + part(2, b"test"))
    time = part(6, part(1, 1_700_000_000))
    assert json.loads(decode(NESTED + PAGE + headers + time)) == {
        "url": "http://a.example/",
        "headers": {"server": "test"},
        "fetched_at": "2023-11-14T22:13:20Z",
        "status_code": "200",
        "body_base64": "bmHvdmU=",
    }
    assert json.loads(decode(FIRST + part(1, part(2, b"x")) + part(2, part(1, b"a.example")))) == {
        "page": {"body": "eA=="},
        "host": {"name": "a.example"},
    }
    assert json.loads(decode(NESTED + part(2, b"text"))) == {"body": "text"}


def test_a_schema_may_come_as_a_descriptor_and_use_those_that_come_with_protobuf() -> None:
    file = FileDescriptorProto(name="anything", package="p", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    message = file.message_type.add(name="M")
    message.field.add(name="at", number=1, label=1, type=11, type_name=".google.protobuf.Timestamp")
    text = base64.b64encode(file.SerializeToString()).decode()
    assert json.loads(protobuf_decoder(text, {})(FIRST + part(1, part(1, 5)))) == {
        "at": "1970-01-01T00:00:05Z"
    }
    own = base64.b64encode(timestamp_pb2.DESCRIPTOR.serialized_pb).decode()
    assert json.loads(protobuf_decoder(own, {})(FIRST + part(1, 5))) == "1970-01-01T00:00:05Z"


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xff" * 20, b"\x04\0\x06" + PAGE, b"\x02\x03" + PAGE, FIRST + b"\xff" * 9,
     b"\x80\x01" + b"\0" * 64],
    ids=["empty", "number", "no-such-type", "negative-index", "damaged", "deep-indexes"],
)  # fmt: skip
def test_bytes_that_do_not_fit_are_told(decode: Decode, payload: bytes) -> None:
    with pytest.raises(InvalidPage) as refused:
        decode(payload)
    assert refused.value.code == "schema_mismatch"


def test_messages_within_each_other_end_somewhere(decode: Decode) -> None:
    frames = b""
    for _ in range(90):
        frames = part(4, frames)
    assert decode(NESTED + frames)
    for _ in range(210):
        frames = part(4, frames)
    with pytest.raises(InvalidPage) as refused:
        decode(NESTED + frames)
    assert refused.value.code == "schema_mismatch"


@pytest.mark.parametrize(
    "payload",
    [part(4, b"") * 500_000, part(5, b"\1" * 500_000),
     b"".join(part(3, part(1, b"%d" % i)) for i in range(210_000))],
    ids=["messages", "numbers", "map"],
)  # fmt: skip
def test_a_message_of_too_many_values_is_refused(decode: Decode, payload: bytes) -> None:
    with pytest.raises(InvalidPage) as refused:
        decode(NESTED + payload)
    assert refused.value.code == "decompressed_too_large"


GROWTH = """
from tests.unit.pages.test_protobuf import CRAWL, HOST, NESTED, PAGE, InvalidPage, protobuf_decoder

def most():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))

decode = protobuf_decoder(CRAWL, {"shared/host.proto": HOST})
decode(NESTED + PAGE)
message = NESTED + b"\\x22\\x00" * (8 << 20)
before = most()
try:
    decode(message)
except InvalidPage as refused:
    print(refused.code, (most() - before) >> 10)
"""


def test_a_message_of_too_many_values_is_not_even_parsed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", GROWTH], cwd=ROOT, capture_output=True, text=True, check=True
    )
    code, growth = done.stdout.split()
    assert code == "decompressed_too_large"
    assert int(growth) < 80


GROUPS = """syntax = "proto2";
message M {
  repeated group Part = 1 { repeated Part parts = 1; repeated double ones = 2; }
  optional string url = 3;
  repeated fixed32 twos = 4 [packed = true];
}
"""


@pytest.mark.parametrize(
    ("payload", "values"),
    [
        (b"\x0b\x0a\x00\x0c" * 3 + part(3, b"u"), 10),
        (b"\x0b" * 5 + b"\x0c" * 5, 10),
        (part(4, bytes(4 * 7)), 8),
        (b"\x0b" + part(2, bytes(8 * 5)) + b"\x0c", 8),
        (part(3, b"u" * 50), 1),
        (part(9, b"unknown") + b"\x4b" + part(3, b"x") + b"\x4c" + b"\x51" + bytes(8), 5),
    ],
    ids=["groups", "nested", "packed", "in-a-group", "text", "unknown"],
)
def test_values_are_counted_in_the_bytes(
    monkeypatch: pytest.MonkeyPatch, payload: bytes, values: int
) -> None:
    decode = protobuf_decoder(GROUPS, {})
    monkeypatch.setattr("streamer.pages.protobuf.VALUES_MAX", values)
    assert decode(FIRST + payload)
    monkeypatch.setattr("streamer.pages.protobuf.VALUES_MAX", values - 1)
    with pytest.raises(InvalidPage) as refused:
        decode(FIRST + payload)
    assert refused.value.code == "decompressed_too_large"


@pytest.mark.parametrize(
    ("text", "references", "why"),
    [
        (CRAWL, {}, "File not found"),
        (CRAWL, {"../host.proto": HOST}, "has no text"),
        (CRAWL, {"/host.proto": HOST}, "has no text"),
        ("not a schema", {}, "streamer-main.proto:1"),
        ("AAAA", {}, "Protobuf"),
        (base64.b64encode(
            FileDescriptorProto(dependency=["google/../x.proto"]).SerializeToString()
        ).decode(), {}, "which is no reference"),
    ],
    ids=["missing", "above", "absolute", "text", "descriptor", "import"],
)  # fmt: skip
def test_what_is_no_schema_is_refused(text: str, references: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidPage, match=why) as refused:
        protobuf_decoder(text, references)
    assert refused.value.code == "unusable_schema"
    assert gettempdir() not in refused.value.detail


EXTENDED = """syntax = "proto2";
message M { optional string url = 1; extensions 100 to 200; }
message E {}
message H { repeated E e = 1; repeated int32 n = 2 [packed = true]; }
extend M { optional H h = 100; repeated int32 n = 101 [packed = true]; }
"""


def test_the_values_of_extensions_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = protobuf_decoder(EXTENDED, {})
    for extension in (part(100, 6 * part(1, b"")), part(101, bytes(6))):
        monkeypatch.setattr("streamer.pages.protobuf.VALUES_MAX", 8)
        payload = FIRST + part(1, b"u") + extension
        assert json.loads(decode(payload))["url"] == "u"
        monkeypatch.setattr("streamer.pages.protobuf.VALUES_MAX", 7)
        with pytest.raises(InvalidPage, match="more than 7 values"):
            decode(payload)


ANY = """syntax = "proto3";
import "google/protobuf/any.proto";
message M { google.protobuf.Any a = 1; }
"""


def any_list(values: bytes) -> bytes:
    """Return a message with an Any that holds a list of values, of a file it does not import."""
    return FIRST + part(1, part(1, b"type.googleapis.com/google.protobuf.ListValue") + values)


def test_what_an_any_holds_does_not_depend_on_other_schemas() -> None:
    decode = protobuf_decoder(ANY, {})
    for _ in range(2):
        with pytest.raises(InvalidPage) as refused:
            decode(any_list(b""))
        assert refused.value.code == "schema_mismatch"
        importlib.import_module("google.protobuf.struct_pb2")
    own = protobuf_decoder(ANY.replace("message", "message N { string url = 1; } message"), {})
    found = part(1, part(1, b"type.googleapis.com/N") + part(2, part(1, b"http://a/")))
    assert json.loads(own(b"\x02\x02" + found))["a"]["url"] == "http://a/"
    with pytest.raises(InvalidPage) as too_many:
        decode(any_list(part(2, bytes(VALUES_MAX + 1))))
    assert too_many.value.code == "decompressed_too_large"


@pytest.mark.parametrize("way", ["killed", "late", "none"])
def test_what_this_machine_does_to_the_compiler_says_nothing_of_a_schema(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    def run(command: list[str], **_options: Any) -> subprocess.CompletedProcess[bytes]:
        if way == "late":
            raise subprocess.TimeoutExpired(command, 60)
        if way == "none":
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        return subprocess.CompletedProcess(command, -signal.SIGTERM, b"", b"")

    monkeypatch.setattr("streamer.pages.protobuf.subprocess.run", run)
    with pytest.raises(StreamerError, match="could not be compiled"):
        protobuf_decoder(CRAWL, {"shared/host.proto": HOST})
