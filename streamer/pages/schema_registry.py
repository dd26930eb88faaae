"""Messages that name their schema: which schema that is, asked of a registry, and kept.

A message begins with what names its schema: the byte 0 and 4 bytes of a number, or the byte 1 and
16 bytes of a GUID. Where a header has these (`__value_schema_id`), they are put before the value,
as producers with older clients do it. What follows is Avro or JSON; the registry knows which.

The interface is that of Confluent's registry, which Karapace and Apicurio have too. A schema never
changes, so it is asked for once. That the registry does not know a schema is an answer, and the
message a dead letter. That it does not answer, or answers something else, is none: then it is asked
again and again, and the message waits. Only a registry that refuses one schema for a minute (HTTP
403 or 500, say), and meanwhile answers that it does not know another one, makes the message a dead
letter: this is no outage, and would stop the partition for ever.
"""

import base64
import http.client
import math
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from streamer.errors import InvalidPage, SettingsError, StreamerError, needs_extra
from streamer.given_file import trust
from streamer.pages.avro import UNUSABLE, Decode, avro_decoder

HEADER = "__value_schema_id"
SCHEMAS_KEPT_MAX = 1_000
REFERENCES_MAX = 100  # of one schema
UNKNOWN_SECONDS = 60.0  # for which a schema that the registry does not know is not asked for again
PATIENCE_SECONDS = 60.0
SCHEMA_SECONDS = 60.0  # for which a schema that a working registry refuses is waited for
ANSWER_SECONDS_MAX = 10.0
ANSWER_BYTES_MAX = 4 << 20
PAUSE_SECONDS = 0.1  # before the second try, and twice as long before each further one
PAUSE_SECONDS_MAX = 10.0
_NUMBER_BYTES, _GUID_BYTES = 5, 17
_NUMBER_MAX = (1 << 31) - 1
_NOT_FOUND_CODES = {40401, 40402, 40403}  # no such subject, version, schema
_PASSING = {401, 404, 408, 429}  # and 5xx but 500: what says nothing about the schema
_REFUSED = "schema_unavailable"
_FORM = "Give https://HOST:PORT, and what comes before the registry's own paths"


@dataclass(frozen=True)
class RegistryAddress:
    """Say where the registry is, and what we show it; an empty string counts as not given.

    Attributes:
        url: up to the registry's own paths, as https://registry.example.org/apis/ccompat/v7.
        cafile: certificates that it may show; without, the system's authorities are trusted.

    Raises:
        SettingsError: on construction, if it cannot be used, or not safely.
    """

    url: str
    cafile: Path | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if "@" in self.url:  # not shown: a password may stand before it
            raise SettingsError(
                f"--registry-url holds an @, but no user belongs there. {_FORM}, and the user by "
                "--registry-username."
            )
        try:
            parts = urlsplit(self.url)
            usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        except ValueError:
            usable = False
        if not usable or parts.query or parts.fragment:
            raise SettingsError(f"--registry-url {self.url!r} cannot be used. {_FORM}.")
        if bool(self.username) != bool(self.password):
            raise SettingsError(
                "--registry-username and the registry's password go together. Give both (the "
                "password best by --registry-password-file)."
            )
        if parts.scheme == "http" and (self.password or self.cafile):
            raise SettingsError(
                f"--registry-url {self.url} would send the password readable, and needs no "
                "certificates. Name an https:// URL, or leave --registry-username and "
                "--registry-cafile out."
            )


