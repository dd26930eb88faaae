"""What `Deduplicator.add` gives for pages that can all be judged."""

from collections.abc import Iterable, Iterator

from streamer import AnyPage, Deduplicator
from streamer.model import Rejected, Verdict
from streamer.pages.program_pages import MessageWriter


def added(dedup: Deduplicator, pages: Iterable[AnyPage]) -> Iterator[Verdict]:
    """Add pages and yield their verdicts; each page must have one."""
    for result in dedup.add(pages):
        assert not isinstance(result, Rejected), result
        yield result


def message_of(page: AnyPage) -> bytes:
    """Return a page as a JSON message."""
    return MessageWriter().message(page)
