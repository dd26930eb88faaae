"""The face for Python: near-duplicates among pages, in one process.

`Deduplicator` has an index that `streamer replay` can go on with, and the same verdicts: pages are
written down as JSON, and go through the stages that messages of a file or a topic go through. That
is done ahead in threads; batches are judged in the order in which they came.
"""

import ctypes
import itertools
import operator
import os
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import NoReturn, Self, Unpack

import msgspec
import numpy as np

from streamer.assembly import open_engine, open_index, page_parser
from streamer.config import Settings, load_settings
from streamer.errors import SettingsError, StoreUnavailable, StreamerError
from streamer.index import ask
from streamer.index.forgetting import terms_of
from streamer.index.messages import Forget, Verdicts
from streamer.model import SIMILARITY_ONE, KeptMatch, Rejected, Verdict, page_ref
from streamer.options import Options
from streamer.pages.chunk import PageBatch
from streamer.pages.parse import PageParser
from streamer.pages.program_pages import AddedPage, AnyPage, Batches, MessageWriter, chunk_of
from streamer.run.catalogue import open_catalogue
from streamer.run.engine import Engine, Prepared
from streamer.run.explanation import Explained, KeptIndex
from streamer.run.page_check import sign_page
from streamer.run.reference_indexes import ReferenceIndexes
from streamer.run.stages import CHUNKS_AHEAD, in_order, signing_pool, verdicts

_NOT_FLUSHED = (
    "Pages added since the last flush are not in the index. Close this Deduplicator, make another "
    "one for the index, and add them again."
)


