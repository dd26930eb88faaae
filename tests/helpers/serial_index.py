"""What an index must say, as a serial program over dictionaries."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

from streamer.index.messages import Forget, IndexSettings, NearMiss, Pages, Verdicts
from streamer.index.rule import CONTENT, SIGNATURE, TOO_SHORT
from streamer.sketch.resemblance import similarity
from tests.oracles.hash_sets import decided
from tests.oracles.log_time import PlainTime

ELSEWHERE = "clean"  # the name of the other index, where there is one


class Judged(NamedTuple):
    """A verdict as plain values; `similarity` is -1 for a unique page.

    `near` is what is nearest to that: similarity, ref, exact, and the index that has it.
    """

    ref: int
    similarity: int
    basis: int
    representative: int
    url: bytes
    exact: bool
    near: tuple[int, int, bool, str] | None = None


def judged(block: Verdicts) -> list[Judged]:
    """Return the verdicts of a block as plain values."""
    columns = (
        block.pages.refs.tolist(),
        block.similarities.tolist(),
        block.basis.tolist(),
        block.representative_refs.tolist(),
        block.representative_urls,
        [False] * len(block) if block.exact is None else block.exact.tolist(),
        map(_near, block.similarities.tolist(), block.nearest or [None] * len(block)),
    )
    return [Judged(*values) for values in zip(*columns, strict=True)]


def _near(similarity: int, near: NearMiss | None) -> tuple[int, int, bool, str] | None:
    if near is None or similarity >= 0:
        return None
    return near.similarity, near.ref, near.exact, near.index


def own_settings(pages: Pages, place: int, settings: IndexSettings) -> IndexSettings:
    """Return what holds for one of the pages."""
    main = pages.main is None or bool(pages.main[place])
    return settings.for_url(pages.urls[place].decode(), main=main)


def likeness(pages: Pages, one: int, other: int, settings: IndexSettings) -> tuple[int, bool]:
    """Return the resemblance of two of the pages in ten-thousandths, and whether it is exact.

    It is estimated, but where the settings have the sets decide what is in doubt for the first.
    """
    sketches = pages.sketches[one], pages.sketches[other]
    score = similarity(*sketches)
    if not settings.exact or pages.shingles is None:
        return score, False
    least = own_settings(pages, one, settings).similarity_min
    return decided(score, sketches, (pages.shingles[one], pages.shingles[other]), least)


def own_keys(pages: Pages, place: int, settings: IndexSettings) -> list[int]:
    """Return the keys that a page may be found under: none if it is empty, one if it is short."""
    keys: list[int] = pages.keys[place].tolist()
    settings = own_settings(pages, place, settings)
    if pages.tokens[place] == 0:
        return []
    return keys if pages.distinct[place] >= settings.shingles_min else keys[-1:]


def is_named(forget: Forget, url: bytes, is_before: Callable[[int], bool]) -> bool:
    """Return whether one of the terms names a page with this URL, `is_before` a moment or not."""
    host = (urlsplit(url.decode()).hostname or "").encode()
    return any(
        (kind, value) in {("url", url), ("host", host)}
        or (kind == "before" and is_before(int(value)))
        for kind, value in forget.terms
    )


def serial_verdicts(
    pages: Pages,
    settings: IndexSettings,
    forgets: Mapping[int, Sequence[Forget]] = {},
    elsewhere: Callable[[int], Judged | None] = lambda _place: None,
) -> list[Judged]:
    """Return the verdicts on the pages, judged one after another.

    `forgets` are to be forgotten before the page at a place. `elsewhere` is the verdict on the page
    at a place where other indexes have one like it, or, with near misses, one as like as any.
    """
    kept = _Kept(settings)
    time = kept.time
    result = []
    for place, ref in enumerate(pages.refs.tolist()):
        for forget in forgets.get(place, ()):
            kept.forget(
                lambda page, f=forget: is_named(f, pages.urls[page], partial(time.is_before, page))  # type: ignore[misc]
            )
        time.take(int(pages.times[place]))
        keys = own_keys(pages, place, settings)
        candidates = kept.candidates(keys)
        candidates = candidates[: settings.candidates_max]
        scores = [(*likeness(pages, place, kept.rows[row], settings), -row) for row in candidates]
        score, exact, best = max(scores, default=(-1, False, 0), key=lambda s: (s[0], s[2]))
        own = own_settings(pages, place, settings)
        short = pages.distinct[place] < own.shingles_min
        other = elsewhere(place)
        if other is not None and other.similarity > max(score, own.similarity_min - 1):
            result.append(other)
            continue
        match = kept.rows[-best] if candidates else 0
        mine = int(pages.refs[match]), pages.urls[match]
        if score >= own.similarity_min:
            same = bool(keys) and -best in kept.answering(keys[-1])
            basis = TOO_SHORT if short else CONTENT if same else SIGNATURE
            result.append(Judged(ref, score, basis, *mine, exact))
            continue
        near = (score, mine[0], exact, "")
        if other is not None and other.similarity > score:
            near = other.similarity, other.representative, other.exact, ELSEWHERE
        lowest = max(own.similarity_min - settings.margin, 0)
        basis = TOO_SHORT if short else SIGNATURE
        shown = near if settings.margin and near[0] >= lowest else None
        result.append(Judged(ref, -1, basis, 0, b"", False, shown))
        if keys:
            kept.insert(place, keys)
    return result


class _Kept:
    """The rows of a serial index, each by the place of its page, and its buckets of them."""

    def __init__(self, settings: IndexSettings) -> None:
        self._settings = settings
        self._age = settings.expire_after_ms or math.inf
        self._newest = settings.keep_pages or math.inf
        self.time = PlainTime()
        self.rows: list[int] = []
        self.buckets: dict[int, list[int]] = defaultdict(list)

    def forget(self, names: Callable[[int], bool]) -> None:
        """Forget the rows whose pages `names` names."""
        named = {row for row, page in enumerate(self.rows) if names(page)}
        for key, bucket in self.buckets.items():
            self.buckets[key] = [row for row in bucket if row not in named]

    def candidates(self, keys: Sequence[int]) -> list[int]:
        """Return the rows under keys that may answer a page now, in order."""
        return sorted({row for key in keys for row in self.answering(key)})

    def answering(self, key: int) -> list[int]:
        """Return the rows under a key that answer now; wrong dates may have others do so later."""
        return [
            row
            for row in self.buckets[key]
            if self.time.age(self.rows[row]) <= self._age and len(self.rows) - row <= self._newest
        ]

    def insert(self, page: int, keys: Sequence[int]) -> None:
        """Insert a page under those of its keys whose buckets have room."""
        for key in keys:
            if len(self.answering(key)) < self._settings.bucket_max:
                self.buckets[key].append(len(self.rows))
        self.rows.append(page)
