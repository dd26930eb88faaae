"""Training a model of main text: marked pages, their blocks, and trees."""

from __future__ import annotations

import html
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from streamer.analysis import main_text
from streamer.analysis.main_text import (
    MarkedPage,
    _tree,
    crawl_sheets,
    examples,
    grow_of_blocks,
    read_marked,
    sheet_of,
    sheets_of,
    with_instead,
    with_lines,
    with_text_of,
)
from streamer.text.main_text import FEATURES, model_of, new_main_text
from streamer.text.visible import HTML, visible_text
from tests.unit.text.test_main_text import ARTICLE, FRONT_PAGE, PAGE

MARKED = MarkedPage(PAGE, "The river rose in one night\n" + "\n".join(ARTICLE))


def test_blocks_are_labelled_by_the_marked_text() -> None:
    sheet = sheet_of(MARKED, new_main_text(model_of([], 0)))
    assert sheet.is_usable
    assert sheet.rows.shape == (len(sheet.main), len(FEATURES))
    chosen = [" ".join(w) for w, m in zip(sheet.words, sheet.main, strict=True) if m]
    assert chosen[0] == "the river rose in one night"
    assert sum(sheet.main) == 1 + len(ARTICLE)


def test_marked_text_is_broken_into_lines_and_furniture_is_not() -> None:
    lines = with_lines(MARKED).html
    assert lines.count("<p>") > PAGE.count("<p>")
    assert visible_text(lines.encode(), HTML).split() == visible_text(PAGE.encode(), HTML).split()


def test_a_trained_tree_becomes_tests_and_leaves_from_left_to_right() -> None:
    kind = [("value", "f8"), ("feature_idx", "i8"), ("num_threshold", "f8")]
    kind += [("left", "i8"), ("right", "i8"), ("is_leaf", "u1")]
    tests, leaves = [(0, 3, 2.5, 1, 2, 0), (0, 7, -0.5, 3, 4, 0)], [0.25, -1, 2]
    first, second, third = ((leaf, 0, 0, 0, 0, 1) for leaf in leaves)
    found = _tree(np.array([tests[0], first, tests[1], second, third], kind))
    assert found["nodes"] == [(3, 2, 0xFFFE), (7, -1, 0xFFFD)]
    assert found["leaves"] == [256, -1024, 2048]


def test_nothing_is_trained_on_pages_that_do_not_have_their_marked_text() -> None:
    strange = MarkedPage(PAGE, "Other words that are nowhere in this page. " * 9)
    sheet = sheet_of(strange, new_main_text(model_of([], 0)))
    assert not sheet.is_usable
    with pytest.raises(Exception, match="No pages to train on"):
        grow_of_blocks([sheet])


def test_main_text_is_taken_out_of_a_page_and_something_put_in_its_place() -> None:
    page = with_instead(MARKED, "<ul><li>list</ul>")
    assert "<ul><li>list</ul>" in page.partition("</ul>")[2]
    assert not any(sentence in page for sentence in ARTICLE)
    assert all(each in page for each in ("Section 11", "Most read", "Copyright 2020"))
    assert with_instead(MARKED, "") == page.replace("<ul><li>list</ul>", "")


def test_a_page_is_learnt_from_with_the_text_of_the_page_before() -> None:
    other = MarkedPage("", "\n".join(f"{line} It was said <again>." for line in reversed(ARTICLE)))
    made = [with_text_of(MARKED, other, f"{seed}") for seed in range(20)]
    assert len({each.html for each in made}) == len(made)
    for each in made:
        text = visible_text(each.html.encode(), HTML)
        assert all(line in text for line in other.main_text.split("\n"))
        assert ARTICLE[0] + "\n" not in text
        assert all(own in text for own in ("Section 11", "Most read", "Copyright 2020"))
    sheets = list(sheets_of([MARKED, MARKED]))
    assert [len(own) for own in sheets] == [2, 3]  # as it is, in lines, with the text before
    as_it_is, _, with_other = sheets[1]
    assert with_other.is_usable
    assert with_other.weights.sum() < as_it_is.weights.sum()


def test_the_sample_crawl_counts_half_as_much_as_the_marked_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crawl = [MARKED, MarkedPage(FRONT_PAGE, "Text of no block."), MARKED]
    monkeypatch.setattr(main_text, "crawled_pages", lambda: iter(crawl))  # the whole takes long
    marked = [sheet_of(MARKED, new_main_text(model_of([], 0)))] * 3
    found = crawl_sheets(marked)
    assert len(found) == 2  # the page whose text is not found does not count
    assert sum(each.weight for each in found) == pytest.approx(0.5 * 3 * marked[0].weight)


def test_a_page_is_learnt_from_with_other_contents_and_its_text_with_other_furniture() -> None:
    none = MarkedPage(FRONT_PAGE, " ", 0.5)
    *own, empty, _made = list(islice(examples([MARKED, none], [True, False]), 6))
    assert [each.has_main_text for each in own] == [True, False, False, True]
    end = ARTICLE[1][-40:]
    assert [end in html.unescape(each.html) for each in own] == [True, False, False, True]
    assert ["Section 11" in each.html for each in own] == [True, True, True, False]
    assert (empty.html, empty.has_main_text) == (FRONT_PAGE, False)
    assert next(examples([MarkedPage(PAGE, "Other text.")], [False])).html != PAGE


def test_a_line_that_is_no_marked_page_is_named(tmp_path: Path) -> None:
    path = tmp_path / "marked.jsonl"
    path.write_text('{"html": "<p>", "main_text": ""}\n\n{"html": 1}\n')
    with pytest.raises(Exception, match=r"marked.jsonl:3: no marked page"):
        list(read_marked(path))