class Deduplicator:
    """Find near-duplicates in a stream of pages: of which earlier page each one is.

        with Deduplicator("my-index", threshold=0.8) as dedup:
            for result in dedup.add([("https://example.org/a", "text"), ...]):
                if isinstance(result, Rejected):
                    print(result.code)
                elif result.representative:
                    print(result.url, result.representative.url, result.similarity)

    `index` is the folder of a lasting index, made if it is not there; None stands for one that goes
    with the object. Options are the settings of `streamer replay` by their names, as `bands=24` or
    `track_changes=True`; variables STREAMER_* hold as well. Each method may be called from any
    thread; they take turns, batch by batch.

    Pages are on disk after `flush` and `close`, and at times in between. A process that is killed
    leaves the index as of the last flush. Once the disk has refused a flush, each call raises what
    it said, `close` included: the pages since the last flush are to be added again. A process that
    is forked cannot use the object, and leaves the index to its parent.

    Attributes:
        rejected: how many pages could not be judged, by code.

    Raises:
        SettingsError: an option cannot be used; the message names it and says what it may be.
        StoreMismatch: the index was made with other settings.
        StoreDamaged: something of the index is missing, or cannot be read.
        StoreUnavailable: the index is open already, in this process or another one, or the disk
            refuses.
    """

    def __init__(
        self,
        index: str | os.PathLike[str] | None = None,
        *,
        settings: Settings | None = None,
        **options: Unpack[Options],
    ) -> None:
        if settings is not None and options:
            raise SettingsError(f"Give settings or {next(iter(options))}=, not both.")
        if index is not None and not os.fspath(index):
            raise SettingsError("The index is the empty text. Name a folder, or leave it out.")
        self.settings = load_settings(**options) if settings is None else settings
        self.rejected: Counter[str] = Counter()
        self._lock = threading.RLock()
        self._is_of_parent = False
        parser = page_parser(self.settings)
        self._writer = MessageWriter(parser.mapping, parser.columns, self.settings.page_bytes_max)
        path, own = None if index is None else Path(index), self.settings
        with ExitStack() as stack:
            folder = self._folder = stack.enter_context(open_index(path, own))
            references = ReferenceIndexes(own.also, folder.fingerprint, folder.identity)
            stack.callback(references.close)
            self._catalogue = open_catalogue(folder.store, folder.path)
            engine = open_engine(folder, self._catalogue, own, parser, references)
            self._engine = stack.enter_context(engine)
            self._judge = self._engine.judge
            self._source = self._catalogue.enter_added()
            self._locate = self._catalogue.locator()
            self._pool = stack.enter_context(signing_pool(self.settings.signing_threads))
            self._at_exit = weakref.finalize(self, _close_at_exit, self._engine, stack.pop_all())
        _opened.add(self)

    # ---- pages -----------------------------------------------------------------------------------

    def add(self, pages: Iterable[AnyPage]) -> Iterator[Verdict | Rejected]:
        """Judge pages, and yield one result for each, in their order.

        That is a verdict, or `Rejected` for a page that cannot be judged, as one without a body.
        Pages are read as results are taken, some thousand ahead, and judged in batches of up to
        2,000: whoever stops in the midst may have added pages without seeing their results.
        `result.page.offset` counts all pages that were ever added.

        Raises:
            TypeError: an item is no page, or one of its fields cannot be used; the message names
                both. All items before it are judged, and their results yielded. The same holds for
                whatever the iterable raises.
            StreamerError: the index cannot be used.
        """
        batches = Batches(pages, self._writer)
        with closing(in_order(batches, self._submit, CHUNKS_AHEAD)) as ahead:
            for added, future in ahead:
                assert future is not None, "every batch is submitted"
                prepared = future.result()
                with self._exclusive():
                    if not self._engine.signing.is_next(prepared):
                        prepared = self._engine.prepare(prepared.chunk)
                    first, blocks = self._take(prepared)
                    rejected = self._reject(prepared.batch, added, first)
                judged = itertools.chain.from_iterable(map(self._verdicts, blocks))
                if not rejected:
                    yield from judged
                    continue
                for number in range(first, first + len(added)):
                    yield rejected.get(number) or next(judged)
        batches.raise_error()

    def check(self, page: AnyPage) -> Verdict:
        """Return the verdict that a page would get if it were added now; nothing changes.

        Raises:
            InvalidPage: it cannot be judged; `code` says why.
        """
        self._check_process()
        signing = self._engine.signing
        signed = sign_page(signing.parser, signing.signers.get(), self._writer.message(page))
        with self._exclusive():
            entry = self._catalogue.entries[self._source]
            signed.refs += np.uint64(page_ref(self._source, entry.position))
            return next(self._verdicts(ask.verdict_on(self._judge.shard, signed)))

    def nearest(self, text: str, limit: int = 5) -> list[KeptMatch]:
        """Return the kept pages that are most similar to a text, of those that share a key with it.

        Banding finds next to all above the threshold, and fewer the less similar they are.
        """
        self._check_process()
        page = {"url": "text:", "body": text, "content_type": "text/plain"}
        message = MessageWriter().message(page)
        signed = sign_page(PageParser(), self._engine.signing.signers.get(), message)
        with self._exclusive():
            return [
                KeptMatch(self._locate(row.ref), row.url.decode(), row.similarity / SIMILARITY_ONE)
                for row in ask.nearest(self._judge.shard, signed, limit)
            ]

    def explain(self, url: str) -> Explained:
        """Return why the kept page with this URL is unique: the nearest other one, and how near.

        All kept pages are read. What was added is flushed first.

        Raises:
            InputError: no page with this URL is kept: it was not added, or is a duplicate, whose
                verdict says of what.
        """
        with self._exclusive():
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
            TypeError: `before_ms` is no whole number, as `time.time() * 1000` is none.
        """
        hosts = () if host is None else (host,)
        if before_ms is not None:  # as the index keeps it: 64 bits
            before_ms = np.int64(operator.index(before_ms)).item()
        terms = terms_of(() if url is None else (url,), hosts, before_ms)
        if not terms:
            raise SettingsError("Say what to forget: url=, host= or before_ms=.")
        with self._exclusive():
            before = len(self)
            self._judge.forget_next(Forget(terms))
            self._flush(sweep=True)
            return before - len(self)

    def __len__(self) -> int:
        """Return how many pages are kept."""
        with self._exclusive():
            return self._judge.kept_pages

    # ---- the index -------------------------------------------------------------------------------

    def flush(self) -> None:
        """Bring all that was added to the disk.

        Raises:
            StoreUnavailable: the disk refuses, or has refused before; the index is as of the flush
                before.
        """
        with self._exclusive():
            if self._judge.changed or self._folder.store.meta is None:
                self._flush()

    def close(self) -> None:
        """Flush, and release the index; more than once does nothing, nor in a forked process.

        Raises:
            StoreUnavailable: as `flush`; the index is released.
        """
        if self._is_of_parent:
            return
        with self._lock:
            if not self._at_exit.alive:
                return
            try:
                with self._exclusive():
                    if self._judge.changed:
                        self._flush(sweep=True)
            finally:
                detached = self._at_exit.detach()
                assert detached is not None, "it is alive"
                _, _, (_, stack), _ = detached
                stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            "A Deduplicator cannot be pickled or copied, since one process writes an index. Open "
            "it in the process that uses it."
        )

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Wait for this thread's turn with the open index.

        Raises:
            SettingsError: it is closed, or was opened before this process was forked.
            StoreUnavailable: a step before failed, or this one does so.
        """
        self._check_process()
        with self._lock:
            if not self._at_exit.alive:
                raise SettingsError("The Deduplicator is closed. Make another one for its index.")
            self._raise_failure()
            try:
                yield
            except Exception:
                self._raise_failure()
                raise

    def _check_process(self) -> None:
        if self._is_of_parent:
            raise SettingsError(
                "This Deduplicator belongs to the process that opened it, from which this process "
                "was forked. Use it there, or open the first index after the fork."
            )

    def _raise_failure(self) -> None:
        try:
            self._judge.raise_failure()
        except StreamerError as failure:
            raise StoreUnavailable(f"{failure} {_NOT_FLUSHED}") from failure

    def _leave_to_parent(self) -> None:
        """Neither use nor release what the process has open from which this one was forked.

        Its threads are not here, and files would be written twice.
        """
        self._is_of_parent = True
        if detached := self._at_exit.detach():
            # One reference too many: nothing is closed, even when the interpreter ends.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(detached))

    def _flush(self, *, sweep: bool = False) -> None:
        self._engine.begin_flush(sweep=sweep)
        self._judge.finish()

    # ---- stages ----------------------------------------------------------------------------------

    def _submit(self, pages: list[AddedPage]) -> Future[Prepared]:
        chunk = chunk_of(pages)
        chunk.source = 0  # `_take` gives them their places
        with self._exclusive():
            return self._engine.signing.submit(self._pool, chunk, self._engine.prepare)

    def _take(self, prepared: Prepared) -> tuple[int, list[Verdicts]]:
        """Judge what is prepared; return the number of its first page, and verdicts."""
        batch, pages, found = prepared.batch, prepared.pages, prepared.found
        with self._judge.whole_step():
            entry = self._catalogue.to_change(self._source)
            start, entry.position = entry.position, entry.position + batch.end
            pages.refs += np.uint64(page_ref(self._source, start))
            blocks = self._judge.judge(self._source, start, entry.position, pages, found)
            for block in blocks:
                self._catalogue.totals.add_verdicts(block)
            self._catalogue.totals.add_batch(batch)
            if self._judge.flush_is_due:
                self._engine.begin_flush()
        return start, blocks

    def _reject(self, batch: PageBatch, added: list[AddedPage], first: int) -> dict[int, Rejected]:
        """Return, by its number, the result of each page of a batch that was not judged."""
        if len(batch) == len(added):
            return {}
        found = {letter.sequence: (letter.code, letter.detail) for letter in batch.dead}
        skipped = set(range(len(added))).difference(batch.sequences, found)
        for number in skipped:  # a batch only counts them: parsed alone, each gives its code
            alone = self._engine.signing.parser.parse(chunk_of([added[number]]))
            found[number] = next(iter(alone.skipped)), "such pages are skipped"
        self.rejected.update(code for code, _ in found.values())
        places = (self._locate(page_ref(self._source, first + number)) for number in found)
        return {place.offset: Rejected(place, *found[place.offset - first]) for place in places}

    def _verdicts(self, block: Verdicts) -> Iterator[Verdict]:
        """Yield the verdicts of a block."""
        for verdict in verdicts(block, self._locate, self._folder.fingerprint):
            carried = verdict.carried
            yield (
                msgspec.structs.replace(verdict, carried=msgspec.json.decode(carried))
                if isinstance(carried, msgspec.Raw)
                else verdict
            )


def _close_at_exit(engine: Engine, stack: ExitStack) -> None:
    """Flush and release an index whose object is gone, at the latest when the interpreter ends."""
    said = "A Deduplicator was not closed. Use it with `with`."
    warnings.warn(said, ResourceWarning, stacklevel=2)
    with stack:
        if engine.judge.changed or engine.judge.failure:
            engine.flush_last()


def _leave_all_to_parent() -> None:
    opened = [each for each in _opened if each._at_exit.alive]  # noqa: SLF001 - of this module
    for each in opened:
        each._leave_to_parent()  # noqa: SLF001 - of this module
    if opened:
        # RocksDB would join its threads when the process ends, which are not here, and crash. So
        # what runs first then is `_exit`, which gets the status. Python has ended by then.
        libc = ctypes.CDLL(None)
        with suppress(AttributeError):  # not glibc
            libc.on_exit(libc["_exit"], None)


_opened: weakref.WeakSet[Deduplicator] = weakref.WeakSet()
os.register_at_fork(after_in_child=_leave_all_to_parent)
