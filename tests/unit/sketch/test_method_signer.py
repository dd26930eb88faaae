"""Signing by a method: what stays native, what a page lacks, and who signs what."""

import numpy as np
import pytest

from streamer.config import load_settings
from streamer.rules import MAIN, VISIBLE
from streamer.sketch.method import ABSENT_KEY, MethodSignature, PageText, similarity_of
from streamer.sketch.method_signer import OTHER_TEXT, BagSigner, MethodSigner, make_signer
from streamer.sketch.scheme import methods
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import NativeSigner
from streamer.text.visible import ESCAPED, HTML

SECRET = bytes(range(32))
BODIES = [
    b"<p>The quick brown fox jumps over the lazy dog, and so do many other quick animals.",
    b"plain text of some words, enough of them to be more than a shingle or two in length",
    b"caf\\u00e9 \\n one two three four five six seven eight nine ten eleven twelve", b"", b" \n",
]  # fmt: skip
FLAGS = [HTML, 0, ESCAPED, 0, 0]


class Lacking:
    """A scheme whose pages lack their first key, and have one key twice."""

    canonical = PageText("").canonical

    def sign(self, page: PageText) -> MethodSignature:
        return MethodSignature([ABSENT_KEY, 77, 77], np.full(33, len(page.text), np.uint64))


def lacking() -> MethodSigner:
    signer = MethodSigner(load_settings(method="banding", bands=4).signature, SECRET)
    signer._scheme = Lacking()  # type: ignore[assignment]  # noqa: SLF001 - what no method does alone
    return signer


def test_only_shingles_and_bags_of_plain_words_are_signed_natively() -> None:
    assert isinstance(make_signer(SignatureSettings(rows=3), SECRET), NativeSigner)
    assert isinstance(make_signer(load_settings(method="words").signature, SECRET), BagSigner)
    for settings in (
        load_settings(method="banding"), load_settings(accept="banding"),
        load_settings(canonical=["stem=english"]),
        load_settings(method="words", canonical=["stem=english"]),
        load_settings(method="words", accept="minhash"),
    ):  # fmt: skip
        assert isinstance(make_signer(settings.signature, SECRET), MethodSigner)


@pytest.mark.parametrize("method", ["minhash", "words"])
@pytest.mark.parametrize("others", [[], [0], [1, 2], [0, 1, 2]], ids=str)
def test_a_rule_chooses_which_text_of_a_page_is_signed(method: str, others: list[int]) -> None:
    article = "".join(f"<p>The {n}th sentence, of some length, tells of {n * n}." for n in range(9))
    page = f"<nav><li><a href=/>Home</a><li><a href=/n>News</a></nav><main>{article}</main>"
    bodies = [page.encode(), BODIES[1], page.replace("Home", "Start").encode()]
    flags = [HTML, 0, HTML]
    marked = [each | OTHER_TEXT * (i in others) for i, each in enumerate(flags)]
    both = load_settings(method=method).signature.model_copy(update={"text_rules": ("a * main",)})
    signed = make_signer(both, SECRET).sign(bodies, marked)
    texts = [
        make_signer(both.of_text(text), SECRET).sign(bodies, flags) for text in (VISIBLE, MAIN)
    ]
    assert texts[0].keys[0].tolist() != texts[1].keys[0].tolist() == texts[1].keys[2].tolist()
    for i in range(len(bodies)):
        own = texts[i in others]
        for name in ("keys", "sketches", "distinct", "tokens", "text_bytes"):
            assert getattr(signed, name)[i].tolist() == getattr(own, name)[i].tolist(), name
    assert signed.main is not None
    assert signed.main.tolist() == [i in others and bool(flags[i]) for i in range(len(bodies))]


