"""Exact comparison of texts: shares of shingles, edits, shared fragments and their colours."""

from hypothesis import given
from hypothesis import strategies as st

from streamer.analysis import exact
from streamer.analysis.exact import Fragment, Span, find_shared_fragments, fit_width, jaccard
from streamer.sketch.methods.shingled import shingles
from streamer.text.words import Word, canonical_words, words_with_spans

items = st.lists(st.sampled_from("abcdef"), max_size=12)
sets = st.frozensets(st.sampled_from("abcdef"))


@given(items, items)
def test_dice_is_the_published_percentage_over_lists(one: list[str], other: list[str]) -> None:
    same = 0
    for item in one:
        if item in other:
            same += 1
    expected = same * 2 / float(len(one) + len(other)) * 100 if one or other else None
    assert exact.dice_percentage(one, other) == expected


@given(sets, sets)
def test_jaccard_and_containment_count_members(one: frozenset[str], other: frozenset[str]) -> None:
    both = sum(item in one and item in other for item in "abcdef")
    either = sum(item in one or item in other for item in "abcdef")
    assert jaccard(one, other) == jaccard(other, one) == (both / either if either else None)
    assert exact.containment(one, other) == (both / len(one) if one else None)


@given(items, items, st.integers(1, 4))
def test_a_word_is_covered_if_a_shingle_about_it_stands_in_the_other_text(
    one: list[str], other: list[str], width: int
) -> None:
    own, theirs = shingles(one, width), frozenset(shingles(other, width))
    covered = [
        any(own[start] in theirs for start in range(place - width + 1, place + 1)
            if 0 <= start < len(own))
        for place in range(len(one))
    ]  # fmt: skip
    expected = sum(covered) / len(one) if len(one) >= width else None
    assert exact.covered_share(own, theirs, width) == expected


@given(items, items)
def test_the_bag_counts_each_word_as_often_as_it_is_there(one: list[str], other: list[str]) -> None:
    least = sum(min(one.count(item), other.count(item)) for item in "abcdef")
    most = sum(max(one.count(item), other.count(item)) for item in "abcdef")
    assert exact.bag_resemblance(one, other) == (least / most if most else None)


def test_the_width_is_fit_to_a_text_shorter_than_a_shingle() -> None:
    result = exact.compare_words(["b", "c"], ["a", "b", "c", "d", "e", "f"], 5)
    assert result.width == 2
    assert result.shingles == (1, 5)
    assert result.containment == (1.0, 1 / 5)


@given(
    st.lists(st.sampled_from("abc"), max_size=25),
    st.lists(st.lists(st.sampled_from("abc"), max_size=25), max_size=4),
    st.integers(1, 4),
)
def test_uniqueness_is_the_share_of_places_whose_shingle_no_source_has(
    text: list[str], sources: list[list[str]], width: int
) -> None:
    uniqueness = exact.Uniqueness(text, width)
    for number, words in enumerate(sources):
        uniqueness.add(str(number), words)
    own = shingles(text, fit_width(width, len(text)))
    theirs = [shingles(words, fit_width(width, len(text))) for words in sources]
    unique = [s for s in own if not any(s in one for one in theirs)]
    assert uniqueness.shingles == len(own)
    assert uniqueness.unique == len(unique)
    assert uniqueness.percentage == (100 * len(unique) / len(own) if own else 100.0)
    found = {str(n): sum(s in one for s in own) for n, one in enumerate(theirs)}
    assert uniqueness.by_source == {name: count for name, count in found.items() if count}


sizes = st.integers(1, 400)
thresholds = st.integers(1, 100).map(lambda percent: percent / 100)


@given(sizes, sizes, thresholds, st.integers(1, 10))
def test_so_many_shingles_cross_the_threshold_and_one_less_does_not(
    common: int, more: int, threshold: float, width: int
) -> None:
    union = common + more
    edits = exact.edits_needed(common, union, threshold, width)
    reaches = [_after(common, union, x, differ=edits.differ) >= threshold - 1e-9 for x in
               (0, edits.shingles - 1, edits.shingles)]  # fmt: skip
    assert reaches == [edits.differ, edits.differ, not edits.differ]
    assert edits.shingles > 0
    assert (edits.words - 1) * width < edits.shingles <= edits.words * width


def _after(common: int, union: int, changed: int, *, differ: bool) -> float:
    """Return the resemblance after so many shingles of one page have become others."""
    step = -changed if differ else changed
    return (common + step) / (union - step)


@given(st.sets(st.integers(0, 30), min_size=1), st.sets(st.integers(0, 30), min_size=1))
def test_expected_sets_are_those_of_exact_resemblance(one: set[int], other: set[int]) -> None:
    common, union = exact.estimate_sets(len(one & other) / len(one | other), len(one), len(other))
    assert abs(common - len(one & other)) < 1e-9
    assert abs(union - len(one | other)) < 1e-9


texts = st.lists(st.sampled_from(["a", "B", "c,", "d"]), max_size=30).map(" ".join)
widths = st.integers(1, 4)


def fragments_of(one: str, other: str, width: int) -> list[Fragment]:
    return find_shared_fragments(words_with_spans(one), words_with_spans(other), width)


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


@given(texts, texts, widths)
def test_a_fragment_has_the_same_words_in_both_texts(one: str, other: str, width: int) -> None:
    for fragment in fragments_of(one, other, width):
        words = canonical_words(one[fragment.one.start : fragment.one.end])
        assert words == canonical_words(other[fragment.other.start : fragment.other.end])
        assert len(words) == fragment.words >= width


@given(texts, texts, widths)
def test_a_fragment_goes_right_as_far_as_both_texts_agree(one: str, other: str, width: int) -> None:
    first, second = words_with_spans(one), words_with_spans(other)
    for fragment in find_shared_fragments(first, second, width):
        behind = [word.text for word in first if word.start >= fragment.one.end][:1]
        other_behind = [word.text for word in second if word.start >= fragment.other.end][:1]
        assert not behind or behind != other_behind


@given(texts, texts, widths)
def test_a_shared_shingle_of_either_text_is_in_a_fragment(one: str, other: str, width: int) -> None:
    first, second = words_with_spans(one), words_with_spans(other)
    found = find_shared_fragments(first, second, width)
    a, b = shingles([w.text for w in first], width), shingles([w.text for w in second], width)
    covered = set().union(*(starts_within(first, f.one, width) for f in found))
    other_covered = set().union(*(starts_within(second, f.other, width) for f in found))
    assert covered == {i for i, shingle in enumerate(a) if shingle in b}
    assert other_covered == {i for i, shingle in enumerate(b) if shingle in a}


def test_texts_of_one_word_are_compared_with_no_more_places_than_the_limit() -> None:
    length = 10 * exact.PLACES_MAX
    words = [Word("a", i, i + 1) for i in range(length)]
    found = find_shared_fragments(words, words, 1)
    assert found == [Fragment(Span(0, length), Span(0, length), length)]
