"""Write pages as archives in Common Crawl's layout: write_archive.py PAGES.jsonl FOLDER."""

import gzip
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path

from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

FILES = 2
CRAWL = "crawl-data/CC-MAIN-2024-10"


def write_archive(path: Path, pages: list[dict[str, str]]) -> None:
    """Write a WARC file, with one gzip member per page."""
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=True)
        for page in pages:
            kind = [("Content-Type", "text/html; charset=utf-8")]
            record = writer.create_warc_record(
                page["url"],
                "response",
                payload=BytesIO(page["body"].encode()),
                http_headers=StatusAndHeaders("200 OK", kind, protocol="HTTP/1.1"),
            )
            writer.write_record(record)


def pages_of(path: Path) -> Iterator[dict[str, str]]:
    """Yield the pages with text of a sample crawl, which has malformed lines, too."""
    for line in path.read_bytes().splitlines():
        with suppress(ValueError):
            page = json.loads(line)
            if isinstance(page.get("body"), str):
                yield page


pages, folder = list(pages_of(Path(sys.argv[1]))), Path(sys.argv[2])
names = [f"{CRAWL}/segments/{number}/warc/{number:05}.warc.gz" for number in range(FILES)]
for number, name in enumerate(names):
    (folder / name).parent.mkdir(parents=True)
    write_archive(folder / name, pages[number::FILES])
(folder / CRAWL / "warc.paths.gz").write_bytes(gzip.compress("\n".join(names).encode()))
