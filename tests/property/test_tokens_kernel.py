"""The token kernel gives mmh3's hashes of the plain form's tokens, on any bytes."""

# ruff: noqa: RUF001 - letters that look alike are what these tests are about

import random
import unicodedata
from collections import Counter
from collections.abc import Callable
from functools import partial

import mmh3
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from streamer.machine import uint64
from streamer.text import short_tokens
from streamer.text.canonical import is_ignorable
from streamer.text.scan import INVALID, decode
from streamer.text.short_tokens import NOT_PLAIN, SEPARATES, WINDOW_WORDS, TokenTables, token_tables
from streamer.text.tokens import MARKS_MAX, SLACK, SPARE, hash_tokens, token_scratch, tokens
from tests.oracles import plain_signature as plain

SEED = 0x9E3779B9
BEFORE = b"before\xc3"  # a page is in the middle of a buffer
UNLIMITED = 1 << 12
SCRATCH = token_scratch()

LETTERS = "a b Z _ 9 - . word Fifteen_Letters sixteen_letters_ é ß İ ſ Ａ ﬁ ½ ⑴ ﷺ ㌀ ŉ ≮"
OTHER_SCRIPTS = "漢 字 ひ バ ﾊﾞ が ก กำ ຳ မြန် ខ្មែរ 한 हिन्दी 𐐀 😀"
PARTS = [
    *LETTERS.split(),
    *OTHER_SCRIPTS.split(),
    *" \n\0\x7f\u2028\ufffd",
    *("e\u0301", "\u03c2", "\u1e9e", "\ufdfb", "か\u3099", "\u1112\u1161\u11ab"),
    *"\u0301\u0323\u0345\u0903\u20dd\u3099\U0001d165\u0340\u0344",
    *"\u00ad\u200b\u200d\ufeff\u034f\ufe0f\u115f\U000e0041",
    *"\u0378\ue000\U000f0000\U0010ffff",
]
pieces = st.lists(st.sampled_from(PARTS), max_size=40).map("".join)
any_text = st.one_of(pieces, st.text(max_size=60), st.text(st.characters(codec=None), max_size=30))
cut_short = st.sampled_from([1, 2, 3, 5, UNLIMITED])


def hashes_of(words: list[str]) -> list[int]:
    return [mmh3.hash64(word.encode(), SEED, signed=False)[0] for word in words]


def kernel_hashes(page: bytes, limit: int = UNLIMITED, behind: bytes = b"z" * SLACK) -> list[int]:
    """Hash a page's tokens, and signs where these prevail, no more than about `limit` a call."""
    words = _hashed(page, limit, behind, token_tables())
    signs_too = _hashed(page, limit, behind, token_tables(signs=True))
    return signs_too if len(words) < 50 and len(signs_too) > 2 * len(words) else words


def _hashed(page: bytes, limit: int, behind: bytes, tables: TokenTables) -> list[int]:
    data = np.frombuffer(BEFORE + page + behind, np.uint8)
    guarded = np.full(limit + SPARE + 8, 7, np.uint64)
    out = guarded[:-8]
    place, end = len(BEFORE), len(BEFORE) + len(page)
    result: list[int] = []
    while True:
        start = place
        place, count = hash_tokens(data, start, end, uint64(SEED), tables, SCRATCH, out, 0)
        assert count <= limit + SPARE
        assert (guarded[-8:] == 7).all()
        result += out[:count].tolist()
        if place >= end:
            assert place == end
            return result
        assert start <= place  # equal where it has stopped within the expansion of a code point
        assert count >= limit


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 256])
@pytest.mark.parametrize(
    "text", ["\ufdfa", "a\ufdfa", "\ufdfa\u0301漢", "\ufdfb", "¨", "½", "ﷺ\u200b¼"]
)
def test_tokens_that_only_expansions_divide_stay_within_the_output(text: str, limit: int) -> None:
    assert kernel_hashes((text * 3000).encode(), limit) == hashes_of(tokens(text * 3000))


@settings(max_examples=600, deadline=None)
@given(any_text, cut_short)
def test_any_text_gives_the_hashes_of_the_plain_tokens(text: str, limit: int) -> None:
    assert kernel_hashes(text.encode("utf-8", "surrogatepass"), limit) == hashes_of(tokens(text))
    assert tokens(text) == plain.tokens(text)


@settings(max_examples=600, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=40),
        st.lists(
            st.sampled_from(
                [*(piece.encode() for piece in PARTS), b"\xe9", b"\xc3", b"\xe2\x82", b"\xf0\x9f"]
            ),
            max_size=30,
        ).map(b"".join),
    ),
    cut_short,
)
def test_malformed_bytes_only_separate_tokens(page: bytes, limit: int) -> None:
    assert kernel_hashes(page, limit) == hashes_of(tokens(page.decode("utf-8", "replace")))


