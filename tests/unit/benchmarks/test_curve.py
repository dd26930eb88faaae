from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from benchmarks import corpus, curve

PAGES, PASSES = 400, 2


def test_parts_have_the_recall_and_precision_that_the_texts_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curve, "COPIES_ONE_IN", 1)
    monkeypatch.setattr(curve, "DUPLICATES_ONE_IN", 1)
    base = tmp_path / "base.jsonl"
    base.write_bytes(b"".join(corpus.generate(PAGES)))
    with closing(curve.Truth(base, PAGES)) as truth:
        assert 0 < truth.due.sum() < PAGES / 3
        sizes = (PASSES * PAGES, PAGES)
        (first, second) = parts = [*curve.replayed(tmp_path, base, truth, sizes, 1 << 30)]
    assert [part.pages for part in parts] == [PAGES, PAGES]
    assert PAGES / 2 < first.kept < second.kept < PASSES * PAGES
    assert all(part.recall > 0.9 < part.precision for part in parts)
    assert curve.table("all", parts).row_count == PASSES
    assert not (tmp_path / "curve").exists()
