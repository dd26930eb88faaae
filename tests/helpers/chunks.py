"""All chunks of a source, however its reading ends."""

from collections.abc import Iterator

from streamer.pages.chunk import Chunk, Ending
from streamer.pages.files import Source


def all_chunks(source: Source, ending: Ending | None = None) -> Iterator[Chunk]:
    """Yield the chunks of a source; `ending` tells how it ended."""
    with source.open() as records:
        yield from records.chunks(0, ending or Ending())
