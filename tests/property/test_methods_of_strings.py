"""What holds for each method that signs strings, words or bits, whatever the page."""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.sketch.method import ABSENT_KEY, Method, MethodSignature, PageText, similarity_of
from streamer.sketch.methods.lexical import Variant
from streamer.sketch.scheme import method

SECRET = bytes(range(32))
VARIANTS: dict[str, tuple[str, Mapping[str, object]]] = {
    **{
        name: (name, {})
        for name in (
            "exact_content", "idf_string", "lexicon", "random_lexicon", "optimum_frequency",
            "long_sentences", "page_vector", "segments", "simhash",
        )
    },
    **{f"digests {variant}": ("digests", {"variant": str(variant)}) for variant in Variant},
    "segments by sentences": ("segments", {"rule": "sentences"}),
    "simhash by IDF": ("simhash", {"weight": "idf"}),
    "simhash of shingles": ("simhash", {"width": 3}),
}  # fmt: skip
OF_ORDER = {
    "exact_content", "long_sentences", "segments", "segments by sentences", "digests description",
    "simhash of shingles",
}  # fmt: skip
WORDS = ["of", "the", "river", "bridge", "market", "harbour", "captain", "discovery", "windmill"]
WORDS += ["a", "is", "lantern", "orchard", "telescope", "молоко", "корабль", "東", "京", "Ärger"]
LONG = " ".join(f"{word}{n}" for n in range(9) for word in WORDS)
TEXTS = st.lists(st.sampled_from([*WORDS, "end.", "why?\n"]), max_size=80).map(" ".join)

every_method = pytest.mark.parametrize("variant", VARIANTS)


def made(variant: str) -> Method[Any]:
    name, parameters = VARIANTS[variant]
    return method(name, parameters, SECRET)


def signed(one: Method[Any], text: str) -> MethodSignature:
    return one.sign(PageText(text))


def similarity(one: Method[Any], a: MethodSignature, b: MethodSignature) -> float:
    return similarity_of(one.measure, a.sketch, b.sketch)


def shared_keys(a: MethodSignature, b: MethodSignature) -> int:
    pairs = zip(a.keys, b.keys, strict=False)
    return sum(first == second != ABSENT_KEY for first, second in pairs)


@every_method
@settings(max_examples=20)
@given(left=TEXTS, right=TEXTS)
def test_equal_texts_have_equal_signatures_and_similarity_is_symmetric(
    variant: str, left: str, right: str
) -> None:
    one = made(variant)
    a, b, again = signed(one, left), signed(one, right), signed(made(variant), left)
    assert list(a.keys) == list(again.keys)
    assert a.sketch.tolist() == again.sketch.tolist()
    assert similarity(one, a, again) == 1.0
    assert similarity(one, a, b) == similarity(one, b, a)
    assert len(a.keys) <= one.bands <= 63
    assert all(0 <= key < 2**64 for key in a.keys)


@pytest.mark.parametrize("variant", sorted(VARIANTS.keys() - OF_ORDER))
@settings(max_examples=20)
@given(text=TEXTS, data=st.data())
def test_a_method_of_words_takes_no_order(variant: str, text: str, data: st.DataObject) -> None:
    one = made(variant)
    mixed = " ".join(data.draw(st.permutations(text.split())))
    first, second = signed(one, text), signed(one, mixed)
    assert list(first.keys) == list(second.keys)
    if all(first.keys):  # what is lacking differs by all words in order
        assert first.sketch.tolist() == second.sketch.tolist()


@pytest.mark.parametrize("variant", sorted(OF_ORDER))
def test_a_method_of_sequences_sees_their_order(variant: str) -> None:
    one = made(variant)
    backwards = " ".join(reversed(LONG.split()))
    assert list(signed(one, LONG).keys) != list(signed(one, backwards).keys)


# Two different texts of which a method finds nothing to hash; some always find something.
OF_ANY_WORD = {"exact_content", "digests description", "simhash"}
LACKING = dict.fromkeys(VARIANTS.keys() - OF_ANY_WORD, ("of\nthe", "is\na")) | {
    "simhash by IDF": ("a", "a a")  # a word of one letter is taken to be on all pages
}


@pytest.mark.parametrize("variant", sorted(OF_ANY_WORD))
def test_a_method_of_any_word_has_a_key_for_one(variant: str) -> None:
    assert any(signed(made(variant), "a").keys)


@pytest.mark.parametrize("variant", sorted(LACKING))
def test_pages_that_lack_what_is_hashed_have_no_key_and_are_not_similar(variant: str) -> None:
    one = made(variant)
    left, right = (signed(one, text) for text in LACKING[variant])
    assert not any(left.keys)
    assert not any(right.keys)
    assert similarity(one, left, right) < one.threshold


@every_method
def test_another_secret_gives_other_keys(variant: str) -> None:
    name, parameters = VARIANTS[variant]
    keys = set(signed(made(variant), LONG).keys)
    assert any(keys)
    assert not keys & set(signed(method(name, parameters, bytes(32)), LONG).keys)


@every_method
def test_a_page_that_differs_in_all_words_shares_no_key(variant: str) -> None:
    one = made(variant)
    left, right = (" ".join(f"{word}{c}{n}" for n in range(9) for word in WORDS) for c in "xy")
    a, b = signed(one, left), signed(one, right)
    assert similarity(one, a, b) < one.threshold
    if variant.startswith("simhash"):
        return  # of 4 blocks of 16 bits one may be the same by chance
    assert shared_keys(a, b) == 0


def test_signatures_do_not_depend_on_the_process() -> None:
    program = f"""
import json
from streamer.sketch.method import PageText
from streamer.sketch.scheme import method
signed = {{}}
for variant, (name, parameters) in {VARIANTS!r}.items():
    keys, sketch, *_ = method(name, parameters, {SECRET!r}).sign(PageText({LONG!r}))
    signed[variant] = [[int(k) for k in keys], sketch.tolist()]
print(json.dumps(signed))
"""
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True, timeout=300
    ).stdout
    here = {v: signed(made(v), LONG) for v in VARIANTS}
    assert json.loads(output) == {
        v: [[int(k) for k in one.keys], one.sketch.tolist()] for v, one in here.items()
    }
