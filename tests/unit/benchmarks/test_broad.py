from __future__ import annotations

from benchmarks import broad
from benchmarks.labelled_sets import Score


def scored(found: int) -> Score:
    return Score(new=100, false=1, seen=10, found=found)


def tried(**best: tuple[str, str]) -> dict[str, broad.Tried]:
    """Return scores of sets, each way best at one threshold."""
    return {
        name: {
            way: {each: scored(9 if each == own else 5) for each in broad.THRESHOLDS[way]}
            for way, own in zip(broad.OPTIONS, thresholds, strict=True)
        }
        for name, thresholds in best.items()
    }


def test_a_set_is_judged_at_the_threshold_that_is_best_for_the_others() -> None:
    found = tried(a=("0.3", "0.9"), b=("0.5", "0.6"), c=("0.5", "0.6"))
    assert broad.chosen(found, broad.WORDS, "a") == "0.6"
    assert broad.chosen(found, broad.SEQUENCES, "a") == "0.5"

    text = broad.section(found)
    low, high = scored(5).f1, scored(9).f1
    assert f"| a | {low:.3f} at 0.5 | 1.0% | {low:.3f} at 0.6 | 1.0% |" in text

    agreed = broad.section(tried(a=("0.5", "0.6"), b=("0.5", "0.6"), c=("0.5", "0.6")))
    assert f"| mean | {high:.3f} |  | {high:.3f} |  |" in agreed
