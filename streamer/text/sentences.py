"""Text to sentences by one plain rule, the same for all languages.

A sentence ends behind full stops, question or exclamation marks that white space follows, behind
their full-width forms at once, and with a line. Abbreviations therefore end sentences too; what
counts for a signature is that equal text is cut at equal places.
"""

from __future__ import annotations

import re

_STOP = r"[.!?\u2026\u061f\u0964]"
_CLOSING = r"[\"'\u00bb\u201d\u2019)\]]"
_FULL_WIDTH = r"[\u3002\uff01\uff1f]"
_END = re.compile(rf"(?<={_STOP})\s+|(?<={_STOP}{_CLOSING})\s+|(?<={_FULL_WIDTH})|[\r\n]+")


def sentences(text: str) -> list[str]:
    """Return the sentences of `text` in order, without white space about them."""
    return [stripped for part in _END.split(text) if (stripped := part.strip())]
