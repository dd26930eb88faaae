"""Shingles as text: consecutive words joined by a space, or consecutive characters.

The detector's own kernel hashes shingles without ever joining them (shingles.py). Here they are
strings, for the methods and comparisons that look at them one by one. Repeats stay: what counts
them as a list, and what as a set, is the caller's matter.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import pairwise

from streamer.errors import SettingsError
from streamer.text.canonical import UNSPACED, class_of


def shingles(words: Sequence[str], width: int, stride: int = 1) -> list[str]:
    """Return the runs of `width` words, one every `stride` words, each joined by one space.

    Stride 1 overlaps as far as can be; stride `width` lays shingles end to end, and up to `width`
    - 1 last words are in none. A text of fewer words than `width` has no shingle.

    Raises:
        SettingsError: `width` is not positive, or `stride` is not 1 to `width`.
    """
    _check(width, stride)
    return [
        " ".join(words[start : start + width]) for start in range(0, len(words) - width + 1, stride)
    ]


def character_shingles(text: str, n: int) -> list[str]:
    """Return the runs of `n` characters of `text`, overlapping: none if it is shorter.

    Raises:
        SettingsError: `n` is not positive.
    """
    _check(n, 1)
    return [text[start : start + n] for start in range(len(text) - n + 1)]


def as_characters(words: Sequence[str]) -> str:
    """Return words as one text to take characters from, each with its marks where Unicode has it.

    One space stands between words, but none between characters of scripts that are written without:
    there each is a word of its own.
    """
    unspaced = [class_of(word[0]) == UNSPACED for word in words]
    spaces = ("" if a and b else " " for a, b in pairwise(unspaced))
    parts = (space + word for space, word in zip(["", *spaces], words, strict=True))
    return unicodedata.normalize("NFC", "".join(parts))


def _check(width: int, stride: int) -> None:
    if width < 1:
        raise SettingsError(f"a shingle cannot be {width} wide; give 1 or more")
    if not 1 <= stride <= width:
        raise SettingsError(
            f"a stride of {stride} leaves gaps or goes nowhere; give 1 to {width}, the width"
        )
