"""Texts of a few pages, found in page files by URL or by place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from streamer.model import Location
from streamer.stream.files import open_sources
from streamer.stream.parse import PageParser


class FoundText(NamedTuple):
    """A page's URL, its place (None of a text that is no record), and its body as `flags` tell."""

    url: str
    place: Location | None
    body: bytes
    flags: int


def find_texts(
    files: Sequence[str],
    names: Collection[str],
    progress: Callable[[int], None] = lambda _bytes: None,
) -> dict[str, FoundText]:
    """Return the first page with each name: a URL, or `source:number` with the file's name.

    The folder of a place does not count, because files may have moved since. `progress` is told the
    bytes read so far.

    Raises:
        InputError: a file cannot be read.
    """
    wanted = set(names)
    by_place = {_without_folder(name): name for name in wanted}
    found: dict[str, FoundText] = {}
    parser = PageParser()
    before = 0
    for source in open_sources(files).sources:
        read = 0
        own = Path(source.name).name
        for chunk in source.read():
            batch = parser.parse(chunk)
            for url, number, body, flags in zip(
                map(bytes.decode, batch.urls),
                batch.sequences,
                batch.bodies,
                batch.flags,
                strict=True,
            ):
                place = by_place.get(f"{own}:{number}", url)
                for name in wanted.intersection((url, place)):
                    at = Location(source.name, 0, number)
                    found.setdefault(name, FoundText(url, at, bytes(body), flags))
            read = chunk.bytes_read
            progress(before + read)
        before += read
    return found


def _without_folder(place: str) -> str:
    head, colon, number = place.rpartition(":")
    return f"{head.rpartition('/')[2]}{colon}{number}"
