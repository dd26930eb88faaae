"""The stage functions: the same for files and for Kafka, called a batch at a time.

    parse             Chunk      -> PageBatch     fields and bodies, dead letters, skips
    sign              PageBatch  -> Pages         signatures, with what a verdict needs
    apply (shard.py)  Record     -> Output        the verdicts, and a changed index
    verdict_lines     Verdicts   -> bytes         one JSON document a verdict

None of them knows more of a batch's origin than the number of its source. None does I/O, except
that `apply` reads kept pages from the store.

Threads do what can be done ahead of the judge, and results are taken in order. This has two forms,
since a replay pulls and a stream pushes. In a replay one thread reads and judges in turns: a
generator. In a worker chunks arrive at any time, and a result must be taken even if no other chunk
comes: a queue between two tasks, which also gives back-pressure.
"""

import asyncio
import base64
import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np

from streamer import model
from streamer.errors import InvalidPage, StoreMismatch
from streamer.hosts import is_same_url
from streamer.index.messages import Pages, Verdicts
from streamer.index.rule import BASIS_NAMES
from streamer.index.url_versions import CHANGE_NAMES, split_changes
from streamer.pages.chunk import Chunk, Message, PageBatch, RejectedRecord, rejected
from streamer.pages.parse import PageParser
from streamer.pages.schema_registry import is_framed
from streamer.sketch.scopes import ScopedSigner
from streamer.sketch.signer import PageSigner
from streamer.sketch.site_signer import SiteSigner

Item = TypeVar("Item")
Result = TypeVar("Result")
Locate = Callable[[int], model.Location]

CHUNKS_AHEAD = 6  # of up to 8 MiB, signed: as many as come while a flush keeps the judging thread
SIGNING_NICENESS = 5

_encoder = msgspec.json.Encoder()
_SIMILARITIES = [i / model.SIMILARITY_ONE for i in range(model.SIMILARITY_ONE + 1)]
_NOTHING: dict[str, Any] = {}


def parse(parser: PageParser, chunk: Chunk) -> PageBatch:
    """Parse the records of a chunk.

    Raises:
        StoreMismatch: the pages are not those that the chunk expects.
    """
    wanted = chunk.expected_pages
    originals = list(chunk.messages) if wanted is not None else []
    batch = parser.parse(chunk)
    if wanted is None or batch.sequences == wanted:
        return batch
    more = {*batch.sequences} - {*wanted}
    later = [each for each in originals if each[0] in more and is_framed(each[2])]
    if later and not chunk.is_raw and len(later) == len(more):
        batch = _parse_without(later, parser, chunk, originals)
    if batch.sequences != wanted:
        raise StoreMismatch(
            f"The log has {len(wanted)} pages at the offsets {chunk.start} to {chunk.end}, here "
            f"{len(batch)} messages are pages. Give the worker's --preset or --fields, its "
            "page_bytes_max and --registry-url."
        )
    return batch


def _parse_without(
    later: Sequence[Message], parser: PageParser, chunk: Chunk, originals: Sequence[Message]
) -> PageBatch:
    """Parse a chunk with the messages `later` as dead letters.

    The worker could not decode these. By now the registry has their schema, which it never forgets:
    so no setting would give the worker's verdicts again.
    """
    left_out = {offset for offset, _, _ in later}
    times = dict(zip((offset for offset, _, _ in originals), chunk.times, strict=False))
    chunk.messages = [each for each in originals if each[0] not in left_out]
    chunk.times = [times[offset] for offset, _, _ in chunk.messages if offset in times]
    batch = parser.parse(chunk)
    detail = "the worker could not decode it; the registry has its schema now"
    fault = InvalidPage("unknown_schema", detail)
    batch.dead += [rejected(offset, fault, value or b"", key) for offset, key, value in later]
    batch.dead.sort(key=lambda letter: letter.sequence)
    return batch


