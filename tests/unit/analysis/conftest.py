"""A small labelled dataset."""

import json
from pathlib import Path

import pytest


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    folder = tmp_path / "labelled"
    folder.mkdir()
    words = [f"word{n}" for n in range(40)]
    bodies = {"a": words, "b": [*words, "more"], "c": words[::-1], "d": [*words[::-1], "more"]}
    lines = [json.dumps({"url": url, "body": " ".join(body)}) for url, body in bodies.items()]
    (folder / "pages.jsonl").write_text("\n".join(lines), "utf-8")
    pairs = "url_a\turl_b\tlabel\nb\ta\tsame\na\tc\t\nc\td\tsame\na\tgone\tsame\n"
    (folder / "truth_pairs.tsv").write_text(pairs, "utf-8")
    return folder
