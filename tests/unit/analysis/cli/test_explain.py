"""`explain` as its users meet it: kept pages, duplicates by their text, and what would change."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from streamer.errors import InputError, SettingsError, StoreMismatch
from tests.helpers.commands import run
from tests.unit.analysis.test_clusters import write

WORDS = [f"word{n}" for n in range(200)]


def body(*changed: int) -> str:
    return " ".join(f"changed{n}" if n in changed else word for n, word in enumerate(WORDS))


PAGES = {
    "http://a/kept": body(),
    "http://a/near": body(50, 150),  # 186 of 206 shingles: 0.903
    "http://a/further": body(*range(10, 190, 20)),  # 151 of 241: 0.627
    "http://b/other": " ".join(WORDS[::-1]),
    "http://b/short": "three little words",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    judge(tmp_path, PAGES)
    return tmp_path


def judge(
    folder: Path, pages: Mapping[str, str], *options: str | Path, kind: str | None = None
) -> list[str | Path]:
    """Judge `pages` in their order; return the options that name the index."""
    folder.mkdir(exist_ok=True)
    lines = [{"url": url, "body": text, "content_type": kind} for url, text in pages.items()]
    write(folder / "pages.jsonl", lines)
    index: list[str | Path] = ["--index", folder / "index"]
    run("replay", folder / "pages.jsonl", "--verdicts", folder / "v.jsonl", *index, *options)
    return index


def explain(folder: Path, page: str, *options: str) -> dict[str, Any]:
    return dict(json.loads(run("explain", page, "--index", folder / "index", "--json", *options)))


def test_a_duplicate_is_explained_by_its_text_as_it_was_judged(folder: Path) -> None:
    found = explain(folder, "http://a/near", "--texts", str(folder / "pages.jsonl"))
    verdicts = [json.loads(line) for line in (folder / "v.jsonl").read_text("utf-8").splitlines()]
    said = next(one for one in verdicts if one["url"] == "http://a/near")
    near = found["nearest"]
    assert found["verdict"] == said["verdict"] == "duplicate"
    assert near["url"] == said["representative"]["url"] == "http://a/kept"
    assert near["similarity"] == said["similarity"]
    assert near["exact_resemblance"] == pytest.approx(186 / 206)
    assert near["covered"] == [pytest.approx(198 / 200)] * 2, "all but the changed words"
    assert near["margin"] == pytest.approx(near["similarity"] - 0.8, abs=1e-4)
    assert 0 < near["shared_keys"] <= near["keys"] == 15
    # (186 - x) / (206 + x) falls below 0.8 at x = 12, and a word changes five shingles.
    assert found["edits"] == {"differ": True, "shingles": 12, "words": 3}


def test_a_kept_page_is_found_by_url_and_place_and_not_compared_with_itself(folder: Path) -> None:
    by_url = explain(folder, "http://a/further")
    assert by_url["kept"] is True
    assert by_url["verdict"] == "unique"
    assert by_url["nearest"]["url"] == "http://a/kept"
    assert by_url["nearest"]["similarity"] == pytest.approx(151 / 241, abs=0.12)
    assert by_url["place"] == f"{folder / 'pages.jsonl'}:2"
    assert explain(folder, by_url["place"]) == by_url
    by_text = explain(folder, "http://a/further", "--texts", str(folder / "pages.jsonl"))
    assert by_text["nearest"]["exact_resemblance"] == pytest.approx(151 / 241)
    # (151 + x) / (241 - x) reaches 0.8 at x = 24.
    assert by_text["edits"] == {"differ": False, "shingles": 24, "words": 5}
    for name in ("url", "shared_keys", "similarity"):
        assert by_text["nearest"][name] == by_url["nearest"][name], name


def test_a_duplicate_is_explained_by_its_verdict_without_any_text(folder: Path) -> None:
    verdicts = folder / "v.jsonl"
    by_text = explain(folder, "http://a/near", "--texts", str(folder / "pages.jsonl"))
    by_verdict = explain(folder, "http://a/near", "--verdicts", str(verdicts))
    assert (by_verdict["verdict"], by_verdict["kept"]) == ("duplicate", False)
    assert by_verdict["why"] == by_text["why"]
    for name in ("url", "place", "similarity", "margin", "equal_content"):
        assert by_verdict["nearest"][name] == by_text["nearest"][name], name
    assert by_verdict["place"].endswith("pages.jsonl:1")
    assert explain(folder, by_verdict["place"], "--verdicts", str(verdicts)) == by_verdict
    kept = explain(folder, "http://a/further", "--verdicts", str(verdicts))
    assert kept == explain(folder, " http://a/further\n")
    spaced = explain(folder, " http://a/near", "--verdicts", str(verdicts))
    assert spaced == by_verdict
    assert explain(folder, "http://a/near ", "--texts", str(folder / "pages.jsonl")) == by_text
    arguments = ("explain", "http://a/near", "--index", folder / "index")
    shown = run(*arguments, "--verdicts", verdicts)
    assert "nearest kept page" in shown
    assert "None" not in shown
    with pytest.raises(InputError, match=r"not kept: give the verdict file .*\(--verdicts\)"):
        run(*arguments)


def test_the_verdict_of_another_index_explains_nothing(tmp_path: Path) -> None:
    for name, options in (("one", []), ("other", ["--bands", "20"])):
        judge(tmp_path / name, PAGES, *options)
    with pytest.raises(StoreMismatch, match="of an index with other settings"):
        explain(tmp_path / "one", "http://a/near", "--verdicts", str(tmp_path / "other/v.jsonl"))
    with pytest.raises(SettingsError):  # nor does a file that is no key
        explain(tmp_path / "one", "http://a/kept", "--key-file", str(tmp_path / "one/v.jsonl"))


def test_no_edits_are_told_across_the_threshold(tmp_path: Path, key_file: Path) -> None:
    key_file.write_text("01" * 32)  # by which the estimate is off
    texts = ["--texts", str(tmp_path / "one" / "pages.jsonl"), "--key-file", str(key_file)]
    judge(tmp_path / "one", PAGES, "--key-file", key_file)
    near = explain(tmp_path / "one", "http://a/near", *texts)["nearest"]
    between = (near["similarity"] + near["exact_resemblance"]) / 2
    assert abs(near["similarity"] - near["exact_resemblance"]) > 0.002
    judge(tmp_path / "other", PAGES, "--key-file", key_file, "--threshold", f"{between:.4f}")
    found = explain(tmp_path / "other", "http://a/near", *texts)
    assert (found["verdict"] == "duplicate") is (near["similarity"] > between)
    assert found["edits"] is None


def test_a_file_of_equal_words_has_equal_content(folder: Path) -> None:
    (folder / "copy.txt").write_text(PAGES["http://b/other"].upper(), "utf-8")
    found = explain(folder, str(folder / "copy.txt"))
    assert (found["verdict"], found["nearest"]["equal_content"]) == ("duplicate", True)
    assert found["edits"] is None


def test_the_partitions_index_with_the_page_explains_it(tmp_path: Path, key_file: Path) -> None:
    here, there = ({name: PAGES[name]} for name in ("http://a/kept", "http://b/other"))
    for number, pages in enumerate((here, there)):
        own = tmp_path / str(number)
        judge(own, pages, "--key-file", key_file)
        (tmp_path / "index").mkdir(exist_ok=True)
        (own / "index").rename(tmp_path / "index" / f"shard-{number}")
    (tmp_path / "near.txt").write_text(PAGES["http://b/other"], "utf-8")
    for name in (*here, *there):
        found = explain(tmp_path, name, "--key-file", str(key_file))
        assert (found["page"], found["kept"], found["nearest"]) == (name, True, None)
    found = explain(tmp_path, str(tmp_path / "near.txt"), "--key-file", str(key_file))
    assert found["nearest"]["url"] == "http://b/other"
    with pytest.raises(InputError, match="no kept page"):
        explain(tmp_path, "http://a/near", "--key-file", str(key_file))


def test_the_table_says_what_would_change_the_verdict(folder: Path) -> None:
    files = ("--index", folder / "index", "--texts", folder / "pages.jsonl")
    shown = run("explain", "http://a/near", *files, columns=120)
    assert re.search(r"exact resemblance +0\.9029\b", shown)
    assert re.search(r"words in shared runs +99\.00% of this page, 99\.00% of that", shown)
    assert "If 12 shingles more would differ, 3 words or more, it would be unique." in shown


def test_an_index_of_characters_counts_its_own_shingles(tmp_path: Path) -> None:
    judge(tmp_path, PAGES, "--method", "bottom_k", "--method-option", "unit=characters")
    found = explain(tmp_path, "http://a/near", "--texts", str(tmp_path / "pages.jsonl"))
    characters = [" ".join(PAGES[url].split()) for url in ("http://a/near", "http://a/kept")]
    one, other = ({text[i : i + 5] for i in range(len(text) - 4)} for text in characters)
    exact = len(one & other) / len(one | other)
    assert found["nearest"]["exact_resemblance"] == pytest.approx(exact)


def test_an_index_of_words_is_explained_by_its_bags(tmp_path: Path) -> None:
    judge(tmp_path, PAGES, "--method", "words")
    found = explain(tmp_path, "http://a/further", "--texts", str(tmp_path / "pages.jsonl"))
    assert (found["verdict"], found["nearest"]["url"]) == ("duplicate", "http://a/kept")
    assert found["nearest"]["exact_resemblance"] == pytest.approx(191 / 209)
    # (191 - x) / (209 + x) falls below 0.8 at x = 14, and a word is one of them.
    assert found["edits"] == {"differ": True, "shingles": 14, "words": 14}
    assert found["nearest"]["covered"] == [191 / 200, 191 / 200]


@pytest.mark.parametrize(
    "options",
    [
        ("--method", "digests", "--method-option", "variant=description"),
        ("--method", "bottom_k", "--canonical", "keep_tags=true"),
    ],
    ids=["description", "tags"],
)
def test_a_page_of_html_is_explained_by_all_that_its_verdict_rests_on(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    html = "<html><head><meta name=description content='{}'></head><p>{}</p></html>"
    pages = {
        "http://a/first": html.format("of one thing", body()),
        "http://a/again": html.format("of one thing", body(50, 150)),
        "http://a/other": html.format("of other things", body(60)).replace("<p", "<p x='y'"),
    }
    judge(tmp_path, pages, *options, kind="text/html")
    for line in (tmp_path / "v.jsonl").read_text("utf-8").splitlines()[1:]:
        said = json.loads(line)
        found = explain(tmp_path, said["url"], "--texts", str(tmp_path / "pages.jsonl"))
        assert found["verdict"] == said["verdict"]
        if said["verdict"] == "duplicate":
            assert found["nearest"]["similarity"] == said["similarity"]


def test_other_indexes_compared_with_are_named_as_not_looked_at(tmp_path: Path) -> None:
    clean, own = tmp_path / "clean", tmp_path / "own"
    judge(clean, PAGES)
    key = str(clean / "index" / "secret.key")
    judge(own, PAGES, "--also", f"clean={clean / 'index'}", "--key-file", key)
    texts = ("--texts", str(own / "pages.jsonl"), "--key-file", key)
    found = explain(own, "http://a/near", *texts)
    assert (found["verdict"], found["not_looked_at"]) == ("unique", ["clean"])
    said = run("explain", "http://a/near", "--index", own / "index", *texts)
    assert "in other indexes (clean) are not looked at" in said
    assert explain(clean, "http://a/kept")["not_looked_at"] == []


def test_a_page_too_short_to_compare_is_said_to_be(folder: Path) -> None:
    (folder / "short.txt").write_text("three little words more", "utf-8")
    found = explain(folder, str(folder / "short.txt"))
    assert (found["verdict"], found["too_short"]) == ("unique", True)
    assert "only equal content counts" in found["why"]
    kept = explain(folder, "http://b/short")
    assert (kept["kept"], kept["nearest"]["shared_keys"]) == (True, 0)
