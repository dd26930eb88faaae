import json
from pathlib import Path

import pytest

from benchmarks import train
from benchmarks.training import forests
from benchmarks.training.marked import MarkedPage, label
from streamer.text.main_text import model_in
from tests.unit.text.test_main_text import ARTICLE, FRONT_PAGE, PAGE


@pytest.mark.filterwarnings("ignore:Could not find the number of physical cores")  # of joblib
@pytest.mark.parametrize("options", [(), ("--sites",)])
def test_a_model_is_trained_on_a_few_pages(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn: pip install -r requirements/bench.lock")
    own = MarkedPage(PAGE, "The river rose in one night\n" + "\n".join(ARTICLE))
    crawl = [MarkedPage(PAGE, own.main_text, 1.0, "https://a.example/1")]
    monkeypatch.setattr(forests, "crawled_pages", lambda: iter(crawl))
    marked, out = tmp_path / "marked.jsonl", tmp_path / "model.json"
    lines = [{"html": PAGE, "main_text": own.main_text, "url": f"https://b.example/{n}"}
             for n in range(3)]  # fmt: skip
    lines += [{"html": PAGE, "main_text": own.main_text}, {"html": FRONT_PAGE, "main_text": ""}]
    marked.write_text("\n".join(map(json.dumps, lines)))
    train.main([str(marked), "--out", str(out), "--trees", "2", *options])
    assert model_in(out.read_bytes()).knows_sites == bool(options)


def test_a_text_that_is_on_a_page_twice_is_main_once() -> None:
    lines = [["a", "b", "c", "d"], ["e"], ["f", "g"]]
    blocks = [["a", "b", "c", "d"], ["e"], ["x", "y", "z"], ["a", "b", "c", "d"], ["f"], []]
    assert label(blocks, lines).tolist() == [1, 1, 0, 0, 0.5, 0]