def add_frame(value: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> bytes | None:
    """Return a message's value with what names its schema before it, where a header has that."""
    for name, frame in headers if value and headers else ():
        if name == HEADER and frame and len(frame) == _frame_bytes(frame):
            return frame + (value or b"")
    return value


def is_framed(value: bytes | None) -> bool:
    """Return whether a value begins with what names its schema; JSON never does."""
    return value is not None and 0 < _frame_bytes(value) < len(value)


def _frame_bytes(value: bytes) -> int:
    """Return how many bytes name a schema, 0 where none do."""
    size = {b"\0": _NUMBER_BYTES, b"\1": _GUID_BYTES}.get(value[:1], 0)
    if len(value) < size or (size == _NUMBER_BYTES and value[1] > _NUMBER_MAX >> 24):
        return 0  # no schema has such a number
    return size


def _split(value: bytes) -> tuple[int | str, bytes]:
    """Return the number or the GUID of a framed value's schema, and what follows."""
    if not value[0]:
        return int.from_bytes(value[1:_NUMBER_BYTES]), value[_NUMBER_BYTES:]
    return str(uuid.UUID(bytes=value[1:_GUID_BYTES])), value[_GUID_BYTES:]


def decode_without_registry(value: bytes) -> bytes:
    """Return what follows the name of a schema where it is JSON, which needs no schema.

    Raises:
        InvalidPage: `no_registry`.
    """
    schema_id, payload = _split(value)
    if payload.lstrip()[:1] == b"{":
        return payload
    raise InvalidPage("no_registry", f"it names the schema {schema_id}, and no registry is set")


class _UnavailableError(Exception):
    """The registry does not answer, or something else than a registry would.

    Attributes:
        lasts: whether it may be due to what was asked for, and come again and again.
    """

    def __init__(self, what: str, *, lasts: bool = False) -> None:
        super().__init__(what)
        self.lasts = lasts


class SchemaRegistry:
    """Decodes messages by the schemas of a registry; safe to use from several threads.

    Attributes:
        patience_s: how long to wait for the registry; a worker waits for ever.
        complaint: what is wrong with the registry, in words; "" if nothing is.
    """

    def __init__(self, address: RegistryAddress, patience_s: float = PATIENCE_SECONDS) -> None:
        """Prepare a client; it connects when there is something to ask.

        Raises:
            SettingsError: the certificates cannot be used, or a library is not installed.
        """
        with needs_extra("registry", "Reading messages of a schema registry"):
            import fastavro  # noqa: F401, PLC0415 - an extra
        self.patience_s = patience_s
        self.complaint = ""
        self._client = _Client(address)
        self._lock = threading.Lock()  # held while something is asked
        self._failing_since = self._failed_at = -math.inf
        self._given_up: tuple[float, str] = -math.inf, ""  # when, and what was said
        self._decoders: dict[int | str, Decode] = {}
        self._refused: dict[int | str, tuple[str, str, float]] = {}  # code, detail, until when

    def check(self) -> None:
        """Ask the registry once whether it is one.

        Raises:
            StreamerError: it is not, does not answer, or refuses us; the message says what to do.
        """
        try:
            self._client.types()
        except _UnavailableError as error:
            raise StreamerError(
                f"The schema registry {self._client.url} cannot be used: {error}. Check "
                "--registry-url, --registry-cafile, --registry-username and the password."
            ) from error

    def decode(self, value: bytes) -> bytes:
        """Return a framed value as JSON.

        Raises:
            InvalidPage: `unknown_schema`, `unusable_schema`, `schema_unavailable`, or the bytes do
                not fit the schema.
            StreamerError: the registry has not answered for `patience_s`; all who wait share that.
        """
        schema_id, payload = _split(value)
        return (self._decoders.get(schema_id) or self._decoder(schema_id))(payload)

    def _decoder(self, schema_id: int | str) -> Decode:
        """Return the decoder of a schema that is asked for now, unless another thread has."""
        asked_at = time.monotonic()
        with self._lock:
            if found := self._decoders.get(schema_id):
                return found
            given_up_at, said = self._given_up
            if given_up_at >= asked_at:
                raise StreamerError(said)
            code, detail, until = self._refused.get(schema_id, ("", "", 0.0))
            if code and time.monotonic() < until:
                raise InvalidPage(code, detail)
            try:
                found = self._make_decoder(schema_id, 0.0 if code == _REFUSED else SCHEMA_SECONDS)
            except InvalidPage as error:
                _make_room(self._refused)
                # Not the error itself, whose traceback holds on to the whole chunk.
                until = time.monotonic() + UNKNOWN_SECONDS
                self._refused[schema_id] = error.code, error.detail, until
                raise
            _make_room(self._decoders)
            self._refused.pop(schema_id, None)
            self._decoders[schema_id] = found
            return found

    def _make_decoder(self, schema_id: int | str, schema_s: float) -> Decode:
        """Return a new decoder; `schema_s` is how long a refusal of this schema alone may last."""
        if isinstance(schema_id, int) and not 0 < schema_id <= _NUMBER_MAX:
            raise InvalidPage("unknown_schema", f"{schema_id} is no schema's number")
        kind = "ids" if isinstance(schema_id, int) else "guids"
        path = f"/schemas/{kind}/{schema_id}?format=serialized"
        schema = self._ask(path, schema_s)
        references = [*self._references(schema, set(), schema_s)]
        kind, text = schema.get("schemaType") or "AVRO", str(schema.get("schema", ""))
        if kind == "JSON":
            return lambda payload: payload
        if kind == "AVRO":
            return avro_decoder(text, references)
        raise InvalidPage(UNUSABLE, f"{schema_id}: it is of the type {str(kind)[:40]!r}")

    def _references(
        self, schema: Mapping[str, Any], seen: set[tuple[str, str]], schema_s: float
    ) -> Iterator[str]:
        """Yield the text of all schemas that a schema refers to, each after its own references."""
        for reference in schema.get("references") or ():
            subject, version = (str(reference.get(key, "")) for key in ("subject", "version"))
            if (subject, version) in seen:
                continue
            seen.add((subject, version))
            if len(seen) > REFERENCES_MAX:
                raise InvalidPage(UNUSABLE, f"it refers to more than {REFERENCES_MAX} schemas")
            path = f"/subjects/{quote(subject, safe='')}/versions/{quote(version, safe='')}"
            found = self._ask(path + "?format=serialized&deleted=true", schema_s)
            yield from self._references(found, seen, schema_s)
            yield str(found.get("schema", ""))

    def _ask(self, path: str, schema_s: float) -> Mapping[str, Any]:
        """Return the registry's answer, asked for as long as there is patience.

        Raises:
            InvalidPage: `unknown_schema`, or as `_note_failure`.
        """
        pause = PAUSE_SECONDS
        while True:
            try:
                answer = self._client.ask(path)
            except _UnavailableError as error:
                self._note_failure(error, schema_s)
                time.sleep(pause)
                pause = min(2 * pause, PAUSE_SECONDS_MAX)
            else:
                self._note_answer()
                if answer is None:
                    raise InvalidPage("unknown_schema", f"the registry does not know {path[:200]}")
                return answer

    def _note_answer(self) -> None:
        self.complaint, self._failed_at = "", -math.inf

    def _note_failure(self, error: _UnavailableError, schema_s: float) -> None:
        """Raise what ends the wait, if it has been long enough, whoever has waited.

        Raises:
            InvalidPage: `schema_unavailable`.
            StreamerError: the registry has not answered for `patience_s`.
        """
        now = time.monotonic()
        if now - self._failed_at > PATIENCE_SECONDS:
            self._failing_since = now
        self._failed_at = now
        waited = now - self._failing_since
        self.complaint = f"the schema registry cannot be used: {error}"
        if error.lasts and waited >= min(schema_s, self.patience_s) and self._client.looks_up():
            self._note_answer()
            raise InvalidPage(_REFUSED, f"of all schemas, the registry refuses this one: {error}")
        if waited >= self.patience_s:
            said = (
                f"The schema registry {self._client.url} cannot be used for {waited:.0f} seconds: "
                f"{error}. The same command goes on once it answers."
            )
            self._given_up = time.monotonic(), said
            raise StreamerError(said) from error


def _make_room(kept: dict[Any, Any]) -> None:
    """Forget the oldest where there are too many."""
    while len(kept) >= SCHEMAS_KEPT_MAX:
        del kept[next(iter(kept))]


class _Client:
    """Asks the registry, which is asked seldom: over a connection for each question."""

    def __init__(self, address: RegistryAddress) -> None:
        parts = urlsplit(address.url)
        self.url = address.url
        self._path = parts.path.rstrip("/")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        self._headers["Connection"] = "close"
        if address.username:
            login = base64.b64encode(f"{address.username}:{address.password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {login}"
        connect: Any = http.client.HTTPConnection
        if parts.scheme == "https":
            context = trust("--registry-cafile", address.cafile or None)
            connect = partial(http.client.HTTPSConnection, context=context)
        self._connect = partial(connect, parts.hostname, parts.port, timeout=ANSWER_SECONDS_MAX)

    def types(self) -> None:
        """Ask which types of schemas there are, which every registry knows.

        Raises:
            _UnavailableError: as `ask`; or this is no registry.
        """
        status, body = self._get("/schemas/types")
        if status != http.HTTPStatus.OK:
            raise _UnavailableError(_quote(status))
        _decode(body, list)

    def ask(self, path: str) -> Mapping[str, Any] | None:
        """Return an answer, None where the registry knows no such thing.

        Another server in its place would not know it, either, so a registry has to say so, or to
        show that it is one.

        Raises:
            _UnavailableError: the registry does not answer, or refuses us.
        """
        status, body = self._get(path)
        if status == http.HTTPStatus.OK:
            answer: Mapping[str, Any] = _decode(body, dict)
            references = answer.get("references") or []
            if not isinstance(references, list) or not all(isinstance(x, dict) for x in references):
                raise _UnavailableError("it names references in another way than a registry does")
            return answer
        if status == http.HTTPStatus.NOT_FOUND:
            known = False
            with suppress(_UnavailableError):
                known = _decode(body, dict).get("error_code") in _NOT_FOUND_CODES
            if not known:
                self.types()
            return None
        lasts = status not in _PASSING and (status == 500 or 400 <= status < 500)  # noqa: PLR2004
        raise _UnavailableError(_quote(status), lasts=lasts)

    def looks_up(self) -> bool:
        """Return whether the registry looks for a schema that no registry has, and says so."""
        try:
            self.ask(f"/schemas/ids/{_NUMBER_MAX}?format=serialized")
        except _UnavailableError:
            return False
        return True

    def _get(self, path: str) -> tuple[int, bytes]:
        """Return the status and the body of an answer; redirections are not followed."""
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        try:
            with closing(self._connect()) as connection:
                connection.request("GET", self._path + path, headers=self._headers)
                response = connection.getresponse()
                return response.status, _read(response, deadline)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _UnavailableError(" ".join(str(error).split()) or type(error).__name__) from error


def _read(response: http.client.HTTPResponse, deadline: float) -> bytes:
    body = bytearray()
    while part := response.read1(ANSWER_BYTES_MAX):
        body += part
        if len(body) > ANSWER_BYTES_MAX:
            raise _UnavailableError("its answer is too large", lasts=True)
        if time.monotonic() > deadline:
            raise OSError("its answer is too slow")
    return bytes(body)


def _quote(status: int) -> str:
    if status in {http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN}:
        return f"it refuses the login (HTTP {status})"
    return f"it answers with HTTP {status}"


def _decode(body: bytes, kind: type) -> Any:  # noqa: ANN401 - of that type
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _UnavailableError("what it answers is not a registry's") from error
