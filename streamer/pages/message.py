"""A JSON message: a dictionary whose values are not yet decoded, and pointers into it.

Or its value is the body of a page, and the fields are its key and its headers.

Only the fields that a mapping asks for are decoded; what else a message holds may be of any size or
form. A message that is not UTF-8 throughout, or that holds half of an escaped surrogate pair, is
repaired with U+FFFD and read again: crawlers cut strings anywhere. What is no JSON object even then
has a code.

A JSON Pointer (RFC 6901) names the place of a field in a message. It is parsed once, when the
settings are read, and walked for every message. A value that is not there is `MISSING`, which is
something else than null. Walking never raises, whatever the message holds: a step that does not fit
the value leads nowhere.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from streamer.errors import InvalidPage

Fields = dict[str, Any]  # a value is a msgspec.Raw until it is asked for

_DECODE = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_DECODE_VALUE = msgspec.json.Decoder(float_hook=float).decode  # 1e999 is infinite, no error
_LOOKED_AT = 1 << 10  # bytes of a record that is no JSON
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def read_message(value: bytes) -> Fields:
    """Return the fields of a JSON object; of duplicate names the last one counts.

    Raises:
        InvalidPage: `invalid_json` or `not_an_object`.
    """
    try:
        value.decode()  # an undecoded field may be malformed only if it is not used
        return _DECODE(value)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        return _DECODE(_repair(value))
    except msgspec.ValidationError as error:
        if _BEGINS_LATER.match(value):
            raise InvalidPage("invalid_json", _why_no_json(value, "")) from error
        why = BACKSLASHES if _ESCAPED_ROW.match(value) else error
        raise InvalidPage("not_an_object", str(why)) from error
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidPage("invalid_json", _why_no_json(value, str(error))) from error
    except RecursionError as error:
        raise InvalidPage("invalid_json", "nested too deeply") from error


def raw_fields(key: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> Fields:
    """Return the fields of a message whose value is the body: its key and its headers.

    Of headers with one name the last counts, as in Kafka; what is not UTF-8 is null.
    """
    return {"key": _text(key), "headers": {name: _text(value) for name, value in headers}}


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


ESCAPED_QUOTE = r"\""
BACKSLASHES = 'quotes are escaped by backslashes; write them doubled (""), or write JSON lines'
_ESCAPED_ROW = re.compile(rb'"(?![{\[]).*\\\\\\"', re.DOTALL)  # as rows.py has it
_BEGINS_LATER = re.compile(rb'[^{\["]{1,200}\{\s*"')
_NO_JSON = [
    (re.compile(rb'"?json failed to parse'), "the producer's own encoding failed"),
    (re.compile(rb"[<&]"), "it looks like HTML or XML; name such files .html"),
    (re.compile(rb"\x1f\x8b|\x28\xb5\x2f\xfd"), "it is compressed; decompress it"),
    (re.compile(rb"[{\[]\s*'"), "its texts are in single quotes; write them with a JSON library"),
    (
        re.compile(rb"(?:/\*\*/)?\s*[\w$.]+\([{\[]"),
        "it is JSONP; write what its parentheses enclose",
    ),
    (re.compile(rb"#|/[/*]"), "it is a comment"),
    (_BEGINS_LATER, "something precedes its object; put it on a line of its own"),
]
_OF_MONGODB = rb"(?:ObjectId|ISODate|Number\w+|BinData|Timestamp|UUID|DBRef|ew Date)\("
_NO_VALUE = [  # where the error is
    (re.compile(rb"-?(?:NaN|Infinity)"), "NaN and Infinity are no JSON; write null"),
    (re.compile(rb"(?:None|True|False)\b"), "its values are Python's; use a JSON library"),
    (re.compile(_OF_MONGODB), "it is of the MongoDB shell; write it with mongoexport"),
]


def _why_no_json(value: bytes, error: str) -> str:
    """Return why a record is no JSON, as what it is where that is known, and the remedy."""
    text = value[:_LOOKED_AT].removeprefix(b"\xef\xbb\xbf").lstrip()
    for form, why in _NO_JSON:
        if form.match(text):
            return why
    if text.startswith(b"{") and "trailing characters" in error:
        return "something follows its object; put each object on a line of its own"
    at = re.search(r"\(byte ([0-9]+)\)", error)
    place = value[max(int(at[1]) - 1, 0) : int(at[1]) + 20] if at else b""
    return next((why for form, why in _NO_VALUE if form.search(place)), error)


def field_at(fields: Fields, tokens: tuple[str, ...]) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value that a pointer leads to, decoded, or `MISSING`.

    Raises:
        InvalidPage: `wrong_type`, where a number is too large to be one.
    """
    top = fields.get(tokens[0], MISSING)
    if isinstance(top, msgspec.Raw):
        try:
            top = _DECODE_VALUE(top)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InvalidPage("wrong_type", f"{tokens[0][:40]!r}: {error}") from error
        fields[tokens[0]] = top
    return resolve(top, tokens[1:])


def _repair(value: bytes) -> bytes:
    """Return `value` as valid UTF-8, without a byte order mark and without lone surrogates."""
    text = value.removeprefix(b"\xef\xbb\xbf").decode(errors="replace")
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], text.encode())


MISSING: Final = object()
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


def parse_pointer(text: str) -> tuple[str, ...]:
    """Return a pointer's tokens, unescaped.

    Raises:
        ValueError: the text is no JSON Pointer, or is the empty one, which names the whole message.
    """
    if not text.startswith("/"):
        raise ValueError(f"{text!r} is no JSON Pointer: it begins with /, as in /url")
    if re.search(r"~(?![01])", text):
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
