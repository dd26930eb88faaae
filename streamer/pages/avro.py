"""Avro messages: a record becomes a JSON object, and is read as a line of JSON is.

So fields are found by the same pointers: `/meta/url` is a field of a record within. As in tables
(tables.py), a field of bytes is text where it is UTF-8; else it is base64 under its name with
`_base64` appended. Bytes further down are base64.

The library decodes in native code, which follows a schema as deep as the bytes want it to, and
makes as many items as they announce. So a schema is looked at before it is used: its types must not
contain themselves, which ends the process at some depth, and each value must take a byte at least.
With that, and with a limit on the values of a large message, time and memory are bounded.
"""

import io
import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from streamer.errors import InvalidPage

VALUES_MAX = 400_000  # of a message, about: a small one cannot have as many
DEPTH_MAX = 32  # of records, arrays and maps within each other
_NESTED_MAX = 4 * DEPTH_MAX  # of what a schema writes them down with

UNUSABLE = "unusable_schema"
NAME_MAX = 256  # characters of a symbol or a field
MISMATCH = "schema_mismatch"
TOO_MANY = "decompressed_too_large"

Decode = Callable[[bytes], bytes]
"""From a message's bytes to its JSON object; it raises InvalidPage."""

# Others may take hours, as a decimal number of 16 MiB does.
_LOGICAL_TYPES = {
    "date", "time-millis", "time-micros", "timestamp-millis", "timestamp-micros",
    "local-timestamp-millis", "local-timestamp-micros",
}  # fmt: skip
_INNER = "union"
_AROUND = {"type": "record", "name": "streamer.Around"}  # takes no bytes of its own
_encode = msgspec.json.Encoder(enc_hook=str, decimal_format="number").encode


def json_object(record: object) -> bytes:
    """Return a record as JSON; bytes at its top are text, or base64 under another name."""
    if isinstance(record, dict):
        for name, value in [*record.items()]:
            if isinstance(value, bytes):
                try:
                    record[name] = value.decode()
                except UnicodeDecodeError:
                    del record[name]
                    record[f"{name}_base64"] = value
    try:
        return _encode(record)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidPage(MISMATCH, type(error).__name__) from error


def avro_decoder(text: str, references: Sequence[str] = ()) -> Decode:
    """Return the decoder for a schema; `references` are the schemas whose types it names, in order.

    Raises:
        InvalidPage: `unusable_schema`.
    """
    from fastavro import parse_schema, schemaless_reader  # noqa: PLC0415 - an extra

    checked, named = _Types(), dict[str, Any]()
    try:
        schemas = [checked.schema(json.loads(each)) for each in (*references, text)]
        is_union = isinstance(schemas[-1], list)
        if is_union:  # alone, the library would not know the references' types
            schemas[-1] = {**_AROUND, "fields": [{"name": _INNER, "type": schemas[-1]}]}
        parsed = [parse_schema(schema, named_schemas=named) for schema in schemas][-1]
    except InvalidPage:
        raise
    except Exception as error:  # whatever else a schema can be
        raise InvalidPage(UNUSABLE, " ".join(f"Avro: {error}".split())[:200]) from error
    values_max = VALUES_MAX // checked.height

    def decode(payload: bytes) -> bytes:
        small = 2 * len(payload) <= values_max
        stream = io.BytesIO(payload) if small else _Counted(payload, values_max)
        try:
            record: Any = schemaless_reader(stream, parsed, None, handle_unicode_errors="replace")
        except _TooManyError as error:
            raise InvalidPage(TOO_MANY, f"more than about {values_max:,} values") from error
        except Exception as error:  # whatever bytes of something else lead to
            raise InvalidPage(MISMATCH, type(error).__name__) from error
        if left := len(payload) - stream.tell():
            raise InvalidPage(MISMATCH, f"{left:,} bytes are left")
        return json_object(record[_INNER] if is_union else record)

    return decode


class _TooManyError(Exception):
    """A message has too many values."""


class _Counted(io.BytesIO):
    """Bytes that can be read so often: each value takes one read at least."""

    def __init__(self, data: bytes, reads_max: int) -> None:
        super().__init__(data)
        self._left = reads_max

    def read(self, size: int | None = -1, /) -> bytes:
        """Read, as long as there are reads left."""
        self._left -= 1
        if self._left < 0:
            raise _TooManyError
        return super().read(size)


