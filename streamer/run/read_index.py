"""An index that is open for reading: what it was made with, and what it answers.

Explanations, checks, comparisons, audits, reference indexes and the console ask it, each with
functions of its own. Its writer goes on meanwhile: all is as of the newest flush at the opening,
and nothing is written.

Reference indexes are those that pages are compared with, in the state as of their opening. A page
near to one of their kept pages is a duplicate of it, and is not kept. So a clean corpus, or
last year's, answers pages without being copied. The settings in the log hold the name of each
reference index and a digest of its state, so verdicts are a function of the log and of these
states. A log that names another state is refused.

Pages of a reference index never expire here and take no place in a bucket.

A `PageChecker` has the verdict that a page would get, by `sign_page` and `ask.verdict_on`, of a
shard that it has restored from the newest flush; `Deduplicator.check` asks the shard of the judge,
which knows what was added since.
"""

# A digest of their state is in the CONFIG record. Their rows crowd out no candidate. The price is
# memory: 170 bytes per page of theirs.

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import xxhash

from streamer.errors import InvalidPage, SettingsError, StoreMismatch, StoreUnavailable, on_failure
from streamer.index import ask
from streamer.index.codec import ShardState, unpack_settings, unpack_state
from streamer.index.forgetting import Forgetting
from streamer.index.messages import Corpus, IndexSettings, Keys, Leasts, Pages
from streamer.index.ports import BEFORE_ALL, KeptRows, Nearest, References, nothing_near
from streamer.index.rule import IN_DOUBT, UNKNOWN, mark_doubtful, nearest_rows
from streamer.index.shard import Shard, missing_reference
from streamer.model import SOURCES_MAX, Location, Verdict, page_ref, split_ref
from streamer.pages.chunk import PAGE_BYTES_MAX, Chunk, PageBatch
from streamer.pages.parse import PageParser
from streamer.run import index_folder
from streamer.run.catalogue import is_of_replay, read_catalogue
from streamer.run.site_store import make_index_signer, read_sites
from streamer.run.stages import Locate, sign, verdicts
from streamer.sketch.hash_sets import set_similarity
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import PageSigner
from streamer.sketch.site_memory import SiteTables
from streamer.stored.lookup import StoredLookup
from streamer.stored.opening import has_index
from streamer.stored.row_blocks import ROWS_A_BLOCK, SLOTS_A_KEY_BLOCK
from streamer.stored.rows import ScannedRows, scan_rows
from streamer.text.visible import Buffer

PAGES_TOPIC = "pages"  # as the settings call a worker's topic by default
ASKED = Location("asked", 0, 0)  # the place of a page that is not read from anywhere
ASKED_REF = page_ref(SOURCES_MAX - 1, 0)  # which no source of an index has


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


# ---- reference indexes ---------------------------------------------------------------------------


_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_PAIRS_AT_ONCE = 1 << 16  # that are compared: their rows take some 20 MB at the worst
_ROW_BITS = np.uint64(44)  # of a word with a row and the page of a batch
_ROW_MASK = np.uint64((1 << 44) - 1)

Places = npt.NDArray[np.int64]


def parse_also(text: str) -> tuple[str, str]:
    """Return the name and the folder in NAME=FOLDER, or in FOLDER, whose last part is the name.

    A folder of "" ends what had this name.

    Raises:
        SettingsError: it is neither.
    """
    name, equals, folder = text.partition("=")
    if not equals:
        name, folder = Path(text).absolute().name, text
    if not _NAME.fullmatch(name) or not (folder or equals):
        raise SettingsError(
            f"--also cannot be {text!r}. Give NAME=FOLDER: a name of at most 100 letters, digits, "
            "'.', '_' or '-', and the folder of an index."
        )
    return name, folder


