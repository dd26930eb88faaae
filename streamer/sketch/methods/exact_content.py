"""Exact content: the hash of all words in order.

The yardstick of the other methods: nothing false, and nothing found that differs in one word. The
canonical options say what is a difference at all.
"""

from __future__ import annotations

from typing import ClassVar

from streamer.sketch.method import PageText, Parameters
from streamer.sketch.strings import OneString, StringParameters


class ExactContent(OneString[StringParameters]):
    """Pages with the same words in the same order."""

    name: ClassVar[str] = "exact_content"
    summary: ClassVar[str] = "Hash of all words in order: finds pages of equal text only."
    advice: ClassVar[str] = (
        "Take it where only true copies may go, or as the yardstick for other methods. "
        "A date or a counter on the page already hides a copy from it."
    )
    defaults: ClassVar[type[Parameters]] = StringParameters

    def string(self, page: PageText) -> str:
        """Return the words in order."""
        return " ".join(page.words)
