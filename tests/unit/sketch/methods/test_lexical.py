"""What each method of strings makes of a page, by its definition."""

import math
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import SettingsError
from streamer.sketch.collection import share_by_length
from streamer.sketch.method import Method, PageText, similarity_of
from streamer.sketch.methods import lexical
from streamer.sketch.methods.hashes import HASHES, hash64, seed_of
from streamer.sketch.methods.lexical import Digests, IdfString, Lexicon, RandomLexicon, Variant
from streamer.sketch.methods.sentences import LongSentences, PageVector
from streamer.sketch.scheme import method

SECRET = bytes(range(32))
M = TypeVar("M", bound=Method[Any])


def made(kind: type[M], **parameters: Any) -> M:
    one = method(kind.name, parameters, SECRET)
    assert isinstance(one, kind)
    return one


def string(kind: type[lexical.OneString[Any]], text: str, **parameters: Any) -> str:
    return made(kind, **parameters).string(PageText(text))


# ---- the mould ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HASHES)
def test_the_key_is_the_chosen_hash_of_the_string(name: str) -> None:
    seed = seed_of(SECRET, "exact_content 0")
    keys = made(lexical.ExactContent, hash=name).sign(PageText("Some text.")).keys
    assert keys == [hash64(b"some text", seed, name)]


def test_equal_hashes_are_told_apart_by_256_bits_of_the_string() -> None:
    one = made(lexical.ExactContent, hash="crc32")
    sketches = [one.sign(PageText(text)).sketch.tolist() for text in ("one text", "other text")]
    for sketch in sketches:
        assert sketch[0] == 4 | 64 << 16  # four slots of 64 bits
        assert not any(sketch[5:])
    assert all(x != y for x, y in zip(sketches[0][1:5], sketches[1][1:5], strict=True))


BOOK = "A book, a house, ink - a letters book"
HARBOUR = (
    "Nobody had ever seen the captain smile before! We met in the old harbour at noon. Yes. All of"
    " us went home."
)
COUNTS = {"the": 50, "bridge": 8, "window": 5, "captain": 4, "village": 1, "это": 9}
COUNTED = " ".join(" ".join([word] * count) for word, count in COUNTS.items())


@pytest.mark.parametrize(
    ("kind", "parameters", "text", "expected"),
    [
        # The share of the rarest words, in descending order of IDF; none if they are too few.
        (IdfString, {"kept_percent": 70, "min_words": 1}, BOOK, "letters house book ink"),
        (IdfString, {"kept_percent": 100, "min_words": 1}, BOOK, "letters house book ink a"),
        (IdfString, {"kept_percent": 1, "min_words": 1}, BOOK, "letters"),
        (IdfString, {"min_words": 3}, "bridge window cat", "bridge window cat"),
        (IdfString, {"min_words": 4}, "bridge window cat", ""),
        # Words far from the best frequency, here that of seven letters, lose on both sides.
        (lexical.OptimumFrequency, {"words": 2, "best_idf": 6 * math.log(2)},
         "of bridge lanterns incomprehensibilities the", "bridge lanterns"),
        # The longest sentences by alphabet, wherever they stand; each once, and none of few words.
        (LongSentences, {}, HARBOUR,
         "nobody had ever seen the captain smile before\nwe met in the old harbour at noon"),
        (LongSentences, {}, "One two cat dog owl. Five words are the rest. One two cat dog owl!",
         "five words are the rest\none two cat dog owl"),
        (LongSentences, {}, "Home. About us. Four words are few. No no no no no no!", ""),
        # Feature words without stop words, by steps: counts * 4 / 8, rounded up.
        (PageVector, {"words": 4}, COUNTED, "bridge:4 window:3 captain:2 village:1"),
        (PageVector, {"words": 3}, COUNTED, "bridge:4 window:3 captain:2"),
        (PageVector, {"words": 4, "steps": 1}, COUNTED, "bridge:1 captain:1 village:1 window:1"),
        (PageVector, {"words": 5}, COUNTED, ""),
        (PageVector, {"words": 1, "stop_words": "russian"}, COUNTED, "the:4"),
        # Words of middle frequency by alphabet; shares at both ends belong to it (1/32, 1/128).
        (Lexicon, {"min_words": 1}, "The window, a bridge, an incomprehensible village, the bridge",
         "bridge village window"),
        (Lexicon, {"least_share": 1 / 128, "most_share": 1 / 32, "min_words": 1},
         "four sixsix eightsix elevenletter", "eightsix sixsix"),
        (Lexicon, {"occurrences": 2, "min_words": 1},
         "bridge village bridge window bridge village", "bridge village"),
    ],
)  # fmt: skip
def test_the_string_of_a_page_is_what_the_method_says(
    kind: type[lexical.OneString[Any]], parameters: dict[str, Any], text: str, expected: str
) -> None:
    assert string(kind, text, **parameters) == expected


