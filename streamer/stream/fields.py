"""Where a message's fields stand: the field mapping, from `--fields` or from a preset.

A mapping names for each field one or several JSON Pointers; the first that leads to something other
than null counts. It says which statuses and types are pages. It knows nothing about any one
crawler: presets.py is the table of those. A mapping is made once and never changes.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from streamer.errors import SettingsError
from streamer.stream.pointer import parse_pointer
from streamer.stream.times import TimeFormat

_STATUS_PATTERN = re.compile(r"[0-9x]{1,3}")
_FIELDS_BYTES_MAX = 1 << 20


def _pointers(value: Any) -> Any:  # noqa: ANN401 - as written by the user
    """Turn a pointer, or a list of them, into token tuples; leave other shapes to pydantic."""
    alternatives = [value] if isinstance(value, str) else value
    if isinstance(alternatives, list | tuple) and all(isinstance(one, str) for one in alternatives):
        return tuple(parse_pointer(one) for one in alternatives)
    return value


def _texts(value: Any) -> Any:  # noqa: ANN401 - as _pointers
    return (value,) if isinstance(value, str) else value


def _statuses(value: Any) -> Any:  # noqa: ANN401 - as _pointers
    """Allow 200, "2xx" and lists of these; refuse what no status can match."""
    alternatives = value if isinstance(value, list | tuple) else (value,)
    for one in map(str, alternatives):
        if not _STATUS_PATTERN.fullmatch(one):
            raise ValueError(f"{one!r} is no status: write 200 or 2xx")
    return tuple(map(str, alternatives))


POINTER_FIELDS = (
    "url",
    "body",
    "body_base64",
    "content_type",
    "charset",
    "fetched_at",
    "status",
    "content_encoding",
)
Pointers = Annotated[tuple[tuple[str, ...], ...], BeforeValidator(_pointers)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
Statuses = Annotated[tuple[str, ...], BeforeValidator(_statuses)]


class FieldMapping(BaseModel):
    """Where the fields of a page stand in a message, and which messages are pages.

    Attributes:
        url, body, body_base64, content_type, charset, fetched_at, status, content_encoding: JSON
            Pointers, in the order in which they are tried; an empty list: the field is not there.
        base64: whether `body` is base64: `no`, `yes`, or `try` where a producer does not say.
        body_is: what `body` holds; `auto` tells by the type and by how it begins.
        time: the format of `fetched_at`; `auto` tells by its shape.
        pages_status: the statuses of pages, as `200` or `2xx`; a message without a status passes.
        pages_type: the types of pages, as `text/html` or `text/*`; one without a type passes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: Pointers = (("url",),)
    body: Pointers = (("body",),)
    body_base64: Pointers = (("body_base64",),)
    content_type: Pointers = (("content_type",),)
    charset: Pointers = (("charset",),)
    fetched_at: Pointers = (("fetched_at",),)
    status: Pointers = ()
    content_encoding: Pointers = ()
    base64: Literal["no", "yes", "try"] = "no"
    body_is: Literal["auto", "text", "html"] = "auto"
    time: TimeFormat = "auto"
    pages_status: Statuses = ("2xx",)
    pages_type: Texts = ("text/*", "application/xhtml+xml", "application/xml", "application/*+xml")

    @model_validator(mode="after")
    def _names_what_a_page_needs(self) -> FieldMapping:
        if not self.url:
            raise ValueError("url: a page needs one; name its pointer, as in /url")
        if not (self.body or self.body_base64):
            raise ValueError("body: a page needs one; name the pointer of body or of body_base64")
        return self

    @property
    def id(self) -> str:
        """Return a digest that tells mappings apart."""
        return hashlib.blake2b(self.model_dump_json().encode(), digest_size=8).hexdigest()

    def accepts_status(self, status: str) -> bool:
        """Tell whether pages may have this status."""
        return any(_matches_status(status, pattern) for pattern in self.pages_status)

    def accepts_type(self, content_type: str) -> bool:
        """Tell whether pages may have this type; parameters and case do not matter, none passes."""
        name = content_type.partition(";")[0].strip().lower()
        return not name or any(_matches_type(name, pattern) for pattern in self.pages_type)


DEFAULT_MAPPING = FieldMapping()


def parse_fields(text: str) -> FieldMapping:
    """Return the mapping that `--fields` gives: a JSON object, or the path of a file with one.

    A field that is not named keeps no default: `{"url": "/u", "body": "/b"}` has no content type.

    Raises:
        SettingsError: the file cannot be read, or is no mapping; the message names the field.
    """
    source = text if text.lstrip().startswith("{") else _file_text(text)
    try:
        given = json.loads(source)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"--fields: not JSON ({error}); give an object of pointers") from error
    if not isinstance(given, dict):
        raise SettingsError(
            '--fields: not a JSON object; write it as {"url": "/url", "body": "/body"}'
        )
    optional = ("body", "body_base64", "content_type", "charset", "fetched_at")
    try:
        return FieldMapping.model_validate({"url": (), **dict.fromkeys(optional, ()), **given})
    except ValidationError as error:
        raise SettingsError(f"--fields: {_first_fault(error)}") from error


def _file_text(name: str) -> str:
    try:
        with Path(name).open(encoding="utf-8-sig") as file:
            return file.read(_FIELDS_BYTES_MAX)
    except (OSError, ValueError) as error:
        message = f"--fields: {name!r} is no preset, no JSON object and no readable file ({error})"
        raise SettingsError(message) from error


def _first_fault(error: ValidationError) -> str:
    """Return pydantic's first complaint as one sentence that names the field."""
    fault = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"{where}: no such field; the fields are {', '.join(FieldMapping.model_fields)}"
    message = fault["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message


def _matches_status(status: str, pattern: str) -> bool:
    return len(status) == len(pattern) and all(
        wanted in ("x", digit) for digit, wanted in zip(status, pattern, strict=True)
    )


def _matches_type(name: str, pattern: str) -> bool:
    before, star, after = pattern.lower().partition("*")
    if not star:
        return name == before
    return (
        len(name) >= len(before) + len(after) and name.startswith(before) and name.endswith(after)
    )
