"""Why a page is judged as it is: the kept page nearest to it, and how far from the threshold.

An index keeps signatures of pages that were unique, under their URL and place. So a kept page can
be explained from the index alone, by the other one nearest to it; a duplicate, of which nothing is
kept, by its text, which is signed again. All kept rows are read: the nearest page may share no key,
and that is an answer too. Nothing is written, and pages since the last flush are not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from streamer.errors import InputError, StoreMismatch
from streamer.index.codec import StoreMeta
from streamer.index.lookup import KeptRows
from streamer.index.row_scan import scan_rows
from streamer.index.settings import IndexSettings, key_columns
from streamer.index.snapshot import unpack_snapshot
from streamer.model import SIMILARITY_ONE, Location
from streamer.sketch.method_signer import make_signer
from streamer.sketch.settings import SignatureSettings
from streamer.stream.catalogue import own_catalogue
from streamer.stream.index_folder import identity_of, obtain_existing_secret, read_meta
from streamer.stream.nearest import signature_of
from streamer.stream.nearest_row import Marks, Progress, Sketch, Target, nearest_row


class KeptPage(NamedTuple):
    """A kept page by its URL, its place, and the page ref that the index has it under."""

    url: str
    place: Location
    ref: int


class Nearest(NamedTuple):
    """The kept page that decides: its similarity, 0 to 1, and how many keys it shares."""

    page: KeptPage
    similarity: float
    shared_keys: int


@dataclass(frozen=True, slots=True)
class Explained:
    """What the index says of a page.

    Attributes:
        kept: the page itself where it is kept, else None.
        nearest: the most similar kept page among those that share a key, or among all where none
            does; None where nothing else is kept.
        equal_content: the nearest page has the same words in the same order.
        too_short: fewer distinct shingles than are compared; None of a kept page, which no longer
            tells.
    """

    kept: KeptPage | None
    nearest: Nearest | None
    equal_content: bool
    too_short: bool | None
    keys: int
    settings: IndexSettings
    signature: SignatureSettings

    @property
    def is_duplicate(self) -> bool:
        """Tell whether the page would be called a duplicate of the nearest one."""
        if self.nearest is None or not self.nearest.shared_keys:
            return False
        passes = round(self.nearest.similarity * SIMILARITY_ONE) >= self.settings.similarity_min
        return self.equal_content or (passes and not self.too_short)


class KeptIndex:
    """An index open for reading; `rows` is how many a scan reads."""

    def __init__(self, folder: Path, key_file: Path | None = None) -> None:
        """Open the index in `folder`.

        Raises:
            SettingsError: the key file is unusable or missing.
            StoreMismatch: the index is a worker's.
            StoreUnavailable: there is no index, or an empty one.
        """
        self._folder = folder
        self._store, self._meta = read_meta(folder)
        try:
            self.signature = signature_of(self._meta.identity)
            self.secret = obtain_existing_secret(folder, key_file)
            self._locate = own_catalogue(self._meta.owner, str(folder)).locator()
            self.settings = _settings_in_force(self._meta)
        except BaseException:
            self.close()
            raise
        self.rows = sum(flush.rows for shard in self._meta.shards for flush in shard.flushes)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def find(self, name: str, progress: Progress = lambda _rows: None) -> KeptPage:
        """Return the first kept page with this URL, or at this place (`place_name`).

        Raises:
            InputError: none is kept.
        """
        for rows in self._scan(0, progress):
            for ref, url in zip(rows[0].refs, rows[0].urls, strict=True):
                page = self._page(ref, url)
                if name in (page.url, place_name(page.place)):
                    return page
        raise InputError(
            f"{name}: no kept page of {self._folder} has this URL or place. Duplicates are not"
            " kept: give the files with their texts (--texts), or the page's own file."
        )

    def explain_kept(self, page: KeptPage, progress: Progress = lambda _rows: None) -> Explained:
        """Return what the index says of a page that it keeps."""
        bands, shards = int(self._meta.identity["bands"]), len(self._meta.shards)
        own = np.zeros(bands + 1, np.uint32)  # 0: a short page is kept at the first shard alone
        sketch: Sketch | None = None
        for shard in range(shards):
            if row := self._row_of(page.ref, shard):
                own[key_columns(shard, shards, bands)], sketch = row
        assert sketch is not None, page
        target = Target(own, np.ascontiguousarray(sketch), page.ref)
        return self._explained(target, page, progress)

    def explain_text(
        self,
        body: bytes,
        flags: int = 0,
        place: Location | None = None,
        progress: Progress = lambda _rows: None,
    ) -> Explained:
        """Return what the index would say of a page with this body; it is not the page at `place`.

        Raises:
            StoreMismatch: signatures made now are not those of the index.
        """
        wanted = identity_of(self.signature, len(self._meta.shards), self.secret)
        if wanted["fingerprint"] != self._meta.identity["fingerprint"]:
            raise StoreMismatch(
                f"The index {self._folder} was made with another key file, by another version, or "
                "by a method with a file of its own. Ask for a page that it keeps, without --texts."
            )
        signed = make_signer(self.signature, self.secret).sign([body], [flags])
        too_short = int(signed.distinct[0]) < self.settings.shingles_min
        kept = self._kept_at(place) if place else None
        marks, ref = signed.keys[0].astype(np.uint32), kept.ref if kept else None
        target = Target(marks, signed.sketches[0], ref)
        return self._explained(target, kept, progress, too_short=too_short)

    def _explained(
        self,
        target: Target,
        kept: KeptPage | None,
        progress: Progress,
        *,
        too_short: bool | None = None,
    ) -> Explained:
        found = nearest_row(self._store, self._meta, target, int(self.signature.measure), progress)
        nearest = None
        if found is not None:
            page = self._page(found.ref, found.url)
            nearest = Nearest(page, found.similarity / SIMILARITY_ONE, found.shared)
        equal = found is not None and found.equal
        keys = len(target.marks) - 1
        return Explained(kept, nearest, equal, too_short, keys, self.settings, self.signature)

    def _scan(self, shard: int, progress: Progress) -> Iterator[tuple[KeptRows, Marks]]:
        read = 0
        for rows, marks in scan_rows(self._store, shard):
            yield rows, marks
            read += len(rows.refs)
            progress(read)

    def _row_of(self, ref: int, shard: int) -> tuple[Marks, Sketch] | None:
        """Return a kept page's marks at a shard, and its sketch; None where the shard has none."""
        for rows, marks in scan_rows(self._store, shard):
            if ref in rows.refs:
                at = rows.refs.index(ref)
                return marks[at], rows.sketches[at]
        return None

    def _page(self, ref: int, url: bytes) -> KeptPage:
        return KeptPage(url.decode("utf-8", "replace"), self._locate(ref), ref)

    def _kept_at(self, place: Location) -> KeptPage | None:
        """Return the kept page at a place, of a file by its name without folders."""
        for rows, _ in self._scan(0, lambda _rows: None):
            for ref, url in zip(rows.refs, rows.urls, strict=True):
                at = self._locate(ref)
                same = Path(at.topic).name == Path(place.topic).name
                if same and (at.partition, at.offset) == (place.partition, place.offset):
                    return self._page(ref, url)
        return None


def place_name(place: Location) -> str:
    """Return a place as `source:number`, in another partition than 0 `source/partition:number`."""
    partition = f"/{place.partition}" if place.partition else ""
    return f"{place.topic}{partition}:{place.offset}"


def _settings_in_force(meta: StoreMeta) -> IndexSettings:
    settings = unpack_snapshot(meta.shards[0].state).settings
    return IndexSettings.model_validate(settings) if settings else IndexSettings()
