"""An index that is open for reading: what it was made with, and what it answers.

Explanations, checks, comparisons, audits, reference indexes and the console ask it, each with
functions of its own. Its writer goes on meanwhile: all is as of the newest flush at the opening,
and nothing is written.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

from streamer.errors import StoreMismatch, on_failure
from streamer.index.codec import ShardState, unpack_settings, unpack_state
from streamer.index.forgetting import Forgetting
from streamer.index.messages import IndexSettings, Pages
from streamer.index.ports import References
from streamer.index.shard import Shard
from streamer.model import SOURCES_MAX, Location, split_ref
from streamer.pages.chunk import PageBatch
from streamer.run import index_folder
from streamer.run.catalogue import is_of_replay, read_catalogue
from streamer.run.site_store import make_index_signer, read_sites
from streamer.run.stages import Locate, sign
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import PageSigner
from streamer.sketch.site_memory import SiteTables
from streamer.stored.lookup import StoredLookup
from streamer.stored.rows import ScannedRows, scan_rows
from streamer.text.visible import Buffer

PAGES_TOPIC = "pages"  # as the settings call a worker's topic by default


class ReadIndex:
    """An index that is open for reading.

    Attributes:
        store, meta: with what its newest flush says.
        identity: what it was made with.
        fingerprint: the one that its verdicts carry.
        locate: returns the place of a page ref.
    """

    def __init__(
        self, folder: Path, topic: str = PAGES_TOPIC, key_file: Path | None = None
    ) -> None:
        """Open the index in `folder`; a worker's does not know its topic of pages, `topic` is it.

        Raises:
            StoreDamaged: something of it is missing, or cannot be read.
            StoreMismatch: it is of another format, or the folder has several.
            StoreUnavailable: there is none, or it has no flush yet.
        """
        self.folder = folder
        self._key_file = key_file
        self.store, self.meta = index_folder.read_meta(index_folder.folder_of(folder))
        self.identity: index_folder.Identity = self.meta.identity
        self.fingerprint = str(self.identity["fingerprint"])
        with on_failure(self.close):
            self.locate = self._locator(topic)

    def _locator(self, topic: str) -> Locate:
        if is_of_replay(self.meta):
            return read_catalogue(self.store, self.meta).locator()
        return lambda ref: Location(topic, *split_ref(ref))

    def close(self) -> None:
        """Close its store, and what was opened of it."""
        if "lookup" in vars(self):
            self.lookup.close()
        self.store.close()

    # ---- what it was made with -------------------------------------------------------------------

    @cached_property
    def state(self) -> ShardState:
        """Return the state of its shard."""
        return unpack_state(self.meta.state)

    @cached_property
    def settings(self) -> IndexSettings:
        """Return the settings in force; the defaults where no page was judged."""
        return unpack_settings(self.state.settings) or IndexSettings()

    @cached_property
    def signature(self) -> SignatureSettings:
        """Return how it signs pages."""
        return index_folder.signature_of(self.identity)

    @cached_property
    def secret(self) -> bytes:
        """Return its secret: of the key file, else its own.

        Raises:
            SettingsError: the key file is unusable or missing.
        """
        return index_folder.obtain_existing_secret(self.folder, self._key_file)

    @property
    def wanted(self) -> index_folder.Identity:
        """Return what would identify the index if it were made now."""
        return index_folder.identity_of(self.signature, self.secret)

    def check_signatures(self) -> None:
        """Raise StoreMismatch unless signatures made now are those of the index."""
        if self.wanted["fingerprint"] != self.fingerprint:
            raise StoreMismatch(
                f"The index {self.folder} was made with another key file, by another version, or "
                "by a method with a file of its own: pages cannot be compared with it. Give its "
                "key file, or ask for a page that it keeps."
            )

    # ---- what it answers -------------------------------------------------------------------------

    @cached_property
    def lookup(self) -> StoredLookup:
        """Return its look-ups, whose table is made for the first who asks."""
        return StoredLookup(self.store, secret=self.secret)

    def shard(self, references: References | None = None) -> Shard:
        """Return its state machine, restored; queries about pages (index/ask.py) go to it."""
        bands, state = self.signature.bands, self.meta.state
        return Shard(bands, self.lookup, state=state, references=references)

    @cached_property
    def sites(self) -> SiteTables | None:
        """Return what the index knows of sites; None if nothing is asked."""
        return read_sites(self.store, self.signature)

    def signer(self, signature: SignatureSettings) -> PageSigner:
        """Return what signs pages with these settings, as if they were the next of their sites."""
        return make_index_signer(self.sites, signature, self.secret)

    def sign(self, body: Buffer, flags: int, signature: SignatureSettings, url: str = "") -> Pages:
        """Return the page with this body (UTF-8 as `flags` say: text/visible.py), signed."""
        batch = PageBatch(0, 1, [0], [None], [url.encode()], [body], [flags], [b""], [0])
        return sign(self.signer(signature), SOURCES_MAX - 1, batch)

    def answering_rows(self, progress: Callable[[int], None]) -> Iterator[ScannedRows]:
        """Yield the rows that answer: `progress` gets how many were read."""
        read = 0
        for scanned in scan_rows(self.store, Forgetting(self.state.forgotten)):
            yield scanned
            read += len(scanned.rows.refs)
            progress(read)