def sign(signer: PageSigner, source: int, batch: PageBatch) -> Pages:
    """Sign the pages of a batch of source number `source`."""
    refs = np.array(batch.sequences, np.uint64) | np.uint64(source << model.SEQUENCE_BITS)
    if isinstance(signer, ScopedSigner):
        signed = signer.sign_in(batch.bodies, batch.flags, batch.scopes)
    elif isinstance(signer, SiteSigner):
        signed = signer.sign_pages(batch.bodies, batch.flags, batch.urls, batch.scopes)
    else:
        signed = signer.sign(batch.bodies, batch.flags)
    return Pages(
        refs, signed.keys, signed.sketches, signed.distinct, signed.tokens, signed.text_bytes,
        batch.urls, batch.message_keys, batch.carried, np.array(batch.times, np.int64), signed.main,
        signed.shingles,
    )  # fmt: skip


def _asked_for(block: Verdicts) -> Iterator[tuple[Any, Any, Any]]:
    """Return what verdicts have of pages if it is asked for: text, change, its similarity."""
    pages = block.pages
    texts: Iterable[Any] = itertools.repeat(msgspec.UNSET, len(pages))
    if pages.main is not None:
        main, visible = model.SignedText.MAIN, model.SignedText.VISIBLE
        texts = (main if each else visible for each in pages.main.tolist())
    if block.changes is None:
        nothing = itertools.repeat(msgspec.UNSET)
        return zip(texts, nothing, nothing, strict=False)
    changes, similarities = split_changes(block.changes)
    named = (CHANGE_NAMES[each] for each in changes.tolist())
    likeness = (None if each < 0 else _SIMILARITIES[each] for each in similarities.tolist())
    return zip(texts, named, likeness, strict=True)


def _nearest(block: Verdicts, locate: Locate) -> Iterator[tuple[Any, Any]]:
    """Yield what is nearest to each page if that is unique, and from which similarity on."""
    if block.nearest is None or block.nearest_min is None:
        yield from itertools.repeat((msgspec.UNSET, msgspec.UNSET), len(block))
        return
    for near, least in zip(block.nearest, block.nearest_min.tolist(), strict=True):
        found = None
        if near is not None:
            found = model.NearestKept(
                near.place or locate(near.ref),
                near.url.decode(),
                near.index or msgspec.UNSET,
                similarity=_SIMILARITIES[near.similarity],
                exact=msgspec.UNSET if block.exact is None else near.exact,
            )
        yield found, _SIMILARITIES[least]


def verdicts(block: Verdicts, locate: Locate, fingerprint: str) -> Iterator[model.Verdict]:
    """Yield the verdicts of a block; `locate` turns a page ref into a place."""
    pages = block.pages
    exact = [msgspec.UNSET] * len(pages) if block.exact is None else block.exact.tolist()
    columns = zip(
        pages.refs.tolist(),
        pages.urls,
        pages.text_bytes.tolist(),
        pages.carried,
        block.similarities.tolist(),
        block.basis.tolist(),
        block.representative_refs.tolist(),
        block.representative_urls,
        block.references or [None] * len(pages),
        exact,
        _asked_for(block),
        _nearest(block, locate),
        strict=True,
    )
    for (
        ref, url, text_bytes, carried, similarity, basis, other_ref, other_url, elsewhere, by_sets,
        (text, change, likeness), (nearest, nearest_min),
    ) in columns:  # fmt: skip
        fields: Any = msgspec.Raw(carried) if carried else _NOTHING
        if similarity < 0:
            yield model.Verdict(
                locate(ref), url.decode(), model.Decision.UNIQUE, BASIS_NAMES[basis], None, None,
                False, text_bytes, fingerprint, fields, text, change, likeness, msgspec.UNSET,
                nearest, nearest_min,
            )  # fmt: skip
        else:
            where = locate if elsewhere is None else elsewhere.locate
            corpus = msgspec.UNSET if elsewhere is None else elsewhere.corpus.name
            other = model.Representative(where(other_ref), other_url.decode(), corpus)
            yield model.Verdict(
                locate(ref), url.decode(), model.Decision.DUPLICATE, BASIS_NAMES[basis],
                _SIMILARITIES[similarity], other, bool(url) and is_same_url(url, other_url),
                text_bytes, fingerprint, fields, text, change, likeness, by_sets,
            )  # fmt: skip


