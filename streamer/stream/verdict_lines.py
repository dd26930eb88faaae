"""Verdicts in a file, found again by the place of their line: so that no text has to be kept.

Lines without a `verdict` (dead letters in the same stream) are passed over. A line that is no JSON
object of this shape ends the reading with its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from streamer.errors import InputError
from streamer.model import Decision, Location, Representative

REPORT_LINES = 10_000  # after so many lines the progress is told


class Judged(msgspec.Struct, frozen=True):
    """What a verdict line says; `verdict` is None on lines that are none."""

    page: Location | None = None
    url: str = ""
    verdict: Decision | None = None
    representative: Representative | None = None
    text_bytes: int = 0
    carried: dict[str, Any] = {}


_DECODE = msgspec.json.Decoder(Judged).decode


def read_places(
    path: Path, progress: Callable[[int], None] = lambda _bytes: None
) -> Iterator[tuple[int, Judged, Location]]:
    """Yield (place of the line in bytes, verdict, its page) of a JSON-lines file, in its order.

    `progress` is told the bytes read so far, now and then.

    Raises:
        InputError: the file cannot be read, no line is a verdict, or one is none and nothing else
            that may be there; the message has its number.
    """
    try:
        with path.open("rb") as file:
            place = found = 0
            for number, line in enumerate(file, 1):
                judged = _decoded(line, path, number) if line.strip() else Judged()
                if judged.verdict is not None and judged.page is not None:
                    found += 1
                    yield place, judged, judged.page
                place += len(line)
                if number % REPORT_LINES == 0:
                    progress(place)
            progress(place)
            if place and not found:
                raise InputError(f"{path}: has no verdict; give what `replay --verdicts` wrote")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; check the path") from error


def verdict_at(file: BinaryIO, place: int) -> Judged:
    """Return the verdict whose line begins at `place`, as `read_places` has told it."""
    file.seek(place)
    return _DECODE(file.readline())


def _decoded(line: bytes, path: Path, number: int) -> Judged:
    try:
        return _DECODE(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}:{number}: not a verdict ({error})") from error