class _Types:
    """Looks at schemas; `height` is that of the highest value, one for each record around it."""

    def __init__(self) -> None:
        self.height = 1
        self._heights: dict[str, int] = {}  # of named types, by full name
        self._open: set[str] = set()  # those that are being defined

    def schema(self, schema: Any) -> Any:  # noqa: ANN401 - as JSON has it
        """Return a schema as it can be used.

        Raises:
            InvalidPage: a type contains itself, takes no bytes, or is too deep.
        """
        usable, height = self._type(schema, "", 0)
        if height > DEPTH_MAX:
            raise _check_depth()
        self.height = max(self.height, height)
        return usable

    def _type(self, schema: Any, space: str, depth: int) -> tuple[Any, int]:  # noqa: ANN401 - as above
        """Return a type as it can be used, and its height; `space` is the namespace around it."""
        if depth > _NESTED_MAX:
            raise _check_depth()
        if isinstance(schema, list):
            return self._union(schema, space, depth)
        if isinstance(schema, str):
            return schema, self._height_of(schema, space)
        if not isinstance(schema, dict):
            raise InvalidPage(UNUSABLE, "Avro: a type is no name, object or list")
        kind = schema.get("type")
        if not isinstance(kind, str):
            inner, height = self._type(kind, space, depth + 1)
            return {**schema, "type": inner}, height
        usable = dict(schema)
        if schema.get("logicalType") not in _LOGICAL_TYPES:
            usable.pop("logicalType", None)
        if kind in {"record", "error", "enum", "fixed"}:
            return usable, self._define(usable, kind, space, depth)
        for part in ("items", "values"):
            if kind in {"array", "map"} and part in schema:
                usable[part], height = self._type(schema[part], space, depth + 1)
                return usable, height + 1
        return usable, self._height_of(kind, space)

    def _union(self, schema: list[Any], space: str, depth: int) -> tuple[list[Any], int]:
        null = "null", {"type": "null"}
        found = [
            (each, 1) if each in null else self._type(each, space, depth + 1) for each in schema
        ]
        return [usable for usable, _ in found], max((height for _, height in found), default=1)

    def _define(self, usable: dict[str, Any], kind: str, space: str, depth: int) -> int:
        """Check a named type, replace the types of its fields, and return its height."""
        name, own = str(usable.get("name", "")), usable.get("namespace", space)
        full = _full_name(name, str(own))
        space = full.rpartition(".")[0]
        if kind == "fixed" and not usable.get("size"):
            raise _drop_bytes(full)
        _check_names(full, usable.get("symbols") or usable.get("fields") or ())
        height = 1
        if kind in {"record", "error"}:
            if not usable.get("fields"):
                raise _drop_bytes(full)
            self._open.add(full)
            fields = []
            for field in usable["fields"]:
                inner, own_height = self._type(field["type"], space, depth + 1)
                fields.append({**field, "type": inner})
                height = max(height, own_height + 1)
            usable["fields"] = fields
            self._open.discard(full)
        self._heights[full] = height
        return height

    def _height_of(self, name: str, space: str) -> int:
        """Return the height of a primitive type, or of one that was defined before."""
        if name == "null":
            raise _drop_bytes("null")
        full = _full_name(name, space)
        if full in self._open or name in self._open:
            raise InvalidPage(UNUSABLE, f"Avro: the type {full[:100]} contains itself")
        return self._heights.get(full, self._heights.get(name, 1))


def _full_name(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _check_names(full: str, parts: Sequence[Any]) -> None:
    """Raise InvalidPage unless symbols or fields have names as people give them.

    In JSON, a value of one byte becomes a whole symbol, and a field has its name before it.
    """
    names = (part["name"] if isinstance(part, dict) else part for part in parts)
    if any(len(str(name)) > NAME_MAX for name in names):
        what = f"a name in {full[:100]} is longer than {NAME_MAX} characters"
        raise InvalidPage(UNUSABLE, f"Avro: {what}")


def _check_depth() -> InvalidPage:
    return InvalidPage(UNUSABLE, f"Avro: it is deeper than {DEPTH_MAX}")


def _drop_bytes(name: str) -> InvalidPage:
    return InvalidPage(UNUSABLE, f"Avro: values of {name[:100]} take no bytes, outside a union")
