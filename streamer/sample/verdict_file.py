"""A verdict file, line by line, with only the fields that scoring needs.

Lines without a `verdict` (dead letters in the same stream) are passed over. A line that is no JSON
object of this shape ends the reading with its number: a score over half a file would mislead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from streamer.errors import InputError
from streamer.model import Decision, Location, Representative

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Said(msgspec.Struct, frozen=True):
    """What a verdict says; `verdict` is None on lines that are none."""

    url: str = ""
    page: Location | None = None
    verdict: Decision | None = None
    representative: Representative | None = None


def read_verdicts(path: Path) -> Iterator[Said]:
    """Yield the verdicts of a JSON-lines file in its order.

    Raises:
        InputError: the file cannot be read, or a line is not a verdict; the message has its number.
    """
    decoder = msgspec.json.Decoder(Said)
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    said = decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    raise InputError(f"{path}:{number}: not a verdict ({error})") from error
                if said.verdict is not None:
                    yield said
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; check the path") from error
