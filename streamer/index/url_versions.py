"""The newest version of each URL, and a page's change from the version before it.

The version before a page is the last one with the same URL, whatever its verdict. Equal content is
`unchanged`. Otherwise the sketches decide, as between a page and a kept one: at or above the page's
threshold it is `edited`, below it `replaced`. So a version holds its own sketch. A reference to a
row would take a tenth of the bytes, but works only if the version was kept.

A version may be as old as a kept page that still answers; otherwise the page is `new`. Its time and
the number of rows since decide that, so neither a flush nor a sweep shows. Versions go to the store
by generations, which are dropped whole; the newest version of a URL is in the newest generation
that has one. A record of the log names what is forgotten, which is what came before the record. A
version knows how many such records had come before it. So it is hidden at once, and may stay on
disk until a sweep.

A version is 296 bytes and the URL: content key u64, time i64, rows before it u64, distinct shingles
u32, records of forgetting before it u32, sketch u64[33]. All numbers are little-endian.
"""

# A version takes 296 bytes and its URL, which detects hash collisions and makes forgetting a host
# possible. Keys begin with a number that rises four times in a lifetime, and an expired number is
# deleted as one range: the binding has no compaction filters.

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.index.codec import URLS, Entry, entry_key
from streamer.index.forgetting import Forgetting, Terms
from streamer.index.messages import IndexSettings, Pages, Times
from streamer.index.ports import FlushedUrls, FoundUrls, Horizon
from streamer.model import SIMILARITY_ONE, Change
from streamer.sketch.method import sketch_similarity
from streamer.sketch.resemblance import SKETCH_WORDS

CHANGE_NAMES = tuple(Change)
NEW, UNCHANGED, EDITED, REPLACED = range(len(CHANGE_NAMES))
GENERATIONS = 4  # in the age at which pages expire: more of them are more look-ups for a new URL

_CODE_BITS = 2
VERSION_WORDS = 4 + SKETCH_WORDS
_URL_AT = 8 * VERSION_WORDS
_HALF = np.uint64(32)
_NO_VERSION = np.int32(-1 << _CODE_BITS | NEW)

Codes = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]


def split_changes(changes: Codes) -> tuple[Codes, Codes]:
    """Return the changes in a column of `Verdicts`, and the similarities that its upper bits have.

    They are in ten-thousandths; -1: none.
    """
    return changes & np.int32((1 << _CODE_BITS) - 1), changes >> np.int32(_CODE_BITS)


def count_changes(changes: Codes | None) -> list[tuple[Change, int]]:
    """Return how often there is each change in a column of `Verdicts`."""
    if changes is None:
        return []
    codes, _ = split_changes(changes)
    return list(zip(CHANGE_NAMES, np.bincount(codes).tolist(), strict=False))


def url_keys(urls: Sequence[bytes], secret: bytes) -> list[int]:
    """Return the keys of URLs: 64 bits of a hash that cannot be aimed at without the secret."""
    keyed = hashlib.blake2b(digest_size=8, key=secret, person=b"url")
    keys = []
    for url in urls:
        one = keyed.copy()
        one.update(url)
        keys.append(int.from_bytes(one.digest(), "big"))
    return keys


def url_key(generation: int, key: int) -> bytes:
    """Return the key of an entry."""
    return entry_key(URLS, generation) + key.to_bytes(8, "big")


def url_entries(urls: FlushedUrls) -> list[Entry]:
    """Return what a flush writes, in order."""
    return [(url_key(urls.generation, key), urls.versions[key]) for key in sorted(urls.versions)]


def url_of(version: bytes) -> bytes:
    """Return the URL of a version."""
    return version[_URL_AT:]


def time_of(version: bytes) -> int:
    """Return the time of a version."""
    return int.from_bytes(version[8:16], "little", signed=True)


def is_hidden(by: Terms | Forgetting, version: bytes) -> bool:
    """Return whether a version is to be forgotten, or is by now."""
    records_before = int.from_bytes(version[28:32], "little")
    return by.name(url_of(version), time_of(version), records_before)


class Tracking(NamedTuple):
    """What pages are compared by with the last versions of their URLs.

    Attributes:
        measure: the index's.
        similarity_min: int32, the threshold of each page in ten-thousandths.
        shingles_min: int32, of each page, and of a version that it is compared with.
        oldest_times: int64, what a version must have at least.
        keep_pages, oldest_row: of `Limits`, by which it is known for some rows only.
    """

    measure: int
    similarity_min: npt.NDArray[np.int32]
    shingles_min: npt.NDArray[np.int32]
    oldest_times: Times
    keep_pages: int
    oldest_row: int


@dataclass(slots=True)
class Compared:
    """Pages of a batch, compared with the last versions of their URLs before they are judged.

    Whether such a version has expired by rows is not known before the pages in between are judged.

    Attributes:
        words: uint64[n, 37], the pages as versions, without the rows before them.
        codes: int32, their changes, unless the version has expired by rows.
        before: int64, how many rows came before the version; -1 less its place in the batch.
        found: the keys of their URLs, and these as `same_url_key` has them.
        by: what they are compared by.
    """

    words: Words
    codes: Codes
    before: Rows
    found: FoundUrls
    by: Tracking

    def settle(self, rows: Rows) -> Codes:
        """Return the changes of the pages, once they are judged: `rows` came before each."""
        then = np.where(self.before < 0, rows[-1 - np.minimum(self.before, -1)], self.before)
        oldest = np.maximum(rows - self.by.keep_pages, self.by.oldest_row)
        self.codes[then < oldest] = _NO_VERSION
        return self.codes


