"""In which order the kept pages near a text come, and how near each is said to be."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from streamer.cli.replay import replay
from streamer.lab.explanation import KeptIndex, Near

PIECES, PIECE_WORDS = 10, 20
TEXT = [f"word{n}" for n in range(PIECES * PIECE_WORDS)]

app = typer.Typer()
app.command()(replay)


def near(folder: Path, pages: dict[str, list[str]], *options: str) -> list[Near]:
    """Judge `pages` in their order, and look up TEXT in the index."""
    lines = [json.dumps({"url": url, "body": " ".join(words)}) for url, words in pages.items()]
    (folder / "pages.jsonl").write_text("\n".join((*lines, "")), "utf-8")
    places = ["--index", str(folder / "index"), "--verdicts", str(folder / "verdicts.jsonl")]
    done = CliRunner().invoke(app, [str(folder / "pages.jsonl"), *places, *options])
    assert done.exit_code == 0, (done.output, done.exception)
    with closing(KeptIndex(folder / "index")) as kept:
        return kept.near(" ".join(TEXT).encode())


def changed(name: str, pieces: int, every: int = 1) -> list[str]:
    """Return TEXT with each `every`-th word of its first pieces replaced by one of its own."""
    last = pieces * PIECE_WORDS
    return [f"{name}{n}" if n < last and n % every == 0 else word for n, word in enumerate(TEXT)]


@pytest.mark.parametrize("shards", ["1", "2"])
def test_the_most_similar_page_comes_first_and_a_stranger_not_at_all(
    tmp_path: Path, shards: str
) -> None:
    pages = {name: changed(name, pieces) for name, pieces in (("a", 8), ("b", 6), ("c", 7))}
    pages["stranger"] = changed("stranger", PIECES)
    found = near(tmp_path, pages, "--method", "segments", "--shards", shards)
    assert found == [Near("b", 0.4, 4), Near("c", 0.3, 3), Near("a", 0.2, 2)]


def test_similarity_goes_before_shared_keys_and_these_before_the_place(tmp_path: Path) -> None:
    pages = {
        "few": changed("few", 6),
        "more": changed("more", 6, every=PIECE_WORDS),
        "nearer": changed("nearer", 5),
    }
    options = ["--method", "banding", "--accept", "segments", "--bands", "48", "--rows", "1"]
    nearer, more, few = near(tmp_path, pages, *options)
    assert (nearer.url, nearer.similarity) == ("nearer", 0.5)
    assert (more.url, more.similarity) == ("more", 0.4)
    assert (few.url, few.similarity) == ("few", 0.4)
    assert more.shared_keys > nearer.shared_keys
    assert more.shared_keys > few.shared_keys


@pytest.mark.parametrize("shards", ["1", "2"])
def test_of_pages_alike_in_all_the_earlier_one_comes_first(tmp_path: Path, shards: str) -> None:
    pages = {name: changed(name, 6) for name in ("z", "m", "a")}
    found = near(tmp_path, pages, "--method", "segments", "--shards", shards)
    assert found == [Near(name, 0.4, 4) for name in ("z", "m", "a")]
