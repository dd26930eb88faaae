"""What an index stores of its sites: the parts of the table that a flush changed, and a note.

The note says how many pages the table has learned from, and which parts were ever stored: one that
is missing is damage, and not an empty one. Parts and note go with the flush, in its atomic step.
"""

from __future__ import annotations

import msgspec
import numpy as np

from streamer.errors import SettingsError, damaged
from streamer.index.codec import Entry, StoreMeta, entry_key
from streamer.sketch.method_signer import make_signer
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import NativeSigner, PageSigner
from streamer.sketch.site_memory import PART_BYTES, SiteMemory
from streamer.sketch.site_signer import SiteSigner
from streamer.stored.store import Store
from streamer.text.main_text import SITE_MODEL

_FAMILY = b"f"  # of entries next to the state, as codec.SOURCES is another
_NOTE_KEY = entry_key(_FAMILY, (1 << 64) - 1)


class _TableNote(msgspec.Struct, array_like=True):
    """How many pages were learned from, and as bits which parts are stored."""

    pages: int
    parts: bytes


def site_entries(memory: SiteMemory | None) -> list[Entry]:
    """Return what the next flush is to note of a table; they count as written from here on."""
    if memory is None:
        return []
    pages, parts = memory.to_flush()
    note = _TableNote(pages, np.packbits(memory.stored).tobytes())
    entries = [(entry_key(_FAMILY, number), data) for number, data in parts]
    return [*entries, (_NOTE_KEY, msgspec.msgpack.encode(note))]


def stored_entries(store: Store) -> list[Entry]:
    """Return all that a store has of a table.

    Raises:
        StoreDamaged: a part is missing.
    """
    found = store.note(_NOTE_KEY)
    if found is None:
        return []
    note = msgspec.msgpack.decode(found, type=_TableNote)
    entries = [(_NOTE_KEY, found)]
    for number in np.flatnonzero(np.unpackbits(np.frombuffer(note.parts, np.uint8))).tolist():
        key = entry_key(_FAMILY, number)
        data = store.note(key)
        if data is None or len(data) != PART_BYTES:
            raise damaged(store.path, f"part {number} of what it knows of sites is missing")
        entries.append((key, data))
    return entries


def read_sites(store: Store, signature: SignatureSettings) -> SiteMemory | None:
    """Return the table as of the newest flush; None where the index has none.

    A worker's index has it in a topic (kafka/sites_topic.py): then it is empty.

    Raises:
        StoreDamaged: a part is missing, or all of them.
    """
    entries = stored_entries(store) if signature.site_memory else []
    if not entries:
        if signature.site_memory and store.meta is not None and is_of_replay(store.meta):
            raise damaged(store.path, "the note of what it knows of sites is missing")
        return new_sites(signature)
    note = msgspec.msgpack.decode(entries[0][1], type=_TableNote)
    parts = [(int.from_bytes(key[1:], "big"), data) for key, data in entries[1:]]
    return SiteMemory(signature.site_memory, note.pages, parts)


def is_of_replay(meta: StoreMeta) -> bool:
    """Return whether an index is that of a replay or a program: it has sources of its own."""
    return "entries" in msgspec.msgpack.decode(meta.owner)


def new_sites(signature: SignatureSettings) -> SiteMemory | None:
    """Return an empty table for an index with these settings; None where it has none."""
    return SiteMemory(signature.site_memory) if signature.site_memory else None


def signer_with(
    memory: SiteMemory | None, signature: SignatureSettings, secret: bytes
) -> PageSigner:
    """Return the signer of an index that has this table, or none.

    Raises:
        SettingsError: the model for sites is another one.
    """
    if memory is None:
        return make_signer(signature, secret)
    if not signature.model.knows_sites:
        raise SettingsError(
            f"The model {SITE_MODEL} is for single pages. Put back that of the package."
        )
    return SiteSigner.of(NativeSigner(signature, secret), memory, secret)
