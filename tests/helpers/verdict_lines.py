"""Verdicts and dead letters of a small crawl, and files of them."""

import base64
from pathlib import Path
from typing import Any

import msgspec

from streamer.model import Basis, DeadLetter, Decision, Location, Representative, Verdict

# Of a verdict as a table, in their order.
COLUMNS = (
    "page_topic", "page_partition", "page_offset", "url", "verdict", "basis", "similarity",
    "representative_topic", "representative_partition", "representative_offset",
    "representative_url", "representative_index", "same_url", "text_bytes", "index", "carried",
    "text", "change", "change_similarity", "exact",
)  # fmt: skip
NEAR_COLUMNS = (
    "nearest_topic", "nearest_partition", "nearest_offset", "nearest_url", "nearest_index",
    "nearest_similarity", "nearest_exact", "nearest_min",
)  # fmt: skip


def place(offset: int, topic: str = "pages.jsonl") -> Location:
    return Location(topic, 0, offset)


def url_of(offset: int) -> str:
    return f"https://www.site{offset % 3}.example/page-{offset}"


def unique(offset: int, url: str = "", **fields: Any) -> Verdict:
    return Verdict(
        place(offset), url or url_of(offset), Decision.UNIQUE, Basis.SIGNATURE, None, None,
        same_url=False, text_bytes=1000 + offset, index="9f1c22d07ab3e645", **fields,
    )  # fmt: skip


def duplicate(
    offset: int, *, of: int, similarity: float = 0.9, url: str = "", **fields: Any
) -> Verdict:
    return Verdict(
        place(offset), url or url_of(offset), Decision.DUPLICATE, Basis.SIGNATURE, similarity,
        Representative(place(of), url_of(of)), same_url=False, text_bytes=1000 + offset,
        index="9f1c22d07ab3e645", **fields,
    )  # fmt: skip


def letter(offset: int, code: str = "missing_url", record: bytes = b'{"uri": "x"}') -> DeadLetter:
    encoded = base64.b64encode(record).decode()
    return DeadLetter(place(offset), code, f"detail {offset}", None, encoded, len(record), False)


UNIQUE = unique(0)
LETTER = letter(3)


def written(path: Path, *lines: Verdict | DeadLetter) -> Path:
    """Return a file with these lines."""
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return path
