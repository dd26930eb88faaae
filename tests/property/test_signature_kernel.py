"""The signing kernel gives the signature of the plain form, bit for bit."""

from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import DISTINCT_MAX, TOKENS_BLOCK, NativeSigner, Signatures
from streamer.text.visible import ESCAPED, HTML
from tests.oracles import plain_signature as plain

SECRET = bytes(range(32))
DEFAULTS = SignatureSettings()
SEAMS = (TOKENS_BLOCK, 2 * TOKENS_BLOCK)

shapes = st.builds(
    SignatureSettings,
    bands=st.integers(1, 20),
    rows=st.integers(1, 14),
    shingle_width=st.integers(1, 9),
)
words = st.sampled_from(
    ["alpha", "Beta", "gamma", "délta", "ελλ", "漢字", "ひらがな", "x", "1234", "ﷺ", "a" * 40]
)
pieces = st.sampled_from(["a", "ß", "ᾳ", "한", "กำ", "हि", " ", "_", *"\u0301\u0323\u0345\u00ad漢"])
texts = st.one_of(
    st.text(max_size=80),
    st.lists(words, max_size=60).map(" ".join),
    st.lists(pieces, max_size=60).map("".join),
)
secrets = st.binary(min_size=32, max_size=32)


@lru_cache
def signer(shape: SignatureSettings) -> NativeSigner:
    return NativeSigner(shape, SECRET)


def assert_is_the_plain_signature(
    signed: Signatures, page: int, text: str, shape: SignatureSettings, secret: bytes = SECRET
) -> None:
    keys = plain.derive_seeds(secret, shape.shingle_width, shape.hashes)
    expected = plain.sign(text, keys, shape.bands, shape.rows)
    assert signed.keys[page].tolist() == expected.keys
    assert signed.sketches[page].tolist() == expected.sketch
    assert signed.distinct[page] == min(DISTINCT_MAX, expected.shingles)
    assert signed.tokens[page] == expected.tokens
    assert signed.text_bytes[page] == len(text.encode())


@settings(max_examples=200, deadline=None)
@given(texts, shapes, secrets)
def test_any_text_has_the_plain_signature_under_any_settings_and_key(
    text: str, shape: SignatureSettings, secret: bytes
) -> None:
    signed = NativeSigner(shape, secret).sign([text.encode()], [0])
    assert_is_the_plain_signature(signed, 0, text, shape, secret)


@settings(max_examples=60, deadline=None)
@given(st.lists(texts, max_size=5), st.sampled_from([bytes, bytearray, memoryview]))
def test_each_page_of_a_batch_is_signed_as_if_alone(batch: list[str], kind: type[bytes]) -> None:
    bodies = [kind(text.encode()) for text in batch]
    signed = signer(DEFAULTS).sign(bodies, [0] * len(bodies))
    assert len(signed.keys) == len(batch)
    for page, text in enumerate(batch):
        assert_is_the_plain_signature(signed, page, text, DEFAULTS)


@pytest.mark.parametrize("width", [1, 2, 5, 32])
@pytest.mark.parametrize(
    "extra", [-1, 0, 1, 4, 5, TOKENS_BLOCK - 5, TOKENS_BLOCK - 4, TOKENS_BLOCK + 2]
)
def test_a_text_of_several_blocks_of_tokens_has_the_plain_signature(width: int, extra: int) -> None:
    shape = SignatureSettings(bands=2, rows=1, shingle_width=width)
    # only the words around the seams are new, so that no shingle there can be missed
    near = [any(abs(i - seam) < 40 for seam in SEAMS) for i in range(TOKENS_BLOCK + extra)]
    text = " ".join(f"w{i}" if new else "same" for i, new in enumerate(near))
    assert_is_the_plain_signature(signer(shape).sign([text.encode()], [0]), 0, text, shape)


@pytest.mark.parametrize("character", ["漢", "ﷺ ", "é ", "a\u0301 ", "½"])
def test_a_block_may_end_at_any_kind_of_token(character: str) -> None:
    shape = SignatureSettings(bands=1, rows=1, shingle_width=3)
    for lead in range(3):
        text = "x " * lead + character * (TOKENS_BLOCK + 40) + "tail"
        assert_is_the_plain_signature(signer(shape).sign([text.encode()], [0]), 0, text, shape)


@pytest.mark.parametrize("shingles", [0, 1, DISTINCT_MAX - 1, DISTINCT_MAX, DISTINCT_MAX + 1, 300])
def test_distinct_shingles_are_counted_up_to_the_limit_and_repeats_once(shingles: int) -> None:
    shape = SignatureSettings(shingle_width=1)
    text = " ".join(f"w{i % shingles}" for i in range(2 * shingles))
    signed = signer(shape).sign([text.encode()], [0])
    assert signed.distinct[0] == min(shingles, DISTINCT_MAX)
    assert signed.tokens[0] == 2 * shingles


def test_a_small_page_is_signed_alike_before_and_after_a_giant_one() -> None:
    own = NativeSigner(DEFAULTS, SECRET)
    small = ["tail of the giant", "<p>some &amp; more words than five in here</p>"]
    before = own.sign([text.encode() for text in small], [0, HTML])
    giant = own.sign([b"<p>" + b"giant words " * 500_000], [HTML])
    after = own.sign([text.encode() for text in small], [0, HTML])
    assert giant.tokens[0] == 1_000_000
    assert before.keys.tolist() == after.keys.tolist()
    assert before.sketches.tobytes() == after.sketches.tobytes()


@pytest.mark.parametrize(
    ("flags", "body", "text"),
    [
        (0, rb"a <b> c \u0064 &amp; e", r"a <b> c \u0064 &amp; e"),
        (ESCAPED, rb"one two\u0020three\nfour \"five\" six", 'one two three\nfour "five" six'),
        (ESCAPED | HTML, rb"<p title=\"x\">one two<\/p>three four five", "one two three four five"),
    ],
)
def test_flags_tell_what_is_undone_before_signing(flags: int, body: bytes, text: str) -> None:
    signed = signer(DEFAULTS).sign([body], [flags])
    keys = plain.derive_seeds(SECRET, DEFAULTS.shingle_width, DEFAULTS.hashes)
    assert signed.keys[0].tolist() == plain.sign(text, keys, DEFAULTS.bands, DEFAULTS.rows).keys


def test_texts_with_equal_tokens_have_one_content_key_and_others_do_not() -> None:
    texts = ["One, two: three!", "ONE two\u00ad three", "one two thre e", "two one three", ""]
    bodies = [text.encode() for text in texts]
    content = signer(DEFAULTS).sign(bodies, [0] * len(bodies)).keys[:, -1].tolist()
    assert content[0] == content[1]
    assert len(set(content)) == 4


def test_texts_around_each_change_of_the_sketchs_form_have_the_plain_signature() -> None:
    shape = SignatureSettings(bands=1, rows=1, shingle_width=1)
    for distinct in (*range(100, 125), *range(280, 310), 590, 596, 597, 600, 1200):
        text = " ".join(f"w{i}" for i in range(distinct)) + " again w1 w2"
        assert_is_the_plain_signature(signer(shape).sign([text.encode()], [0]), 0, text, shape)