class UrlVersions:
    """The newest versions of URLs that are not in the store yet."""

    def __init__(self) -> None:
        self.generation = (0, 0, 0)  # its number, and the time and the row at which it began
        self._recent: dict[int, bytes] = {}
        self._flushing: dict[int, bytes] = {}

    def __len__(self) -> int:
        """Return how many would go with the next flush."""
        return len(self._recent)

    def _newest(self, key: int) -> bytes | None:
        """Return the newest version of a URL, by its key, if the store may not have it yet."""
        return self._recent.get(key) or self._flushing.get(key)

    def compare(
        self, pages: Pages, found: FoundUrls, by: Tracking, forgetting: Forgetting
    ) -> Compared:
        """Compare pages with the last versions of their URLs, before these are known as versions.

        `found` is what the store has; it lacks what came since the flush that it has seen, no more.
        """
        words = _pack_words(pages, forgetting.records)
        stored: list[tuple[int, bytes]] = []  # places, and the versions before
        own: list[tuple[int, int]] = []  # places, and those of the pages before
        newest: dict[int, int] = {}
        columns = zip(found.keys, found.versions, found.urls, strict=True)
        for i, (key, version, url) in enumerate(columns):
            before = newest.get(key)
            newest[key] = i
            if before is not None:
                if found.urls[before] == url:
                    own.append((i, before))
                continue
            last = self._newest(key) or version
            is_url = last is not None and last.endswith(url) and len(last) == _URL_AT + len(url)
            if last and is_url and not (forgetting.hides and is_hidden(forgetting, last)):
                stored.append((i, last))
        data = b"".join(version[:_URL_AT] for _, version in stored)
        last_words = np.concatenate(
            (np.frombuffer(data, "<u8").reshape(-1, VERSION_WORDS), words[[at for _, at in own]])
        )
        places = np.array([i for i, _ in (*stored, *own)], np.int64)
        compared = Compared(
            words,
            np.full(len(pages), _NO_VERSION, np.int32),
            np.full(len(pages), 1 << 62, np.int64),
            found,
            by,
        )
        if len(places):
            compared.codes[places] = _compare(pages, places, last_words, by)
            compared.before[places] = last_words[:, 2].astype(np.int64)
            compared.before[places[len(stored) :]] = [-1 - at for _, at in own]
        return compared

    def insert(self, compared: Compared, rows: Rows) -> Codes:
        """Take pages, as they were compared, as the newest versions of their URLs.

        Return their changes. `rows` came before each of them.
        """
        compared.words[:, 2] = rows
        data = compared.words.tobytes()
        for i, (key, url) in enumerate(zip(compared.found.keys, compared.found.urls, strict=True)):
            self._recent[key] = data[i * _URL_AT : (i + 1) * _URL_AT] + url
        return compared.settle(rows)

    def begin_flush(self, now: Horizon, settings: IndexSettings | None) -> FlushedUrls | None:
        """Return what goes to the store, and to which generation; it stays here until `end_flush`.

        `now` is the newest time, and the number of rows.
        """
        if not self._recent:
            return None
        number, time, row = self.generation
        age = settings.expire_after_ms if settings else 0
        newest = settings.keep_pages if settings else 0
        is_full = (age and GENERATIONS * (now.time - time) >= age) or (
            newest and GENERATIONS * (now.row - row) >= newest
        )
        if is_full:
            self.generation = number + 1, now.time, now.row
        self._flushing, self._recent = self._recent, {}
        return FlushedUrls(self.generation[0], now, self._flushing)

    def end_flush(self) -> None:
        """Drop what the last flush has: from here on, look-ups must have it."""
        self._flushing = {}


def _pack_words(pages: Pages, records: int) -> Words:
    """Return pages as versions, without the rows, and with so many records of forgetting before."""
    words = np.empty((len(pages), VERSION_WORDS), "<u8")
    words[:, 0] = pages.keys[:, -1]
    words[:, 1] = pages.times.view(np.uint64)
    words[:, 3] = np.uint64(records) << _HALF | pages.distinct
    words[:, 4:] = pages.sketches
    return words


def _compare(pages: Pages, places: Rows, last: Words, by: Tracking) -> Codes:
    """Return the changes of the pages at `places` from the versions before, if rows expire none."""
    fewest = np.minimum(last[:, 3].astype(np.uint32), pages.distinct[places])
    comparable = fewest >= by.shingles_min[places]
    answers = last[:, 1].view(np.int64) >= by.oldest_times[places]
    same = last[:, 0] == pages.keys[places, -1]
    similarities = np.where(answers & same, SIMILARITY_ONE, -1).astype(np.int32)
    sketches = np.ascontiguousarray(last[:, 4:])
    for i in np.flatnonzero(answers & ~same & comparable).tolist():
        own = pages.sketches[places[i]]
        similarities[i] = sketch_similarity(by.measure, own, sketches[i])
    codes = np.where(similarities >= by.similarity_min[places], EDITED, REPLACED)
    codes[same] = UNCHANGED
    codes[~answers] = NEW
    return similarities << np.int32(_CODE_BITS) | codes.astype(np.int32)
