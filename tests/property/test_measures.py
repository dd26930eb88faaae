"""Each measure gives what its rule in plain Python gives, from the values that were packed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.sketch import method
from streamer.sketch.method import Measure, pack_bits, pack_slots, similarity_of, sketch_similarity
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import NativeSigner
from tests.oracles import sketch_measures as oracle

M64 = (1 << 64) - 1
words64 = st.integers(0, M64)
# Upper halves of few values, so that two sets share some; the lower halves must not count.
hashes = st.builds(lambda high, low: high << 32 | low, st.integers(0, 150), st.integers(0, 3))
PACKED: dict[Measure, method.Sketch] = {
    Measure.RESEMBLANCE: NativeSigner(SignatureSettings(), bytes(32))
    .sign([b"a text with words enough for a shingle or two"], [0])
    .sketches[0],
    Measure.SLOTS: pack_slots([0, 0]),
    Measure.HAMMING: pack_bits(0, 64),
    Measure.SAMPLE: method.pack_sample([0]),
    Measure.BOTTOM: method.pack_bottom([0], 4),
    Measure.WEIGHTED: method.pack_weighted(7, []),
}


@st.composite
def two_lists(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Lists of which the second has some values of the first, in their places."""
    first = draw(st.lists(words64, max_size=method.SLOTS_MAX))
    kept = draw(st.lists(st.booleans(), min_size=len(first), max_size=len(first)))
    second = [value if keep else value ^ 1 for value, keep in zip(first, kept, strict=True)]
    return first, second[: draw(st.integers(0, len(second)))] if draw(st.booleans()) else second


def width_of(count: int) -> int:
    return 64 if count <= 32 else 32 if count <= 64 else 16


@given(two_lists())
def test_slots_give_the_share_of_equal_ones(lists: tuple[list[int], list[int]]) -> None:
    first, second = lists
    widths = {width_of(len(one)) for one in lists if one}
    expected = oracle.slots(first, second, widths.pop()) if len(widths) < 2 and widths else None
    if expected is None:
        expected = 0 if first or second else oracle.ONE
    found = sketch_similarity(int(Measure.SLOTS), pack_slots(first), pack_slots(second))
    assert found == expected


def test_narrow_slots_are_not_taken_for_equal_by_chance() -> None:
    random = np.random.default_rng(5)
    unlike = random.integers(0, 4, (2, 100))  # 16 bits of which only two vary: a quarter is equal
    equal = int((unlike[0] == unlike[1]).sum())
    found = sketch_similarity(int(Measure.SLOTS), *(pack_slots(one.tolist()) for one in unlike))
    assert found == int(10_000 * (65_536 * equal - 100) // (100 * 65_535)) < 100 * equal


@given(words64, words64, st.integers(1, 64))
def test_bits_give_the_share_of_equal_ones(a: int, b: int, bits: int) -> None:
    found = sketch_similarity(int(Measure.HAMMING), pack_bits(a, bits), pack_bits(b, bits))
    assert found == oracle.hamming(a, b, bits)


@given(st.integers(0, (1 << 2048) - 1), st.integers(0, 2047))
def test_one_bit_of_2048_is_seen_wherever_it_is(value: int, place: int) -> None:
    a, b = pack_bits(value, 2048), pack_bits(value ^ 1 << place, 2048)
    assert sketch_similarity(int(Measure.HAMMING), a, b) == 10_000 * 2047 // 2048


@given(st.sets(hashes, max_size=150), st.sets(hashes, max_size=150))
def test_samples_give_their_resemblance_as_far_as_both_are_whole(a: set[int], b: set[int]) -> None:
    found = sketch_similarity(int(Measure.SAMPLE), method.pack_sample(a), method.pack_sample(b))
    assert found == oracle.sample(a, b, method.HASHES_MAX)


@given(
    st.sets(hashes, max_size=150), st.sets(hashes, max_size=150), st.integers(1, method.HASHES_MAX)
)
def test_bottom_k_is_the_share_of_the_least_of_the_union(a: set[int], b: set[int], k: int) -> None:
    found = sketch_similarity(
        int(Measure.BOTTOM), method.pack_bottom(a, k), method.pack_bottom(b, k)
    )
    assert found == oracle.bottom(a, b, k)


@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.lists(st.tuples(*[st.floats(0, 1)] * 2), max_size=method.WEIGHTS_MAX),
)
def test_weights_count_by_equal_digests(a: int, b: int, pairs: list[tuple[float, float]]) -> None:
    first, second = ((digest << 70, [p[i] for p in pairs]) for i, digest in enumerate((a, b)))
    found = sketch_similarity(
        int(Measure.WEIGHTED), method.pack_weighted(*first), method.pack_weighted(*second)
    )
    assert found == oracle.weighted(first, second)


@pytest.mark.parametrize("measure", Measure)
def test_a_sketch_of_zeros_equals_another_and_none_that_holds_something(measure: Measure) -> None:
    assert similarity_of(measure, method.empty_sketch(), method.empty_sketch()) == 1.0
    assert similarity_of(measure, method.empty_sketch(), PACKED[measure]) == 0.0
    assert similarity_of(measure, PACKED[measure], method.empty_sketch()) == 0.0
    assert similarity_of(measure, PACKED[measure], PACKED[measure]) == 1.0


def test_what_does_not_fit_into_a_sketch_is_refused() -> None:
    with pytest.raises(ValueError, match="128 slots at most, not 129"):
        pack_slots([0] * 129)
    with pytest.raises(ValueError, match="1 to 2048 bits, not 2049"):
        pack_bits(0, 2049)
    with pytest.raises(ValueError, match="k is 1 to 64, not 65"):
        method.pack_bottom([1], 65)
    with pytest.raises(ValueError, match="30 weights at most, not 31"):
        method.pack_weighted(0, [0.0] * 31)
