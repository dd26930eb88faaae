"""The field mapping: where a message has its fields, from `--fields` or from a preset.

A mapping names for each field one or several JSON Pointers; the first that leads to something other
than null counts. It says which statuses and types are pages. A mapping is made once and never
changes.

A preset is what `--fields` would hold for a known producer; a name that is not in its row of
`PRESETS` is not in the producer's messages. `warc` maps what the WARC reader makes of a record: the
record's own headers and, under `http`, those of the response, all names in lower case. Norconex and
others delete with a null value: that is so in every mapping and needs no row.

Where the value of a message is the body itself, pointers lead into its key and its headers.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from streamer.errors import SettingsError
from streamer.given_file import read_given
from streamer.pages.body import PROGRAM_TYPES, essence_of
from streamer.pages.message import parse_pointer
from streamer.pages.times import TimeFormat
from streamer.rules import ANY, fits
from streamer.wrong_values import why_wrong


def _pointers(value: Any) -> Any:  # noqa: ANN401 - as written by the user
    """Turn a pointer, or a list of them, into token tuples; leave other shapes to pydantic."""
    alternatives = [value] if isinstance(value, str) else value
    if isinstance(alternatives, list | tuple) and all(isinstance(one, str) for one in alternatives):
        return tuple(parse_pointer(one) for one in alternatives)
    return value


def _statuses(value: Any) -> Any:  # noqa: ANN401 - as _pointers
    """Allow 200, "2xx" and lists of these; refuse what no status can match."""
    alternatives = value if isinstance(value, list | tuple) else (value,)
    for one in map(str, alternatives):
        if not re.fullmatch(r"[0-9x]{1,3}", one):
            raise ValueError(f"{one!r} is no status: write 200 or 2xx")
    return tuple(map(str, alternatives))


MessageValue = Literal["page", "body"]
Pointers = Annotated[tuple[tuple[str, ...], ...], BeforeValidator(_pointers)]
Texts = Annotated[
    tuple[str, ...], BeforeValidator(lambda text: (text,) if isinstance(text, str) else text)
]
Statuses = Annotated[tuple[str, ...], BeforeValidator(_statuses)]


class FieldMapping(BaseModel):
    """Where a message has the fields of a page, and which messages are pages.

    Attributes:
        url, body, body_base64, content_type, charset, fetched_at, status, content_encoding: JSON
            Pointers, in the order in which they are tried; an empty list: the field is not there.
            Pages without a `url` are known by their places.
        base64: whether `body` is base64: `no`, `yes`, or `try` where a producer does not say.
        body_is: what `body` holds; `auto` decides by the type and by how it begins.
        time: the format of `fetched_at`; `auto` decides by its shape.
        pages_status: the statuses of pages, as `200` or `2xx`; a message without a status passes.
        pages_type: the types of pages, as `text/html` or `text/*`; one without a type passes.
        value: what the value of a message is, a `page` in JSON or the `body`; set by `--value`.
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
    value: MessageValue = "page"

    @model_validator(mode="after")
    def _names_what_a_page_needs(self) -> FieldMapping:
        if self.value == "body":
            for name in POINTER_FIELDS:
                _check_raw(name, getattr(self, name))
        elif not (self.body or self.body_base64):
            raise ValueError("body: a page needs one; name the pointer of body or of body_base64")
        return self

    @property
    def id(self) -> str:
        """Return a digest that distinguishes mappings."""
        return hashlib.blake2b(self.model_dump_json().encode(), digest_size=8).hexdigest()

    def accepts_status(self, status: str) -> bool:
        """Return whether pages may have this status."""
        found = _STATUS.fullmatch(status)
        number = found[1] if found else status
        return any(re.fullmatch(each.replace("x", "."), number) for each in self.pages_status)

    def accepts_type(self, content_type: str) -> bool:
        """Return whether pages may have this type; one that is not valid counts as none."""
        name = essence_of(content_type)
        fitting = (fits(each.lower().split(ANY), name) for each in self.pages_type)
        return not name or (name not in PROGRAM_TYPES and any(fitting))


DEFAULT_MAPPING = FieldMapping()
_KINDS = FieldMapping.__annotations__
POINTER_FIELDS = tuple(name for name, kind in _KINDS.items() if kind == "Pointers")


