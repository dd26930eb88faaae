"""JSON's escapes undone with one regular expression: what `unescape_json` must give."""

import re

PLAIN = dict(zip(b'"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True))
PAIR = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
ESCAPE = re.compile(PAIR + rb'|\\u[0-9a-fA-F]{4}|\\["\\/bfnrt]')


def unescape_json(source: bytes) -> bytes:
    def meaning(match: re.Match[bytes]) -> bytes:
        escape = match.group()
        if escape[1] in PLAIN:
            return PLAIN[escape[1]].encode()
        units = bytes.fromhex(escape.replace(rb"\u", b"").decode())
        return units.decode("utf-16-be", "replace").encode()

    return ESCAPE.sub(meaning, source)
