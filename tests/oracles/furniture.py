"""The table of what sites repeat, in plain Python: buckets are lists, and entries are tuples.

It is written from the description in streamer/text/furniture.py, and shares no code with it.
"""

from collections import defaultdict
from typing import NamedTuple

from tests.oracles.plain_signature import fmix, murmur

WAYS = 4


class Seen(NamedTuple):
    """What is known of a block: its tag, the last page that had it, and that page's words."""

    tag: int
    page: int
    url: int
    size: int
    times: int


def block_key(text: bytes, host: int) -> int:
    """Return the key of a block of a host."""
    own = text.strip(bytes(range(0x21)))
    return fmix(murmur(own, 0x51735) ^ host)


class PlainTable:
    """A table of so many buckets."""

    def __init__(self, buckets: int) -> None:
        self.buckets: list[list[Seen]] = [[] for _ in range(buckets)]
        self.now = 0

    def learn(self, url: int, blocks: list[tuple[int, int]]) -> list[int]:
        """Learn a page of blocks (key, words); return their repeats."""
        new_words, sizes = 0, {}
        shared: dict[int, int] = defaultdict(int)
        for key, words in blocks:
            seen = self._find(key)
            if seen is None or not seen.times:
                new_words += words
            if seen is not None and not seen.times:
                shared[seen.page] += words
                sizes[seen.page] = seen.size
        is_version = any(
            1000 * common >= 430 * max(1, new_words + sizes[page] - common)
            for page, common in shared.items()
        )
        counts = [self._see(key, url, min(new_words, 65_535), is_version) for key, _ in blocks]
        self.now += 1
        return counts

    def _bucket(self, key: int) -> list[Seen]:
        return self.buckets[(key >> 32) * len(self.buckets) >> 32]

    def _find(self, key: int) -> Seen | None:
        tag = key & 0xFFFF_FFFF
        return next((each for each in self._bucket(key) if each.tag == tag), None)

    def _see(self, key: int, url: int, size: int, is_version: bool) -> int:
        bucket, seen, count = self._bucket(key), self._find(key), 0
        if seen is not None:
            is_other = not is_version and seen.page != self.now and seen.url != url
            count, place = min(seen.times + is_other, 255), bucket.index(seen)
        elif len(bucket) < WAYS:
            place = len(bucket)
        else:
            place = min(range(WAYS), key=lambda each: bucket[each].page)
        bucket[place : place + 1] = [Seen(key & 0xFFFF_FFFF, self.now, url, size, count)]
        return count
