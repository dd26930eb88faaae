"""JSON that is not one object a line: in an array, over several lines, or several on a line.

It becomes JSON lines on the way, in bounded memory, and is read like these from there on: a newline
follows each value of the outermost array or of the file, and none is within a value. Between values
may stand commas, semicolons, bars and the record separator of RFC 7464. A comment before the first
value is a record. A file's first bytes decide. In other files, objects that follow each other on a
line are separated wherever they are, except where a comma is between them: that may be an array
within an object.
"""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np

from streamer.pages.made_bytes import MadeBytes
from streamer.text.json_fields import may_have_two_objects

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_COMMENT = re.compile(rb"(?://|#)[^\n]*+|/\*(?s:.*?)\*/")
_COMMENTS = re.compile(rb"(?:\s*+(?:%b))*+" % _COMMENT.pattern)
_NO_OBJECT = rb'(?:"(?:[^"\\]|\\.)*+"|\[[^]["{}]*+\]|[\w.+-]++)'
_SPREAD = re.compile(
    rb"(?:\xef\xbb\xbf)?%b\s*+(?:\[(?:\s*+%b\s*+,)*+\s*+\{|\[\s*+\]\s*+(?:\[\s*+\{|\Z)"
    rb'|\{[ \t\r]*+\n\s*+")' % (_COMMENTS.pattern, _NO_OBJECT)
)
_MARKS = re.compile(rb'["{}\[\],\n]')
_SIGNS_MAX = 1 << 16  # of the first object
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_BETWEEN = (b",", b";", b"|", b"\x1e")
_SEPARATORS = b" \t\r\n\f\v\x1e;|"
# Bounded, so that a few bytes decide whatever parts a file is read in. A quote after the bracket
# ends a string if that is what follows the end of one.
_GAP, _SPACES = rb"[ \t\r\f\v\x1e;|]{0,64}+", rb"[ \t\r]{0,64}+"
_NEXT_OBJECT = re.compile(rb'\}%b(?=\{%b"%b[^ \t\r\n,}\]:])' % (_GAP, _SPACES, _SPACES))
_UNDECIDED = re.compile(rb'\}%b(?:\{%b(?:"%b)?)?\Z' % (_GAP, _SPACES, _SPACES))
_TAIL_BYTES = 200
_IN_GAP = np.zeros(256, np.bool_)
_IN_GAP[list(_SEPARATORS.replace(b"\n", b""))] = True


def is_spread(head: bytes) -> bool | None:
    """Return by its first bytes whether a file has JSON objects, and not one a line.

    It is None where the first object does not end in `head`.
    """
    return _SPREAD.match(head) is not None or _has_more_on_line(head)


def _has_more_on_line(head: bytes) -> bool | None:
    """Return whether after an object there is another on its line, or a separator anywhere."""
    text = head.removeprefix(BYTE_ORDER_MARK).lstrip()
    if text.startswith(b"\x1e"):
        return text.lstrip(_SEPARATORS).startswith(b"{")
    at = depth = int(text.startswith(b"{"))
    signs = 0
    while depth:
        signs += 1
        if signs > _SIGNS_MAX:
            return False  # what follows on its line is seen as on any other
        found = _MARKS.search(text, at)
        if found is None:
            return None
        sign, at = found[0], found.end()
        if sign == b'"':
            inside = _IN_STRING.match(text, at)
            at = inside.end() + 1 if inside else len(text)
        depth += (sign in b"{[") - (sign in b"}]")
        if sign == b"\n":
            return False
    on_line = text[at:].partition(b"\n")[0].lstrip()
    return at > 0 and (on_line[:1] == b"{" or text[at:].lstrip().startswith(_BETWEEN))


def may_follow(data: bytes | memoryview) -> bool:
    """Return whether an object may follow another on a line; else none does."""
    return may_have_two_objects(np.frombuffer(data, np.uint8), _IN_GAP)


