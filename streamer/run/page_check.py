"""The verdict that a page would get, of an index that is open to judge or to be read alone.

It is `sign_page` and `ask.verdict_on`: `Deduplicator.check` asks the shard of the judge, which
knows what was added since the flush, and a `PageChecker` asks a shard that it has restored from the
newest flush of a folder. Its writer goes on meanwhile, and nothing is written.
"""

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from streamer.errors import InvalidPage, on_failure
from streamer.index import ask
from streamer.index.messages import Pages
from streamer.model import SOURCES_MAX, Location, Verdict, page_ref
from streamer.pages.chunk import PAGE_BYTES_MAX, Chunk
from streamer.pages.parse import PageParser
from streamer.run.read_index import PAGES_TOPIC, ReadIndex
from streamer.run.reference_indexes import ReferenceIndexes
from streamer.run.stages import sign, verdicts
from streamer.sketch.signer import PageSigner

ASKED = Location("asked", 0, 0)  # the place of a page that is not read from anywhere
ASKED_REF = page_ref(SOURCES_MAX - 1, 0)  # which no source of an index has


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


class PageChecker(ReadIndex):
    """Returns the verdicts that pages would get by the index in `folder`; for any thread.

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
        topic: str = PAGES_TOPIC,
        also: Sequence[str] = (),
        page_bytes_max: int = PAGE_BYTES_MAX,
    ) -> None:
        self._lock = threading.Lock()
        self._references: ReferenceIndexes | None = None
        super().__init__(folder, topic, key_file)
        with on_failure(self.close):
            self.check_signatures()
            self._references = ReferenceIndexes(also, self.fingerprint, self.identity)
            self._shard = self.shard(self._references)
            for index in self._references.indexes if self.settings.also else ():
                _ = index.lookup  # whose table is made before anything is judged
            self._parser = PageParser(
                page_bytes_max=page_bytes_max, rules=self.settings.rules,
                text=self.signature.text, scope=self.signature.scope,
            )  # fmt: skip
            self._signer = self.signer(self.signature)

    def check(self, message: bytes) -> Verdict:
        """Return the verdict that the page in a JSON message would get now.

        Its place is ASKED.

        Raises:
            InvalidPage: it cannot be judged; `code` says why.
        """
        with self._lock:
            page = sign_page(self._parser, self._signer, message)
            page.refs += np.uint64(ASKED_REF)
            block = ask.verdict_on(self._shard, page)
            return next(verdicts(block, self._place_of, self.fingerprint))

    def _place_of(self, ref: int) -> Location:
        return ASKED if ref == ASKED_REF else self.locate(ref)

    def close(self) -> None:
        """Close the index, after the check in hand."""
        with self._lock:
            if self._references is not None:
                self._references.close()
            super().close()
