import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import InputError, SettingsError
from streamer.run.output_checks import part_of
from streamer.sketch import collection
from streamer.sketch.collection import count_words, idf, load_collection, share_by_length
from streamer.sketch.method import PageText
from streamer.sketch.scheme import choose, method, write_options
from streamer.text.words import CanonicalOptions
from tests.helpers.commands import run

SECRET = bytes(range(32))
DEFAULT = CanonicalOptions()
USERS = ("digests", "idf_string", "lexicon", "optimum_frequency", "random_lexicon", "simhash")
PAGES = st.lists(st.lists(st.sampled_from("abcdef"), max_size=8), max_size=8)


def build(folder: Path, bodies: list[str], *arguments: str) -> Path:
    pages, out = folder / "pages.jsonl", folder / "words.json"
    pages.write_text("".join(json.dumps({"url": "u", "body": b}) + "\n" for b in bodies))
    run("collection", "build", pages, "--out", out, *arguments)
    return out


def written(**change: Any) -> str:
    """Return the content of a collection's file with something changed."""
    plain = {"format": collection.FORMAT, "documents": 1, "canonical": {}, "frequencies": {}}
    return json.dumps(plain | change)


@given(PAGES)
def test_a_word_counts_once_a_page_and_pages_without_words_do_not(pages: list[list[str]]) -> None:
    found = count_words(pages, DEFAULT)
    with_words = [page for page in pages if page]
    assert found.documents == len(with_words)
    for word in "abcdefg":
        on = sum(word in page for page in with_words)
        assert found.share(word) == (on + 1) / (len(with_words) + 1)


@given(PAGES, st.randoms(use_true_random=False))
def test_page_order_changes_no_file_or_fingerprint(pages: list[list[str]], random: Any) -> None:
    mixed = random.sample(pages, len(pages))
    one, other = count_words(pages, DEFAULT), count_words(mixed, DEFAULT)
    assert one.to_bytes() == other.to_bytes()
    assert one.fingerprint == other.fingerprint


def test_one_count_more_or_another_option_gives_another_fingerprint() -> None:
    prints = [
        count_words(pages, options).fingerprint
        for pages, options in (
            ([["a"], ["b"]], DEFAULT),
            ([["a"], ["a", "b"]], DEFAULT),
            ([["a"], ["b"], ["b"]], DEFAULT),
            ([["a"], ["b"]], CanonicalOptions(fold_case=False)),
            ([["a"], ["b"]], CanonicalOptions(text="main")),
        )
    ]
    assert len(set(prints)) == len(prints)


def test_words_on_few_pages_are_left_out_and_count_as_unseen() -> None:
    found = count_words([["a", "b"], ["a"]], DEFAULT, min_pages=2)
    assert found.words == 1
    assert (found.share("a"), found.share("b")) == (1, 1 / 3)


def test_the_command_counts_visible_words_and_the_file_gives_them_back(tmp_path: Path) -> None:
    out = build(tmp_path, ["The bridge, the river", "<p>River<b>side</b></p><!-- bridge -->", ""])
    found = load_collection(out)
    assert (found.documents, found.words) == (2, 4)
    assert found.share("the") == found.share("bridge") == found.share("riverside") == 2 / 3
    assert not part_of(str(out)).exists()


def test_the_canonical_form_is_kept_in_the_file_which_can_be_shown(tmp_path: Path) -> None:
    out = build(tmp_path, ["bridges and a bridge"], "--canonical", "stem=english")
    found = load_collection(out)
    assert found.canonical.stem == "english"
    assert found.words == 3
    assert found.fingerprint in run("collection", "show", out)


def test_pages_without_words_make_no_collection(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no pages with words"):
        build(tmp_path, ["", "\n "])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[]", "Expected `object`"),
        (written(format="x/1"), "its format is 'x/1'"),
        (written(frequencies={"a": 2}), "more pages than there are"),
        (written(canonical={"x": 1}), "Extra inputs"),
    ],
)
def test_what_is_no_collection_has_a_remedy(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "words.json"
    path.write_text(content)
    with pytest.raises(SettingsError, match=reason) as caught:
        load_collection(path)
    assert "streamer collection build" in str(caught.value)


def test_a_file_that_is_not_there_is_an_error_of_the_method(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        method("idf_string", {"collection": str(tmp_path / "none.json")}, SECRET)


@pytest.mark.parametrize("name", USERS)
def test_a_methods_parameters_say_its_collections_fingerprint(tmp_path: Path, name: str) -> None:
    out = build(tmp_path, ["one page", "and another page"])
    one = method(name, {"collection": str(out)}, SECRET)
    assert write_options(one.parameters)["collection"] == load_collection(out).fingerprint
    assert write_options(method(name, {}, SECRET).parameters)["collection"] == ""


@pytest.mark.parametrize(
    ("name", "accept"), [*((name, "") for name in USERS), ("minhash", "lexicon")]
)
def test_a_collection_under_another_canonical_form_is_refused_before_the_first_page(
    tmp_path: Path, name: str, accept: str
) -> None:
    out = build(tmp_path, ["one page", "other"], "--canonical", "stem=english")
    options = [f"{'accept.' if accept else ''}collection={out}"]
    options += ["weight=idf"] if name == "simhash" else []
    with pytest.raises(SettingsError, match="other canonical options"):
        choose(name, accept=accept, options=options)
    assert choose(name, accept=accept, options=options, canonical=["stem=english"])


def test_a_collection_changes_what_is_rare() -> None:
    pages = [["incomprehensibilities"]] * 9 + [["incomprehensibilities", "cat"]]
    found = count_words(pages, DEFAULT)
    one = method("idf_string", {"collection": found, "min_words": 1, "kept_percent": 50}, SECRET)
    assert one.string(PageText("Cat incomprehensibilities")) == "cat"  # type: ignore[attr-defined]


# ---- how rare words are without a collection -------------------------------------------------


@pytest.mark.parametrize(
    ("word", "share"),
    [
        ("a", 1), ("cat", 1 / 4), ("море", 1 / 8), ("\u6771", 1 / 8),
        ("e\u0301te\u0301", 1 / 4),  # three letters and two marks
        ("x" * 17, 2**-16), ("x" * 40, 2**-16),
    ],
)  # fmt: skip
def test_each_letter_halves_the_share_of_pages(word: str, share: float) -> None:
    assert share_by_length(word) == share
    assert idf(word, share_by_length) == pytest.approx(-math.log(share))
    assert math.copysign(1, idf(word, share_by_length)) == 1, (
        "no negative zero for one on all pages"
    )


def test_the_rarest_words_come_first_and_equal_ones_by_alphabet() -> None:
    rarest = collection.rarest_first(["cat", "a", "house", "dog", "a"], share_by_length)
    assert rarest == ["house", "cat", "dog", "a"]
