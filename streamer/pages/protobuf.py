"""Protobuf messages: a message becomes a JSON object, and is read as a line of JSON is.

The object is as Protobuf's own JSON has it, under the names of the schema, and fields that are not
set are not there. Bytes are as in avro.py.

A registry has a schema as text or as a descriptor, which is what the library takes. Text is
compiled by protoc, as grpcio-tools brings it, in a process of its own.
"""

from __future__ import annotations

import base64
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from streamer.errors import InvalidPage, StreamerError
from streamer.pages.avro import (
    DEPTH_MAX,
    MISMATCH,
    TOO_MANY,
    UNUSABLE,
    VALUES_MAX,
    Decode,
    json_object,
)

MAIN = "streamer-main.proto"  # what a schema is called that others do not name
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_LOGGED = re.compile(r"WARNING: |[IWE]\d{4} ")
_COMPILE_SECONDS_MAX = 60
_VARINT_BYTES_MAX = 5
_NUMBER, _BYTES, _GROUP, _GROUP_END = 0, 2, 3, 4  # types on the wire
_NUMBERED, _FIXED = (_NUMBER, _BYTES), {1: 8, 5: 4}
_NOT_LAST = bytes(range(0x80, 0x100))  # of a number
_NOT_COMPILED = "A schema of Protobuf could not be compiled"
_AGAIN = "Free memory and processes; the same command continues"
_Message = Any  # google.protobuf.message.Message: the library has no types


def protobuf_decoder(text: str, references: Mapping[str, str]) -> Decode:
    """Return the decoder for a schema; `references` are the files that it imports, by name.

    What it decodes begins with the indexes of the message's type, as registries have it.

    Raises:
        InvalidPage: `unusable_schema`.
    """
    from google.protobuf.message_factory import GetMessageClass  # noqa: PLC0415 - an extra

    try:
        file = _pool_file({**references, MAIN: text})
    except (InvalidPage, StreamerError):
        raise
    except Exception as error:  # whatever a descriptor can be
        raise InvalidPage(UNUSABLE, " ".join(f"Protobuf: {error}".split())[:200]) from error
    classes: dict[tuple[int, ...], Any] = {}

    def decode(payload: bytes) -> bytes:
        indexes, start = _indexes(payload)
        if indexes not in classes:
            classes[indexes] = GetMessageClass(_type_at(file, indexes))
        body = payload[start:]
        _check_values(body, classes[indexes].DESCRIPTOR)
        try:
            message = classes[indexes].FromString(body)
        except Exception as error:  # whatever bytes of something else lead to
            raise InvalidPage(MISMATCH, type(error).__name__) from error
        return _as_json(message)

    return decode


def _as_json(message: _Message) -> bytes:
    from google.protobuf.json_format import MessageToDict  # noqa: PLC0415 - an extra

    try:
        # Of the schema's own pool: the process' pool knows what other schemas have imported.
        pool = message.DESCRIPTOR.file.pool
        record = MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=pool)
    except Exception as error:  # a time of the year 10,000, an Any of an unknown type
        raise InvalidPage(MISMATCH, type(error).__name__) from error
    for field, value in message.ListFields():
        if isinstance(value, bytes):
            record[field.name] = value
    return json_object(record)


def _check_values(data: bytes, kind: Any) -> None:  # noqa: ANN401 - a Descriptor
    """Raise InvalidPage where a message of a type has too many values, before it is parsed.

    Parsed and counted, 16 MiB of empty messages took 850 MiB. The parser refuses what is none.
    """
    count, parts = 0, [(0, len(data), kind)]
    with suppress(IndexError):
        while parts:
            at, end, kind = parts.pop()
            outer = []  # the types around a group
            while at < end:
                tag, at = _wire_number(data, at)
                field = _fields(kind).get(tag >> 3) if kind else None
                inner, wire, count = field and field.message_type, tag & 7, count + 1
                size, at = (
                    _wire_number(data, at) if wire in _NUMBERED else (_FIXED.get(wire, 0), at)
                )
                if wire == _GROUP:
                    outer.append(kind)
                    kind = inner
                elif wire == _GROUP_END:
                    kind = outer.pop()
                elif wire == _BYTES and inner and size:
                    parts.append((at, at + size, inner))
                elif wire == _BYTES and field:
                    count += _numbers_in(data[at : at + size], field)
                at += 0 if wire == _NUMBER else size
                if count > VALUES_MAX:
                    raise InvalidPage(TOO_MANY, f"more than {VALUES_MAX:,} values")


@lru_cache(256)
def _fields(kind: Any) -> dict[int, Any]:  # noqa: ANN401 - a Descriptor
    """Return the fields of a type by their numbers, with those by which it is extended."""
    extended = kind.file.pool.FindAllExtensions(kind)
    return {**kind.fields_by_number, **{field.number: field for field in extended}}


