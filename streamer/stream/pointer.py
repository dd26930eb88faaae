"""JSON Pointers (RFC 6901): where in a message a field stands.

A pointer is parsed once, when the settings are read, and walked for every message. A value that is
not there is `MISSING`, which is something else than null. Walking never raises, whatever the
message holds: a step that does not fit the value leads nowhere.
"""

from __future__ import annotations

import re
from typing import Any, Final

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
