"""Whole files of bad input: every record ends somewhere, in time by the file's size.

What they cost in memory is a row of the campaign `damage` (tests/campaign/bombs.py).
"""

import gzip
import io
import json
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from streamer.pages.files import Source
from streamer.pages.formats import format_by_head
from streamer.pages.members import DICTIONARY_MAGIC, GZIP_MAGIC, ZSTD_MAGIC, is_skippable
from streamer.pages.parse import PageParser
from streamer.pages.spread_json import is_spread
from streamer.text.charset import other_charset
from tests.campaign.judging import check_batch
from tests.helpers.chunks import all_chunks

GOOD = b'{"url": "http://a.example/", "body": "words"}\n'


def forged_members() -> bytes:
    """Return members that begin with a record, each of which expands to the end of the file."""
    head = GZIP_MAGIC + b"\x08\x00\x00\x00\x00\x00\x00\x03" + b"\x00\xff\xff\x00\x00WARC/1.0\r\n"
    # A stored block is 65,535 bytes behind its 5: the next one's head lies where this one's does.
    unit = head.ljust(58, b"z")
    return unit * 3_000


@pytest.mark.parametrize(
    "content",
    [
        (GZIP_MAGIC + b"\x08\x00\x00\x00\x00\x00\x00\x03") * 100_000,
        forged_members(),
        b"WARC/1.0\r\nWARC-Type: resource\r\nContent-Length: 16000000\r\n\r\n" * 2_000,
        b"WARC/1.0\r\nWARC-Type: resource\r\nContent-Length: 99999999999\r\n\r\n" * 10_000,
        b"WARC/1.0\r\n" * 30_000,
        b"filedesc://a 0.0.0.0 20080430 text/plain 9\n"
        + b"a:b 1.1.1.1 20080430 t 9000000\n" * 3000,
    ],
    ids=range(6),
)
def test_forged_members_and_records_cost_time_by_their_size(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.warc"
    good = gzip.compress(b"WARC/1.0\r\nWARC-Type: resource\r\nContent-Length: 1\r\n\r\nx\r\n\r\n")

    def seconds(size: int) -> float:
        began = time.process_time()
        for part in (content[:size], good + content[:size]):
            path.write_bytes(part)
            for chunk in all_chunks(Source(str(path), is_regular=True)):
                assert chunk.end > chunk.start
        return time.process_time() - began

    quarter = seconds(len(content) // 4)
    assert seconds(len(content)) < 8 * quarter + 0.2, "16 times, were it the square"


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
NAMES = st.sampled_from(["url", "body", "body_base64", "content_type", "charset", "fetched_at"])
MESSAGES = st.dictionaries(NAMES, JSON_VALUES).map(lambda message: json.dumps(message).encode())


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("any") / "any.jsonl"


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.binary(max_size=40) | MESSAGES, max_size=12), st.booleans())
@example([b'{"url": "u", "body": "\\ud800"}', b"", GOOD], True)
def test_any_bytes_as_lines_end_in_exactly_one_of_pages_dead_letters_and_counts(
    scratch: Path, lines: list[bytes], carrying: bool
) -> None:
    content = b"\n".join(lines)
    archives = GZIP_MAGIC, ZSTD_MAGIC, DICTIONARY_MAGIC
    assume(not content.startswith(archives) and not is_skippable(content))
    assume(not format_by_head(content))
    # Of the one a separator is no record, and the other is refused.
    assume(not is_spread(content) and not other_charset(content, json=True))
    scratch.write_bytes(content)
    parser = PageParser(carry=["fetched_at", "/charset", "url"] if carrying else [])
    at = 0
    for chunk in all_chunks(Source(str(scratch), is_regular=True)):
        batch = parser.parse(chunk)
        assert (batch.start, batch.end) == (at, chunk.end)
        at = batch.end
        check_batch(batch, chunk.end - chunk.start)
    assert at == len(list(io.BytesIO(content)))
