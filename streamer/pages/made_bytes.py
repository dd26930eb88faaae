"""Bytes that are made of others, part by part, as a file to read."""

import io
from collections.abc import Iterator


class MadeBytes(io.RawIOBase):
    """A file whose next bytes an heir makes, a part at a time, as a reader takes them."""

    _ready = b""  # made, and not yet taken

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int | None:  # type: ignore[override]
        """Fill `buffer` with bytes of a part; return how many, 0 at the end, None: none for now."""
        if not self._ready:
            part = self._make()
            if part is None:
                return None
            self._ready = part
        taken = min(len(buffer), len(self._ready))
        buffer[:taken], self._ready = self._ready[:taken], self._ready[taken:]
        return taken

    def _make(self) -> bytes | None:
        """Return the next bytes: none at the end; None where there are none for now."""
        raise NotImplementedError


class Parts(MadeBytes):
    """Bytes that an iterator yields in parts, none of them empty."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts

    def _make(self) -> bytes:
        return next(self._parts, b"")
