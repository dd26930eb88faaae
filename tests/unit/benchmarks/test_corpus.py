"""The benchmarks' corpus is like a crawl: its words, its copies and how near these are."""

from __future__ import annotations

import re
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from benchmarks import corpus
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


@pytest.fixture(scope="module")
def pages(lines: list[bytes]) -> list[Exact]:
    shingler = TextShingler()
    found = [read_page(line) for line in lines]
    return [shingler.exact((page and page_text(page)) or "") for page in found]


def test_each_line_is_a_page_of_about_4_kb_with_a_url_of_its_own(lines: list[bytes]) -> None:
    found = [read_page(line) for line in lines]
    texts = [page.body.encode() for page in found if page and isinstance(page.body, str)]
    assert len(texts) == len({page.url for page in found if page}) == COUNT
    assert 3_900 < np.mean([len(text) for text in texts]) < 4_500
    assert all(b"\n" not in line[:-1] and line.endswith(b"}\n") for line in lines)


def test_text_has_escapes_quotes_and_some_other_scripts(lines: list[bytes]) -> None:
    whole = b"".join(lines)
    assert whole.count(b"\\n") > COUNT
    assert whole.count(b'\\"') > COUNT
    words = whole.decode().split()
    assert 0.01 < sum(not word.isascii() for word in words) / len(words) < 0.1


def test_words_repeat_as_in_natural_text(lines: list[bytes]) -> None:
    words = re.findall(rb"\w+", b"".join(lines[:200]))
    _, counts = np.unique(np.array(words), return_counts=True)
    counts = np.sort(counts)[::-1]
    assert 0.03 < counts[0] / len(words) < 0.15
    assert counts[:10].sum() > 5 * counts[100:110].sum()


def test_a_shorter_corpus_is_the_beginning_of_a_longer_one(lines: list[bytes]) -> None:
    assert list(corpus.generate(333)) == lines[:333]


def test_another_seed_gives_another_corpus(lines: list[bytes]) -> None:
    assert not set(islice(corpus.generate(COUNT, seed=2), 50)) & set(lines)


@pytest.fixture(scope="module")
def nearest(pages: list[Exact]) -> list[tuple[float, int]]:
    """Return each page's greatest resemblance to an earlier one, and which one that is."""
    seen: dict[int, list[int]] = {}
    found = []
    for number, page in enumerate(pages):
        shingles = page.shingles.tolist()
        candidates = {other for shingle in shingles for other in seen.get(shingle, ())}
        values = ((resemblance(page, pages[other]), other) for other in candidates)
        found.append(max(values, default=(0.0, 0)))
        for shingle in shingles:
            seen.setdefault(shingle, []).append(number)
    return found


def test_a_fifth_are_copies_and_the_others_share_next_to_nothing(
    nearest: list[tuple[float, int]],
) -> None:
    best = np.array([value for value, _ in nearest])
    copies = best[best > 0.5]
    assert 0.18 < len(copies) / COUNT < 0.22
    assert best[best <= 0.5].max() < 0.02


def test_copies_are_spread_from_resemblance_0_8_to_1(nearest: list[tuple[float, int]]) -> None:
    copies = np.array([value for value, _ in nearest if value > 0.5])
    assert (copies >= 0.78).mean() > 0.9
    assert 0.2 < (copies == 1).mean() < 0.5
    for low in (0.8, 0.85, 0.9, 0.95):
        assert ((copies >= low) & (copies < low + 0.05)).any(), low


def test_copies_come_from_the_whole_past(nearest: list[tuple[float, int]]) -> None:
    late = [other for value, other in nearest[COUNT // 2 :] if value > 0.5]
    assert min(late) < 100
    assert max(late) > COUNT * 3 // 4
    assert len(set(late)) > len(late) // 2


def test_the_command_writes_what_generate_yields(
    lines: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "corpus.jsonl"
    monkeypatch.setattr(sys, "argv", ["corpus.py", "--pages", "40", "--out", str(out)])
    corpus.main()
    assert out.read_bytes() == b"".join(lines[:40])