@pytest.mark.parametrize("other", ["", "é", "\u0301", "漢"])
def test_a_window_of_text_may_end_anywhere(other: str) -> None:
    draw = random.Random(other)
    near = 8 * WINDOW_WORDS - 40
    for size in range(1, 40, 3):
        words = ("w" * draw.randint(1, size) + other * (draw.random() < 0.05) for _ in range(4000))
        text = ("x" * (near % (size + 1)) + " ".join(words))[: 3 * near]
        for end in (near + size, 2 * near + size):
            assert kernel_hashes(text[:end].encode(), 977) == hashes_of(tokens(text[:end]))


@settings(max_examples=300, deadline=None)
@given(pieces, st.binary(min_size=SLACK, max_size=SLACK))
def test_what_lies_behind_the_end_does_not_show(text: str, behind: bytes) -> None:
    assert kernel_hashes(text.encode(), behind=behind) == hashes_of(tokens(text))


@pytest.mark.parametrize(
    "behind", [b"a" * SLACK, b"\x80" * SLACK, b"\xff" * SLACK, b"\0" * SLACK, b" " * SLACK]
)
@pytest.mark.parametrize("before", ["", "x ", "é "])
def test_an_ascii_token_of_any_length_may_end_the_text(before: str, behind: bytes) -> None:
    for length in range(1, 41):
        text = before + ("Ab_9Zz" * 7)[:length]
        assert kernel_hashes(text.encode(), behind=behind) == hashes_of(tokens(text)), length


@pytest.mark.parametrize("follower", ["é", "\u0301", "\u00ad", "漢", " ", "\u2028", "ﷺ"])
def test_an_ascii_token_of_any_length_may_meet_another_kind_of_character(follower: str) -> None:
    for length in range(1, 41):
        text = "x" * length + follower + "y"
        assert kernel_hashes(text.encode()) == hashes_of(tokens(text)), length


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from("\u0301\u0323\u0316\u0345\u05b0\u0903\u034f\u20dd"),
        max_size=3 * MARKS_MAX + 5,
    ),
    st.sampled_from(["a", "é", "漢", "ก", " "]),
    cut_short,
)
def test_runs_of_marks_of_any_length_are_ordered_as_in_the_plain_form(
    marks: list[str], base: str, limit: int
) -> None:
    text = f"x {base}{''.join(marks)}b c"
    assert kernel_hashes(text.encode(), limit) == hashes_of(tokens(text))


def test_a_code_point_between_letters_gives_the_plain_tokens() -> None:
    """All but ideographs and syllables, of which each seventh one."""
    each = [*range(0x3400), *range(0xE000, 0x17000), *range(0x18D00, 0x20000)]
    each += [*range(0xDFF00, 0xE1100), *range(0x10FFF0, 0x110000)]
    each += [*range(0x3400, 0xD800, 7), *range(0x17000, 0x18D00, 7), *range(0x20000, 0x33500, 7)]
    for start in range(0, len(each), 0x4000):
        text = " ".join(f"a{chr(c)}b {chr(c)}" for c in each[start : start + 0x4000])
        assert kernel_hashes(text.encode(), 1 << 17) == hashes_of(tokens(text)), hex(start)
        assert tokens(text) == plain.tokens(text), hex(start)


def decoded(page: bytes) -> tuple[int, int]:
    return decode(np.frombuffer(page + b"\x80" * SLACK, np.uint8), 0, len(page))


def strictly_decoded(page: bytes) -> tuple[int, int]:
    for size in range(1, min(4, len(page)) + 1):
        try:
            return ord(page[:size].decode()), size
        except UnicodeDecodeError:
            continue
    return INVALID, 1


def test_every_pair_of_bytes_beyond_ascii_is_decoded_strictly() -> None:
    pairs = [bytes((first, second)) for first in range(0x80, 0x100) for second in range(256)]
    assert [page for page in pairs if decoded(page) != strictly_decoded(page)] == []


def test_longer_sequences_are_decoded_strictly_at_the_edges_of_each_range() -> None:
    edges = (0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF)
    sequences = [
        bytes((lead, second, third, fourth))[:size]
        for lead in range(0xE0, 0x100)
        for second in edges
        for third in edges
        for fourth in edges
        for size in (3, 4)
    ]
    assert [page for page in sequences if decoded(page) != strictly_decoded(page)] == []


ONE_YEH = {0x06CC: 0x064A}  # Persian yeh, as an Arabic keyboard types it


