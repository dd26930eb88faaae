import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import train
from benchmarks.training import single_pages, sites
from benchmarks.training.single_pages import MarkedPage, read_blocks
from streamer.text.main_text import (
    FEATURES,
    REPEATS_MAX,
    SITE_FEATURES,
    model_in,
    model_of,
    new_main_text,
    score_blocks,
)
from tests.unit.text.test_main_text import ARTICLE, FRONT_PAGE, PAGE


@pytest.mark.filterwarnings("ignore:Could not find the number of physical cores")  # of joblib
@pytest.mark.parametrize("options", [(), ("--sites",)])
def test_a_model_is_trained_on_a_few_pages(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn: pip install -r requirements/bench.lock")
    own = MarkedPage(PAGE, "The river rose in one night\n" + "\n".join(ARTICLE))
    crawl = [MarkedPage(PAGE, own.main_text, 1.0, "https://a.example/1")]
    monkeypatch.setattr(single_pages, "crawled_pages", lambda: iter(crawl))
    for size in ("MADE", "ARTICLES"):
        monkeypatch.setattr(single_pages, size, 1)
    marked, out = tmp_path / "marked.jsonl", tmp_path / "model.json"
    lines = [{"html": PAGE, "main_text": own.main_text, "url": f"https://b.example/{n}"}
             for n in range(3)]  # fmt: skip
    lines += [{"html": PAGE, "main_text": own.main_text}, {"html": FRONT_PAGE, "main_text": ""}]
    marked.write_text("\n".join(map(json.dumps, lines)))
    train.main([str(marked), "--out", str(out), "--trees", "2", *options])
    assert model_in(out.read_bytes()).knows_sites == bool(options)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 255)), min_size=1, max_size=70))
def test_columns_of_sites_are_those_that_trees_are_asked_with(made: list[tuple[int, int]]) -> None:
    page = "".join(f"<p>{'word ' * words}" for words, _ in made)
    repeats = np.array([count for _, count in made], np.uint8)
    wanted = sites.site_columns(repeats, np.array([words for words, _ in made], np.int16))
    for column, feature in enumerate(range(len(FEATURES), len(SITE_FEATURES))):
        for threshold in (0, 1, REPEATS_MAX - 1, 300):
            tree = {"nodes": [[feature, threshold, 0xFFFE]], "leaves": [0, 7]}
            main = new_main_text(model_of([tree], 0, sites=True))
            read_blocks(page, main)
            main.repeats[: len(repeats)] = repeats
            scores = main.scores[: score_blocks(main)]
            assert ((wanted[:, column] > threshold) == (scores == 7)).all()
