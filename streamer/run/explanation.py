"""Why a page has its verdict: the kept page nearest to it, and how far from the threshold.

An index keeps the signatures of unique pages, under their URL and place. So a kept page can be
explained from the index alone, by the nearest other one. A duplicate is not in the index, so it is
explained from its text, which is signed again. All kept rows are read: the nearest page may share
no key, and that is an answer too. Nothing is written, and pages since the last flush are not seen.

Rows that share a key come first, as in the stream, which compares no others. For a page that shares
no key the most similar row is reported.

The index is read while its writer may be active. It has signatures, not texts, so similarities are
estimates.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.errors import InputError, StoreMismatch, on_failure
from streamer.index.messages import IndexSettings
from streamer.model import SIMILARITY_ONE, Basis, Location
from streamer.rules import rule_for
from streamer.run.read_index import PAGES_TOPIC, ReadIndex
from streamer.sketch.hash_sets import decide_similarity
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.site_signer import SiteSigner
from streamer.stored.store import Store
from streamer.text.visible import MAIN as MAIN_FLAG
from streamer.text.visible import Buffer, TextPart, text_parts

Progress = Callable[[int], None]  # rows read
Halves = npt.NDArray[np.uint32]
Sketch = npt.NDArray[np.uint64]


class Target(NamedTuple):
    """What is compared with all rows but the one at `ref`.

    Attributes:
        halves: the lower ones of the keys, the content key's last; 0 for a key that is not posted.
        shingles: its set, if the index has sets.
    """

    halves: Halves
    sketch: Sketch
    ref: int | None
    shingles: bytes = b""


class KeptPage(NamedTuple):
    """A kept page by its URL, its place, and the page ref that the index has it under."""

    url: str
    place: Location
    ref: int


class NearestPage(NamedTuple):
    """The kept page that decides: its similarity, 0 to 1, and how many keys it shares.

    `equal_content` says whether it has the same words in the same order, `exact` whether the
    similarity is that of sets of shingles, and no estimate.
    """

    page: KeptPage
    similarity: float
    shared_keys: int
    equal_content: bool
    exact: bool


_EQUAL_CONTENT = "The page has the words of that kept page, in the same order."
_REACHES = "The similarity to the nearest kept page reaches the threshold."
_IS_BELOW = "The similarity to the nearest kept page is below the threshold."
_FELL_BACK = " It has no main text, so the threshold of such pages holds (fallback_threshold)."
_LATER_FELL_BACK = (
    " Both are kept, so the later one probably has no main text, and the threshold of such pages "
    "held (fallback_threshold)."
)


@dataclass(frozen=True, slots=True)
class Explained:
    """What the index says of a page.

    Attributes:
        kept: the page itself where it is kept, else None.
        nearest: the most similar kept page among those that share a key, or among all where none
            does; None where nothing else is kept.
        too_short: fewer distinct shingles than are compared; None of a kept page, which no longer
            tells.
        settings: what holds for the page.
        fallback: what the reason adds where a page without main text has a stricter threshold.
    """

    kept: KeptPage | None
    nearest: NearestPage | None
    too_short: bool | None
    keys: int
    settings: IndexSettings
    fallback: str = ""

    @property
    def is_duplicate(self) -> bool:
        """Return whether the page would be called a duplicate of the nearest one."""
        if self.nearest is None or not self.nearest.shared_keys:
            return False
        passes = round(self.nearest.similarity * SIMILARITY_ONE) >= self.settings.similarity_min
        return self.nearest.equal_content or (passes and not self.too_short)

    @property
    def why(self) -> str:
        """Return the reason in one sentence."""
        nearest = self.nearest
        if nearest is None:
            return "Nothing else is kept in this index."
        if nearest.equal_content:
            return _EQUAL_CONTENT
        if self.too_short:
            least = self.settings.shingles_min
            return (
                f"The page has fewer than {least} distinct shingles, so only equal content counts."
            )
        if not nearest.shared_keys:
            return (
                "No kept page shares a key with it, so none was compared; this one is most similar."
            )
        return (_REACHES if self.is_duplicate else _IS_BELOW) + self.fallback


def describe_repeats(repeats: int, *, dropped: bool) -> str:
    """Return what is to be said of a part of a page, by what its site repeats; "" for nothing."""
    pages = "1 other page" if repeats == 1 else f"{repeats} other pages"
    also = [f"also on {pages} of the site"] if repeats else []
    why = ["left out because of that" if repeats else "left out because of what the site repeats"]
    return "; ".join(also + why * dropped)


def why_duplicate(basis: str) -> str:
    """Return the reason of a duplicate, by the basis of its verdict, in one sentence."""
    return _REACHES if basis == Basis.SIGNATURE else _EQUAL_CONTENT


class KeptIndex(ReadIndex):
    """An index that explains the pages that it keeps, and others by their texts.

    Raises:
        SettingsError: the key file is unusable or missing.
        StreamerError: as `ReadIndex`.
    """

    def __init__(self, folder: Path, key_file: Path | None, topic: str = PAGES_TOPIC) -> None:
        super().__init__(folder, topic, key_file)
        with on_failure(self.close):
            _ = self.secret

    def find(self, name: str, progress: Progress = lambda _rows: None) -> tuple[KeptPage, Target]:
        """Return the first kept page with this URL or place (`place_name`), trimmed or not.

        Raises:
            InputError: none is kept.
        """
        names = {name, name.strip()}
        if found := self._find_page(
            lambda page: not names.isdisjoint((page.url, place_name(page.place))), progress
        ):
            return found
        raise InputError(
            f"{name}: no kept page of {self.folder} has this URL or place. Duplicates are not"
            " kept: give the verdict file (--verdicts), the files with their texts (--texts), or"
            " the page's own file."
        )

    def check_verdict(self, name: str, index: str) -> None:
        """Raise StoreMismatch unless the verdict on `name` is of this index, by its fingerprint."""
        own = self.fingerprint
        if index and index != own:
            raise StoreMismatch(
                f"The verdict on {name} is of an index with other settings: its fingerprint is "
                f"{index}, that of {self.folder} is {own}. Give the verdict file of this index."
            )

    def explain_kept(
        self, kept: tuple[KeptPage, Target], progress: Progress = lambda _rows: None
    ) -> Explained:
        """Return what the index says of a page that it keeps."""
        page, target = kept
        own, keys = self.settings.for_url(page.url), len(target.halves) - 1
        found = Explained(page, self._nearest(target, own, progress), None, keys, own)
        if (strict := self._find_later_settings(found, page.url)) is not None:
            nearest = self._nearest(target, strict, progress)
            return Explained(page, nearest, None, keys, strict, _LATER_FELL_BACK)
        return found

    def _find_later_settings(self, found: Explained, url: str) -> IndexSettings | None:
        """Return what keeps two kept pages apart that have no main text; None: another reason.

        Rows show neither which page has main text nor which one came later.
        """
        if not found.is_duplicate or found.nearest is None:
            return None
        similarity = round(found.nearest.similarity * SIMILARITY_ONE)
        for each in (url, found.nearest.page.url):
            strict = self.settings.for_url(each, main=False)
            if self.settings.for_url(each).similarity_min <= similarity < strict.similarity_min:
                return strict
        return None

    def explain_text(
        self, body: bytes, flags: int, place: Location | None, progress: Progress, *, url: str
    ) -> Explained:
        """Return what the index would say of a page with this body; it is not the page at `place`.

        The URL decides which rule applies.

        Raises:
            StoreMismatch: signatures made now are not those of the index.
        """
        self.check_signatures()
        signed = self.sign(body, flags, self.signature_for(url), url)
        main = signed.main is not None and bool(signed.main[0])
        own = self.settings.for_url(url, main=main)
        too_short = int(signed.distinct[0]) < own.shingles_min
        kept = self._find_at(place, progress) if place else None
        halves, ref = signed.keys[0].astype(np.uint32), kept.ref if kept else None
        target = Target(halves, signed.sketches[0], ref, (signed.shingles or [b""])[0])
        nearest = self._nearest(target, own, progress)
        is_strict = own.threshold > self.settings.for_url(url).threshold
        fallback = _FELL_BACK if is_strict else ""
        return Explained(kept, nearest, too_short, len(halves) - 1, own, fallback)

    def text_parts(self, body: Buffer, flags: int, url: str) -> list[TextPart]:
        """Return the visible text of a page in parts, with what the index compares of it."""
        if self.sites:
            signer, flags = self.signer(self.signature), flags | MAIN_FLAG
            assert isinstance(signer, SiteSigner), "an index that knows sites"
            return text_parts(body, flags, signer.repeats(body, flags, url.encode()))
        flags |= MAIN_FLAG if self.signature_for(url).takes_main_text else 0
        return text_parts(body, flags)

    def signature_for(self, url: str) -> SignatureSettings:
        """Return how the page with this URL is signed: a rule may ask for the other text."""
        rule = rule_for(self.settings.rules, url)
        return self.signature.of_text(rule.text if rule else None)

    def _nearest(
        self, target: Target, rule: IndexSettings, progress: Progress
    ) -> NearestPage | None:
        """Return the page that decides: of those that share a key the most similar, else of all."""
        least, measure = rule.similarity_min, int(rule.measure)
        best: tuple[tuple[bool, bool, int, int], NearestPage] | None = None
        for rows, halves, slots in self.answering_rows(progress):
            agreeing = (halves == target.halves) & (target.halves != 0)
            for i, shared in enumerate(agreeing.sum(axis=1).tolist()):
                ref = rows.refs[i]
                if ref == target.ref or (self.signature.scope and not shared):
                    continue  # without a shared key it may be of another scope
                sketch = np.ascontiguousarray(rows.sketches[i])
                sets = None
                if shared and self.store.has_shingles:
                    sets = partial(_sets, self.store, target.shingles, int(slots[i]))
                found, exact = decide_similarity(measure, target.sketch, sketch, least, sets)
                equal = bool(agreeing[i, -1])
                rank = (not shared, not equal, -found, ref)  # of equals the earliest
                if best is None or rank < best[0]:
                    page, similarity = self._page(ref, rows.urls[i]), found / SIMILARITY_ONE
                    best = rank, NearestPage(page, similarity, shared, equal, exact)
        return best and best[1]

    def _find_page(
        self, is_wanted: Callable[[KeptPage], bool], progress: Progress
    ) -> tuple[KeptPage, Target] | None:
        """Return the first kept page that is wanted."""
        for rows, halves, slots in self.answering_rows(progress):
            for i, page in enumerate(map(self._page, rows.refs, rows.urls)):
                if is_wanted(page):
                    sketch, store = np.ascontiguousarray(rows.sketches[i]), self.store
                    sets = store.shingles([int(slots[i])])[0] if store.has_shingles else b""
                    return page, Target(halves[i], sketch, page.ref, sets)
        return None

    def _page(self, ref: int, url: bytes) -> KeptPage:
        return KeptPage(url.decode("utf-8", "replace"), self.locate(ref), ref)

    def _find_at(self, place: Location, progress: Progress) -> KeptPage | None:
        """Return the kept page at a place, of a file by its name without folders."""

        def named(at: Location) -> tuple[str, int, int]:
            return Path(at.topic).name, at.partition, at.offset

        found = self._find_page(lambda page: named(page.place) == named(place), progress)
        return found and found[0]


def _sets(store: Store, own: bytes, slot: int) -> tuple[bytes, bytes]:
    return own, store.shingles([slot])[0]


def with_bounds(signature: SignatureSettings, own: IndexSettings) -> SignatureSettings:
    """Return how pages are signed, with the bounds of verdicts."""
    bounds = {"threshold": own.threshold, "min_shingles": own.shingles_min}
    return signature.model_copy(update=bounds)


def place_name(place: Location) -> str:
    """Return a place as `source:number`, in another partition than 0 `source/partition:number`."""
    partition = f"/{place.partition}" if place.partition else ""
    return f"{place.topic}{partition}:{place.offset}"
