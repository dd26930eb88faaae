"""Sets of shingles: their bytes, their resemblance, and where they are asked for it."""

from fractions import Fraction
from functools import lru_cache
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.model import SIMILARITY_ONE
from streamer.sketch import hash_sets
from streamer.sketch.method_signer import make_signer, resemblance_sketch
from streamer.sketch.resemblance import similarity
from streamer.sketch.scheme import choose
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import TOKENS_BLOCK, NativeSigner
from tests.oracles import hash_sets as oracle
from tests.oracles import plain_signature as plain

SECRET = bytes(range(32))
EXACT = SignatureSettings(exact=True)
LAST = 2**32 - 1

values = st.one_of(st.integers(0, LAST), st.sampled_from([0, 1, LAST - 1, LAST]))
sets = st.one_of(
    st.sets(values, min_size=1, max_size=40),
    st.tuples(st.integers(0, LAST - 600), st.integers(1, 600)).map(
        lambda r: {*range(r[0], sum(r))}
    ),
    st.tuples(st.integers(0, 2**32), st.integers(1, 3000)).map(
        lambda drawn: {Random(drawn[0]).getrandbits(32) for _ in range(drawn[1])}
    ),
)


def packed(numbers: set[int]) -> bytes:
    """Return a set; a hash has more below its upper half."""
    return hash_sets.pack_set(np.array([number << 32 | 7 for number in numbers], np.uint64))


@settings(max_examples=200, deadline=None)
@given(sets)
def test_a_set_is_read_as_it_was_written(numbers: set[int]) -> None:
    assert hash_sets.unpack_set(packed(numbers)).tolist() == sorted(numbers)


@settings(max_examples=200, deadline=None)
@given(sets, sets, st.sets(values, max_size=600))
def test_the_similarity_of_two_sets_is_the_share_of_common_ones(
    one: set[int], other: set[int], both: set[int]
) -> None:
    one, other = one | both, other | both
    expected = SIMILARITY_ONE * len(one & other) // len(one | other)
    assert hash_sets.set_similarity(packed(one), packed(other)) == expected
    assert oracle.resemblance(packed(one), packed(other)) == Fraction(
        len(one & other), len(one | other)
    )


def test_a_set_takes_three_bytes_a_shingle_of_an_ordinary_page() -> None:
    draw = Random(2)
    for count, most in ((600, 3.1), (60_000, 2.3)):
        numbers = {draw.getrandbits(32) for _ in range(count)}
        assert len(packed(numbers)) <= most * len(numbers)


def test_an_empty_set_and_one_that_is_too_large_are_not_known() -> None:
    most = np.arange(hash_sets.SET_MAX, dtype=np.uint64) << np.uint64(32)
    assert len(hash_sets.unpack_set(hash_sets.pack_set(most))) == hash_sets.SET_MAX
    more = np.arange(hash_sets.SET_MAX + 1, dtype=np.uint64) << np.uint64(32)
    assert hash_sets.pack_set(more) == hash_sets.pack_set(more[:0]) == b""
    assert (
        hash_sets.set_similarity(b"", hash_sets.pack_set(most))
        == hash_sets.set_similarity(hash_sets.pack_set(most), b"")
        == hash_sets.UNKNOWN
    )


# ---- the signer ----------------------------------------------------------------------------------


@lru_cache
def signer() -> NativeSigner:
    return NativeSigner(EXACT, SECRET)


def expected_set(text: str) -> list[int]:
    """Return the upper halves of the sketch hashes of a text's shingles."""
    seeds = plain.derive_seeds(SECRET, EXACT.shingle_width, EXACT.hashes)
    hashed = [plain.murmur(token.encode(), seeds.token_seed) for token in plain.tokens(text)]
    hashes = plain.sketch_hashes(plain.shingle_set(hashed, seeds), seeds)
    return sorted({one >> 32 for one in hashes})


words = st.sampled_from(["alpha", "Beta", "gamma", "délta", "漢字", "ひらがな", "x", "ﷺ", "㌖"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(words, max_size=60).map(" ".join), min_size=1, max_size=4))
def test_the_native_signer_gives_the_set_of_all_distinct_shingles(texts: list[str]) -> None:
    signed = signer().sign([text.encode() for text in texts], [0] * len(texts))
    assert signed.shingles is not None
    for text, found in zip(texts, signed.shingles, strict=True):
        expected = expected_set(text)
        assert (hash_sets.unpack_set(found).tolist() if found else []) == expected


