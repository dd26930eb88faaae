"""What the bytes of a body are: marks that travel with a page until its text is visible."""

from __future__ import annotations

ESCAPED = 1  # the inside of a JSON string: escapes not yet undone
HTML = 2  # HTML; otherwise plain text