def spelled(text: str) -> str:
    """Return the one spelling of a text: Unicode's NFKC_Casefold, decomposed, with one yeh."""
    text = "".join(c for c in text if not is_ignorable(ord(c)))
    while (again := unicodedata.normalize("NFKD", text.casefold())) != text:
        text = "".join(c for c in again if not is_ignorable(ord(c)))
    return text.translate(ONE_YEH)


SPELLINGS: dict[str, Callable[[str], str]] = {
    "composed": partial(unicodedata.normalize, "NFC"),
    "decomposed": partial(unicodedata.normalize, "NFD"),
    "compatible": partial(unicodedata.normalize, "NFKC"),
    "taken apart": partial(unicodedata.normalize, "NFKD"),
    "folded": str.casefold,
    "compatible and folded": lambda text: unicodedata.normalize("NFKC", text).casefold(),
    "hyphenated": "\u00ad".join,
    "joined": lambda text: "\u200b".join(text) + "\u200d",
}
IOTA_BELOW = "\u0345"  # a mark that folds to a letter: a test of its own
few_marks = st.text(st.characters(exclude_categories=["Cs", "Cn"]), max_size=MARKS_MAX - 1)


@settings(max_examples=400, deadline=None)
@given(
    st.one_of(few_marks, st.lists(st.sampled_from(PARTS), max_size=12).map("".join)),
    st.sampled_from(sorted(SPELLINGS)),
)
def test_two_spellings_of_one_text_have_equal_tokens(text: str, spelling: str) -> None:
    assume(IOTA_BELOW not in unicodedata.normalize("NFKD", text))
    assert kernel_hashes(SPELLINGS[spelling](text).encode()) == kernel_hashes(text.encode())


@pytest.mark.parametrize("text", ["\u1fb3\u0300", "\u03b1\u0345\u0300", "\u1f80\u0304"])
def test_an_iota_below_may_stand_anywhere_among_the_marks(text: str) -> None:
    assert tokens(unicodedata.normalize("NFC", text)) == tokens(text)


EASILY_CONFUSED = "a A Ａ ª á s ſ ß ss ẞ i İ ı I ﬁ fi k σ ς Σ ½ 1 ① и й ệ"
letters = st.sampled_from(
    [
        *EASILY_CONFUSED.split(),
        *("a\u0301", "\u212a", "\u0301", "\u0323", "\u00ad", "\u0645", "\u06cc", "\u064a"),
    ]
)
words = st.lists(letters, min_size=1, max_size=3).map(lambda parts: "x" + "".join(parts))


@settings(max_examples=600, deadline=None)
@given(words, words)
def test_words_have_equal_hashes_exactly_if_their_canonical_forms_are(one: str, other: str) -> None:
    equal = kernel_hashes(one.encode()) == kernel_hashes(other.encode())
    assert equal == (spelled(one) == spelled(other))


@pytest.mark.parametrize(
    "text", ["STRASSE", "Straße", "ΣΊΣΥΦΟΣ", "ПРИВЕТ", "Éclair", "ﬀ", "ΐ", "Ǆ", "ĳssel", "Ⅷ"]
)
def test_upper_and_lower_case_have_equal_tokens(text: str) -> None:
    assert tokens(text.upper()) == tokens(text.lower()) == tokens(text)


def piece(code: int) -> tuple[int, bytes]:
    """Return the upper byte of a code point's piece, and its lower ones."""
    word = int(token_tables().pieces[code])
    return word >> 56, (word & short_tokens.PIECE_MASK).to_bytes(7, "little")


def test_every_plain_character_between_letters_gives_the_plain_tokens() -> None:
    kinds: Counter[int] = Counter()
    for code in range(short_tokens.PIECES):
        kind, packed = piece(code)
        kinds[kind] += 1
        found = tokens(f"x{chr(code)}y")
        if kind == SEPARATES:
            assert found == ["x", "y"], hex(code)
        elif kind != NOT_PLAIN:
            assert found == [f"x{packed[: kind - 1].decode()}y"], hex(code)
            assert not any(packed[kind - 1 :])
    assert kinds[SEPARATES] > 3000
    assert kinds[1 + 1] > 90  # ASCII, and what folds to it
    assert kinds[1 + 2] > 700  # Greek, Cyrillic, Hebrew, Arabic
    assert kinds[1 + 3] > 2000  # letters with a mark, and all from U+0800 on


def test_letters_of_the_alphabets_are_plain_and_what_looks_at_its_neighbours_is_not() -> None:
    kinds = {c: piece(ord(c))[0] for c in "éßñøλжאế\u00ad\u0301\u0345ᾳก½\u0903"}
    assert [c for c, kind in kinds.items() if kind == NOT_PLAIN] == [*"\u0301\u0345ᾳก½\u0903"]
    assert SEPARATES not in kinds.values()
