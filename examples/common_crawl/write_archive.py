"""Write pages as archives in Common Crawl's layout, and an index: write_archive.py PAGES FOLDER."""

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


def write_archive(folder: Path, name: str, pages: list[dict[str, str]]) -> Iterator[str]:
    """Write a WARC file, with one gzip member per page; yield the lines of its index."""
    with (folder / name).open("wb") as file:
        writer = WARCWriter(file, gzip=True)
        for page in pages:
            start = file.tell()
            kind = [("Content-Type", "text/html; charset=utf-8")]
            record = writer.create_warc_record(
                page["url"],
                "response",
                payload=BytesIO(page["body"].encode()),
                http_headers=StatusAndHeaders("200 OK", kind, protocol="HTTP/1.1"),
            )
            writer.write_record(record)
            place = {"filename": name, "offset": str(start), "length": str(file.tell() - start)}
            capture = {"url": page["url"], "mime": "text/html", "status": "200"} | place
            yield f"{page['url']} 20240301000000 {json.dumps(capture)}\n"


def pages_of(path: Path) -> Iterator[dict[str, str]]:
    """Yield the pages with text of a sample crawl, which has malformed lines, too."""
    for line in path.read_bytes().splitlines():
        with suppress(ValueError):
            page = json.loads(line)
            if isinstance(page.get("body"), str):
                yield page


pages, folder = list(pages_of(Path(sys.argv[1]))), Path(sys.argv[2])
names = [f"{CRAWL}/segments/{number}/warc/{number:05}.warc.gz" for number in range(FILES)]
index: list[str] = []
for number, name in enumerate(names):
    (folder / name).parent.mkdir(parents=True)
    index += write_archive(folder, name, pages[number::FILES])
(folder / CRAWL / "cdx-00000.gz").write_bytes(gzip.compress("".join(sorted(index)).encode()))
(folder / CRAWL / "warc.paths.gz").write_bytes(gzip.compress("\n".join(names).encode()))
