"""The face for Python: near-duplicates among pages, in one process.

`Deduplicator` has an index that `streamer replay` can go on with, and the same verdicts: pages are
written down as JSON, and go through the stages that messages of a file or a topic go through. That
is done ahead in threads; batches are judged in the order in which they came.
"""

from __future__ import annotations

import base64
import itertools
import json
import logging
import os
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import msgspec
import numpy as np

from streamer.assembly import open_engine, open_index, page_parser
from streamer.config import Settings, load_settings
from streamer.errors import SettingsError
from streamer.index.forgetting import terms_of
from streamer.index.messages import Forget, Verdicts
from streamer.model import SIMILARITY_ONE, DeadLetter, KeptMatch, Page, Verdict, page_ref
from streamer.pages.chunk import CHUNK_BYTES_MAX, Chunk
from streamer.pages.parse import PageParser
from streamer.run.catalogue import Catalogue, open_catalogue
from streamer.run.engine import Engine, SignedChunk
from streamer.run.explanation import Explained, KeptIndex
from streamer.run.page_check import signed_page
from streamer.run.reference_indexes import ReferenceIndexes
from streamer.run.stages import (
    CHUNKS_AHEAD,
    dead_letter,
    in_order,
    signing_pool,
    verdicts,
)

PAGES_A_BATCH = 1_000
_log = logging.getLogger("streamer")

AnyPage = Page | tuple[str, str | bytes] | Mapping[str, Any]
"""A page; or (URL, body), where a body of bytes has its own encoding; or a message as a dict."""


