"""docs/extending.md: what it shows works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from streamer.pages.bytestream import ByteStream
from streamer.pages.chunk import Ending
from streamer.pages.parse import PageParser
from streamer.pages.records import Format, InputFile
from streamer.sketch.method import Method, PageText, similarity_of

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


def _shown(name: str) -> Any:
    """Return what the document defines under a name."""
    names: dict[str, Any] = {"__name__": "shown"}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(code, names)  # noqa: S102 - our own document
    return names[name]


def test_the_format_that_is_shown_reads_pages(tmp_path: Path) -> None:
    pairs: Format = _shown("PAIRS")
    path = tmp_path / "pages.pairs"
    path.write_bytes(b"u\ta body\nv\tanother body")
    with pairs.open(InputFile(str(path), is_regular=True), ByteStream(str(path))) as records:
        (chunk,) = records.chunks(0, Ending())
    batch = PageParser().parse(chunk)
    assert batch.urls == [b"u", b"v"]
    assert list(map(bytes, batch.bodies)) == [b"a body", b"another body"]


def test_the_method_that_is_shown_signs_pages() -> None:
    longest: type[Method[Any]] = _shown("LongestWords")
    method = longest(longest.defaults(), bytes(32))
    texts = (
        "a kingfisher, a nightingale, two woodpeckers and a yellowhammer sat on a willow",
        "on a willow sat two woodpeckers, a yellowhammer, a kingfisher and a nightingale",
        "trains to the coast leave every morning from the central railway station",
    )
    one, same, other = (method.sign(PageText(text)) for text in texts)
    assert list(one.keys) == list(same.keys)
    assert not set(one.keys) & set(other.keys)
    assert similarity_of(longest.measure, one.sketch, same.sketch) == 1
    assert similarity_of(longest.measure, one.sketch, other.sketch) < method.threshold
