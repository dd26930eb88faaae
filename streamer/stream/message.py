"""A JSON message as a dictionary whose values are not yet decoded.

Only the fields that a mapping asks for are decoded; what else a message holds may be as large or as
odd as it likes. A message that is not UTF-8 throughout, or that holds half of an escaped surrogate
pair, is repaired with U+FFFD and read again: crawlers cut strings anywhere. What is no JSON object
even then has a code.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from streamer.errors import InvalidPage
from streamer.stream.pointer import MISSING, resolve

Fields = dict[str, Any]  # a value is a msgspec.Raw until it is asked for

_DECODE = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_DECODE_VALUE = msgspec.json.Decoder(float_hook=float).decode  # 1e999 is infinite, no error
_PRODUCER_FAILED = b"json failed to parse"
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
        value.decode()  # an undecoded field may be odd only where nobody will look
        return _DECODE(value)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        return _DECODE(_repaired(value))
    except msgspec.ValidationError as error:
        raise InvalidPage("not_an_object", str(error)) from error
    except (msgspec.DecodeError, ValueError) as error:
        marked = value.strip().strip(b'"') == _PRODUCER_FAILED
        detail = "the producer's own encoding failed" if marked else str(error)
        raise InvalidPage("invalid_json", detail) from error
    except RecursionError as error:
        raise InvalidPage("invalid_json", "nested too deeply") from error


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


def _repaired(value: bytes) -> bytes:
    """Return `value` as valid UTF-8, without a byte order mark and without lone surrogates."""
    text = value.removeprefix(b"\xef\xbb\xbf").decode(errors="replace")
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], text.encode())