class Deduplicator:
    """Tell of each page whether it is a near-duplicate of one before, and of which.

        with Deduplicator("my-index", threshold=0.8) as dedup:
            for verdict in dedup.add([("https://example.org/a", "text"), ...]):
                if verdict.is_duplicate:
                    print(verdict.url, verdict.representative.url, verdict.similarity)

    `index` is the folder of a lasting index, made if it is not there; None stands for one that goes
    with the object. Options are the settings of `streamer replay` by their names, as `bands=24` or
    `track_changes=True`; variables STREAMER_* hold as well. Each method may be called from any
    thread; they take turns, batch by batch.

    Pages are on disk after `flush` and `close`, and at times in between. A process that is killed
    leaves the index as of the last flush.

    Raises:
        SettingsError: an option cannot be used; the message names it and says what it may be.
        StoreMismatch: the index was made with other settings.
        StoreDamaged: something of the index is missing, or cannot be read.
        StoreUnavailable: another process has the index open, or the disk refuses.
    """

    def __init__(
        self,
        index: str | os.PathLike[str] | None = None,
        *,
        settings: Settings | None = None,
        **options: Any,  # noqa: ANN401 - the settings, which check their values
    ) -> None:
        if settings is not None and options:
            raise SettingsError(f"Give settings or {next(iter(options))}=, not both.")
        self.settings = load_settings(**options) if settings is None else settings
        self.rejected: Counter[str] = Counter()  # pages that could not be judged, by code
        self._lock = threading.RLock()
        parser = page_parser(self.settings)
        with ExitStack() as stack:
            if index is None:
                index = Path(stack.enter_context(TemporaryDirectory(prefix="streamer-"))) / "index"
            self._folder = stack.enter_context(open_index(Path(index), self.settings))
            references = stack.enter_context(
                closing(
                    ReferenceIndexes(
                        self.settings.also, self._folder.fingerprint, self._folder.identity
                    )
                )
            )
            self._catalogue = open_catalogue(self._folder.store, self._folder.path)
            self._engine = stack.enter_context(
                open_engine(self._folder, self._catalogue, self.settings, parser, references)
            )
            self._judge = self._engine.judge
            self._source = self._catalogue.enter_added()
            self._locate = self._catalogue.locator()
            self._pool = stack.enter_context(signing_pool(self.settings.signing_threads))
            self._at_exit = weakref.finalize(self, _close_at_exit, self._engine, stack.pop_all())

    # ---- pages -----------------------------------------------------------------------------------

    def add(
        self, pages: Iterable[AnyPage], *, rejected: Callable[[DeadLetter], None] | None = None
    ) -> Iterator[Verdict]:
        """Judge pages, and yield a verdict on each, in their order.

        Pages are read as verdicts are taken, some thousand ahead, and judged in batches of up to
        1,000: whoever stops in the midst may have added pages without seeing their verdicts. There
        is none on a page that cannot be judged, as one without a body: that is counted in
        `rejected` by its code (docs/dead-letters.md), and given to the function `rejected`.
        `verdict.page.offset` counts all pages that were ever added, those as well.

        Raises:
            TypeError: something is no page.
            StreamerError: the index cannot be used; what was judged before stands.
        """
        batches = _batches(map(self._message, pages))
        with closing(in_order(batches, self._submit, CHUNKS_AHEAD)) as ahead:
            for batch, future in ahead:
                assert future is not None, "every batch is submitted"
                prepared = future.result()
                with self._lock:
                    if not self._engine.is_next(prepared.turn):
                        prepared = self._prepare(batch)
                    blocks, letters = self._take(prepared)
                for letter in letters:
                    self._reject(letter, rejected)
                verdicts = itertools.chain.from_iterable(map(self._verdicts, blocks))
                # A shard tells of the duplicates that it finds before the next one has the others.
                yield from sorted(verdicts, key=_place) if len(blocks) > 1 else verdicts

    def check(self, page: AnyPage) -> Verdict:
        """Return the verdict that a page would get if it were added now; nothing changes.

        Raises:
            InvalidPage: it cannot be judged; `code` says why.
        """
        engine = self._engine
        signed = signed_page(engine.parser, engine.signers.get(), self._message(page))
        with self._lock:
            entry = self._open.entries[self._source]
            signed.refs += np.uint64(page_ref(self._source, entry.position))
            return next(self._verdicts(self._judge.verdict_on(signed)))

    def nearest(self, text: str, limit: int = 5) -> list[KeptMatch]:
        """Return the kept pages that are most similar to a text, of those that share a key with it.

        Banding finds next to all above the threshold, and fewer the less similar they are.
        """
        message = _encoded({"url": "text:", "body": text, "content_type": "text/plain"})
        signed = signed_page(PageParser(), self._engine.signers.get(), message)
        with self._lock:
            assert self._open
            return [
                KeptMatch(self._locate(row.ref), row.url.decode(), row.similarity / SIMILARITY_ONE)
                for row in self._judge.nearest(signed, limit)
            ]

    def explain(self, url: str) -> Explained:
        """Return why the kept page with this URL is unique: the nearest other one, and how near.

        All kept pages are read. What was added is flushed first.

        Raises:
            InputError: no page with this URL is kept: it was not added, or is a duplicate, whose
                verdict says of what.
        """
        with self._lock:
            self.flush()
            with closing(KeptIndex(self._folder.path, self.settings.key_file)) as kept:
                return kept.explain_kept(kept.find(url))

    def forget(
        self, *, url: str | None = None, host: str | None = None, before_ms: int | None = None
    ) -> int:
        """Forget kept pages; return how many. When this returns they are gone from the disk.

        `host` with a dot before it stands for all below it as well; `before_ms` is a time in
        milliseconds since 1970.

        Raises:
            SettingsError: nothing is named, or `host` is no name of a host.
        """
        hosts = () if host is None else (host,)
        terms = terms_of(() if url is None else (url,), hosts, before_ms)
        if not terms:
            raise SettingsError("Say what to forget: url=, host= or before_ms=.")
        with self._lock:
            before = len(self)
            self._judge.forget_next(Forget(terms))
            self._flush(sweep=True)
            return before - len(self)

    def __len__(self) -> int:
        """Return how many pages are kept."""
        with self._lock:
            assert self._open
            return self._judge.kept_pages

    # ---- the index -------------------------------------------------------------------------------

    def flush(self) -> None:
        """Bring all that was added to the disk.

        Raises:
            StoreUnavailable: the disk refuses; the index is as it was.
        """
        with self._lock:
            if self._open and (self._judge.changed or self._folder.store.meta is None):
                self._flush()

    def close(self) -> None:
        """Flush, and release the index; more than once does nothing."""
        with self._lock:
            if not self._at_exit.alive:
                return
            try:
                if self._judge.changed:
                    self._flush(sweep=True)
            finally:
                detached = self._at_exit.detach()
                assert detached is not None, "it is alive"
                _, _, (_, stack), _ = detached
                stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def _open(self) -> Catalogue:
        """Return the catalogue of the open index."""
        if not self._at_exit.alive:
            raise SettingsError("The Deduplicator is closed. Make another one for its index.")
        return self._catalogue

    def _flush(self, *, sweep: bool = False) -> None:
        self._engine.begin_flush(sweep=sweep)
        self._judge.finish()

    # ---- stages ----------------------------------------------------------------------------------

    def _message(self, page: AnyPage) -> bytes:
        """Return a page as a JSON message."""
        if isinstance(page, Page | tuple) and (self.settings.fields or self.settings.mapping):
            raise TypeError("with fields= or a crawler's preset=, pages are dicts")
        return message_of(page)

    def _submit(self, messages: list[bytes]) -> Future[SignedChunk]:
        assert self._open
        return self._engine.submit(self._pool, self._prepare, messages)

    def _prepare(self, messages: list[bytes], turn: int = 0) -> SignedChunk:
        """Parse, sign and look up messages; in any thread."""
        chunk = Chunk(0, len(messages), messages=[(i, None, m) for i, m in enumerate(messages)])
        chunk.source = 0  # `_take` gives them their places
        return self._engine.prepare(chunk, turn)

    def _take(self, prepared: SignedChunk) -> tuple[list[Verdicts], list[DeadLetter]]:
        """Judge what is prepared; return verdicts, and letters of what could not be judged."""
        batch, pages, found, _ = prepared
        entry = self._open.to_change(self._source)
        start, entry.position = entry.position, entry.position + batch.end
        pages.refs += np.uint64(page_ref(self._source, start))
        blocks = self._judge.judge(self._source, start, entry.position, pages, found)
        for block in blocks:
            self._catalogue.totals.add_verdicts(block)
        self._catalogue.totals.add_batch(batch)
        letters = [
            dead_letter(each, self._locate(page_ref(self._source, start + each.sequence)))
            for each in batch.dead
        ]
        self.rejected.update(batch.skipped)
        if self._judge.flush_is_due:
            self._engine.begin_flush()
        return blocks, letters

    def _reject(self, letter: DeadLetter, rejected: Callable[[DeadLetter], None] | None) -> None:
        """Count a page that cannot be judged, and tell of it; of the first of a code in the log."""
        if rejected is not None:
            rejected(letter)
        elif letter.code not in self.rejected:
            _log.warning("Page %d cannot be judged: %s", letter.page.offset, letter.code)
        self.rejected[letter.code] += 1

    def _verdicts(self, block: Verdicts) -> Iterator[Verdict]:
        """Yield the verdicts of a block."""
        for verdict in verdicts(block, self._locate, self._folder.fingerprint):
            carried = verdict.carried
            if isinstance(carried, msgspec.Raw):
                decoded = msgspec.json.decode(carried)
                verdict = msgspec.structs.replace(verdict, carried=decoded)  # noqa: PLW2901
            yield verdict


