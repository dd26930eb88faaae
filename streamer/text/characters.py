"""Characters as words: how shingles of characters come from kernels that take shingles of words."""

from __future__ import annotations

import re
import unicodedata

_WHITE_SPACE = re.compile(r"\s+")


def characters_as_words(text: str) -> str:
    """Return a text whose words are the characters of `text`, marks with their letters.

    A run of white space becomes an underscore, which the canonical form keeps as a character of
    words; of the other separators nothing remains.
    """
    joined = _WHITE_SPACE.sub("_", text.strip())
    return "".join(c if unicodedata.category(c)[0] == "M" else f" {c}" for c in joined)
