"""docs/extending.md: what it shows works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from streamer.pages.bytestream import ByteStream
from streamer.pages.chunk import Ending
from streamer.pages.parse import PageParser
from streamer.pages.records import Format, InputFile

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


def test_the_format_that_is_shown_reads_pages(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - our own document
    pairs: Format = names["PAIRS"]
    path = tmp_path / "pages.pairs"
    path.write_bytes(b"u\ta body\nv\tanother body")
    with pairs.open(InputFile(str(path), is_regular=True), ByteStream(str(path))) as records:
        (chunk,) = records.chunks(0, Ending())
    batch = PageParser().parse(chunk)
    assert batch.urls == [b"u", b"v"]
    assert list(map(bytes, batch.bodies)) == [b"a body", b"another body"]
