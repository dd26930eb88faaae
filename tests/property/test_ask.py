"""Questions to a shard change nothing, and its answer is the verdict that comes."""

import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer import Deduplicator, Verdict
from tests.helpers.added import added

WORDS = [f"word{number}" for number in range(12)]
texts = st.lists(st.sampled_from(WORDS), min_size=0, max_size=30).map(" ".join)
pages = st.tuples(st.sampled_from(["a", "b", "c"]).map("https://{}.example/".format), texts)
steps = st.lists(st.tuples(pages, st.sampled_from(["", "flush", "forget", "nearest"])), max_size=25)
OPTIONS: list[dict[str, Any]] = [
    {},
    {"bucket_max": 2},
    {"exact": True, "threshold": 0.5},
    {"track_changes": True, "threshold": 0.3},
    {"keep_pages": 3, "track_changes": True},
    {"near_misses": 0.4, "threshold": 0.9},
    {"near_misses": 0.4, "exact": True},
]


def reported(verdict: Verdict) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(verdict)
    return fields


@pytest.fixture(scope="module")
def key_file() -> Path:
    path = Path(tempfile.mkdtemp()) / "key"
    path.write_text("34" * 32, encoding="ascii")
    return path


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "defaults")
@settings(max_examples=12)
@given(steps=steps)
def test_a_question_is_answered_and_changes_nothing(
    key_file: Path, options: dict[str, Any], steps: list[tuple[tuple[str, str], str]]
) -> None:
    with (
        Deduplicator(key_file=key_file, threads=1, min_shingles=2, **options) as asked,
        Deduplicator(key_file=key_file, threads=1, min_shingles=2, **options) as quiet,
    ):
        for page, then in steps:
            if page[1]:
                expected = reported(asked.check(page))
                assert reported(asked.check(page)) == expected
                asked.nearest(page[1])
                assert [*map(reported, added(asked, [page]))] == [expected]
                assert [*map(reported, added(quiet, [page]))] == [expected]
            for own in (asked, quiet):
                if then == "flush":
                    own.flush()
                elif then == "forget":
                    own.forget(url=page[0])
        one, other = asked._judge.shard, quiet._judge.shard  # noqa: SLF001 - what must be equal
        assert one.state() == other.state()
        count = one.memtable.count
        assert count == other.memtable.count
        assert one.memtable.urls == other.memtable.urls
        assert np.array_equal(one.memtable.table, other.memtable.table)
        assert np.array_equal(one.memtable.states[:count], other.memtable.states[:count])
        assert np.array_equal(one.memtable.keys[:count], other.memtable.keys[:count])


@given(st.lists(texts.filter(bool), min_size=1, max_size=20), texts.filter(bool))
@settings(max_examples=25)
def test_the_nearest_are_all_that_share_a_key_by_similarity(kept: list[str], text: str) -> None:
    with Deduplicator(threshold=1.0, threads=1, min_shingles=2) as dedup:
        pages = ((str(i), one) for i, one in enumerate(kept))
        urls = [verdict.url for verdict in added(dedup, pages)
                if not verdict.is_duplicate]  # fmt: skip
        found = dedup.nearest(text, limit=100)
        assert [match.similarity for match in found] == sorted(
            (match.similarity for match in found), reverse=True
        )
        assert {match.url for match in found} <= set(urls)
        equal = [url for url in urls if kept[int(url)] == text]
        assert equal == [match.url for match in found if kept[int(match.url)] == text]
        dedup.flush()
        assert dedup.nearest(text, limit=100) == found
