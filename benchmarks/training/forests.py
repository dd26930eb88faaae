"""Forests of decision trees that tell rows apart, with integers alone, as a model's file has them.

Gradient-boosted trees are trained on the rows of all blocks and rounded: features are integers, so
thresholds lose nothing, and leaves are rounded to 1/SCORE_ONE.
"""

import json
from collections.abc import Iterable
from typing import Any, TypedDict

import numpy as np

from benchmarks.training.marked import (
    CRAWL_SHARE,
    Labelled,
    MarkedPage,
    PageReader,
    crawled_pages,
    labelled,
)
from streamer.errors import InputError
from streamer.text.features import FEATURES_VERSION
from streamer.text.trees import LEAVES_MAX, SCORE_ONE

TREES, LEAVES, RATE = 240, 15, 0.08
ROWS_MIN = 40  # of a leaf


class Grown(TypedDict):
    """Trees as a model's file has them, and the score before any."""

    base: int
    trees: list[dict[str, list[Any]]]


def rows_of_crawl(*, sites: bool) -> list[Labelled]:
    """Return the blocks of made sites' pages."""
    reader = PageReader(sites=sites)
    found = (labelled(page, reader) for page in crawled_pages())
    return [each for each in found if each is not None]


def train(pages: Iterable[MarkedPage], trees: int = TREES, *, sites: bool = False) -> bytes:
    """Return a model's file; for `sites`, of pages with a URL in their order.

    Raises:
        InputError: there is no page that can be used, or none of their blocks is furniture.
    """
    reader = PageReader(sites=sites)
    real = [each for page in pages if (each := labelled(page, reader)) is not None]
    grown = grow(real, rows_of_crawl(sites=sites), trees)
    content = {"features": FEATURES_VERSION, "sites": sites, **grown}
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def grow(real: list[Labelled], crawl: list[Labelled], trees: int = TREES) -> Grown:
    """Return trees that tell main text from furniture.

    Raises:
        InputError: no page can be used, or none of their blocks is furniture.
    """
    if not real or not 0 < sum(int(each.main.sum()) for each in real) < sum(
        map(len, (each.main for each in real))
    ):
        raise InputError("No pages to train on: of each, the marked text must be a part of its own")
    total = sum(float(each.weights.sum()) for each in real)
    share = CRAWL_SHARE * total / max(1, len(crawl))
    made = [each._replace(weights=each.weights * share) for each in crawl]
    rows, main, weights = Labelled.joined([*real, *made])
    classifier = _classifier(trees).fit(
        rows, main, sample_weight=weights * (len(rows) / weights.sum())
    )
    base = round(float(np.ravel(classifier._baseline_prediction)[0]) * SCORE_ONE)  # noqa: SLF001 - it has no public name
    return {"base": base, "trees": [_tree(each[0].nodes) for each in classifier._predictors]}  # noqa: SLF001 - as above


def _classifier(trees: int) -> Any:  # noqa: ANN401 - scikit-learn has no types
    from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415 - not for tests

    return HistGradientBoostingClassifier(
        max_iter=trees,
        max_leaf_nodes=LEAVES,
        learning_rate=RATE,
        min_samples_leaf=ROWS_MIN,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=0,  # of many rows it takes some, to find steps between thresholds
    )


def _tree(nodes: Any) -> dict[str, list[Any]]:  # noqa: ANN401 - a record array of scikit-learn
    """Return a tree as the model's file has it: nodes (feature, threshold, mask), and leaves."""
    tests: list[tuple[int, int, int]] = []
    leaves: list[int] = []

    def visit(number: int) -> int:
        """Append what is under a node; return its leaves as bits."""
        node = nodes[number]
        if node["is_leaf"]:
            leaves.append(round(float(node["value"]) * SCORE_ONE))
            return 1 << len(leaves) - 1
        place = len(tests)
        tests.append((0, 0, 0))
        left = visit(int(node["left"]))
        mask = (1 << LEAVES_MAX) - 1 & ~left
        tests[place] = (int(node["feature_idx"]), int(np.floor(node["num_threshold"])), mask)
        return left | visit(int(node["right"]))

    visit(0)
    return {"nodes": tests, "leaves": leaves}
