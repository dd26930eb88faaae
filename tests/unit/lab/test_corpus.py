"""The corpus in memory: what it finds, against exact Jaccard and against a plain model."""

from __future__ import annotations

import doctest
import subprocess
import sys
from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamer.lab.corpus
from streamer.errors import SettingsError, StreamerError
from streamer.lab.corpus import BATCH_TEXTS, ROWS_FIRST, Corpus, UnknownLabel, characters_as_words
from streamer.text.tokens import tokens

RIVAL = "kafka and rocks and rust and python and numba and arrow and typer and rich"


def text_of(rng: Random, words: int = 60) -> list[str]:
    return [f"w{rng.randrange(1_000_000)}" for _ in range(words)]


def exact_jaccard(one: str, other: str, n: int) -> float:
    """Return the Jaccard similarity of the sets of word n-grams."""
    first, second = (
        {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}
        for words in (tokens(one), tokens(other))
    )
    return len(first & second) / len(first | second)


def test_the_examples_in_the_docstrings_hold() -> None:
    failed, tried = doctest.testmod(streamer.lab.corpus, raise_on_error=False)
    assert failed == 0
    assert tried >= 12


def test_it_is_imported_without_kafka_and_without_a_store() -> None:
    program = (
        "import sys, streamer.lab.corpus;"
        "print([m for m in ('faust', 'aiokafka', 'rocksdict', 'typer') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_resemblance_of_a_few_shingles_is_nearly_exact() -> None:
    rng = Random(1)
    words = text_of(rng)
    changed = [*words[:50], *text_of(rng, 10)]
    texts = {"a": " ".join(words), "b": " ".join(changed)}
    ((label, value),) = Corpus(texts.items(), n_gram=3, permutations=48, bands=48).query("a")
    assert label == "b"
    assert value == pytest.approx(exact_jaccard(texts["a"], texts["b"], 3), abs=0.02)


def test_the_most_similar_come_first_and_least_jaccard_cuts_the_others_off() -> None:
    rng = Random(2)
    words = text_of(rng)
    texts = {
        "whole": words,
        "some": [*words[:35], *text_of(rng, 25)],
        "most": [*words[:55], *text_of(rng, 5)],
        "none": text_of(rng),
    }
    corpus = Corpus(
        [(label, " ".join(text)) for label, text in texts.items()],
        n_gram=2, permutations=48, bands=48,
    )  # fmt: skip
    assert [label for label, _ in corpus.query("whole")] == ["most", "some"]
    assert [label for label, _ in corpus.query("whole", min_jaccard=0.7)] == ["most"]
    assert corpus.query("none") == []


def test_sensitivity_is_how_many_bands_must_be_shared() -> None:
    rng = Random(3)
    words = text_of(rng, 200)
    near = " ".join([*words[:170], *text_of(rng, 30)])
    corpus = Corpus([("a", " ".join(words)), ("b", near), ("c", " ".join(words))], bands=28)
    found = [[label for label, _ in corpus.query("a", sensitivity=least)] for least in range(1, 29)]
    assert found[0] == ["c", "b"]
    assert found[-1] == ["c"]
    counts = list(map(len, found))
    assert counts == sorted(counts, reverse=True)


def test_least_jaccard_is_met_by_a_resemblance_that_equals_it() -> None:
    corpus = Corpus([("a", RIVAL), ("b", RIVAL.upper())])
    assert corpus.query("a", min_jaccard=1.0) == [("b", 1.0)]


def test_a_text_is_looked_up_without_being_added() -> None:
    corpus = Corpus([("a", RIVAL)])
    assert corpus.query_text(RIVAL.title()) == [("a", 1.0)]
    assert corpus.query_text("quite another text with quite other words in it") == []
    assert list(corpus) == ["a"]


def test_a_second_text_under_a_label_replaces_the_first() -> None:
    corpus = Corpus([("a", RIVAL), ("b", RIVAL), ("a", "now something else stands under a")])
    corpus.update([("b", "and under this label too there is a new text"), ("c", RIVAL)])
    assert corpus.query("c") == []
    corpus.update([("b", RIVAL)])
    assert corpus.query("c") == [("b", 1.0)]
    assert len(corpus) == 3


def test_a_removed_text_is_found_no_more_and_its_place_serves_another() -> None:
    corpus = Corpus([("a", RIVAL), ("b", RIVAL), ("c", RIVAL)])
    corpus.remove("b")
    assert not corpus.contains("b")
    assert corpus.query("a") == [("c", 1.0)]
    corpus.update([("d", "one that is unlike all of these others")])
    assert corpus.query("a") == [("c", 1.0)]
    assert corpus.query("d") == []


def test_texts_without_a_shingle_are_equal_only_if_their_words_are() -> None:
    texts = [("a", "two words"), ("b", "Two, words!"), ("c", "words two"), ("d", ""), ("e", "...")]
    corpus = Corpus(texts)
    assert corpus.adjacency_list(sensitivity=14) == {
        "a": ["b"], "b": ["a"], "c": [], "d": ["e"], "e": ["d"],
    }  # fmt: skip


@pytest.mark.parametrize("count", [ROWS_FIRST, ROWS_FIRST + 1, 2 * ROWS_FIRST + 1])
def test_the_last_text_is_kept_where_the_rows_have_just_grown(count: int) -> None:
    corpus = Corpus((number, f"a text that has the number {number}") for number in range(count))
    text = f"A text that has the number {count - 1}"
    assert corpus.query_text(text, min_jaccard=1.0) == [(count - 1, 1.0)]


def test_more_texts_than_a_batch_and_than_the_first_rows_are_kept() -> None:
    count = 5 * BATCH_TEXTS
    corpus = Corpus(
        (number, f"text number {number % 1100} has these words") for number in range(count)
    )
    assert len(corpus) == count
    assert corpus.query(0) == [(1100, 1.0)]
    assert len(corpus.edge_list(min_jaccard=1.0)) == count - 1100


def test_edges_are_the_pairs_of_the_adjacency_list_each_once() -> None:
    rng = Random(5)
    words = text_of(rng, 30)
    texts = {
        number: " ".join([*words[:cut], *text_of(rng, 30 - cut)])
        for number, cut in enumerate((30, 28, 26, 20, 12, 0))
    }
    corpus = Corpus(texts.items(), n_gram=1, permutations=48, bands=24)
    neighbours = corpus.adjacency_list(min_jaccard=0.3)
    edges = corpus.edge_list(min_jaccard=0.3)
    assert edges
    assert all(one in neighbours[other] for one in texts for other in neighbours[one])
    assert sorted(edges) == [p for p in combinations(texts, 2) if p[1] in neighbours[p[0]]]
    weighted = corpus.edge_list(min_jaccard=0.3, jaccard_weighted=True)
    assert [(one, other) for one, other, _ in weighted] == edges
    assert all((other, value) in corpus.query(one) for one, other, value in weighted)


def test_characters_are_shingled_with_the_spaces_between_words() -> None:
    texts = {"a": "streaming", "b": "Streaming!", "c": "st reaming", "d": "dreaming"}
    corpus = Corpus(texts.items(), n_gram=3, n_gram_type="character", permutations=48, bands=48)
    found = dict(corpus.query("a"))
    assert found["b"] == 1.0
    # str tre rea eam ami min ing: d has the last five of them, and dre; c the same and st_ t_r _re.
    assert found["d"] == pytest.approx(5 / 8, abs=0.02)
    assert found["c"] == pytest.approx(5 / 10, abs=0.02)


def test_a_mark_stays_with_its_letter_where_characters_are_words() -> None:
    assert characters_as_words(" a\u0301b \t c.") == " a\u0301 b _ c ."


@pytest.mark.parametrize("bits", [32, 64])
def test_bits_are_those_of_a_key_and_change_no_answer(bits: int) -> None:
    rng = Random(6)
    words = text_of(rng, 100)
    texts = [(0, " ".join(words)), (1, " ".join([*words[:90], *text_of(rng, 10)]))]
    corpus = Corpus(texts, bits=bits, bands=28)
    assert corpus.query(0) == Corpus(texts, bands=28).query(0) != []


def test_another_seed_gives_other_keys_and_the_same_seed_the_same_ones() -> None:
    rng = Random(7)
    texts = []
    for number in range(40):
        words = text_of(rng, 60)
        copy = [*words[:44], *text_of(rng, 16)]
        texts += [((number, 0), " ".join(words)), ((number, 1), " ".join(copy))]
    found = [Corpus(texts, seed=seed).edge_list(jaccard_weighted=True) for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("ask", ["query", "remove"])
def test_an_unknown_label_is_a_key_error_that_names_it(ask: str) -> None:
    corpus = Corpus([("a", RIVAL)])
    with pytest.raises(UnknownLabel, match=r"^No text has the label 'b'; ") as caught:
        getattr(corpus, ask)("b")
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, StreamerError)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"bits": 16}, "bits"),
        ({"n_gram_type": "byte"}, "n_gram_type"),
        ({"n_gram": 0}, "n_gram"),
        ({"permutations": 85}, "permutations"),
        ({"bands": 0}, "bands"),
        ({"permutations": 130, "bands": 65}, "bands"),
        ({"permutations": 66, "bands": 2}, "permutations / bands"),
    ],
)
def test_a_setting_that_cannot_be_is_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        Corpus([], **options)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"min_jaccard": 1.1}, "min_jaccard"),
        ({"min_jaccard": -0.1}, "min_jaccard"),
        ({"sensitivity": 0}, "sensitivity"),
        ({"sensitivity": 15}, "number of bands \\(14\\)"),
    ],
)
def test_a_question_that_cannot_be_is_refused_in_all_forms(
    options: dict[str, Any], named: str
) -> None:
    corpus = Corpus([("a", RIVAL)])
    for ask in (
        lambda: corpus.query("a", **options),
        lambda: corpus.query_text("a", **options),
        lambda: corpus.edge_list(**options),
        lambda: corpus.adjacency_list(**options),
    ):
        with pytest.raises(SettingsError, match=named):
            ask()


TEXTS = ["", "a b c", "a b c d e f", "A B C D E F", "f e d c b a", "g h i j k l m"]
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "put", "remove"]), st.integers(0, 5), st.sampled_from(TEXTS)),
    max_size=30,
)


@given(STEPS)
def test_after_any_updates_and_removals_equal_texts_find_each_other(
    steps: list[tuple[str, int, str]],
) -> None:
    corpus: Corpus[int] = Corpus([], n_gram=2, permutations=4, bands=2)
    model: dict[int, str] = {}
    for step, label, text in steps:
        if step == "put":
            corpus.update([(label, text)])
            model[label] = text
        elif label in model:
            corpus.remove(label)
            del model[label]
    assert set(corpus) == set(model)
    for label, text in model.items():
        equal = {o for o in model if o != label and tokens(model[o]) == tokens(text)}
        assert {other for other, _ in corpus.query(label, min_jaccard=1.0)} == equal