def verdict_lines(block: Verdicts, locate: Locate, fingerprint: str) -> bytes:
    """Return the verdicts of a block as JSON lines; equal verdicts give equal bytes."""
    return _encoder.encode_lines(list(verdicts(block, locate, fingerprint)))


def dead_letter(record: RejectedRecord, location: model.Location) -> model.DeadLetter:
    """Return the dead letter for a rejected record."""
    key = None if record.key is None else base64.b64encode(record.key).decode()
    value, size = base64.b64encode(record.value).decode(), record.value_bytes
    is_cut = len(record.value) < size
    return model.DeadLetter(
        location, record.code, record.detail, key, value, size, truncated=is_cut
    )


def dead_letter_lines(letters: list[model.DeadLetter]) -> bytes:
    """Return dead letters as JSON lines."""
    return _encoder.encode_lines(letters)


# ---- ahead of the judge --------------------------------------------------------------------------


def signing_pool(threads: int) -> ThreadPoolExecutor:
    """Return threads that come after those for which all wait, where a core is short."""
    return ThreadPoolExecutor(threads, "sign", initializer=partial(os.nice, SIGNING_NICENESS))


class OneAThread(Generic[Item]):
    """Something of which each thread has its own, made when it is first asked for."""

    def __init__(self, make: Callable[[], Item]) -> None:
        self._make = make
        self._local = threading.local()

    def get(self) -> Item:
        """Return this thread's own."""
        if not hasattr(self._local, "own"):
            self._local.own = self._make()
        own: Item = self._local.own
        return own


def in_order(
    items: Iterable[Item],
    begin: Callable[[Item], Future[Result] | None],
    ahead: int,
    shortened: Callable[[Item], int | None] = lambda _item: None,
) -> Generator[tuple[Item, Future[Result] | None], None, None]:
    """Begin work on each item as it is read; yield items in order, each with its future.

    Up to `ahead` items stay in work.

    An item for which `shortened` gives a number is a pause of the input. It is yielded at once, but
    after the items that are done, and after all but so many of the others.
    Where no more is asked for, what has not begun is cancelled.
    """
    waiting: deque[tuple[Item, Future[Result] | None]] = deque()
    try:
        for item in items:
            left = shortened(item)
            if left is None:
                waiting.append((item, begin(item)))
            while waiting and (
                len(waiting) > (ahead if left is None else left)
                or (left is not None and _is_done(waiting[0][1]))
            ):
                yield waiting.popleft()
            if left is not None:
                yield item, None
        while waiting:
            yield waiting.popleft()
    finally:
        for _, future in waiting:
            if future:
                future.cancel()


def _is_done(future: Future[Result] | None) -> bool:
    return future is None or future.done()


class Ahead(Generic[Item, Result]):
    """Items on their way through work that `begin` has begun; so many wait to be taken."""

    def __init__(self, begin: Callable[[Item], Future[Result]], ahead: int) -> None:
        self._begin = begin
        self._waiting: asyncio.Queue[tuple[Item, asyncio.Future[Result]]] = asyncio.Queue(ahead)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing waits to be taken."""
        return self._waiting.empty()

    @property
    def is_full(self) -> bool:
        """Return whether `put` would wait."""
        return self._waiting.full()

    async def put(self, item: Item) -> None:
        """Have the work on an item begun, and wait until there is room for it."""
        future = asyncio.wrap_future(self._begin(item))
        await self._waiting.put((item, future))

    async def pop(self) -> tuple[Item, Result]:
        """Return the oldest item and what has become of it, once that is done; or raise."""
        item, future = await self._waiting.get()
        return item, await future
