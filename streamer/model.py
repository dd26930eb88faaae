"""What goes in and what comes out: the types behind schemas/.

A page's identity is its page ref: 64 bits, the number of its source in the index's catalogue (24
bits) and its sequence number there (40 bits): the offset in a partition, the record's ordinal in a
file. Refs of one source rise with the source's own order.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

SEQUENCE_BITS = 40
SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1
SOURCES_MAX = 1 << 24
SIMILARITY_ONE = 10_000  # similarities are whole ten-thousandths, so that they compare exactly

VERDICT_SCHEMA = "streamer.verdict/1"
DEAD_LETTER_SCHEMA = "streamer.dead_letter/1"


def page_ref(source: int, sequence: int) -> int:
    """Pack a source's number and a sequence number in it into a page ref."""
    assert 0 <= source < SOURCES_MAX, source
    assert 0 <= sequence <= SEQUENCE_MASK, sequence
    return source << SEQUENCE_BITS | sequence


def split_ref(ref: int) -> tuple[int, int]:
    """Return (source, sequence) of a page ref."""
    return ref >> SEQUENCE_BITS, ref & SEQUENCE_MASK


class Location(msgspec.Struct, frozen=True):
    """Where a record was read: a topic's partition and offset, or a file's name, 0 and ordinal."""

    topic: str
    partition: Annotated[int, msgspec.Meta(ge=0)]
    offset: Annotated[int, msgspec.Meta(ge=0, le=SEQUENCE_MASK)]


class Decision(StrEnum):
    """What a verdict says of a page."""

    UNIQUE = "unique"
    DUPLICATE = "duplicate"


class Basis(StrEnum):
    """What a verdict rests on."""

    SIGNATURE = "signature"
    CONTENT = "content"
    TOO_SHORT = "too_short"


class Change(StrEnum):
    """What a page is to the version of its URL that came before."""

    NEW = "new"
    UNCHANGED = "unchanged"
    EDITED = "edited"
    REPLACED = "replaced"


class SignedText(StrEnum):
    """Which text of a page was compared, where the main text is asked for."""

    MAIN = "main"
    VISIBLE = "visible"


class Representative(msgspec.Struct, frozen=True):
    """The kept page that a duplicate is a duplicate of; `index` names another index that has it."""

    page: Location
    url: str
    index: str | msgspec.UnsetType = msgspec.UNSET


class NearestKept(Representative, frozen=True, kw_only=True):
    """The kept page nearest to a unique one; `exact` is as in a verdict of a duplicate."""

    similarity: float
    exact: bool | msgspec.UnsetType = msgspec.UNSET


class Verdict(msgspec.Struct, frozen=True):
    """One verdict, as published: no clock, no host, the same bytes at every repeat.

    `similarity` is the estimated resemblance in [0, 1] with four decimals; null on unique pages.
    `same_url` says whether the representative has the page's URL; false on unique pages.
    `text_bytes` is the length of the text in UTF-8. `carried` holds the input fields that `--carry`
    names. `index` is the fingerprint of the settings that shaped the signature. `text` says which
    text was compared; it is there under `--text main` only. With `--exact`, `exact` says whether
    the similarity of a duplicate is that of the sets of shingles, and no estimate. `change` says
    what the page is to the last version of its URL, and `change_similarity` how similar it is to
    that: null where there is none, or one of them is too short to compare; both are there under
    `--track-changes` only. With `--near-misses`, a unique page has `nearest`: the most similar kept
    page from the similarity `nearest_min` on, null where there is none.
    """

    page: Location
    url: str
    verdict: Decision
    basis: Basis
    similarity: float | None
    representative: Representative | None
    same_url: bool
    text_bytes: int
    index: str
    carried: dict[str, Any] = {}
    text: SignedText | msgspec.UnsetType = msgspec.UNSET
    change: Change | msgspec.UnsetType = msgspec.UNSET
    change_similarity: float | msgspec.UnsetType | None = msgspec.UNSET
    exact: bool | msgspec.UnsetType = msgspec.UNSET
    nearest: NearestKept | msgspec.UnsetType | None = msgspec.UNSET
    nearest_min: float | msgspec.UnsetType = msgspec.UNSET
    schema: str = VERDICT_SCHEMA

    @property
    def is_duplicate(self) -> bool:
        """Return whether the page is a near-duplicate of its representative."""
        return self.verdict == Decision.DUPLICATE


class Rejected(msgspec.Struct, frozen=True):
    """In the place of a verdict: the page cannot be judged.

    `code` says why (docs/dead-letters.md), `detail` what was found.
    """

    page: Location
    code: str
    detail: str

    @property
    def is_duplicate(self) -> Literal[False]:
        """Return False, as for any page that is not known to be a duplicate."""
        return False


class KeptMatch(msgspec.Struct, frozen=True):
    """A kept page near a text: its place, its URL, and their similarity in [0, 1]."""

    page: Location
    url: str
    similarity: float


class DeadLetter(msgspec.Struct, frozen=True):
    """A record that could not be judged, with its original bytes.

    `value_base64` holds the bytes as read, cut at the run's limit (`truncated`); `value_bytes` is
    their full length.
    """

    page: Location
    code: str
    detail: str
    key_base64: str | None
    value_base64: str
    value_bytes: int
    truncated: bool
    schema: str = DEAD_LETTER_SCHEMA


class Page(msgspec.Struct, frozen=True, omit_defaults=True):
    """One page as a crawler sends it: `body` is text or HTML, `body_base64` its bytes.

    Exactly one of the two is there. `charset` is the encoding that the crawler was given;
    `fetched_at` decides only which
    earlier pages have expired. Unknown fields are ignored.
    """

    url: str
    body: str | msgspec.UnsetType = msgspec.UNSET
    body_base64: str | msgspec.UnsetType = msgspec.UNSET
    content_type: str | None = None
    charset: str | None = None
    fetched_at: str | int | float | None = None

    def __post_init__(self) -> None:
        if (self.body is msgspec.UNSET) == (self.body_base64 is msgspec.UNSET):
            raise ValueError("a page has exactly one of `body` and `body_base64`; give one")
