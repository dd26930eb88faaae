"""Lines as LineReader takes them, next to the rule written in plain Python over a list of lines."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.pages import lines as module
from streamer.pages.bytestream import ByteStream
from streamer.pages.lines import LineReader
from streamer.text.tokens import SLACK

CHUNK_BYTES = 24
LIMIT = 30  # of a line: longer than a chunk
LINES_MAX = 4


def oracle(content: bytes) -> Iterator[list[bytes] | int]:
    """Yield runs of lines, and for each line that is over the limit its length."""
    run: list[bytes] = []
    for line in content.splitlines(keepends=True):
        if len(line) > LIMIT:
            if run:
                yield run
            yield len(line.removesuffix(b"\n"))
            run = []
            continue
        run.append(line)
        if len(run) == LINES_MAX or sum(map(len, run)) >= CHUNK_BYTES:
            yield run
            run = []
    if run:
        yield run


def taken(path: Path) -> Iterator[list[bytes] | int]:
    """Yield what the reader takes, with blocks and reads of a few bytes."""
    small: dict[str, Any] = {"BUFFER_BYTES": 7, "_READ_BYTES": 7, "_LINE_ENDS_IN_BYTES": 3}
    chunks = mock.patch("streamer.pages.chunk.CHUNK_BYTES_MAX", CHUNK_BYTES)
    with chunks, mock.patch.multiple(module, **small), ByteStream(str(path)) as stream:
        reader = LineReader(stream, LIMIT)
        while True:
            lines = reader.take(LINES_MAX)
            if lines:
                assert len(lines.data) >= int(lines.ends[-1]) + SLACK
                yield list(lines)
                continue
            odd = reader.take_malformed()
            if not odd.head:
                return
            yield odd.length


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reader") / "lines"


lines = st.lists(
    st.sampled_from([b"", b"a", b"bc\r", b"d" * 9, b"e" * 29, b"f" * 30, b"g" * 31, b"h" * 90]),
    max_size=25,
)


@given(lines, st.booleans())
def test_lines_are_cut_alike_however_read(scratch: Path, content: list[bytes], ends: bool) -> None:
    whole = b"\n".join(content) + (b"\n" if ends and content else b"")
    scratch.write_bytes(whole)
    assert list(taken(scratch)) == list(oracle(whole))


@given(lines)
def test_what_damage_tears_off_is_no_line(scratch: Path, content: list[bytes]) -> None:
    whole = b"\n".join([*content, b"torn"])
    scratch.write_bytes(gzip.compress(whole)[:-8])
    found = list(taken(scratch))
    good = list(oracle(whole[: whole.rfind(b"\n") + 1]))
    assert found == [*good, len(b"torn")]
