"""JSON that is not one object a line: an array of objects, or objects over several lines.

It becomes JSON lines on the way, in bounded memory, and is read like these from there on: a newline
follows each value of the outermost array or of the file, and none is within a value. A file's first
bytes decide.
"""

from __future__ import annotations

import io
import re
from typing import Any

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SPREAD = re.compile(rb'(?:\xef\xbb\xbf)?\s*+(?:\[\s*+\{|\{[ \t\r]*+\n\s*+")')
_MARKS = re.compile(rb'["{}\[\],\n]')
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_READ_BYTES = 1 << 16


def is_spread(head: bytes) -> bool:
    """Tell by its first bytes whether a file has an array of objects, or objects over lines."""
    return _SPREAD.match(head) is not None


class JsonLines(io.RawIOBase):
    """The values of spread JSON, a line each."""

    def __init__(self, source: io.BufferedReader[Any]) -> None:
        self._source = source
        self._ready = b""  # made, and not yet taken
        self._carry = b""  # read, and what follows decides
        self._depth = 0  # within a value
        self._in_array = self._in_string = False
        self._begun = False  # a value that has no end yet
        self._parts: list[bytes] = []
        if source.peek(len(_BYTE_ORDER_MARK)).startswith(_BYTE_ORDER_MARK):
            source.read(len(_BYTE_ORDER_MARK))

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int | None:  # type: ignore[override]
        """Fill `buffer` with the next bytes of the lines; return how many, 0 at the end.

        It is None where the source has none for now.
        """
        block = bytearray(_READ_BYTES)
        while not self._ready:
            count = self._source.readinto1(block)
            if count is None:
                return None
            data = bytes(block[:count])
            if not data:
                self._ready, self._carry = self._carry, b""
                if not self._ready:
                    return 0
                break
            self._convert(self._carry + data)
            self._ready = b"".join(self._parts)
            self._parts.clear()
        taken = min(len(buffer), len(self._ready))
        buffer[:taken], self._ready = self._ready[:taken], self._ready[taken:]
        return taken

    def _convert(self, data: bytes) -> None:
        """Make lines of the next bytes."""
        at, self._carry = 0, b""
        while at < len(data):
            if self._in_string:
                at = self._take_string(data, at)
                continue
            found = _MARKS.search(data, at)
            end = found.start() if found else len(data)
            between = data[at:end] if self._depth else data[at:end].strip()
            if between:
                self._put(between)
            if found:
                self._take_mark(found[0])
            at = end + 1

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
        self._carry = data[end:]  # a backslash, or nothing
        return len(data)

    def _take_mark(self, mark: bytes) -> None:
        if mark == b"\n":
            if self._depth:
                self._put(b" ")
            elif not self._in_array:
                self._end_value()
        elif mark == b"[" and not (self._depth or self._in_array or self._begun):
            self._in_array = True
        elif mark == b"," and not self._depth:
            self._end_value()
        elif mark == b"]" and not self._depth and self._in_array:
            self._end_value()
            self._in_array = False
        else:
            self._put(mark)
            self._in_string = mark == b'"'
            self._depth += (mark in b"{[") - (mark in b"}]" and self._depth > 0)
            if mark in b"}]" and not self._depth:
                self._end_value()

    def _put(self, part: bytes) -> None:
        self._parts.append(part)
        self._begun = True

    def _end_value(self) -> None:
        if self._begun:
            self._parts.append(b"\n")
        self._begun = False
