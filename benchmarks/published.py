"""Figures of publications that stand beside ours: quoted from our literature notes, not measured.

They are of other collections, with other definitions of a duplicate: they say what order of quality
a family of methods reached, and nothing more.
"""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """What a publication says of a method; `ours` is the nearest of our methods."""

    source: str
    method: str
    ours: str
    precision: float
    recall: float | None = None
    f1: float | None = None


ZELENKOV = "Zelenkov and Segalovich 2007"
HENZINGER = "Henzinger 2006"
PUBLISHED = (
    Published(ZELENKOV, "MD5", "exact_content", 1.00, 0.23, 0.38),
    Published(ZELENKOV, "megashingles", "megashingles", 0.91, 0.36, 0.51),
    Published(ZELENKOV, "log shingles", "minhash", 0.97, 0.39, 0.55),
    Published(ZELENKOV, "lex rand", "random_lexicon", 0.97, 0.50, 0.66),
    Published(ZELENKOV, "opt freq", "optimum_frequency", 0.94, 0.59, 0.73),
    Published(ZELENKOV, "long sentences", "long_sentences", 0.80, 0.84, 0.82),
    Published(HENZINGER, "Broder's shingles", "supershingles", 0.38),
    Published(HENZINGER, "Charikar's projections", "simhash", 0.50),
    Published(HENZINGER, "both combined", "minhash+simhash", 0.79),
)
