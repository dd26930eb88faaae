"""Avro records as JSON objects; schemas and bytes that would take the process with them."""

import json
import resource
from typing import Any

import pytest

from streamer.errors import InvalidPage
from streamer.pages.avro import avro_decoder
from tests.helpers.schema_registry import PAGE_SCHEMA, avro, avro_page

Schema = dict[str, Any] | list[Any] | str


def record(*types: Schema, name: str = "R") -> dict[str, Any]:
    fields = [{"name": f"f{i}", "type": each} for i, each in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


def decoded(schema: Schema, payload: bytes, *references: Schema) -> Any:
    return json.loads(
        avro_decoder(json.dumps(schema), [json.dumps(each) for each in references])(payload)
    )


def number(value: int) -> bytes:
    """Return a number as Avro has it."""
    return avro('"long"', value)


def test_a_record_becomes_an_object_with_text_or_base64_for_bytes() -> None:
    decode = avro_decoder(PAGE_SCHEMA)
    assert json.loads(decode(avro_page("http://a.example/", "na\u00efve".encode()))) == {
        "url": "http://a.example/",
        "body": "na\u00efve",
        "content_type": None,
        "fetched_at": "2023-11-14T22:13:20Z",
        "headers": {"server": "test"},
    }
    found = json.loads(
        decode(avro_page("http://a.example/", b"na\xefve", content_type="text/html"))
    )
    assert "body" not in found
    assert found["body_base64"] == "bmHvdmU="


def test_types_are_taken_from_references_also_within_a_union() -> None:
    host = {
        "type": "record",
        "name": "Host",
        "namespace": "z",
        "fields": record("string")["fields"],
    }
    payload = number(1) + b"a"
    assert decoded(record("z.Host"), payload, host) == {"f0": {"f0": "a"}}
    assert decoded(["null", "z.Host"], number(1) + payload, host) == {"f0": "a"}


def test_text_that_is_no_text_is_repaired_and_decimals_stay_bytes() -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    assert decoded(record("string", decimal), number(1) + b"\xff" + number(2) + b"\x01\x02") == {
        "f0": "\ufffd",
        "f1": "\x01\x02",
    }


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (record(["null", "R"]), "contains itself"),
        (record({"type": "array", "items": record({"type": "map", "values": "R"}, name="S")}),
         "contains itself"),
        ({**record(["null", "x.R"]), "namespace": "x"}, "contains itself"),
        (record("R"), "contains itself"),
        ({"type": "array", "items": "null"}, "take no bytes"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, "take no bytes"),
        ({"type": "array", "items": record()}, "take no bytes"),
        (record("null"), "take no bytes"),
        ({"type": "enum", "name": "E", "symbols": ["s" * 257]}, "is longer than 256 characters"),
        ({"type": "record", "name": "R", "fields": [{"name": "f" * 257, "type": "int"}]},
         "is longer than 256 characters"),
        ("missing", "missing"),
        (7, "no name"),
        (json.loads('{"type":' * 500 + '"int"' + "}" * 500), "deeper"),
        (json.loads('{"type":"array","items":' * 40 + '"int"' + "}" * 40), "deeper"),
    ],
    ids=["union", "array", "namespace", "directly", "nulls", "empty-fixed", "empty-records",
         "null", "symbol", "field", "unknown", "number", "types", "arrays"],
)  # fmt: skip
def test_a_schema_that_could_take_the_process_with_it_is_refused(schema: Any, why: str) -> None:
    with pytest.raises(InvalidPage, match=f"unusable_schema: .*{why}"):
        avro_decoder(json.dumps(schema))


def test_depth_counts_through_names() -> None:
    chain = [record("int", name="R0")] + [record(f"R{i}", name=f"R{i + 1}") for i in range(40)]
    with pytest.raises(InvalidPage, match="deeper"):
        decoded(chain[-1], b"\0", *chain[:-1])
    assert decoded(chain[20], b"\0", *chain[:20])


@pytest.mark.parametrize("text", ["", "{", "[" * 5000, "null", '{"type":"record"}'])
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidPage, match="unusable_schema"):
        avro_decoder(text)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x02",
        b"\xff" * 40,
        b"\x01",
        number(1 << 60) + b"x",
        avro_page("http://a.example/", b"x") + b"more",
        avro_page("http://a.example/", b"x")[:-3],
        avro(PAGE_SCHEMA, {"url": "u", "body": b"", "headers": {}, "fetched_at": 1 << 60}),
    ],
    ids=["empty", "cut", "long-number", "negative", "huge", "more", "shorter", "time"],
)
def test_bytes_that_do_not_fit_are_told(payload: bytes) -> None:
    with pytest.raises(InvalidPage, match="schema_mismatch"):
        avro_decoder(PAGE_SCHEMA)(payload)


def test_a_message_of_too_many_values_is_refused_in_bounded_memory() -> None:
    items = {"type": "array", "items": record("int", name="I")}
    decode, count = avro_decoder(json.dumps(record(items))), 16 << 20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InvalidPage, match="decompressed_too_large"):
        decode(number(count) + b"\x02" * count + b"\0")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 160 << 10
    assert len(json.loads(decode(number(40_000) + b"\x02" * 40_000 + b"\0"))["f0"]) == 40_000
    text = decoded(record("string"), number(1 << 20) + b"x" * (1 << 20))
    assert len(text["f0"]) == 1 << 20
