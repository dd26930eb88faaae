from __future__ import annotations

from benchmarks import presets
from benchmarks.labelled_sets import SAMPLE, Score


def test_the_page_has_each_set_by_each_way() -> None:
    score = Score(new=10, false=1, seen=5, found=4, kinds={"copy": (5, 4)})
    decided = {presets.BY_SKETCHES: presets.Decided(right=9, wrong=1)}
    results = presets.Results(
        {SAMPLE: "made"}, {SAMPLE: dict.fromkeys(presets.WAYS, score)}, {SAMPLE: decided}
    )
    text = presets.page(results)
    assert text.count(f"| {SAMPLE} |") == len(presets.WAYS) + 1
    assert "0.9474" in text
