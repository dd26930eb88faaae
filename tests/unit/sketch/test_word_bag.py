"""Bags of words in native code are those of the method in Python, bit for bit."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamer.config import load_settings
from streamer.sketch.method_signer import BagSigner, MethodSigner, make_signer
from streamer.sketch.signer import PageSigner, Signatures
from streamer.sketch.word_bag import BAG_SLOTS, NO_ROOM, new_bag, number_words
from streamer.text.visible import ESCAPED, HTML

SECRET = bytes(range(32))
WORDS = [
    *("rose", "Rose", "is", "a", "das", "é", "漢字", "a漢é", "½", "ﷺ", "e\u0301\u0323", "\u0345"),
    *("fifteen_letters", "sixteen_letters_"),
]
FEW_WORDS = st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join)
BODIES = st.lists(
    st.one_of(
        FEW_WORDS.map(str.encode), FEW_WORDS.map(lambda text: f"<p>{text}<li>{text}".encode()),
        st.text().map(lambda text: text.encode("utf-8", "surrogatepass")), st.binary(max_size=40),
    ),
    max_size=4,
)  # fmt: skip
MANY = " ".join(f"w{i} é{i % 3000}" for i in range(BAG_SLOTS)).encode()
ARTICLE = "".join(f"<p>The {n}th sentence, of some length, tells of {n * n}." for n in range(9))
PAGE = f"<nav><li><a href=/>Home</a><li><a href=/n>News</a></nav><main>{ARTICLE}</main>".encode()


@cache
def both_signers(**given: Any) -> tuple[PageSigner, PageSigner]:
    own = load_settings(method="words", **given).signature
    native = make_signer(own, SECRET)
    assert isinstance(native, BagSigner)
    return native, MethodSigner(own, SECRET)


def check_both(bodies: list[bytes], flags: int, **given: Any) -> Signatures:
    """Sign natively, and hold each column against the method in Python."""
    signed, expected = (each.sign(bodies, [flags] * len(bodies)) for each in both_signers(**given))
    for name, one, other in zip(signed._fields, signed, expected, strict=True):
        same = one == other
        assert same if isinstance(same, bool) else same.all(), name
    return signed


@given(
    bodies=BODIES, flags=st.sampled_from([0, HTML, ESCAPED, HTML | ESCAPED]), exact=st.booleans()
)
@example(bodies=[b"", b"..."], flags=0, exact=True)
@example(bodies=[("rose " * 1200).encode(), b"rose"], flags=0, exact=True)
def test_any_pages_are_signed_as_in_python(bodies: list[bytes], flags: int, *, exact: bool) -> None:
    check_both(bodies, flags, exact=exact)


@pytest.mark.parametrize("options", [(), ("bands=5", "rows=3"), ("bands=48", "rows=1")], ids=str)
@pytest.mark.parametrize("text", ["visible", "main"])
def test_parameters_and_the_main_text_count(options: tuple[str, ...], text: str) -> None:
    signed = check_both([PAGE, b"one two three"], HTML, method_option=options, text=text)
    main = None if signed.main is None else signed.main.tolist()
    assert main == (None if text == "visible" else [True, False])


@pytest.mark.parametrize("exact", [False, True])
def test_a_page_of_more_words_than_a_bag_holds_and_others_are_signed_whole(*, exact: bool) -> None:
    bodies = [b"before, of few words", MANY, b"between", MANY + b" " + MANY, MANY[:9000], b"behind"]
    signed = check_both(bodies, 0, exact=exact)
    assert len({row.tobytes() for row in signed.keys}) == len(bodies)
    assert signed.tokens[1] == 2 * BAG_SLOTS


def test_a_full_bag_is_refused_and_not_searched_for_ever() -> None:
    tokens, ends = np.arange(1, 9, dtype=np.uint64), np.zeros((8, 5), np.uint64)
    assert number_words(tokens.copy(), ends, 6, new_bag(8), np.empty(8, np.uint64)) == 6
    assert number_words(tokens.copy(), ends, 7, new_bag(8), np.empty(8, np.uint64)) == NO_ROOM