class ObjectLines(MadeBytes):
    """JSON lines, with a newline between objects that follow each other on one."""

    def __init__(self, source: io.BufferedReader[Any]) -> None:
        self._source = source
        self._carry = b""  # read, and what follows decides

    def readinto(self, buffer: bytearray | memoryview, /) -> int | None:  # type: ignore[override]
        """Fill `buffer` as `MadeBytes` does; what are lines already is read straight to it."""
        while not self._ready:
            count = self._source.readinto1(buffer)
            if count is None:
                return None
            data = memoryview(buffer)[:count].toreadonly()
            if not self._carry and self._is_made(data):
                return count
            self._ready, self._carry = self._made(self._carry + bytes(data), at_end=not count)
        return super().readinto(buffer)

    def _is_made(self, data: memoryview) -> bool:
        """Return whether bytes are lines as they stand; none are, at the end."""
        return not (may_follow(data) or _UNDECIDED.search(data[-_TAIL_BYTES:]))

    def _made(self, data: bytes, *, at_end: bool) -> tuple[bytes, bytes]:
        """Return the lines that bytes become, and what is left for those that follow."""
        lines = _NEXT_OBJECT.sub(b"}\n", data)
        found = None if at_end else _UNDECIDED.search(lines, max(0, len(lines) - _TAIL_BYTES))
        end = found.start() if found else len(lines)
        return lines[:end], lines[end:]


class JsonLines(ObjectLines):
    """The values of spread JSON, a line each."""

    def __init__(self, source: io.BufferedReader[Any]) -> None:
        super().__init__(source)
        self._depth = 0  # within a value
        self._in_array = self._in_string = False
        self._begun = False  # a value that has no end yet
        self._parts: list[bytes] = []
        if source.peek(len(BYTE_ORDER_MARK)).startswith(BYTE_ORDER_MARK):
            source.read(len(BYTE_ORDER_MARK))
        found = _COMMENTS.match(source.peek())
        comments = _COMMENT.findall(source.read(found.end() if found else 0))
        self._ready = b"".join(each.replace(b"\n", b" ") + b"\n" for each in comments)

    def _is_made(self, data: memoryview) -> bool:
        return not data

    def _made(self, data: bytes, *, at_end: bool) -> tuple[bytes, bytes]:
        if at_end:
            return data, b""
        self._parts = []
        left = self._convert(data)
        return b"".join(self._parts), left

    def _convert(self, data: bytes) -> bytes:
        """Make lines of the next bytes; return those that what follows decides."""
        at = 0
        while at < len(data):
            if self._in_string:
                at = self._take_string(data, at)
                if self._in_string:
                    break
                continue
            found = _MARKS.search(data, at)
            end = found.start() if found else len(data)
            between = data[at:end] if self._depth else data[at:end].strip(_SEPARATORS)
            if between:
                self._put(between)
            if found:
                self._take_sign(found[0])
            at = end + 1
        return data[at:]

    def _take_string(self, data: bytes, at: int) -> int:
        """Take what is in a string; a newline, which JSON forbids there, is no end of a line."""
        found = _IN_STRING.match(data, at)
        assert found is not None, "it matches nothing, too"
        end = found.end()
        self._put(data[at:end].replace(b"\n", b"\r"))
        if data[end : end + 1] == b'"':
            self._in_string = False
            self._put(b'"')
            return end + 1
        return end  # after it is a backslash, or nothing

    def _take_sign(self, sign: bytes) -> None:
        if sign == b"\n":
            if self._depth:
                self._put(b" ")
            elif not self._in_array:
                self._end_value()
        elif sign == b"[" and not (self._depth or self._in_array or self._begun):
            self._in_array = True
        elif sign == b"," and not self._depth:
            self._end_value()
        elif sign == b"]" and not self._depth and self._in_array:
            self._end_value()
            self._in_array = False
        else:
            self._put(sign)
            self._in_string = sign == b'"'
            self._depth += (sign in b"{[") - (sign in b"}]" and self._depth > 0)
            if sign in b"}]" and not self._depth:
                self._end_value()

    def _put(self, part: bytes) -> None:
        self._parts.append(part)
        self._begun = True

    def _end_value(self) -> None:
        if self._begun:
            self._parts.append(b"\n")
        self._begun = False