# ---- IDF string --------------------------------------------------------------------------------


# ---- optimum frequency -------------------------------------------------------------------------


def plain_optimum(text: str, count: int, best: float) -> str:
    """The definition, word by word, for texts of lower-case Latin words."""
    words = text.split()
    most = max(words.count(word) for word in words)
    ranked = []
    for word in set(words):
        rarity = math.log(2) * (min(len(word), 17) - 1)
        nearness = rarity / best if rarity <= best else best / rarity
        if rarity:
            ranked.append((-(0.5 + 0.5 * words.count(word) / most) * nearness, word))
    if len(ranked) < count:
        return ""
    return " ".join(sorted(word for _, word in sorted(ranked)[:count]))


@given(
    st.lists(st.integers(1, 12).map(lambda n: "abcdefghijkl"[:n]), min_size=1, max_size=20),
    st.integers(1, 6),
)
def test_the_words_of_greatest_weight_are_joined_by_alphabet(words: list[str], count: int) -> None:
    text = " ".join(words)
    # a best IDF at which no two of these words weigh the same by rounding
    assert string(lexical.OptimumFrequency, text, words=count, best_idf=3.3) == plain_optimum(
        text, count, 3.3
    )


# ---- lexicons ----------------------------------------------------------------------------------


MIDDLE = "bridge captain harbour lantern orchard pumpkin rainbow trumpet village window"


def test_a_dictionary_without_room_is_an_error() -> None:
    with pytest.raises(SettingsError, match="no word is between"):
        made(Lexicon, least_share=0.5, most_share=0.1)


def test_each_part_lacks_about_a_third_of_the_words_and_the_first_has_all() -> None:
    words = [f"word{a}{b}" for a in "abcdefghijklmnopqrst" for b in "abcdefghijklmnopqrst"]
    whole, *parts = made(RandomLexicon).strings(PageText(" ".join(words)))
    assert whole.split() == sorted(words)
    assert len(parts) == 10
    assert len(set(parts)) == 10
    for part in parts:
        kept = part.split()
        assert kept == [word for word in sorted(words) if word in set(kept)]
        assert 210 <= len(kept) <= 320  # 400 * 2/3 = 267, five standard deviations of 9.4 about


def test_a_word_is_in_a_part_whatever_else_the_page_has() -> None:
    one = made(RandomLexicon, min_words=1)
    together = one.strings(PageText(MIDDLE))
    alone = [one.strings(PageText(word)) for word in MIDDLE.split()]
    for part in range(one.bands):
        assert together[part].split() == [a[part] for a in alone if a[part]]


def test_one_changed_word_spares_the_parts_that_lack_it() -> None:
    one = made(RandomLexicon, min_words=1)
    page, changed = PageText(MIDDLE), PageText(MIDDLE.replace("window", "wisdom"))
    a, b = one.sign(page), one.sign(changed)
    spared = [x == y for x, y in zip(one.strings(page), one.strings(changed), strict=True)]
    assert any(spared)
    assert not all(spared)
    assert [x == y for x, y in zip(a.keys, b.keys, strict=True)] == spared
    assert similarity_of(one.measure, a.sketch, b.sketch) == int(10_000 * sum(spared) / 11) / 10_000
    assert similarity_of(one.measure, a.sketch, b.sketch) >= one.threshold


def test_equal_strings_of_two_parts_have_different_keys() -> None:
    one = made(RandomLexicon, min_words=1, dropped=0.001)
    assert len(set(one.strings(PageText(MIDDLE)))) < one.bands
    assert len(set(one.sign(PageText(MIDDLE)).keys)) == one.bands


