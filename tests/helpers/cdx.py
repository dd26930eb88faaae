"""Archives, and the CDX files that name their records."""

import gzip
import itertools
import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

HEADER = b" CDX N b a m s k r M S V g\n"


class Archive(NamedTuple):
    """An archive with a gzip member a record, and where these are."""

    name: str
    data: bytes
    places: list[tuple[int, int]]  # offset and length

    def line(self, number: int, url: str, **fields: str) -> bytes:
        """Return the line of a record, with other fields than it would have."""
        offset, length = self.places[number]
        said = {
            "url": url, "mime": "text/plain", "status": "200", "digest": "AAAA",
            "length": str(length), "offset": str(offset), "filename": self.name,
        } | fields  # fmt: skip
        return f"example,a)/{number} 20260101000000 {json.dumps(said)}\n".encode()

    def columns(self, number: int, url: str) -> bytes:
        """Return the line of a record in eleven columns."""
        offset, length = self.places[number]
        key = f"example,a)/{number} 20260101000000"
        return f"{key} {url} text/plain 200 AAAA - - {length} {offset} {self.name}\n".encode()


def archive(
    name: str, records: Sequence[bytes], packed: Callable[[bytes], bytes] = gzip.compress
) -> Archive:
    """Return an archive with these records."""
    parts = [*map(packed, records)]
    ends = [0, *itertools.accumulate(map(len, parts))]
    places = [(start, end - start) for start, end in itertools.pairwise(ends)]
    return Archive(name, b"".join(parts), places)


def warc_record(kind: str, url: str, block: bytes, *headers: tuple[str, str]) -> bytes:
    """Return a valid record."""
    lines = [("WARC-Type", kind), ("WARC-Target-URI", url), *headers]
    head = "".join(f"{name}: {value}\r\n" for name, value in lines)
    return f"WARC/1.0\r\n{head}Content-Length: {len(block)}\r\n\r\n".encode() + block + b"\r\n\r\n"
