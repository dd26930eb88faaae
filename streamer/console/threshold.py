"""What another threshold would change: by the similarities of verdicts, and by near misses.

A duplicate names the most similar kept page, and with `--near-misses` a unique page does, too. So
above the threshold of a run all is known, and below it what is within the margin of near misses.
"""

from __future__ import annotations

import sqlite3
from typing import Annotated

import msgspec

from streamer.console import queries
from streamer.console.answers import ConsoleData, Marked, index_facts
from streamer.console.queries import SimilarityBar, VerdictCount
from streamer.model import SIMILARITY_ONE, Verdict

_EXAMPLES = 5  # on each side of a threshold


class ThresholdQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another threshold; by default the index's, or the least similarity of a duplicate.

    `marked` repeats what the last form did.
    """

    at: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    marked: Marked | None = None


class ThresholdExample(msgspec.Struct, frozen=True):
    """A page near the threshold: its similarity to its representative, or to its near miss.

    `mark` says how people have marked these two, '' for not at all; None without a file of marks.
    """

    similarity: float
    verdict: Verdict
    mark: str | None


class ThresholdAnswer(msgspec.Struct, frozen=True):
    """Duplicates by similarity, and how many reach `at`.

    Attributes:
        least: the least similarity of a duplicate by signature, None without one.
        content: duplicates by equal content, which are duplicates at any threshold.
        reaching: all duplicates that stay duplicates of the same page, or of one more similar.
        near_min: the similarity from which on near misses are known; None without any.
        near: unique pages with a near miss that reaches `at`.
        near_misses: near misses by similarity.
        above, below: examples on both sides of `at`, the nearest to it first.
        warning: why the index's threshold or marks are not known; '' for nothing.
    """

    least: float | None
    at: float
    duplicates: int
    content: int
    reaching: int
    histogram: list[SimilarityBar]
    near_min: float | None
    near: int
    near_misses: list[SimilarityBar]
    above: list[ThresholdExample]
    below: list[ThresholdExample]
    warning: str


def threshold(data: ConsoleData, query: ThresholdQuery) -> ThresholdAnswer:
    """Return what another threshold would change."""
    with data.read() as view:
        counts = queries.records(view, queries.VERDICT_COUNTS, VerdictCount)
        lowest = queries.number(view, queries.LEAST_SIMILARITY)
        least = None if lowest is None else lowest / SIMILARITY_ONE
        index, gone = index_facts(data)
        at = index.threshold if index else least
        at = at or 0.0 if query.at is None else query.at
        similarity = round(at * SIMILARITY_ONE)
        reaching = queries.number(view, queries.DUPLICATES_AT_LEAST, similarity=similarity)
        near = queries.number(view, queries.NEAR_AT_LEAST, similarity=similarity)
        margin = queries.number(view, queries.NEAR_MIN)
        above, below = _examples(data, view, similarity)
        histogram = queries.records(view, queries.SIMILARITY_BARS, SimilarityBar)
        near_misses = queries.records(view, queries.NEAR_BARS, SimilarityBar)
    near_min = None if margin is None else margin / SIMILARITY_ONE
    duplicates = [each for each in counts if each.verdict == "duplicate"]
    content = sum(each.pages for each in duplicates if each.basis != "signature")
    return ThresholdAnswer(
        least, at, sum(each.pages for each in duplicates), content, content + (reaching or 0),
        histogram, near_min, near or 0, near_misses, above, below,
        " ".join(filter(None, (gone, "" if data.marks is None else data.marks.trouble))),
    )  # fmt: skip


def _examples(
    data: ConsoleData, view: sqlite3.Connection, similarity: int
) -> tuple[list[ThresholdExample], list[ThresholdExample]]:
    """Return the pages just above a threshold and just below, the nearest to it first."""
    found: list[list[ThresholdExample]] = []
    for conditions, order, sign in (
        ((queries.SIMILAR_AT_LEAST, queries.NEAR_MISS_AT_LEAST), "", 1),
        ((queries.SIMILAR_BELOW, queries.NEAR_MISS_BELOW), " DESC", -1),
    ):
        columns = f"page.similarity{order}", f"page.near_similarity{order}"
        rows = [
            row.verdict
            for condition, column in zip(conditions, columns, strict=True)
            for row in queries.verdicts(
                view, condition, _EXAMPLES, order=column, similarity=similarity
            )
        ]
        examples = sorted(
            (_example(data, each) for each in rows), key=lambda each: sign * each.similarity
        )
        found.append(examples[:_EXAMPLES])
    return found[0], found[1]


def _example(data: ConsoleData, verdict: Verdict) -> ThresholdExample:
    nearest = verdict.nearest or None
    kept = verdict.representative or nearest
    assert kept is not None, verdict
    similarity = nearest.similarity if nearest else verdict.similarity
    return ThresholdExample(similarity or 0.0, verdict, data.mark_of(verdict, kept))