@pytest.mark.parametrize("name", methods())
def test_content_key_and_counts_are_native_under_every_method(name: str) -> None:
    signatures = MethodSigner(load_settings(method=name).signature, SECRET).sign(BODIES, FLAGS)
    native = NativeSigner(SignatureSettings(), SECRET).sign(BODIES, FLAGS)
    assert signatures.keys[:, -1].tolist() == native.keys[:, -1].tolist()
    assert signatures.tokens.tolist() == native.tokens.tolist()
    assert signatures.text_bytes.tolist() == native.text_bytes.tolist()
    assert signatures.keys.shape == (len(BODIES), load_settings(method=name).signature.bands + 1)


def test_what_is_counted_as_distinct_are_words_or_the_shingles_of_minhash() -> None:
    body = [b"a b c a b c a b c"]
    by_words = make_signer(load_settings(method="banding").signature, SECRET)
    by_shingles = make_signer(load_settings(shingle_width=2, accept="banding").signature, SECRET)
    assert by_words.sign(body, [0]).distinct.tolist() == [3]
    assert by_shingles.sign(body, [0]).distinct.tolist() == [3]  # ab bc ca
    assert by_words.sign([b"a a a a a"], [0]).distinct.tolist() == [1]


def test_an_absent_key_matches_no_page_of_other_content() -> None:
    signed = lacking().sign(BODIES, FLAGS)
    keys = signed.keys
    assert signed.sketches.any(axis=1).tolist() == [True, True, True, False, False]
    assert keys[0].tolist().count(77) == 1, "a key that comes twice is one key"
    assert [77 in row for row in keys.tolist()] == [True, True, True, False, False]
    filled = [key for row in keys[:3].tolist() for key in row if key != 77]
    assert len(set(filled)) == len(filled) == 3 * 4  # three of four keys, and the content's
    assert ABSENT_KEY not in keys


def test_equal_content_has_equal_keys_even_where_it_has_none() -> None:
    keys = lacking().sign([b"one two", b"ONE, two!"], [0, 0]).keys
    assert keys[0].tolist() == keys[1].tolist()


def test_keys_of_one_method_go_with_the_sketch_of_another() -> None:
    both, keys, sketch = (
        make_signer(load_settings(method=method, accept=accept).signature, SECRET)
        .sign(BODIES, FLAGS)
        for method, accept in (("banding", "simhash"), ("banding", None), ("simhash", None))
    )  # fmt: skip
    assert both.keys.tolist() == keys.keys.tolist()
    assert both.sketches.tolist() == sketch.sketches.tolist()


@pytest.mark.parametrize("pairs", [3, 6])
@pytest.mark.parametrize("name", methods())
def test_pages_of_equal_words_are_alike_where_the_method_finds_none(name: str, pairs: int) -> None:
    settings = load_settings(method=name).signature
    words = [f"{letter}a {letter}b" for letter in "abcdef"[:pairs]]
    one, other = ". ".join(words), "!\n".join(words).replace(" ", ", ").upper()
    signed = make_signer(settings, SECRET).sign([one.encode(), other.encode()], [0, 0])
    assert signed.keys[0, -1] == signed.keys[1, -1]
    assert similarity_of(settings.measure, *signed.sketches) == 1.0


@pytest.mark.parametrize("name", ["minhash", "bottom_k"])
def test_with_tags_kept_a_page_is_signed_by_its_markup(name: str) -> None:
    settings = load_settings(method=name, canonical=["keep_tags=true"]).signature
    bodies = [b"<p>one two three four five</p>", b"<div>one two three four five</div>"]
    signed = make_signer(settings, SECRET).sign(bodies, [HTML, HTML])
    as_text = make_signer(settings, SECRET).sign(bodies, [0, 0])
    assert signed.keys.tolist() == as_text.keys.tolist()
    assert signed.sketches.tolist() == as_text.sketches.tolist()
    assert signed.tokens.tolist() == [7, 7]
    assert signed.keys[0, -1] != signed.keys[1, -1]
    without = load_settings(method=name, canonical=["stem=english"]).signature
    read = make_signer(without, SECRET).sign(bodies, [HTML, HTML])
    assert read.keys[0].tolist() == read.keys[1].tolist()
