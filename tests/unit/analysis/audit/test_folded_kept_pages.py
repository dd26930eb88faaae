"""The pairs of kept pages that an audit finds."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.analysis.audit.facts import AuditReport
from streamer.analysis.audit.folded import KeptPages, buckets
from streamer.index.messages import IndexSettings, Pages, Term
from streamer.index.pairs import matching_pairs
from streamer.sketch.hash_sets import pack_set
from streamer.sketch.resemblance import similarity
from tests.helpers.shard_cases import BANDS, FAR, SAME, apart, shares
from tests.helpers.signed_pages import family_pages, made_pages


def keyed(*keys: int) -> list[int]:
    """Return the keys of a page; those that are 0 or not given are its own."""
    return shares(*keys, *[0] * (BANDS + 1 - len(keys)))


def compared(folder: Path, pages: Pages, *, refused: int = 0, **rules: float) -> AuditReport:
    """Return what is found of these kept pages, which come in two parts."""
    kept = KeptPages(Path(mkdtemp(dir=folder)), pages.keys.shape[1] - 1)
    kept.note_settings(IndexSettings.model_validate(rules))
    kept.note_refused(refused)
    kept.add(pages.take(range(len(pages) // 2)))
    kept.add(pages.take(range(len(pages) // 2, len(pages))))
    report = AuditReport()
    kept.compare(report)
    return report


def test_two_kept_pages_that_match_are_found_once(tmp_path: Path) -> None:
    pages = made_pages([keyed(1, 2), keyed(1, 2), keyed()], [SAME, apart(136), SAME])
    report = compared(tmp_path, pages, threshold=0.8007)  # exactly theirs
    assert report.kept_pairs.violations == 1
    assert report.kept_pairs.examples == [
        "partition 0, offset 0 and partition 0, offset 1 are both kept and match"
    ]
    assert report.kept_pairs.looked_at == 2
    assert report.counts["kept pages"] == 3


def test_pages_below_the_threshold_or_without_a_common_key_are_no_pair(tmp_path: Path) -> None:
    keys = [keyed(1), keyed(1), keyed()]
    assert compared(tmp_path, made_pages(keys, [SAME, apart(137), SAME])).broken == []


def test_where_sets_of_shingles_decide_so_they_do_here(tmp_path: Path) -> None:
    numbers = np.arange(200, dtype=np.uint64) << np.uint64(40)
    one, alike, unlike = (pack_set(numbers[first:]) for first in (0, 30, 60))
    keys = [keyed(1), keyed(1), keyed(2), keyed(2), keyed(3), keyed(3)]
    pages = made_pages(keys, [SAME, apart(137), SAME, apart(136), SAME, apart(136)])
    pages.shingles = [one, alike, one, unlike, one, b""]
    for decides, found in ((True, ["0 and 1", "4 and 5"]), (False, ["2 and 3", "4 and 5"])):
        reported = compared(tmp_path, pages, exact=decides).kept_pairs.examples
        assert [pair.replace("partition 0, offset ", "")[:7] for pair in reported] == found


def test_of_settings_that_changed_the_strictest_count(tmp_path: Path) -> None:
    kept = KeptPages(tmp_path, BANDS)
    for threshold in (0.9, 0.5):
        kept.note_settings(IndexSettings(threshold=threshold))
    kept.add(made_pages([keyed(1), keyed(1)], [SAME, apart(100)]))  # 0.8535
    report = AuditReport()
    kept.compare(report)
    assert report.broken == []
    assert report.kept_pairs.looked_at == 1


def test_pages_of_few_shingles_have_their_content_in_common_only(tmp_path: Path) -> None:
    keys = [keyed(1, 0, 0, 9), keyed(1, 0, 0, 8), keyed(0, 0, 0, 9)]
    report = compared(tmp_path, made_pages(keys, [SAME] * 3, distinct=3))
    assert report.kept_pairs.examples == [
        "partition 0, offset 0 and partition 0, offset 2 are both kept and match"
    ]


def test_empty_pages_match_nothing(tmp_path: Path) -> None:
    report = compared(tmp_path, made_pages([keyed(1), keyed(1)], [SAME, SAME], tokens=0))
    assert report.broken == []
    assert report.counts["kept pages"] == 0


def test_more_candidates_than_are_looked_at_excuse_a_pair(tmp_path: Path) -> None:
    pages = made_pages([keyed(1, 2), keyed(1, 2), keyed(1, 2)], [FAR[0], SAME, SAME])
    report = compared(tmp_path, pages, candidates_max=1)
    assert report.broken == []
    assert report.counts["kept pairs that match, excused by the limits"] == 1
    assert compared(tmp_path, pages, candidates_max=4).kept_pairs.violations == 1


def met_in_bucket(
    bucket: list[int], bucket_max: int, may_answer: Callable[[int, int], bool]
) -> Iterator[tuple[int, int]]:
    """Yield the pairs of rows that meet: a later one, and one that has a posting and may answer."""
    posted: list[int] = []
    for later in bucket:
        answering = [row for row in posted if may_answer(row, later)]
        yield from ((row, later) for row in answering)
        if len(answering) < bucket_max:
            posted.append(later)


spans = st.sampled_from([3, 10, 1000])


@given(
    st.randoms(use_true_random=False), st.integers(0, 40), st.integers(1, 5), spans, spans,
)  # fmt: skip
def test_the_kernel_compares_what_the_rule_says(
    random: Random, count: int, bucket_max: int, age: int, newest: int
) -> None:
    pages = family_pages(random, count)
    pages.times[:] = 10 * np.arange(count)
    posted = np.array([random.random() < 0.8 for _ in range(count)], np.bool_)
    keys = pages.keys[:, 0].copy()
    rows, starts = buckets(keys, posted)
    met, found = np.zeros(count, np.int64), np.empty((1000, 2), np.int64)
    ends = np.array([i + random.choice((1, 9, 1000)) for i in range(count)], np.int64)
    least = np.array([random.choice((6000, 6000, 9000)) for _ in range(count)], np.int64)
    lives = np.stack((pages.times, ends, least), axis=1)
    looked_at, matching = matching_pairs(
        rows, starts, pages.sketches, lives, (bucket_max, 0, age, newest), met, found,
        np.empty(bucket_max, np.int64),
    )  # fmt: skip
    by_key: dict[int, list[int]] = {}
    for row in np.flatnonzero(posted).tolist():
        by_key.setdefault(int(keys[row]), []).append(row)
    wanted = [
        pair
        for bucket in by_key.values()
        for pair in met_in_bucket(
            bucket, bucket_max, lambda a, b: b - a <= min(newest, age // 10) and b < ends[a]
        )
    ]
    assert looked_at == len(wanted) == met.sum()
    assert met.tolist() == [sum(later == row for _, later in wanted) for row in range(count)]
    matches = [
        pair
        for pair in wanted
        if similarity(*(pages.sketches[row] for row in pair)) >= least[[*pair]].max()
    ]
    assert sorted(map(tuple, found[:matching].tolist())) == sorted(matches)


PLACE = b"https://a.b.example/"


@pytest.mark.parametrize(
    "term", [("url", PLACE), ("ref", 0), ("before", 1), ("host", b".b.example")]
)
def test_a_page_forgotten_before_the_other_came_is_no_pair(tmp_path: Path, term: Term) -> None:
    for moment, violations in enumerate((1, 0, 1)):
        kept = KeptPages(Path(mkdtemp(dir=tmp_path)), BANDS)
        kept.note_settings(IndexSettings())
        pages = made_pages([keyed(1), keyed(1)], [SAME, SAME])
        pages.times[:], pages.urls[0] = (0, 5), PLACE
        for place in range(3):
            if place == moment:
                kept.forget([term])
            kept.add(pages.take([place] if place < 2 else []))
        report = AuditReport()
        kept.compare(report)
        assert report.kept_pairs.violations == violations
        assert report.counts["kept pages that were forgotten"] == (moment > 0)
