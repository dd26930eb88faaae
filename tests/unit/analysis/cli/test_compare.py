"""`compare` and `uniqueness` as their users meet them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from streamer.errors import InputError, SettingsError
from tests.helpers.commands import refusal, run

ONE = "He said: «my war is over» <script>alert(1)</script> & left the room."
OTHER = "«My war is over!» & left the room, \x1b[31mred."


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    one, other = tmp_path / "one<i>.txt", tmp_path / "other.txt"
    one.write_text(ONE, "utf-8")
    other.write_text(OTHER, "utf-8")
    return one, other


def test_two_texts_are_compared_exactly_and_by_the_methods_named(files: tuple[Path, Path]) -> None:
    options = ["--shingle-width", "3", "--method", "simhash", "--method", "bottom_k"]
    report = json.loads(run("compare", *files, *options, "--json"))
    assert report["exact"]["shared"] == 3
    assert report["exact"]["dice_percentage"] == pytest.approx(100 * 2 * 3 / (11 + 6))
    assert report["exact"]["covered"] == [pytest.approx(7 / 13), pytest.approx(7 / 8)]
    assert report["exact"]["bag"] == pytest.approx(7 / 14)
    assert [one["name"] for one in report["methods"]] == ["simhash", "bottom_k"]
    spans = [(ONE[slice(*one["a"])], OTHER[slice(*one["b"])]) for one in report["fragments"]]
    assert spans == [("my war is over", "My war is over"), ("left the room", "left the room")]


def test_every_method_calls_a_text_a_duplicate_of_itself(tmp_path: Path) -> None:
    sentences = [f"Sentence {n} tells of matter {n * n} and of thing {n * 7}." for n in range(60)]
    said = said_of(tmp_path, " ".join(sentences), " ".join(sentences), "--method", "all")
    assert {one["name"] for one in said if not one["unavailable"]} >= {"minhash", "simhash"}
    able = [one for one in said if not one["unavailable"]]
    assert [one["name"] for one in able if not one["duplicate"] or one["similarity"] < 1] == []


def test_on_a_terminal_nothing_of_a_text_steers_it(files: tuple[Path, Path]) -> None:
    shown = run("compare", *files, "--method", "simhash", "--shingle-width", "3")
    assert "\x1b" not in shown
    assert "Jaccard similarity" in shown
    assert re.search(r"words of A covered +\d+\.\d+%", shown)
    assert re.search(r"same words, any order +0\.\d{4}\b", shown)
    assert "left" in shown


WORDS = [f"word{number}" for number in range(400)]
LONG, NEAR, FAR = WORDS, [*WORDS[:300], *WORDS[310:]], [*WORDS[:240], *WORDS[:90]]
SCREEN = 24  # lines of 100 columns


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, Path]:
    found = {}
    for name, words in {"long": LONG, "near": NEAR, "far": FAR, "short": LONG[:4]}.items():
        found[name] = tmp_path / f"{name}.txt"
        found[name].write_text(" ".join(words))
    return found


def decision(*command: object) -> str:
    return run("compare", *command, columns=100).splitlines()[0]


def test_what_a_replay_would_decide_comes_first_and_fits_a_screen(texts: dict[str, Path]) -> None:
    shown = run("compare", texts["long"], texts["near"], columns=100).splitlines()
    assert re.fullmatch(
        r"A replay would call B a duplicate of A: minhash, similarity 0\.9\d+, threshold 0\.8000, "
        r"\d+ of 14 keys shared\.", shown[0],
    )  # fmt: skip
    assert len(shown) <= SCREEN
    assert not any("simhash" in line for line in shown)
    assert "--all shows them" in shown[-1]
    assert len(run("compare", texts["short"], texts["short"], columns=100).splitlines()) <= SCREEN
    whole = run("compare", texts["long"], texts["near"], "--all", columns=100)
    assert whole.splitlines()[0] == shown[0]
    assert "simhash" in whole
    assert "word399" in whole


@pytest.mark.parametrize(
    ("other", "options"),
    [
        ("near", []),
        ("near", ["--threshold", "0.99"]),
        ("far", []),
        ("far", ["--preset", "broad"]),
        ("short", []),
    ],
)
def test_the_decision_is_that_of_a_replay(
    texts: dict[str, Path], tmp_path: Path, other: str, options: list[str]
) -> None:
    judged, index = tmp_path / "v.jsonl", tmp_path / "index"
    pages = [texts["long"], texts[other]]
    run("replay", *pages, "--verdicts", judged, "--index", index, *options)
    verdict = json.loads(judged.read_text().splitlines()[1])["verdict"]
    wanted = {"duplicate": "a duplicate of A:", "unique": "unique:"}[verdict]
    assert f"A replay would call B {wanted}" in decision(*pages, *options)
    assert f"A replay would call B {wanted}" in decision(*pages, "--index", index)


def test_a_page_without_main_text_has_the_threshold_of_such_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, words in {"one": WORDS[:20], "other": WORDS[:19]}.items():
        (tmp_path / f"{name}.html").write_text(f"<html><body><p>{' '.join(words)}</p></body>")
    pages = tmp_path / "one.html", tmp_path / "other.html", "--preset", "balanced"
    assert "threshold 0.7000" in decision(*pages)
    monkeypatch.setenv("STREAMER_FALLBACK_THRESHOLD", "0")
    assert "threshold 0.6300" in decision(*pages)


def test_texts_of_equal_words_are_duplicates_for_a_method_that_finds_no_key(tmp_path: Path) -> None:
    (said,) = said_of(tmp_path, "qqq, www!", "QQQ www", "--method", "lexicon")
    assert (said["shared_keys"], said["duplicate"]) == (0, True)


def said_of(tmp_path: Path, one: str, other: str, *options: str) -> list[dict[str, Any]]:
    texts = tmp_path / "one.html", tmp_path / "other.html"
    for path, text in zip(texts, (one, other), strict=True):
        path.write_text(text, "utf-8")
    return list(json.loads(run("compare", *texts, *options, "--json"))["methods"])


def test_a_preset_and_two_methods_in_sequence_are_asked_like_any_other(tmp_path: Path) -> None:
    words = [f"word{n}" for n in range(40)]
    options = ["--method", "short-texts", "--method", "minhash+simhash",
               "--method-option", "minhash+simhash.accept.distance=9"]  # fmt: skip
    short, both = said_of(tmp_path, " ".join(words), " ".join(words[1:]), *options)
    assert (short["name"], short["threshold"], short["keys"]) == ("short-texts", 0.4, 24)
    assert short["similarity"] == pytest.approx(38 / 39, abs=1e-4)
    assert (both["name"], both["keys"]) == ("minhash+simhash", 14)
    assert both["threshold"] == pytest.approx((64 - 9) / 64, abs=1e-4)


@pytest.mark.parametrize(
    ("method", "least"),
    [("minhash", "5 distinct shingles"), ("bottom_k", "5 distinct words"),
     ("short-texts", "3 distinct words")],
)  # fmt: skip
def test_texts_too_short_to_judge_are_called_so(tmp_path: Path, method: str, least: str) -> None:
    (said,) = said_of(tmp_path, "one two", "one two one", "--method", method)
    assert (said["duplicate"], said["unavailable"]) == (False, f"Fewer than {least}.")
    (same,) = said_of(tmp_path, "one two", "One, two!", "--method", method)
    assert (same["duplicate"], same["unavailable"], same["similarity"]) == (True, "", 1.0)


def test_a_page_has_both_texts_escaped_with_fragments_linked_in_colour(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out.html"
    run("compare", *files, "--method", "simhash", "--shingle-width", "3", "--html", out)
    tree = etree.HTML(out.read_text("utf-8"))
    texts = ["".join(div.itertext()) for div in tree.iterfind(".//div[@class='text']")]
    assert texts == [ONE, OTHER.replace("\x1b", "\ufffd")]
    assert [name.text for name in tree.iterfind(".//h2")] == [str(files[0]), str(files[1])]
    assert {"script", "img", "link", "iframe"}.isdisjoint(one.tag for one in tree.iter())
    links = tree.findall(".//a")
    assert all(link.get("href").startswith("#") for link in links)
    by_id = {link.get("id"): link for link in links}
    assert [link.text for link in links[:2]] == ["my war is over", "left the room"]
    for link in links:
        opposite = by_id[link.get("href")[1:]]
        assert opposite.text.lower() == link.text.lower()
        assert opposite.get("class") == link.get("class")
        assert f".{link.get('class')} {{ background" in tree.findtext(".//style")


def test_pairs_come_from_columns_and_from_json_lines(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs"
    first = '{"a": "one two three", "b": "one two four"}'
    pairs.write_text(f"{first}\n\nfive six\tfive six\n", "utf-8-sig")
    options = ("--method", "exact_content", "--shingle-width", "2")
    command = ("compare", "--pairs", pairs, *options)
    reports = [json.loads(line) for line in run(*command, "--json").splitlines()]
    assert [one["exact"]["jaccard"] for one in reports] == [1 / 3, 1.0]
    assert [one["a"] for one in reports] == ["line 1", "line 3"]
    lines = run("compare", "--pairs", pairs, "--shingle-width", "2").splitlines()
    assert lines[1].endswith("duplicates for: minhash")
    lines = run(*command).splitlines()
    assert lines[0].endswith("duplicates for: none")
    assert lines[1].endswith("duplicates for: exact_content")
    assert lines[2] == "2 pairs; duplicates for at least one method: 1"


@pytest.mark.parametrize("line", ["one column", "a\tb\tc", '{"a": "b"}'])
def test_a_line_that_is_no_pair_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "pairs").write_text(f"a\tb\n{line}\n", "utf-8")
    error, _ = refusal("compare", "--pairs", tmp_path / "pairs", "--method", "exact_content")
    assert isinstance(error, InputError)
    assert "line 2" in str(error)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("compare", "name both files"),
        ("compare - -", "name both files"),
        ("compare a b --method none", "There is no method none"),
        ("compare a b --method simhash --method-option minhash.rows=2", "options but is not asked"),
        ("compare a b --method minhash+short-texts", "short-texts is a preset"),
    ],
)
def test_a_command_that_cannot_be_says_what_to_change(arguments: str, message: str) -> None:
    error, _ = refusal(*arguments.split())
    assert isinstance(error, SettingsError)
    assert message in str(error)


def test_uniqueness_names_the_sources_of_what_is_not(tmp_path: Path) -> None:
    words = [f"w{n}" for n in range(102)]
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "text.txt").write_text(" ".join(words), "utf-8")
    (folder / "source.txt").write_text(" ".join(words[20:27]), "utf-8")
    page = {"url": "http://a.example/", "body": " ".join(words[20:23])}
    (folder / "pages.jsonl").write_text(json.dumps(page) + "\n", "utf-8")
    options = ("--against", folder, "--shingle-width", "3")
    command = ("uniqueness", folder / "text.txt", *options)
    report = json.loads(run(*command, "--json"))
    assert (report["shingles"], report["unique"], report["percentage"]) == (100, 95, 95.0)
    assert report["sources"] == [
        {"source": str(folder / "source.txt"), "shingles": 5},
        {"source": "http://a.example/", "shingles": 1},
    ]
    assert "95.00 % unique" in run(*command)


def test_a_text_without_words_has_no_uniqueness(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(" \u00a0\n", "utf-8")
    (tmp_path / "other.txt").write_text("one two three", "utf-8")
    error, _ = refusal("uniqueness", tmp_path / "text.txt", "--against", tmp_path / "other.txt")
    assert "has no words" in str(error)


def test_shares_of_texts_without_words_are_none(tmp_path: Path) -> None:
    one, other = tmp_path / "one.txt", tmp_path / "other.txt"
    one.write_text(" ", "utf-8")
    for text, jaccard, containment in (("\n", None, [None, None]), ("a b", 0.0, [None, 0.0])):
        other.write_text(text, "utf-8")
        exact = json.loads(run("compare", one, other, "--json"))["exact"]
        assert (exact["jaccard"], exact["containment"]) == (jaccard, containment)
        assert (exact["bag"], exact["covered"]) == (jaccard, containment)
        assert ("0.0000" in run("compare", one, other)) == (jaccard is not None)


def test_a_text_is_not_looked_for_in_itself(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("one two three", "utf-8")
    error, _ = refusal("uniqueness", tmp_path / "text.txt", "--against", tmp_path)
    assert "nothing to look through but the text itself" in str(error)
