"""The pages of sources as texts, for what looks at words instead of signatures.

Records that are no pages are passed over, as a replay passes them over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from streamer.sketch.method import PageText
from streamer.stream.files import Source
from streamer.stream.parse import PageParser
from streamer.text.words import CanonicalOptions

Progress = Callable[[int, int], None]  # bytes read of all sources, pages found


def page_texts(
    sources: Sequence[Source],
    parser: PageParser,
    canonical: CanonicalOptions,
    progress: Progress = lambda _bytes, _pages: None,
) -> Iterator[PageText]:
    """Yield the pages of `sources` in order.

    Raises:
        InputError: a source cannot be read.
    """
    before = pages = 0
    for source in sources:
        read = 0
        for chunk in source.read():
            batch = parser.parse(chunk)
            for body, flags in zip(batch.bodies, batch.flags, strict=True):
                pages += 1
                yield PageText.of_body(body, flags, canonical)
            read = chunk.bytes_read
            progress(before + read, pages)
        before += read