class ReferenceIndex(ReadIndex):
    """An index that is open for reading, under the name that `--also` gives it."""

    def __init__(self, name: str, folder: Path) -> None:
        """Open it, as `ReadIndex` does."""
        if not has_index(folder):
            why = f"There is no index in {folder}. --also {name}=FOLDER names the folder of one."
            raise StoreUnavailable(why)
        super().__init__(folder, name)
        self.corpus = Corpus(name=name, digest=self._digest())

    @cached_property
    def lookup(self) -> StoredLookup:
        """Return its look-ups, whose table is made for the first who asks."""
        return StoredLookup(self.store)

    @cached_property
    def forgetting(self) -> Forgetting:
        """Return what is to be forgotten of it."""
        return Forgetting(self.state.forgotten)

    def _digest(self) -> str:
        """Return what identifies its state: its counts, and its newest rows."""
        meta, digest = self.meta, xxhash.xxh3_128()
        known = meta.identity["fingerprint"], meta.seq, meta.rows, meta.postings, meta.state
        digest.update(msgspec.msgpack.encode((*known, meta.owner)))
        for block in self.store.key_blocks[-1:]:
            digest.update(self.store.row_blocks([block * SLOTS_A_KEY_BLOCK // ROWS_A_BLOCK])[0])
        return digest.hexdigest()

    def check(self, fingerprint: str, wanted: index_folder.Identity | None) -> None:
        """Raise StoreMismatch unless its signatures are those of this fingerprint.

        `wanted` is what the fingerprint is of, where that is known.
        """
        if self.identity["fingerprint"] == fingerprint:
            return
        found = self.identity
        differing = index_folder.differences(found, wanted) if wanted else "the fingerprints"
        key, remedy = index_folder.own_key(self.folder), ""
        if wanted is None or found["key"] != wanted["key"]:
            with_it = f"make the new one with --key-file {key}" if key.exists() else ""
            remedy = f"; for the key, {with_it or 'use its --key-file'}"
        raise StoreMismatch(
            f"Pages cannot be compared with the index {self.folder} (--also {self.corpus.name}), "
            f"which was made with other settings: {differing}. Give the same here{remedy}."
        )


class ReferenceIndexes:
    """All that `--also` gives, opened.

    Of several under one name the last counts from here on; those before it are for what the log
    was reported earlier. A folder with the indexes of partitions gives each, as NAME.shard-N.
    `in_force` is what the settings name.

    Raises:
        StreamerError: as `ReferenceIndex`, and as its `check`.
    """

    def __init__(
        self, given: Sequence[str], fingerprint: str, wanted: index_folder.Identity | None = None
    ) -> None:
        self.indexes: list[ReferenceIndex] = []
        in_force: dict[str, list[Corpus]] = {}
        with on_failure(self.close):
            for name, folder in map(parse_also, given):
                in_force.pop(name, None)
                parts = index_folder.shard_folders(Path(folder)) if folder else []
                for part in parts:
                    own = f"{name}.{part}" if len(parts) > 1 else name
                    self.indexes.append(ReferenceIndex(own, Path(folder) / part))
                    self.indexes[-1].check(fingerprint, wanted)
                    in_force.setdefault(name, []).append(self.indexes[-1].corpus)
        self.in_force = tuple(chain.from_iterable(in_force.values()))

    def name_in(self, settings: IndexSettings) -> IndexSettings:
        """Return the settings with those in them that are in force."""
        return settings.model_copy(update={"also": self.in_force})

    def nearest(self, pages: Pages, masks: Keys, settings: IndexSettings) -> Nearest:
        """Return what the indexes that the settings name have nearest to pages; in any thread.

        Raises:
            StoreMismatch: one of these indexes is not there.
        """
        found = nothing_near(len(pages))
        by_corpus = {index.corpus: index for index in self.indexes}
        least, _ = settings.least_of(pages.urls, pages.main)
        asked = _Asked(
            np.ascontiguousarray(pages.sketches), least, least - np.int32(settings.margin),
            int(settings.measure), pages.shingles if settings.exact else None,
        )  # fmt: skip
        for corpus in settings.also:
            if corpus not in by_corpus:
                raise StoreMismatch(missing_reference(corpus))
            index = by_corpus[corpus]
            pairs, of_content = _pairs(index, pages.keys, masks)
            for start in range(0, len(pairs), _PAIRS_AT_ONCE):
                _compare(index, pairs[start : start + _PAIRS_AT_ONCE], of_content, asked, found)
        return found

    def close(self) -> None:
        """Close them."""
        for index in self.indexes:
            index.close()


def _pairs(index: ReferenceIndex, keys: Keys, masks: Keys) -> tuple[Keys, Keys]:
    """Return page << 32 | row of all that share a key, ascending, and of those of one content."""
    hits = index.lookup.find(np.ascontiguousarray(keys))
    lengths = np.diff(hits.starts)
    pages, places = np.divmod(np.repeat(hits.places, lengths), keys.shape[1])
    has = (masks[pages] >> places.astype(np.uint64) & np.uint64(1)).astype(np.bool_)
    both = pages[has].astype(np.uint64) << _ROW_BITS | hits.rows[has].astype(np.uint64)
    return np.unique(both), both[places[has] == keys.shape[1] - 1]


class _Asked(NamedTuple):
    """What pages are compared by: sketches, their own thresholds, and sets where these decide.

    What is nearest is noted from the similarity `noted` on.
    """

    sketches: Keys
    least: Leasts
    noted: Leasts
    measure: int
    sets: list[bytes] | None


def _compare(
    index: ReferenceIndex, pairs: Keys, of_content: Keys, asked: _Asked, found: Nearest
) -> None:
    """Compare pairs of a page and a row; note what is nearer than what is found."""
    distinct, at = np.unique(pairs & _ROW_MASK, return_inverse=True)
    numbers = distinct.astype(np.int64)
    rows = index.forgetting.hide(index.lookup.rows(numbers), numbers)
    answers = index.meta.horizon.has(rows.times, numbers) & (rows.times > BEFORE_ALL)
    pairs, at = pairs[answers[at]], at[answers[at]]
    pages = (pairs >> _ROW_BITS).astype(np.int64)
    both = np.stack((pages, at), axis=1)
    known = _set_similarities(index, both, numbers, rows, asked)
    best = np.full(len(asked.sketches), -1, np.int64)
    nearest_rows(
        both, asked.sketches, rows.sketches, asked.measure, asked.noted, known, best,
        found.similarities,
    )  # fmt: skip
    near = np.flatnonzero(best >= 0)
    nearest = best[near]
    found.same_content[near] = np.isin(pairs[nearest], of_content)
    found.exact[near] = known[nearest] >= 0
    for page, place in zip(near.tolist(), at[nearest].tolist(), strict=True):
        found.refs[page], found.urls[page] = rows.refs[place], rows.urls[place]
        found.references[page] = index


def _set_similarities(
    index: ReferenceIndex, pairs: Places, numbers: Places, rows: KeptRows, asked: _Asked
) -> Places:
    """Return for each pair the similarity of its sets where the sketches leave it in doubt.

    Elsewhere it is UNKNOWN. Each set is read once, and by itself: they may be large.
    """
    known = np.full(len(pairs), UNKNOWN)
    if asked.sets is None:
        return known
    mark_doubtful(pairs, asked.sketches, rows.sketches, asked.least, known)
    doubtful = np.flatnonzero(known == IN_DOUBT)
    doubtful = doubtful[np.argsort(pairs[doubtful, 1], kind="stable")]
    row, theirs = -1, b""
    for i, (page, at) in zip(doubtful.tolist(), pairs[doubtful].tolist(), strict=True):
        if at != row:
            row, [theirs] = at, index.lookup.shingles(numbers[at : at + 1])
        known[i] = set_similarity(asked.sets[page], theirs)
    return known


# ---- pages that are asked about ------------------------------------------------------------------


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