@pytest.mark.parametrize("text", ["㌖", "ﷺ ", "a "])
def test_there_is_room_for_the_set_of_a_text_whose_bytes_give_most_tokens(text: str) -> None:
    filler = [text * n for n in range(1, 200)]
    signed = signer().sign([each.encode() for each in filler], [0] * len(filler))
    assert signed.shingles is not None
    assert [len(expected_set(each)) for each in filler[-3:]] == [
        len(hash_sets.unpack_set(found)) for found in signed.shingles[-3:]
    ]


@pytest.mark.parametrize("distinct", [TOKENS_BLOCK - 3, 3 * TOKENS_BLOCK])
def test_a_text_of_many_blocks_has_one_set(distinct: int) -> None:
    text = " ".join(f"w{n}" for n in range(distinct))
    [found] = signer().sign([text.encode()], [0]).shingles or []
    assert hash_sets.unpack_set(found).tolist() == expected_set(text)


def test_a_page_of_too_many_shingles_has_no_set_and_one_that_repeats_itself_has() -> None:
    many = " ".join(f"w{n}" for n in range(hash_sets.SET_MAX + 5))
    repeated = " ".join([f"w{n}" for n in range(1000)] * 140)
    fitting = many.rpartition(" ")[0]
    bodies = [text.encode() for text in (many, repeated, fitting)]
    assert NativeSigner(SignatureSettings(), SECRET).sign(bodies, [0] * 3).shingles is None
    unknown, known, last = signer().sign(bodies, [0] * 3).shingles or []
    assert unknown == b""
    assert hash_sets.unpack_set(known).tolist() == expected_set(repeated)
    assert len(hash_sets.unpack_set(last)) >= hash_sets.SET_MAX - 3  # except hashes that meet


@pytest.mark.parametrize("method", ["words", "one_permutation", "simhash+minhash"])
def test_sets_of_other_methods_are_of_what_their_sketches_estimate(method: str) -> None:
    draw = Random(3)
    one = [draw.choice("abcdefgh") * draw.randint(1, 3) for _ in range(400)]
    other = [*one[:330], *(f"x{n}" for n in range(70))]
    chosen = choose(method).model_copy(update={"exact": True})
    signed = make_signer(chosen, SECRET).sign([" ".join(t).encode() for t in (one, other)], [0, 0])
    assert signed.shingles is not None
    exact = hash_sets.set_similarity(*signed.shingles)
    estimate = similarity(signed.sketches[0], signed.sketches[1])
    assert exact > 0
    assert abs(exact - estimate) <= 500


# ---- doubt ---------------------------------------------------------------------------------------


def pair(draw: Random, union: int, common: int) -> tuple[list[int], list[int]]:
    """Return two sets of hashes with so many in their union and in common."""
    numbers = [draw.getrandbits(64) for _ in range(union)]
    rest = draw.randint(0, union - common)
    return numbers[: common + rest], numbers[:common] + numbers[common + rest :]


def sketch(hashes: list[int]) -> np.ndarray:
    return resemblance_sketch(np.unique(np.array(hashes, np.uint64)), 0)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([20, 100, 300, 700, 5000]),
    st.floats(0.3, 1.0),
    st.sampled_from([5000, 6500, 8000, 9500, 10_000]),
    st.sampled_from([0, 0, 1, 2]),
)
def test_sets_decide_where_the_sketches_leave_it_in_doubt(
    seed: int, union: int, share: float, least: int, unknown: int
) -> None:
    one, other = pair(Random(seed), union, round(share * union))
    a, b = sketch(one), sketch(other)
    known = packed({h >> 32 for h in one}), packed({h >> 32 for h in other})
    both = (known, (b"", known[1]), (known[0], b""))[unknown]
    score = similarity(a, b)
    expected = oracle.decided(score, (a, b), both, least)
    assert hash_sets.decide_similarity(0, a, b, least, lambda: both) == expected
    assert hash_sets.decide_similarity(0, a, b, least, None) == (score, False)
    if oracle.is_doubtful(score, a, b, least):
        assert abs(score - least) <= hash_sets.widest_doubt(least)


@pytest.mark.parametrize("union", [200, 800, 3000])
def test_an_estimate_beyond_doubt_is_as_rare_as_three_standard_deviations(union: int) -> None:
    """Of pairs at the threshold itself 0.0027 lie outside by a normal law, and fewer by the bound.

    One far below, where a decision would cost a read for nothing, is not in doubt.
    """
    draw, beyond, pairs = Random(union), 0, 600
    for _ in range(pairs):
        a, b = (sketch(each) for each in pair(draw, union, round(0.8 * union)))
        beyond += not oracle.is_doubtful(similarity(a, b), a, b, 8000)
    assert beyond <= 6
    a, b = (sketch(each) for each in pair(draw, union, round(0.6 * union)))
    assert not oracle.is_doubtful(similarity(a, b), a, b, 8000)