def test_a_single_equal_part_of_the_most_parts_reaches_the_threshold() -> None:
    one = made(RandomLexicon, parts=31)
    a = one.sign(PageText(MIDDLE)).sketch
    b = a.copy()
    b[2:33] ^= 1  # all slots of 64 bits but the first
    assert similarity_of(one.measure, a, b) >= one.threshold
    b[1] ^= 1
    assert similarity_of(one.measure, a, b) < one.threshold


# ---- digests -----------------------------------------------------------------------------------


def similarity_of_pages(one: Digests, left: PageText, right: PageText) -> float:
    return similarity_of(one.measure, one.sign(left).sketch, one.sign(right).sketch)


def words(**counts: int) -> PageText:
    return PageText(" ".join(f"{word} " * count for word, count in counts.items()))


def test_keywords_come_by_tf_times_idf_and_equal_ones_by_alphabet() -> None:
    # IDF is (letters - 1) ln 2; of 8 words: house 4/8, of 2 * 1/8, cat and dog 2/8, a 0.
    found = lexical.top_keywords(
        ["a", "of", "of", "house", "dog", "cat", "a", "a"], share_by_length, 9
    )
    assert [one.word for one in found] == ["house", "cat", "dog", "of"]
    assert [round(one.weight / 0.693147 * 8, 4) for one in found] == [4, 2, 2, 2]


def duplicates(one: Digests, left: PageText, right: PageText) -> bool:
    return similarity_of_pages(one, left, right) >= one.threshold


def test_another_order_of_weights_matters_to_con_and_not_to_sort() -> None:
    left, right = words(bridge=21, window=20), words(bridge=20, window=21)
    said = {v: duplicates(made(Digests, variant=v, keywords=2), left, right) for v in Variant}
    assert [v for v in Variant if said[v]] == ["sort", "sort_weights"]


def test_weights_far_from_each_other_matter_to_the_variants_with_weights() -> None:
    left, right = words(bridge=3, window=2), words(bridge=9, window=2)
    said = {v: duplicates(made(Digests, variant=v, keywords=2), left, right) for v in Variant}
    assert [v for v in Variant if said[v]] == ["con", "sort"]


def test_the_farthest_pair_of_weights_decides_by_the_published_rule() -> None:
    # Shares of words: bridge 3/5 and 9/11, window 2/5 and 2/11; both IDFs are 5 ln 2.
    apart = [(v - w) ** 2 / (v**2 + w**2) for v, w in ((3 / 5, 9 / 11), (2 / 5, 2 / 11))]
    left, right = words(bridge=3, window=2), words(bridge=9, window=2)
    assert (
        similarity_of_pages(made(Digests, variant="con_weights", keywords=2), left, right)
        == int(1e4 - 1e4 * max(apart)) / 1e4
    )
    for a, same in ((max(apart) - 0.001, False), (max(apart) + 0.001, True)):
        one = made(Digests, variant="con_weights", keywords=2, apart=a)
        assert duplicates(one, left, right) is same


def test_weights_have_a_key_that_does_not_depend_on_them() -> None:
    one = made(Digests, variant="con_weights", keywords=2)
    assert one.sign(words(bridge=3, window=2)).keys == one.sign(words(bridge=9, window=2)).keys


def test_a_description_stands_for_its_page() -> None:
    one = made(Digests, variant="description")
    left = PageText("first text", description="All about BRIDGES.")
    right = PageText("second text", description="all about bridges")
    assert one.description(left) == "all about bridges"
    assert similarity_of_pages(one, left, right) == 1.0
    assert one.sign(left).keys == one.sign(right).keys


def test_without_a_description_the_first_512_bytes_of_text_stand_for_it() -> None:
    one = made(Digests, variant="description")
    beginning = "\u00e9" * 255 + " "  # 511 bytes, so the next character of two is cut
    left, right = PageText(beginning + "\u00e9nd"), PageText(beginning + "\u00e0ther")
    assert one.description(left) == one.description(PageText(beginning))
    assert one.sign(left).keys == one.sign(right).keys
    assert one.sign(PageText("x" + beginning)).keys != one.sign(left).keys
