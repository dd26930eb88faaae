"""Labelled datasets, and partitions of their pages."""

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.analysis import trial as datasets
from streamer.analysis.evaluation import ConfusionCounts
from streamer.analysis.sample.reference import ReferencePages, TextShingler, resemblance
from streamer.errors import InputError


def test_labelled_pairs_have_a_label_and_both_pages(labelled: Path) -> None:
    assert datasets.open_dataset(labelled).labelled == {(0, 1), (2, 3)}


def test_a_file_of_pairs_without_its_columns_is_refused(labelled: Path) -> None:
    (labelled / "truth_pairs.tsv").write_text("one\tother\na\tb\n")
    with pytest.raises(InputError, match="url_a, url_b, label"):
        datasets.open_dataset(labelled)


labels = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=12)
texts = st.lists(
    st.lists(st.sampled_from("abc"), min_size=3, max_size=12).map(" ".join), max_size=10
)
THRESHOLD = 0.5


def pages_of(bodies: list[str]) -> ReferencePages:
    pages, shingler = ReferencePages(), TextShingler()
    for number, body in enumerate(bodies):
        pages.add(("file",), number, f"u{number}", shingler.exact(body))
    return pages


@given(labels)
def test_the_adjusted_rand_index_is_that_of_counting_pairs(rows: list[tuple[int, int]]) -> None:
    one, other = [row[0] for row in rows], [row[1] for row in rows]
    both = neither = first = second = 0
    for a, b in combinations(rows, 2):
        both += a[0] == b[0] and a[1] == b[1]
        neither += a[0] != b[0] and a[1] != b[1]
        first += a[0] == b[0] and a[1] != b[1]
        second += a[0] != b[0] and a[1] == b[1]
    # The form over pairs, as Steinley 2004 gives it.
    chance = (both + first) * (first + neither) + (both + second) * (second + neither)
    expected = 2 * (both * neither - first * second) / chance if chance else 1.0
    assert datasets.adjusted_rand_index(one, other) == pytest.approx(expected)


@given(texts)
def test_true_labels_are_those_of_comparing_each_page_with_all_kept_ones(bodies: list[str]) -> None:
    pages = pages_of(bodies)
    kept: list[int] = []
    expected = []
    for page in range(len(pages)):
        values = [(resemblance(pages.exact[page], pages.exact[k]), -k) for k in kept]
        best = max(values, default=(0.0, 0))
        if best[0] >= THRESHOLD:
            expected.append(-best[1])
        else:
            kept.append(page)
            expected.append(page)
    assert datasets.true_labels(pages, THRESHOLD) == expected


def test_pairs_of_one_label_are_right_wrong_or_missed() -> None:
    found = datasets.pair_outcomes([0, 0, 0, 3], {(0, 1), (2, 3)})
    assert found == ConfusionCounts(
        true_positive=1, false_positive=2, false_negative=1, true_negative=2
    )


def test_the_adjusted_rand_index_has_the_published_value() -> None:
    # The example of Yeung and Ruzzo 2001, Details of the adjusted Rand index.
    table = [[1, 1, 0], [1, 2, 1], [0, 0, 4]]
    cells = [(i, j) for i, row in enumerate(table) for j, n in enumerate(row) for _ in range(n)]
    one, other = [cell[0] for cell in cells], [cell[1] for cell in cells]
    assert datasets.adjusted_rand_index(one, other) == pytest.approx(0.3125, abs=1e-3)
