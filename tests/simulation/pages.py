"""Pages for the simulator: signatures with a known resemblance, single items, and joining them.

A page's signature has one component a band. Equal components give equal band keys and equal symbols
in their part of the sketch, so the share of equal components is, up to chance agreement, the
resemblance.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import shake_128
from typing import Any

import numpy as np

from streamer.index.messages import Decisions, Forget, Items, NearMiss, Pages, Verdicts
from streamer.sketch.resemblance import BINS, DENSE_LEVEL, RANK_SHIFT, SCOPE_SHIFT

BANDS = 6
NOT_TRACKED = -(1 << 30)  # is no change
# A byte of a sketch holds four symbols, each 1 to 3: by chance, from any byte.
FOUR_SYMBOLS = bytes(
    sum(1 + byte // 3**place % 3 << 2 * place for place in range(4)) for byte in range(256)
)
Signature = tuple[int, ...]


@lru_cache(maxsize=4096)
def _symbols(component: int, value: int) -> bytes:
    """Return the sketch bytes of one component: BINS / BANDS bins, all filled."""
    drawn = shake_128(b"%d %d" % (component, value)).digest(BINS // 4 // BANDS)
    return drawn.translate(FOUR_SYMBOLS)


def make_page(
    ref: int, signature: Signature, time: int, url: bytes, *, main: bool | None = None,
    scope: int = 0, rank: int = 0,
) -> Pages:  # fmt: skip
    """Return one page, as it is signed: what shard 0 says of times is not there yet."""
    symbols = b"".join(_symbols(i, value) for i, value in enumerate(signature))
    symbols += bytes([0b01010101]) * (BINS // 4 - len(symbols))
    first = DENSE_LEVEL | BINS << 8 | scope << SCOPE_SHIFT | rank << RANK_SHIFT
    sketch = first.to_bytes(8, "little") + symbols
    keys = [hash((i, value)) & (1 << 64) - 1 for i, value in enumerate(signature)]
    keys.append(hash(signature) & (1 << 64) - 1)
    return Pages(
        np.array([ref], np.uint64),
        np.array([keys], np.uint64),
        np.frombuffer(sketch, np.uint64).reshape(1, -1),
        np.array([32], np.uint8),
        np.array([100], np.uint32),
        np.array([1000], np.int64),
        [url],
        [None],
        [b""],
        np.array([time]),
        np.array([time]),
        None if main is None else np.array([main]),
    )


def split(items: Pages | Decisions | Forget | Verdicts) -> list[Items | tuple[int, ...]]:
    """Return the items one by one.

    Verdicts are (ref, similarity, basis, representative, change, what is nearest to a unique page
    and what contains it, and what a duplicate supersedes).
    """
    if isinstance(items, Pages):
        return [items.take([i]) for i in range(len(items))]
    if isinstance(items, Decisions):
        return [Decisions(items.refs[i : i + 1], items.kept[i : i + 1]) for i in range(len(items))]
    if isinstance(items, Forget):
        return [Forget([term], items.ask) for term in items.terms]
    changes = items.pages.changes
    return list(
        zip(
            items.pages.refs.tolist(),
            items.similarities.tolist(),
            items.basis.tolist(),
            items.representative_refs.tolist(),
            [NOT_TRACKED] * len(items) if changes is None else changes.tolist(),
            zip(
                *(
                    map(_near, items.similarities.tolist(), column or [None] * len(items))
                    for column in (items.pages.nearest, items.pages.containers)
                ),
                items.supersedes or [None] * len(items),
                strict=True,
            ),
            strict=True,
        )
    )


def _near(similarity: int, near: NearMiss | None) -> tuple[int, ...]:
    return () if near is None or similarity >= 0 else (near.similarity, near.ref)


def alike(items: list[Any]) -> list[Any]:
    """Return the first items, as far as all have the same optional columns."""
    optional = "main", "changes", "replacements", "nearest", "containers", "renews", "matches"
    has = [[getattr(item, name, None) is not None for name in optional] for item in items]
    return items[: next((i for i, each in enumerate(has) if each != has[0]), len(items))]


def join(items: list[Pages] | list[Decisions] | list[Forget]) -> Pages | Decisions | Forget:
    """Return single items of one kind as one block; of what is to be forgotten there is one."""
    first = items[0]
    if isinstance(first, Forget):
        return first
    if isinstance(first, Decisions):
        return Decisions(
            np.concatenate([d.refs for d in items]),  # type: ignore[union-attr]
            np.concatenate([d.kept for d in items]),  # type: ignore[union-attr]
        )
    pages = [p for p in items if isinstance(p, Pages)]
    main = [p.main for p in pages if p.main is not None]
    changes = [p.changes for p in pages if p.changes is not None]
    replacements = [p.replacements for p in pages if p.replacements is not None]
    renews = [p.renews for p in pages if p.renews is not None]
    return Pages(
        np.concatenate([p.refs for p in pages]),
        np.concatenate([p.keys for p in pages]),
        np.concatenate([p.sketches for p in pages]),
        np.concatenate([p.distinct for p in pages]),
        np.concatenate([p.tokens for p in pages]),
        np.concatenate([p.text_bytes for p in pages]),
        urls=[p.urls[0] for p in pages],
        message_keys=[p.message_keys[0] for p in pages],
        carried=[p.carried[0] for p in pages],
        times=np.concatenate([p.times for p in pages]),
        watermarks=np.concatenate([p.watermarks for p in pages]),
        main=np.concatenate(main) if main else None,
        changes=np.concatenate(changes) if changes else None,
        replacements=np.concatenate(replacements) if replacements else None,
        nearest=[near for p in pages for near in p.nearest or ()] or None,
        containers=[near for p in pages for near in p.containers or ()] or None,
        renews=np.concatenate(renews) if renews else None,
        matches=[match for p in pages for match in p.matches or ()] or None,
    )
