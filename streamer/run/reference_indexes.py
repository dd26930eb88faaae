"""Reference indexes that pages are compared with: read only, in the state as of their opening.

A page near to one of their kept pages is a duplicate of it, and is not kept. So a clean corpus, or
last year's, answers pages without being copied. The settings in the log hold the name of each
reference index and a digest of its state, so verdicts are a function of the log and of these
states. A log that names another state is refused.

Pages of a reference index never expire here and take no place in a bucket.
"""

# A digest of their state is in the CONFIG record. Their rows crowd out no candidate. The price is
# memory: 170 bytes per page of theirs.

import re
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import xxhash

from streamer.errors import SettingsError, StoreMismatch, StoreUnavailable, on_failure
from streamer.index.forgetting import Forgetting
from streamer.index.messages import Corpus, IndexSettings, Keys, Leasts, Pages
from streamer.index.pairs import find_doubtful, nearest_rows
from streamer.index.ports import BEFORE_ALL, KeptRows, Nearest, nothing_near
from streamer.index.rule import IN_DOUBT, UNKNOWN
from streamer.index.shard import missing_reference
from streamer.run import index_folder
from streamer.run.read_index import ReadIndex
from streamer.sketch.hash_sets import set_similarity
from streamer.stored.lookup import StoredLookup
from streamer.stored.opening import has_index
from streamer.stored.row_blocks import ROWS_A_BLOCK, SLOTS_A_KEY_BLOCK

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
    pages, places = np.divmod(np.repeat(hits.key_places, lengths), keys.shape[1])
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
    find_doubtful(pairs, asked.sketches, rows.sketches, asked.least, known)
    doubtful = np.flatnonzero(known == IN_DOUBT)
    doubtful = doubtful[np.argsort(pairs[doubtful, 1], kind="stable")]
    row, theirs = -1, b""
    for i, (page, at) in zip(doubtful.tolist(), pairs[doubtful].tolist(), strict=True):
        if at != row:
            row, [theirs] = at, index.lookup.shingles(numbers[at : at + 1])
        known[i] = set_similarity(asked.sets[page], theirs)
    return known
