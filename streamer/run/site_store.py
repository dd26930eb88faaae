"""What an index stores of its sites: the parts of its tables that a flush changed, and a note.

The note says of each table how many pages it has learned from, and which parts were ever stored:
one that is missing is damage, and not an empty one. All go with the flush, in its atomic step.
"""

import msgspec
import numpy as np

from streamer.errors import SettingsError, damage_error
from streamer.index.codec import Entry, entry_key
from streamer.run.catalogue import is_of_replay
from streamer.sketch.method_signer import make_signer
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import NativeSigner, PageSigner
from streamer.sketch.site_memory import PART_BYTES, SiteMemory, SiteTables, TableParts
from streamer.sketch.site_signer import SiteSigner
from streamer.stored.store import Store
from streamer.text.main_text import SITE_MODEL

_FAMILY = b"f"  # of entries next to the state, as codec.SOURCES is another
NOTE_KEY = entry_key(_FAMILY, (1 << 64) - 1)


class _TableNote(msgspec.Struct, array_like=True):
    """How many pages a table has learned from, and as bits which of its parts are stored."""

    pages: int
    parts: bytes


def part_key(table: int, part: int) -> bytes:
    """Return the key of a part of a table."""
    return entry_key(_FAMILY, table << 32 | part)


def site_entries(sites: SiteTables | None) -> list[Entry]:
    """Return what the next flush is to note of all tables; it counts as written from here on."""
    if sites is None:
        return []
    entries, notes = list[Entry](), dict[int, _TableNote]()
    for number, table in [*sites.by_number.items()]:
        changed = table.to_flush()
        entries += [(part_key(number, part), data) for part, data in changed.parts]
        notes[number] = _TableNote(changed.pages, np.packbits(table.stored).tobytes())
    return [*entries, (NOTE_KEY, msgspec.msgpack.encode(notes))]


def read_sites(store: Store, signature: SignatureSettings) -> SiteTables | None:
    """Return the tables as of the newest flush; None where the index has none.

    A worker's index has them in topics (kafka/sites_topic.py): then they are empty.

    Raises:
        StoreDamaged: a part is missing, or all of them.
    """
    if (sites := new_sites(signature)) is None:
        return None
    if (found := store.note(NOTE_KEY)) is None:
        if store.meta is not None and is_of_replay(store.meta):
            raise damage_error(store.path, "the note of what it knows of sites is missing")
        return sites
    for number, note in msgspec.msgpack.decode(found, type=dict[int, _TableNote]).items():
        parts = list[tuple[int, bytes]]()
        for part in np.flatnonzero(np.unpackbits(np.frombuffer(note.parts, np.uint8))).tolist():
            data = store.note(part_key(number, part))
            if data is None or len(data) != PART_BYTES:
                raise damage_error(store.path, f"part {part} of what it knows of sites is missing")
            parts.append((part, data))
        stored = TableParts(note.pages, 0, parts)
        sites.by_number[number] = SiteMemory(signature.site_memory, stored)
    return sites


def new_sites(signature: SignatureSettings) -> SiteTables | None:
    """Return empty tables for an index with these settings; None where it has none."""
    return SiteTables(signature.site_memory) if signature.site_memory else None


def make_index_signer(
    sites: SiteTables | None, signature: SignatureSettings, secret: bytes
) -> PageSigner:
    """Return the signer of an index that has these tables, or none.

    Raises:
        SettingsError: the model for sites is another one.
    """
    if sites is None:
        return make_signer(signature, secret)
    if not signature.model.knows_sites:
        why = f"The model {SITE_MODEL} is for single pages. Put back that of the package."
        raise SettingsError(why)
    return SiteSigner.of(NativeSigner(signature, secret), sites, secret)
