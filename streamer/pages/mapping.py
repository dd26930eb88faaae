"""Where a message's fields stand: the field mapping, from `--fields` or from a preset.

A mapping names for each field one or several JSON Pointers; the first that leads to something other
than null counts. It says which statuses and types are pages. It knows nothing about any one
crawler: the table of those is `PRESETS`. A mapping is made once and never changes.

JSON Pointers (RFC 6901): where in a message a field is.

A pointer is parsed once, when the settings are read, and walked for every message. A value that is
not there is `MISSING`, which is something else than null. Walking never raises, whatever the
message holds: a step that does not fit the value leads nowhere.

Times as crawlers write them, in one form.

A value that cannot be read is no reason to refuse a page: it is as if there were none. A time is
carried as ISO 8601 in UTC with a `Z`, with milliseconds where the value has them; pages expire by
milliseconds since 1970. A time without a zone counts as UTC.

The presets: how known producers write their pages, as one table of field mappings.

A row is what `--fields` would hold for the producer; a name that is not in a row is not in its
messages. `warc` maps what the WARC reader makes of a record: the record's own headers and, under
`http`, those of the response, all names in lower case. Norconex and others delete with a null
value: that is so in every mapping and needs no row.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from streamer.errors import SettingsError
from streamer.given_file import read_given
from streamer.pages.body import PROGRAM_TYPES, essence_of
from streamer.rules import ANY, fits
from streamer.wrong_values import why_wrong

MISSING: Final = object()
_BAD_ESCAPE = re.compile(r"~(?![01])")
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


def parse_pointer(text: str) -> tuple[str, ...]:
    """Return a pointer's tokens, unescaped.

    Raises:
        ValueError: the text is no JSON Pointer, or is the empty one, which names the whole message.
    """
    if not text.startswith("/"):
        raise ValueError(f"{text!r} is no JSON Pointer: it begins with /, as in /url")
    if _BAD_ESCAPE.search(text):
        raise ValueError(f"{text!r} is no JSON Pointer: ~ is written ~0, and / in a name ~1")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/"))


def resolve(document: Any, tokens: tuple[str, ...]) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value that `tokens` lead to, or `MISSING`."""
    value = document
    for token in tokens:
        if isinstance(value, dict):
            value = value.get(token, MISSING)
        elif isinstance(value, list) and _INDEX.fullmatch(token) and int(token) < len(value):
            value = value[int(token)]
        else:
            return MISSING
    return value


TimeFormat = Literal["auto", "iso", "epoch_s", "epoch_ms", "digits", "java"]

_EPOCH_MS_MIN = 100_000_000_000  # as seconds the year 5138, as milliseconds 1973
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"\d{1,13}(\.\d{1,9})?")
_DIGITS = re.compile(r"\d{14,17}")
_JAVA = re.compile(r"(\w{3}) (\w{3}) (\d{1,2}) (\d\d:\d\d:\d\d) ([A-Z]{2,5}|[+-]\d{4}) (\d{4})")
_LENGTH_MAX = 64


def normalise_time(value: object, format_name: TimeFormat = "auto") -> str | None:
    """Return `value` (a string or a number) as ISO 8601 in UTC; None where it cannot be read.

    `auto` recognises the formats by their shape: 14 to 17 digits are a date written without
    separators, fewer are seconds, or milliseconds from 100,000,000,000 on.
    """
    moment = _moment(value, format_name)
    if moment is None:
        return None
    precision = "milliseconds" if moment.microsecond else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def epoch_ms(value: object, format_name: TimeFormat = "auto") -> int:
    """Return `value` as milliseconds since 1970; 0 where it cannot be read, or is before that."""
    moment = _moment(value, format_name)
    return 0 if moment is None else max(0, (moment - _EPOCH) // timedelta(milliseconds=1))


def number_or_time(value: object) -> float:
    """Return a number, also of a string, or a time in seconds; minus infinity for all else."""
    try:
        number = float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isnan(number):
        return number
    moment = _moment(value, "auto")
    return -math.inf if moment is None else moment.timestamp()


def _moment(value: object, format_name: TimeFormat) -> datetime | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = str(value).strip()
    if len(text) > _LENGTH_MAX:
        return None
    try:
        moment = _read(text, format_name)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError, TypeError):
        return None