def _check_raw(name: str, pointers: Iterable[tuple[str, ...]]) -> None:
    """Raise ValueError unless a message whose value is the body may have a field there."""
    for tokens in pointers:
        if name.startswith("body"):
            raise ValueError(f"{name}: with --value body the value is the body; leave it out")
        if tokens != ("key",) and (tokens[0] != "headers" or len(tokens) != 2):  # noqa: PLR2004
            raise ValueError(f"{name}: with --value body, write /key or /headers/NAME")


def parse_fields(text: str, value: MessageValue = "page") -> FieldMapping:
    """Return the mapping that `--fields` gives: a JSON object, or the path of a file with one.

    `value` is as in the mapping.

    A field that is not named keeps no default: `{"body": "/b"}` has no content type and no URL.

    Raises:
        SettingsError: the file cannot be read, or is no mapping; the message names the field.
    """
    try:
        is_json = text.lstrip().startswith("{")
        source = text if is_json else read_given(Path(text)).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        message = f"--fields: {text!r} is no preset, no JSON object and no readable file ({error})"
        raise SettingsError(message) from error
    try:
        given = json.loads(source)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"--fields: not JSON ({error}); give an object of pointers") from error
    if not isinstance(given, dict):
        said = '--fields: not a JSON object; write it as {"url": "/url", "body": "/body"}'
        raise SettingsError(said)
    if "value" in given:
        raise SettingsError("--fields: value: no such field; give --value")
    try:
        return FieldMapping.model_validate(_NOWHERE | given | {"value": value})
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where, why = ".".join(map(str, fault["loc"])), why_wrong(fault)
        if fault["type"] == "extra_forbidden":
            why = f"no such field; the fields are {', '.join(FieldMapping.model_fields)}"
        raise SettingsError(f"--fields: {where}: {why}" if where else f"--fields: {why}") from error


# As "200.0", "200 OK" and "HTTP/1.1 200 OK" say it.
_STATUS = re.compile(r"\s*(?:HTTP/[\d.]+\s+)?(\d{3})(?:\.0+)?(?:\s.*)?", re.DOTALL)


# Fields have defaults, which are not meant where a mapping leaves them out.
_NOWHERE: dict[str, object] = dict.fromkeys(POINTER_FIELDS, ())

_ROWS: dict[str, dict[str, object]] = {
    "scrapy-cluster": {
        "url": ("/response_url", "/url"),
        "body": "/body",
        "base64": "try",  # sent as base64 by a setting of the producer, and not marked
        "charset": "/encoding",
        "content_type": ("/response_headers/Content-Type", "/response_headers/content-type"),
        "fetched_at": "/timestamp",
        "status": "/status_code",
    },
    "nutch": {
        "url": ("/url", "/id"),
        "body": "/content",
        "body_is": "text",  # extracted by the producer, though the type says HTML
        "body_base64": "/binaryContent",
        "content_type": "/type",
        "fetched_at": "/tstamp",
    },
    "norconex": {  # its Kafka committer, then its JSON file committer
        "url": ("/id", "/reference", "/upsert/reference"),
        "body": ("/content", "/upsert/content"),
        "content_type": (
            "/document.contentType",
            "/metadata/document.contentType",
            "/upsert/metadata/document.contentType",
        ),
    },
    "browsertrix": {  # pages.jsonl with the text of pages
        "url": "/url",
        "body": "/text",
        "body_is": "text",  # extracted by the producer, though the type says HTML
        "content_type": "/mime",
        "fetched_at": "/ts",
        "status": "/status",
    },
    "frontera": {"url": "/r/url", "body": (), "body_base64": "/r/body", "status": "/r/status_code"},
    "warc": {
        "url": "/warc-target-uri",
        "body": "/body",
        "content_type": ("/warc-identified-payload-type", "/http/content-type", "/content-type"),
        "charset": "/charset",
        "fetched_at": "/warc-date",
        "status": "/status",
    },
}

RAW_MAPPING = FieldMapping.model_validate(
    _NOWHERE
    | {
        "value": "body",
        "url": ("/headers/url", "/key"),
        "content_type": ("/headers/content-type", "/headers/Content-Type"),
        "content_encoding": ("/headers/content-encoding", "/headers/Content-Encoding"),
        "charset": "/headers/charset",
        "fetched_at": "/headers/fetched_at",
        "status": "/headers/status",
    }
)

PRESETS: dict[str, FieldMapping] = {
    "page": DEFAULT_MAPPING,
    **{name: FieldMapping.model_validate(_NOWHERE | row) for name, row in _ROWS.items()},
}
