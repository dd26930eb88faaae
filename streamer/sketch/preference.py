"""The rank of a page as the copy to keep of its cluster (`--prefer`), stored in its sketch.

A rank says which of two near-duplicates is the better copy: the one with more text, the one with an
https URL, or the one with the greater number in a field. It decides on no duplicate. All kept pages
need one, since each may have better copies later. So it is in 44 bits of the sketch's first word
(resemblance.py): logs, states, rows and snapshots have it without a column or another format.

Ranks are numbers of 64 bits in floating point, as integers in the same order, without their lowest
20 bits. So whole numbers up to 2**33 are compared exactly, and times to a quarter of a second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from streamer.sketch.resemblance import RANK_SHIFT

LONGEST, HTTPS = "longest", "https"
FIELD = "field:"  # before the name of a field
NO_NUMBER = -math.inf  # of a page without the field: it is no better copy of any page

_SIGN = np.uint64(1 << 63)
_HTTPS = b"https://"

Ranks = npt.NDArray[np.uint64]


def field_of(prefer: str) -> str:
    """Return the name of the field in `field:NAME`; "" of other preferences."""
    return prefer.removeprefix(FIELD) if prefer.startswith(FIELD) else ""


def is_preference(prefer: str) -> bool:
    """Return whether a text is one of the preferences."""
    return prefer in {LONGEST, HTTPS} or bool(field_of(prefer))


def ranks_of(
    prefer: str,
    urls: Sequence[bytes],
    text_bytes: npt.NDArray[np.int64],
    numbers: Sequence[float],
) -> Ranks:
    """Return uint64, the ranks of pages, greater of better ones, less than 2**44.

    `numbers` are those of the field, and not asked for where `prefer` names none.
    """
    if prefer == LONGEST:
        values = text_bytes.astype(np.float64)
    elif prefer == HTTPS:
        values = np.array([url[: len(_HTTPS)].lower() == _HTTPS for url in urls], np.float64)
    else:
        values = np.array(numbers, np.float64)
    bits = (values + 0.0).view(np.uint64)  # for which 0 and -0 are equal
    ordered = np.where(bits >= _SIGN, ~bits, bits | _SIGN)
    return ordered >> np.uint64(RANK_SHIFT)


def stamp(sketches: npt.NDArray[np.uint64], ranks: Ranks) -> None:
    """Enter the ranks of pages into their sketches, uint64[n, 33], which have none."""
    sketches[:, 0] |= ranks << np.uint64(RANK_SHIFT)


def ranks_in(sketches: npt.NDArray[np.uint64]) -> Ranks:
    """Return the ranks in sketches, uint64[..., 33]."""
    found: Ranks = sketches[..., 0] >> np.uint64(RANK_SHIFT)
    return found
