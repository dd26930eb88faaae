"""Training of the model for sites: what repeats, in the rows that trees are trained on."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.analysis.main_text import MarkedPage, crawled_pages, read_blocks
from streamer.analysis.site_training import (
    Labelled,
    in_order,
    of_single_pages,
    of_sites,
    page_trees,
    site_columns,
    train_for_sites,
    with_crawl,
)
from streamer.errors import InputError
from streamer.text.main_text import (
    FEATURES,
    REPEATS_MAX,
    SITE_FEATURES,
    model_of,
    new_main_text,
    score_blocks,
)

REPEATS = range(len(FEATURES), len(SITE_FEATURES))
NOTE = "This note of the house stands below all that it has ever printed, and is never changed."
LINES = [
    [f"{word} number {n} was written for the page {page}, and for no other page." for n in range(4)]
    for page, word in enumerate(("Alpha", "Beta", "Gamma", "Delta"))
]


def pages() -> list[MarkedPage]:
    """Return pages of one site: articles above a note."""
    return [
        MarkedPage(
            f"<div>{''.join(f'<p>{line}' for line in lines)}</div><div><p>{NOTE}</div>",
            "\n".join(lines), 1.0, f"https://a.example/{number}",
        )
        for number, lines in enumerate(LINES)
    ]  # fmt: skip


def test_a_block_has_on_how_many_other_pages_of_its_site_it_was() -> None:
    found = list(of_sites(pages()))
    assert [each.rows[-1, REPEATS[0]] for each in found] == [0, 1, 2, 3]
    assert [each.main.tolist() for each in found] == [[True] * 4 + [False]] * 4
    assert found[3].rows[:, REPEATS[1]].tolist() == [0] * 5
    assert found[3].rows[:, REPEATS[2]].tolist() == [0, 0, 0, 3, 0]
    shares = found[3].rows[:, REPEATS[3]]
    assert shares.min() == shares.max() > 0
    assert found[3].rows.shape == (5, len(SITE_FEATURES))


def test_pages_without_a_site_repeat_nothing_and_those_that_cannot_be_used_are_known() -> None:
    single = MarkedPage(pages()[0].html, pages()[0].main_text)
    assert not any(each.rows[:, REPEATS].any() for each in of_single_pages([single] * 2))
    unmarked = MarkedPage(pages()[1].html, "", 1.0, pages()[1].url)
    found = list(in_order([pages()[0], unmarked, pages()[2]]))
    assert found[1] is None
    assert found[2] is not None
    assert found[2].rows[-1, REPEATS[0]] == 2


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 255)), min_size=1, max_size=70))
def test_the_columns_are_those_that_the_trees_are_asked_with(made: list[tuple[int, int]]) -> None:
    page = "".join(f"<p>{'word ' * words}" for words, _ in made)
    repeats = np.array([count for _, count in made], np.uint8)
    wanted = site_columns(repeats, np.array([words for words, _ in made], np.int16))
    for column, feature in enumerate(REPEATS):
        for threshold in (0, 1, REPEATS_MAX - 1, 300):
            tree = {"nodes": [[feature, threshold, 0xFFFE]], "leaves": [0, 7]}
            main = new_main_text(model_of([tree], 0, sites=True))
            read_blocks(page, main)
            main.repeats[: len(repeats)] = repeats
            scores = main.scores[: score_blocks(main)]
            assert ((wanted[:, column] > threshold) == (scores == 7)).all()


def test_made_pages_have_a_site_and_weigh_a_share() -> None:
    crawled = list(islice(crawled_pages(), 60))
    assert all(page.url for page in crawled)
    assert any(page.main_text for page in crawled)
    of_pages = list(of_sites(pages()))
    both = with_crawl(of_pages[0], Labelled.joined(of_pages))
    assert both.weights.sum() == pytest.approx(1.5 * of_pages[0].weights.sum())


def test_there_must_be_pages_of_sites_and_the_trees_of_the_page_stay() -> None:
    with pytest.raises(InputError, match="No page has a site"):
        train_for_sites([MarkedPage("<p>a", "a")])
    assert page_trees()["trees"]
