"""The verdict that a page would get, of an index that is open to judge or to be read alone.

It is `sign_page` and `ask.verdict_on`: `Deduplicator.check` asks the shard of the judge, which
knows what was added since the flush, and a `PageChecker` asks a shard that it has restored from the
newest flush of a folder. Its writer goes on meanwhile, and nothing is written.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np

from streamer.errors import InvalidPage, StoreMismatch
from streamer.index import ask
from streamer.index.messages import Pages
from streamer.index.settings import IndexSettings
from streamer.index.shard import Shard
from streamer.model import SOURCES_MAX, Location, Verdict, page_ref
from streamer.pages.chunk import PAGE_BYTES_MAX, Chunk
from streamer.pages.parse import PageParser
from streamer.run.explanation import signature_of
from streamer.run.index_folder import identity_of, obtain_existing_secret
from streamer.run.read_index import ReadIndex
from streamer.run.reference_indexes import ReferenceIndexes
from streamer.run.site_store import make_index_signer, read_sites
from streamer.run.stages import sign, verdicts
from streamer.sketch.signer import PageSigner
from streamer.stored.lookup import StoredLookup

ASKED = Location("asked", 0, 0)  # the place of a page that is not read from anywhere
_ASKED_REF = page_ref(SOURCES_MAX - 1, 0)  # which no source of an index has


def sign_page(parser: PageParser, signer: PageSigner, message: bytes) -> Pages:
    """Return the one page in a message, signed; its number is 0.

    Raises:
        InvalidPage: it cannot be judged; `code` says why.
    """
    batch = parser.parse(Chunk(0, 1, messages=[(0, None, message)]))
    for letter in batch.dead:
        raise InvalidPage(letter.code, letter.detail)
    for code in batch.skipped:
        raise InvalidPage(code, "such pages are skipped")
    return sign(signer, 0, batch)


class PageChecker:
    """Tells the verdicts that pages would get by the index in `folder`; for any thread.

    Args:
        topic: of the pages of a worker's index, which does not know it.
        also: the reference indexes of `--also`, if the index has some.

    Raises:
        SettingsError: the key file is unusable or missing.
        StoreMismatch: signatures made now are not those of the index, or an index of `--also` is
            missing.
        StoreUnavailable: there is no index, or an empty one.
    """

    def __init__(
        self,
        folder: Path,
        key_file: Path | None = None,
        topic: str = "pages",
        also: Sequence[str] = (),
        page_bytes_max: int = PAGE_BYTES_MAX,
    ) -> None:
        self._lock = threading.Lock()
        with ExitStack() as stack:
            self._index = stack.enter_context(closing(ReadIndex(folder, topic)))
            identity = self._index.identity
            signature = signature_of(identity)
            secret = obtain_existing_secret(folder, key_file)
            if identity_of(signature, secret) != identity:
                raise StoreMismatch(
                    f"The index {folder} was made with another key file, by another version, or by "
                    "a method with a file of its own: pages cannot be compared with it."
                )
            self._fingerprint = str(identity["fingerprint"])
            references = stack.enter_context(
                closing(ReferenceIndexes(also, self._fingerprint, identity))
            )
            lookup = StoredLookup(self._index.store, secret=secret)
            stack.callback(lookup.close)
            self._shard = Shard(
                signature.bands, lookup, state=self._index.meta.state, references=references
            )
            settings = self._shard.settings or IndexSettings()
            if settings.also:
                references.open_lookups()
            self._parser = PageParser(
                page_bytes_max=page_bytes_max,
                rules=settings.rules,
                text=signature.text,
                scope=signature.scope,
            )
            sites = read_sites(self._index.store, signature)
            self._signer = make_index_signer(sites, signature, secret)
            self._opened = stack.pop_all()

    def check(self, message: bytes) -> Verdict:
        """Return the verdict that the page in a JSON message would get now.

        Its place is ASKED.

        Raises:
            InvalidPage: it cannot be judged; `code` says why.
        """
        with self._lock:
            page = sign_page(self._parser, self._signer, message)
            page.refs += np.uint64(_ASKED_REF)
            block = ask.verdict_on(self._shard, page)
            return next(verdicts(block, self._locate, self._fingerprint))

    def _locate(self, ref: int) -> Location:
        return ASKED if ref == _ASKED_REF else self._index.locate(ref)

    def close(self) -> None:
        """Close the index, after the check in hand."""
        with self._lock:
            self._opened.close()