def _read(text: str, format_name: TimeFormat) -> datetime:
    if format_name == "auto":
        format_name = _shape(text)
    if format_name == "digits":
        seconds = datetime.strptime(text[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        return seconds + timedelta(milliseconds=int(text[14:17].ljust(3, "0")))
    if format_name == "epoch_s":
        return _EPOCH + timedelta(seconds=float(text))
    if format_name == "epoch_ms":
        return _EPOCH + timedelta(milliseconds=float(text))
    if format_name == "java":
        return parsedate_to_datetime(_JAVA.sub(r"\1, \3 \2 \6 \4 \5", text))
    return datetime.fromisoformat(text)


def _shape(text: str) -> TimeFormat:
    """Tell a time's format by how it looks."""
    if _DIGITS.fullmatch(text):
        return "digits"
    if _NUMBER.fullmatch(text):
        return "epoch_ms" if float(text) >= _EPOCH_MS_MIN else "epoch_s"
    return "java" if text[:1].isalpha() else "iso"


_STATUS_PATTERN = re.compile(r"[0-9x]{1,3}")


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
Texts = Annotated[
    tuple[str, ...], BeforeValidator(lambda text: (text,) if isinstance(text, str) else text)
]
Statuses = Annotated[tuple[str, ...], BeforeValidator(_statuses)]


class FieldMapping(BaseModel):
    """Where the fields of a page stand in a message, and which messages are pages.

    Attributes:
        url, body, body_base64, content_type, charset, fetched_at, status, content_encoding: JSON
            Pointers, in the order in which they are tried; an empty list: the field is not there.
            Pages without a `url` are known by their places.
        base64: whether `body` is base64: `no`, `yes`, or `try` where a producer does not say.
        body_is: what `body` holds; `auto` decides by the type and by how it begins.
        time: the format of `fetched_at`; `auto` decides by its shape.
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
        if not (self.body or self.body_base64):
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
        return any(_matches_status(number, pattern) for pattern in self.pages_status)

    def accepts_type(self, content_type: str) -> bool:
        """Return whether pages may have this type; one that is not valid counts as none."""
        name = essence_of(content_type)
        fitting = (fits(each.lower().split(ANY), name) for each in self.pages_type)
        return not name or (name not in PROGRAM_TYPES and any(fitting))


DEFAULT_MAPPING = FieldMapping()


def parse_fields(text: str) -> FieldMapping:
    """Return the mapping that `--fields` gives: a JSON object, or the path of a file with one.

    A field that is not named keeps no default: `{"body": "/b"}` has no content type and no URL.

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
    try:
        return FieldMapping.model_validate(_NOWHERE | given)
    except ValidationError as error:
        raise SettingsError(f"--fields: {_first_fault(error)}") from error


def _file_text(name: str) -> str:
    try:
        return read_given(Path(name)).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        message = f"--fields: {name!r} is no preset, no JSON object and no readable file ({error})"
        raise SettingsError(message) from error


def _first_fault(error: ValidationError) -> str:
    """Return the first fault as one sentence that names the field."""
    fault = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"{where}: no such field; the fields are {', '.join(FieldMapping.model_fields)}"
    return f"{where}: {why_wrong(fault)}" if where else why_wrong(fault)


# As "200.0", "200 OK" and "HTTP/1.1 200 OK" say it.
_STATUS = re.compile(r"\s*(?:HTTP/[\d.]+\s+)?(\d{3})(?:\.0+)?(?:\s.*)?", re.DOTALL)


def _matches_status(status: str, pattern: str) -> bool:
    return len(status) == len(pattern) and all(
        wanted in ("x", digit) for digit, wanted in zip(status, pattern, strict=True)
    )


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

PRESETS: dict[str, FieldMapping] = {
    "page": DEFAULT_MAPPING,
    **{name: FieldMapping.model_validate(_NOWHERE | row) for name, row in _ROWS.items()},
}
