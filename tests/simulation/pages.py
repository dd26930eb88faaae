"""Pages for the simulator: signatures with a known resemblance, and joining them.

A page's signature has one component a band. Equal components give equal band keys and equal symbols
in their part of the sketch, so the share of equal components is, up to chance agreement, the
resemblance.
"""

from functools import lru_cache
from hashlib import shake_128

import numpy as np

from streamer.index.messages import Pages
from streamer.sketch.resemblance import BINS, DENSE_LEVEL

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
    ref: int, signature: Signature, time: int, url: bytes, *, main: bool | None = None
) -> Pages:
    """Return one page, as it is signed."""
    symbols = b"".join(_symbols(i, value) for i, value in enumerate(signature))
    symbols += bytes([0b01010101]) * (BINS // 4 - len(symbols))
    sketch = (DENSE_LEVEL | BINS << 8).to_bytes(8, "little") + symbols
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
        None if main is None else np.array([main]),
    )


def join(pages: list[Pages]) -> Pages:
    """Return single pages as one block."""
    main = [p.main for p in pages if p.main is not None]
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
        main=np.concatenate(main) if main else None,
    )