def _wire_number(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and where it ends."""
    if (number := data[at]) < 0x80:  # noqa: PLR2004 - the last byte of one
        return number, at + 1
    number &= 0x7F
    for shift in range(7, 70, 7):
        at += 1
        number |= (data[at] & 0x7F) << shift
        if data[at] < 0x80:  # noqa: PLR2004 - as above
            return number, at + 1
    raise IndexError


def _numbers_in(part: bytes, field: Any) -> int:  # noqa: ANN401 - a FieldDescriptor
    """Return how many numbers a list of numbers has; an Any has as many values as bytes at most."""
    if field.type in {field.TYPE_STRING, field.TYPE_BYTES}:
        return len(part) if field.containing_type.full_name == "google.protobuf.Any" else 0
    if field.type in {field.TYPE_DOUBLE, field.TYPE_FIXED64, field.TYPE_SFIXED64}:
        return len(part) // 8
    if field.type in {field.TYPE_FLOAT, field.TYPE_FIXED32, field.TYPE_SFIXED32}:
        return len(part) // 4
    return len(part.translate(None, _NOT_LAST))


def _indexes(payload: bytes) -> tuple[tuple[int, ...], int]:
    """Return the indexes of the message's type, and where they end: a count, and each of them."""
    count, at = _varint(payload, 0)
    if not count:
        return (0,), at  # short for the first type of a file
    if not 0 < count <= DEPTH_MAX:
        raise InvalidPage(MISMATCH, "its message indexes cannot be read")
    found = []
    for _ in range(count):
        index, at = _varint(payload, at)
        found.append(index)
    return tuple(found), at


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    """Return the zigzag number at a place, and where it ends."""
    number = 0
    for place, byte in enumerate(payload[at : at + _VARINT_BYTES_MAX]):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:  # noqa: PLR2004 - the last one
            return (number >> 1) ^ -(number & 1), at + place + 1
    raise InvalidPage(MISMATCH, "its message indexes cannot be read")


def _type_at(file: Any, indexes: tuple[int, ...]) -> Any:  # noqa: ANN401 - descriptors
    """Return the descriptor of the message type that indexes lead to."""
    types, found = [*file.message_types_by_name.values()], None
    for index in indexes:
        if not 0 <= index < len(types):
            raise InvalidPage(MISMATCH, f"the schema has no message {list(indexes)}")
        found = types[index]
        types = [*found.nested_types]
    return found


def _pool_file(files: Mapping[str, str]) -> Any:  # noqa: ANN401 - a FileDescriptor
    """Return the descriptor of the file MAIN, with all that it imports of `files`."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto  # noqa: PLC0415 - an extra
    from google.protobuf.descriptor_pool import DescriptorPool  # noqa: PLC0415

    if not all(_BASE64.fullmatch(text) for text in files.values()):
        protos = _compiled(files)
    else:
        protos = {}
        for name, text in files.items():
            protos[name] = FileDescriptorProto.FromString(base64.b64decode(text))
            protos[name].name = name
    pool, added = DescriptorPool(), set[str]()

    def add(name: str) -> None:
        if name in added:
            return
        added.add(name)
        proto = protos.get(name) or _known_file(name)
        for needed in proto.dependency:
            add(needed)
        pool.Add(proto)

    add(MAIN)
    return pool.FindFileByName(MAIN)


def _known_file(name: str) -> Any:  # noqa: ANN401 - a FileDescriptorProto
    """Return one of the files that come with Protobuf, as google/protobuf/timestamp.proto."""
    from importlib import import_module  # noqa: PLC0415 - seldom needed

    from google.protobuf.descriptor_pb2 import FileDescriptorProto  # noqa: PLC0415 - an extra

    if not re.fullmatch(r"google/protobuf/[a-z_]+\.proto", name):
        raise InvalidPage(UNUSABLE, f"Protobuf: it imports {name[:100]!r}, which is no reference")
    module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def _compiled(files: Mapping[str, str]) -> dict[str, Any]:
    """Return the descriptors of files of text, and of what comes with Protobuf, by name."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet  # noqa: PLC0415 - an extra

    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or _BASE64.fullmatch(text):
                raise InvalidPage(UNUSABLE, f"Protobuf: the reference {name[:100]!r} has no text")
            Path(folder, path).parent.mkdir(parents=True, exist_ok=True)
            Path(folder, path).write_text(text, encoding="utf-8")
        made = Path(folder, "descriptors")
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", "--include_imports"]
        done = _ended([*command, f"--descriptor_set_out={made}", MAIN])
        if done.returncode:
            lines = done.stderr.decode(errors="replace").replace(f"{folder}/", "").splitlines()
            said = " ".join(line for line in lines if not _LOGGED.match(line))
            raise InvalidPage(UNUSABLE, f"Protobuf: {said[:200]}")
        found = FileDescriptorSet.FromString(made.read_bytes())
    return {each.name: each for each in found.file}


def _ended(command: list[str]) -> subprocess.CompletedProcess[bytes]:
    """Run a command; what this machine does to it says nothing of a schema.

    Raises:
        StreamerError: it could not be run, was killed, or did not end in time.
    """
    try:
        # In a session of its own: a signal for us does not kill it.
        done = subprocess.run(  # noqa: S603 - our own interpreter
            command, capture_output=True, timeout=_COMPILE_SECONDS_MAX, check=False,
            start_new_session=True,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StreamerError(f"{_NOT_COMPILED}: {error}. {_AGAIN}") from error
    if done.returncode < 0:
        raise StreamerError(f"{_NOT_COMPILED}: killed by signal {-done.returncode}. {_AGAIN}")
    return done
