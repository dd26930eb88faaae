"""All chunks of a source, however its reading ends; and those after any place in it."""

from collections.abc import Iterator

from streamer.pages.chunk import Chunk, Ending
from streamer.pages.files import Source


def all_chunks(source: Source, ending: Ending | None = None) -> Iterator[Chunk]:
    """Yield the chunks of a source; `ending` says how it ended."""
    with source.open() as records:
        yield from records.chunks(0, ending or Ending())


def chunks_from_anywhere(source: Source) -> list[Chunk]:
    """Return all chunks, once reading on after each of them has given the same ones."""
    chunks = list(all_chunks(source))
    for number, chunk in enumerate(chunks):
        with source.open() as records:
            read = list(records.follow(chunk.mark))
            assert read == sorted(read)
            assert records.mark() == chunk.mark
            rest = list(records.chunks(chunk.end, Ending()))
        assert list(map(_records, rest)) == list(map(_records, chunks[number + 1 :]))
    return chunks


def _records(chunk: Chunk) -> tuple[object, ...]:
    return chunk.start, chunk.end, chunk.mark, list(chunk.lines), chunk.pages, chunk.dead
