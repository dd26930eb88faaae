"""The figures of quality, and the verdicts of a peer."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import quality
from benchmarks.peers.peer import STREAM_PEERS
from streamer.analysis.sample.score import read_verdicts


def test_minimum_and_median_are_over_the_keys() -> None:
    trials = [quality.Trial(1, 0, 0, f1, f1, f1, 1.0) for f1 in (0.9, 0.7, 0.8)]
    result = quality.Quality("c", "d", "t", trials)
    assert result.values("f1") == [0.7, 0.8, 0.9]
    assert result.median("f1") == 0.8


def test_datasketch_calls_equal_pages_duplicates_of_the_earliest(tmp_path: Path) -> None:
    peer = STREAM_PEERS[1].load()
    assert peer is not None
    texts = [" ".join(f"{page}-{word}" for word in range(40)) for page in (0, 1, 2, 1, 1)]
    pages, verdicts = tmp_path / "pages.jsonl", tmp_path / "verdicts.jsonl"
    lines = [json.dumps({"url": f"u{n}", "body": text}) for n, text in enumerate(texts)]
    pages.write_text("\n".join(lines))
    peer.judge(pages, verdicts, 0.8, 1)
    said = list(read_verdicts(verdicts))
    assert [one.verdict for one in said] == ["unique"] * 3 + ["duplicate"] * 2
    places = [one.representative and one.representative.page.offset for one in said]
    assert places == [None, None, None, 1, 1]
