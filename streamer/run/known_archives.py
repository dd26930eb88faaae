"""Archives that were read by a list of their places: whether they are what they were.

A CDX file is known by its lines, and its archives are not read again for those that were judged.
So the index notes the size and the version of each archive, and refuses one that has changed: the
rest of its records would be those of another crawl. An archive on this machine may grow.
"""

import hashlib
from collections.abc import Iterable

import msgspec

from streamer.errors import StoreMismatch
from streamer.index.codec import Entry, entry_key
from streamer.pages.archives import Version
from streamer.pages.remote import is_remote
from streamer.run.catalogue import describe_change
from streamer.stored.store import Store

_FAMILY = b"a"  # of entries next to the state, as codec.SOURCES is another
_Known = tuple[int, str]  # a size and a tag, as in `Version`

_decode = msgspec.msgpack.Decoder(_Known).decode


class KnownArchives:
    """The archives that an index has read places of; one thread asks and adds."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._new: dict[bytes, _Known] = {}  # since the last flush began
        self._flushing: dict[bytes, _Known] = {}  # by that one, which may not be on the disk yet
        self._sizes: dict[bytes, int] = {}  # before this run, of those here that it has noted

    def note(self, archives: Iterable[Version]) -> None:
        """Note archives whose records are judged now, and of one that grows its largest size.

        Many are read at a time, so a run may see the sizes of one that grows in any order.

        Raises:
            StoreMismatch: one is not what it was.
        """
        for each in archives:
            name, size, tag, _ = each
            key = _key(each.key)
            known = self._new.get(key) or self._flushing.get(key)
            if known is None and (data := self._store.note(key)):
                known = _decode(data)
            if known == (size, tag):
                continue
            before = self._sizes.get(key, known[0] if known else 0)
            if known and (known[1] != tag or is_remote(name) or size < before):
                what = f"another version of {size:,} bytes, not {before or known[0]:,}"
                if is_remote(name):
                    what += f", its ETag {tag} and not {known[1]}"
                raise StoreMismatch(describe_change(name, what))
            if known is None or size > known[0]:
                self._new[key] = size, tag
                if not is_remote(name):
                    self._sizes[key] = before

    def to_flush(self) -> list[Entry]:
        """Return what the next flush is to note."""
        self._flushing, self._new = self._new, {}
        return [(key, msgspec.msgpack.encode(known)) for key, known in self._flushing.items()]


def _key(name: str) -> bytes:
    digest = hashlib.blake2b(name.encode(errors="surrogateescape"), digest_size=8).digest()
    return entry_key(_FAMILY, int.from_bytes(digest, "big"))
