"""The benchmarks' corpus is like a crawl: its pages, its copies and how near these are."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from benchmarks import corpus
from benchmarks.corpus_file import obtain
from streamer.analysis.sample.reference import (
    Exact,
    TextShingler,
    page_text,
    read_page,
    resemblance,
)

COUNT = 1200


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    return list(corpus.generate(COUNT))


def test_each_line_is_a_page_of_about_4_kb_with_a_url_of_its_own(lines: list[bytes]) -> None:
    found = [read_page(line) for line in lines]
    texts = [page.body.encode() for page in found if page and isinstance(page.body, str)]
    assert len(texts) == len({page.url for page in found if page}) == COUNT
    assert 3_900 < np.mean([len(text) for text in texts]) < 4_500
    assert b"".join(lines).count(b'\\"') > COUNT
    assert list(corpus.generate(333)) == lines[:333]
    assert not set(islice(corpus.generate(COUNT, seed=2), 50)) & set(lines)


def test_a_fifth_are_copies_from_the_whole_past_of_resemblance_0_8_to_1(lines: list[bytes]) -> None:
    nearest = list(nearest_earlier(lines))
    best = np.array([value for value, _ in nearest])
    copies = best[best > 0.5]
    assert 0.18 < len(copies) / COUNT < 0.22
    assert best[best <= 0.5].max() < 0.02
    assert (copies >= 0.78).mean() > 0.9
    assert 0.2 < (copies == 1).mean() < 0.5
    late = [other for value, other in nearest[COUNT // 2 :] if value > 0.5]
    assert min(late) < 100
    assert max(late) > COUNT * 3 // 4


def nearest_earlier(lines: list[bytes]) -> list[tuple[float, int]]:
    """Return each page's greatest resemblance to an earlier one, and which one that is."""
    shingler = TextShingler()
    pages: list[Exact] = []
    seen: dict[int, list[int]] = {}
    found = []
    for number, line in enumerate(lines):
        read = read_page(line)
        page = shingler.exact((read and page_text(read)) or "")
        shingles = page.shingles.tolist()
        candidates = {other for shingle in shingles for other in seen.get(shingle, ())}
        values = ((resemblance(page, pages[other]), other) for other in candidates)
        found.append(max(values, default=(0.0, 0)))
        pages.append(page)
        for shingle in shingles:
            seen.setdefault(shingle, []).append(number)
    return found


def test_a_file_of_the_corpus_is_made_once(tmp_path: Path) -> None:
    made, found = obtain(tmp_path, 20), obtain(tmp_path, 20)
    assert made.seconds is not None
    assert found.seconds is None
    assert found.path.read_bytes() == b"".join(corpus.generate(20))
    assert obtain(tmp_path, 20, 2).path != found.path
