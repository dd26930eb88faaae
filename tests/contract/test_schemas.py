import json
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.analysis.hints.hint import HostHints
from streamer.model import DeadLetter, Page, Verdict

FOLDER = Path(__file__).parents[2] / "schemas"
TYPES: dict[str, type[msgspec.Struct]] = {
    "page": Page, "verdict": Verdict, "dead_letter": DeadLetter, "hints": HostHints,
}  # fmt: skip
NAMES = sorted(TYPES)
SCHEMAS: dict[str, dict[str, Any]] = {
    name: json.loads((FOLDER / f"{name}.schema.json").read_text("utf-8")) for name in NAMES
}
VALIDATORS = {
    name: jsonschema.Draft202012Validator(schema) for name, schema in SCHEMAS.items()
}  # fmt: skip

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
OF_TYPES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(0, 2**63 - 1),
    float: st.floats(0, 1),
    dict[str, Any]: st.dictionaries(st.text(), JSON_VALUES, max_size=3),
    msgspec.UnsetType: st.just(msgspec.UNSET),
}


def instances(kind: Any, **given: Any) -> st.SearchStrategy[Any]:
    """Draw values of a type as annotated; of a struct, each field that is not `given`."""
    if kind in OF_TYPES:
        return OF_TYPES[kind]
    if get_origin(kind) is Annotated:
        of, bounds = get_args(kind)
        numbers = st.integers if of is int else st.floats
        return numbers(bounds.ge, 2**31 - 1 if bounds.le is None else bounds.le)
    if get_origin(kind) in (Union, UnionType):
        return st.one_of([instances(one) for one in get_args(kind)])
    if get_origin(kind) is list:
        return st.lists(instances(*get_args(kind)), max_size=2)
    if not issubclass(kind, msgspec.Struct):
        return st.from_type(kind)
    fields = {f.name: instances(f.type) for f in msgspec.structs.fields(kind) if f.name != "schema"}
    return st.builds(kind, **fields | given)


def without_integer(kinds: set[str]) -> list[str]:
    """Sort type names, without `integer` where `number` covers it."""
    return sorted(kinds - {"integer"} if "number" in kinds else kinds)


def shape(schema: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """Reduce a schema to what both sides state: types, enums, defaults, and objects' fields."""
    if "$ref" in schema:
        return shape(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
    if "anyOf" in schema:
        parts = [shape(part, whole) for part in schema["anyOf"]]
        if all(part.keys() == {"type"} for part in parts):
            return {"type": without_integer({kind for part in parts for kind in part["type"]})}
        return {"anyOf": sorted(parts, key=str)}
    kinds = schema.get("type", [])
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    if "enum" in schema or "const" in schema:
        kinds = {"string"}  # as all of ours are
    result: dict[str, Any] = {"type": without_integer(kinds)}
    if "enum" in schema:
        result["enum"] = sorted(schema["enum"])
    if "properties" in schema:
        result["required"] = sorted(schema.get("required", []))
        result["properties"] = {
            name: shape(field, whole) for name, field in schema["properties"].items()
        }
    return result


def fields_of(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return all fields of a schema and of its definitions."""
    objects = [schema, *schema.get("$defs", {}).values()]
    return [field for one in objects for field in one["properties"].items()]


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_a_valid_schema_of_2020_12(name: str) -> None:
    assert SCHEMAS[name]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


def test_each_schema_file_has_its_type_here() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == [f"{n}.schema.json" for n in NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_named_by_kind_and_version_and_by_no_host(name: str) -> None:
    assert SCHEMAS[name]["$id"] == f"urn:streamer:schema:{name}:1"


@pytest.mark.parametrize("name", NAMES)
def test_each_field_is_described(name: str) -> None:
    assert [field for field, body in fields_of(SCHEMAS[name]) if not body.get("description")] == []


@pytest.mark.parametrize("name", NAMES)
def test_fields_types_required_and_enums_are_those_of_the_type(name: str) -> None:
    typed = msgspec.json.schema(TYPES[name])
    assert shape(SCHEMAS[name], SCHEMAS[name]) == shape(typed, typed)


@pytest.mark.parametrize("name", NAMES)
def test_defaults_are_those_of_the_type(name: str) -> None:
    defaults = {
        field.encode_name: field.default_factory()
        if callable(field.default_factory)
        else field.default
        for field in msgspec.structs.fields(TYPES[name])
        if not field.required and field.default not in (None, msgspec.UNSET)
    }
    stated = {
        field: body["default"]
        for field, body in SCHEMAS[name]["properties"].items()
        if "default" in body
    }
    assert stated == defaults


@pytest.mark.parametrize("name", ["verdict", "dead_letter", "hints"])
def test_the_version_in_a_message_is_the_one_of_its_schema(name: str) -> None:
    field = SCHEMAS[name]["properties"]["schema"]
    assert field["const"] == field["default"] == f"streamer.{name}/1"


@pytest.mark.parametrize("name", NAMES)
def test_each_example_is_valid_and_decodes_into_the_type(name: str) -> None:
    examples = SCHEMAS[name]["examples"]
    assert len(examples) > 1
    for example in examples:
        VALIDATORS[name].validate(example)
        decoded = msgspec.json.decode(json.dumps(example), type=TYPES[name], strict=True)
        encoded = json.loads(msgspec.json.encode(decoded))
        assert encoded == {key: value for key, value in example.items() if name != "page" or value}


@pytest.mark.parametrize(
    "body", [{}, {"body": "a", "body_base64": "YQ=="}, {"body": None}, {"body": 7}]
)
def test_a_page_without_exactly_one_body_is_refused_by_both_sides(body: dict[str, Any]) -> None:
    page = {"url": "https://a.example/", **body}
    assert not VALIDATORS["page"].is_valid(page)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(json.dumps(page), type=Page)


def test_unknown_fields_of_a_page_are_ignored_by_both_sides() -> None:
    page = {"url": "https://a.example/", "body": "a", "depth": 3}
    assert VALIDATORS["page"].is_valid(page)
    assert msgspec.json.decode(json.dumps(page), type=Page) == Page(page["url"], "a")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_whatever_the_type_encodes_is_valid(name: str, data: st.DataObject) -> None:
    bodies = st.permutations([st.just(msgspec.UNSET), st.text()])
    fields = ("body", "body_base64") if name == "page" else ()
    instance = data.draw(
        instances(TYPES[name], **dict(zip(fields, data.draw(bodies), strict=False)))
    )
    encoded = msgspec.json.encode(instance)
    VALIDATORS[name].validate(json.loads(encoded))
    assert msgspec.json.decode(encoded, type=TYPES[name]) == instance
