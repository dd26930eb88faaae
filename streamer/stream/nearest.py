"""The kept pages of an index that a text is nearest to: its look-up without its verdict.

The index is read beside its writer, and nothing is written. It has signatures, not texts: what is
found are estimates, of pages that share a band key with the text. Pages that the index called
duplicates were never kept, and pages since the last flush are not seen.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.errors import StoreMismatch
from streamer.index.codec import StoreMeta
from streamer.index.settings import key_columns
from streamer.index.store import Store
from streamer.index.stored_lookup import StoredLookup
from streamer.model import SIMILARITY_ONE
from streamer.sketch.measures import sketch_similarity
from streamer.sketch.method_signer import make_signer
from streamer.sketch.registry import method_class
from streamer.sketch.settings import NATIVE, SignatureSettings
from streamer.stream.index_folder import Identity, identity_of, obtain_existing_secret, read_meta
from streamer.text.visible import Buffer

_NUMBERS = ("shingle_width", "bands", "rows")
_COLLECTIONS = ("option.collection", "option.accept.collection")


class Near(NamedTuple):
    """A kept page: its estimated similarity, 0 to 1, and how many of the text's keys it shares."""

    url: str
    similarity: float
    shared_keys: int


class Nearest(NamedTuple):
    """The kept pages near a text, nearest first, and the settings of the index's signatures."""

    pages: list[Near]
    signature: SignatureSettings


def nearest_kept(
    folder: Path, body: Buffer, flags: int = 0, key_file: Path | None = None
) -> Nearest:
    """Return the kept pages of the index in `folder` that share a key with a body.

    The body is UTF-8 as `flags` tell (text/form.py).

    Raises:
        SettingsError: the key file is unusable or missing.
        StoreMismatch: the index cannot be read by this version, or its method needs a collection.
        StoreUnavailable: there is no index, or an empty one.
    """
    store, meta = read_meta(folder)
    try:
        secret = obtain_existing_secret(folder, key_file)
        signature = signature_of(meta.identity)
        _check(folder, meta, signature, secret)
        signed = make_signer(signature, secret).sign([body], [flags])
        found = _look_up(store, meta, signed.keys, signed.sketches[0], int(signature.measure))
        return Nearest(found, signature)
    finally:
        store.close()


def signature_of(identity: Identity) -> SignatureSettings:
    """Return the settings that an index's identity tells."""
    name, accept = str(identity.get("method", NATIVE)), str(identity.get("accept", ""))
    numbers = {key: int(identity[key]) for key in _NUMBERS if key in identity}
    options = _pairs(identity, "option.")
    return SignatureSettings.model_validate(
        {
            **numbers,
            "method": name,
            "accept": accept,
            "options": options,
            "parameters": options,
            "canonical": _pairs(identity, "canonical."),
            "measure": method_class(accept or name).measure,
        }
    )


def _pairs(identity: Identity, kind: str) -> tuple[str, ...]:
    """Return the parts of one kind as `name=value`, ascending."""
    names = sorted(name for name in identity if name.startswith(kind))
    return tuple(f"{name.removeprefix(kind)}={identity[name]}" for name in names)


def _check(folder: Path, meta: StoreMeta, signature: SignatureSettings, secret: bytes) -> None:
    """Raise StoreMismatch unless signatures made now are those of the index."""
    found = meta.identity
    wanted = identity_of(signature, len(meta.shards), secret)
    if found["key"] != wanted["key"]:
        raise StoreMismatch(
            f"The index {folder} was made with another key file. Give that with --key-file."
        )
    if any(found.get(name) for name in _COLLECTIONS):
        raise StoreMismatch(
            f"The index {folder} has a method that weighs words by a collection, of which it knows "
            "the fingerprint only. Compare with texts instead (--against)."
        )
    if found["fingerprint"] != wanted["fingerprint"]:
        raise StoreMismatch(
            f"The index {folder} was made by another version. Compare with texts instead "
            "(--against), or make the index anew."
        )


def _look_up(
    store: Store,
    meta: StoreMeta,
    keys: npt.NDArray[np.uint64],
    sketch: npt.NDArray[np.uint64],
    measure: int,
) -> list[Near]:
    """Return the pages under any of keys[1, bands + 1], over all shards, nearest first."""
    shared: Counter[int] = Counter()
    pages: dict[int, tuple[str, int]] = {}
    for number in range(len(meta.shards)):
        columns = key_columns(number, len(meta.shards), keys.shape[1] - 1)
        lookup = StoredLookup(store, number)
        hits = lookup.find(np.ascontiguousarray(keys[:, columns]))
        rows, counts = np.unique(hits.rows, return_counts=True)
        kept = lookup.rows(rows)
        for ref, url, other, count in zip(
            kept.refs, kept.urls, kept.sketches, counts.tolist(), strict=True
        ):
            shared[ref] += count
            similarity = int(sketch_similarity(measure, sketch, np.ascontiguousarray(other)))
            pages[ref] = (url.decode("utf-8", "replace"), similarity)
    order = sorted(pages, key=lambda ref: (-pages[ref][1], -shared[ref], ref))
    return [Near(pages[ref][0], pages[ref][1] / SIMILARITY_ONE, shared[ref]) for ref in order]
