"""All chunks of a source, however its reading ends."""

from __future__ import annotations

from collections.abc import Iterator

from streamer.pages.bytestream import Trail
from streamer.pages.chunk import Chunk, Ending
from streamer.pages.files import Source


def all_chunks(source: Source, ending: Ending | None = None) -> Iterator[Chunk]:
    """Yield the chunks of a source; `ending` tells how it ended."""
    with source.open() as stream:
        yield from source.chunks(stream, 0, Trail(), ending or Ending())
