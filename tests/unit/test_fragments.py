"""Shared fragments lie in both texts, are as long as they can be, and cover all that is shared."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamer.lab.exact import PLACES_MAX, Fragment, Span, shared_fragments
from streamer.sketch.methods.shingled import shingles
from streamer.text.words import Word, canonical_words, words_with_spans

texts = st.lists(st.sampled_from(["a", "B", "c,", "d"]), max_size=30).map(" ".join)
widths = st.integers(1, 4)


def fragments_of(one: str, other: str, width: int) -> list[Fragment]:
    return shared_fragments(words_with_spans(one), words_with_spans(other), width)


def starts_within(words: list[Word], span: Span, width: int) -> set[int]:
    """Return the numbers of the shingles that lie whole in a span."""
    inside = [i for i, word in enumerate(words) if span.start <= word.start < span.end]
    return set(inside[: len(inside) - width + 1])


def test_a_quotation_is_found_at_its_characters_in_both_texts() -> None:
    one = "He said: «My war, is over.» Then he left."
    other = "— MY WAR IS OVER! she read; then he left"
    found = fragments_of(one, other, 3)
    cut = [(one[f.one.start : f.one.end], other[f.other.start : f.other.end]) for f in found]
    assert cut == [("My war, is over", "MY WAR IS OVER"), ("Then he left", "then he left")]
    assert [fragment.words for fragment in found] == [4, 3]


def test_of_two_places_the_one_that_reaches_farther_is_taken() -> None:
    found = fragments_of("a b c d", "a b x a b c d", 2)
    assert found == [Fragment(Span(0, 3), Span(0, 3), 2), Fragment(Span(0, 7), Span(6, 13), 4)]


def test_a_repeat_in_the_second_text_only_is_found_at_both_places() -> None:
    found = fragments_of("x a b y", "a b z a b", 2)
    assert found == [Fragment(Span(2, 5), Span(0, 3), 2), Fragment(Span(2, 5), Span(6, 9), 2)]


@given(texts, texts, widths)
def test_a_fragment_has_the_same_words_in_both_texts(one: str, other: str, width: int) -> None:
    for fragment in fragments_of(one, other, width):
        words = canonical_words(one[fragment.one.start : fragment.one.end])
        assert words == canonical_words(other[fragment.other.start : fragment.other.end])
        assert len(words) == fragment.words >= width


@given(texts, texts, widths)
def test_a_fragment_goes_on_to_the_right_as_far_as_both_texts_agree(
    one: str, other: str, width: int
) -> None:
    first, second = words_with_spans(one), words_with_spans(other)
    for fragment in shared_fragments(first, second, width):
        behind = [word.text for word in first if word.start >= fragment.one.end][:1]
        other_behind = [word.text for word in second if word.start >= fragment.other.end][:1]
        assert not behind or behind != other_behind


@given(texts, texts, widths)
def test_every_shared_shingle_of_either_text_lies_in_a_fragment(
    one: str, other: str, width: int
) -> None:
    first, second = words_with_spans(one), words_with_spans(other)
    found = shared_fragments(first, second, width)
    a, b = shingles([w.text for w in first], width), shingles([w.text for w in second], width)
    covered = set().union(*(starts_within(first, f.one, width) for f in found))
    other_covered = set().union(*(starts_within(second, f.other, width) for f in found))
    assert covered == {i for i, shingle in enumerate(a) if shingle in b}
    assert other_covered == {i for i, shingle in enumerate(b) if shingle in a}


def test_texts_of_one_word_are_compared_with_no_more_places_than_the_limit() -> None:
    length = 10 * PLACES_MAX
    words = [Word("a", i, i + 1) for i in range(length)]
    found = shared_fragments(words, words, 1)
    assert found == [Fragment(Span(0, length), Span(0, length), length)]