def _close_at_exit(engine: Engine, stack: ExitStack) -> None:
    """Flush and release an index whose object is gone, at the latest when the interpreter ends."""
    warnings.warn(
        "A Deduplicator was not closed. Use it with `with`.", ResourceWarning, stacklevel=2
    )
    with stack:
        if engine.judge.changed:
            engine.flush_last()


def _batches(messages: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Yield messages in lists of bounded number and size."""
    batch: list[bytes] = []
    size = 0
    for message in messages:
        batch.append(message)
        size += len(message)
        if len(batch) == PAGES_A_BATCH or size >= CHUNK_BYTES_MAX:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _place(verdict: Verdict) -> int:
    return verdict.page.offset


def message_of(page: AnyPage) -> bytes:
    """Return a page as a JSON message.

    Raises:
        TypeError: it is no page.
    """
    if isinstance(page, Page):
        return _encoded(page)
    if isinstance(page, tuple):
        url, body = page
        return _encoded({"url": url, **_body(body)})
    if not isinstance(page, Mapping):
        raise TypeError(f"a page is a Page, (URL, body) or a dict, not {type(page).__name__}")
    if isinstance(page.get("body"), bytes):
        page = {**page, **_body(page["body"])}
        del page["body"]
    return _encoded(page)


def _body(body: str | bytes) -> dict[str, str]:
    if isinstance(body, bytes):
        return {"body_base64": base64.b64encode(body).decode()}
    return {"body": body}


def _encoded(page: object) -> bytes:
    """Return a page as JSON; what is no Unicode stands in it as escapes, as other writers do."""
    try:
        return msgspec.json.encode(page)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(page)).encode()
