"""The kinds of planted pages, and how often each one comes.

A kind says how a page was made, not what the detector must say of it: that is decided by exact
resemblance alone. The value of a kind is its word in the truth file.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from streamer.sample.edits import delete_words, insert_words, move_paragraphs, replace_words

if TYPE_CHECKING:
    from streamer.sample.edits import Edit


class Kind(StrEnum):
    """How a page of the sample crawl was made."""

    ORIGINAL = "original"
    EXACT_COPY = "exact_copy"  # the same bytes on another host
    SESSION_MIRROR = "session_mirror"  # session ids in the URL and in all links
    PRINT_VIEW = "print_view"  # the same article in a bare layout
    RECODED = "recoded"  # the same page in the language's old charset
    RECRAWL = "recrawl"  # the same URL again, a little changed each time
    REPLACED_01 = "replaced_01"  # 1 % of the words replaced
    REPLACED_02 = "replaced_02"
    REPLACED_05 = "replaced_05"
    REPLACED_20 = "replaced_20"
    INSERTED_02 = "inserted_02"  # a word inserted before 2 % of the words
    DELETED_02 = "deleted_02"
    MOVED_20 = "moved_20"  # 20 % of the paragraphs moved
    BOILERPLATE = "boilerplate"  # a site's furniture with almost no text
    TOO_SHORT = "too_short"  # two words
    TOO_SHORT_COPY = "too_short_copy"  # the same two words elsewhere
    INVALID_JSON = "invalid_json"  # a line cut in its middle
    MISSING_BODY = "missing_body"
    NOT_TEXT = "not_text"  # a PDF


# Of 1,000 records; a little under half are originals, so a detector sees more repeats than news.
PER_MILLE = {
    Kind.ORIGINAL: 460,
    Kind.EXACT_COPY: 60,
    Kind.SESSION_MIRROR: 60,
    Kind.PRINT_VIEW: 50,
    Kind.RECODED: 30,
    Kind.RECRAWL: 60,
    Kind.REPLACED_01: 40,
    Kind.REPLACED_02: 40,
    Kind.REPLACED_05: 30,
    Kind.REPLACED_20: 20,
    Kind.INSERTED_02: 20,
    Kind.DELETED_02: 20,
    Kind.MOVED_20: 20,
    Kind.BOILERPLATE: 35,
    Kind.TOO_SHORT: 20,
    Kind.TOO_SHORT_COPY: 15,
    Kind.INVALID_JSON: 5,
    Kind.MISSING_BODY: 5,
    Kind.NOT_TEXT: 10,
}

EDITS: dict[Kind, tuple[Edit, float]] = {
    Kind.RECRAWL: (replace_words, 0.015),
    Kind.REPLACED_01: (replace_words, 0.01),
    Kind.REPLACED_02: (replace_words, 0.02),
    Kind.REPLACED_05: (replace_words, 0.05),
    Kind.REPLACED_20: (replace_words, 0.20),
    Kind.INSERTED_02: (insert_words, 0.02),
    Kind.DELETED_02: (delete_words, 0.02),
    Kind.MOVED_20: (move_paragraphs, 0.20),
}
