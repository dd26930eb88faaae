"""Methods of min-hashes over shingles hold what their definitions promise."""

from itertools import combinations
from typing import Any

import mmh3
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamer.sketch.method import ABSENT_KEY, Measure, PageText, pack_slots, sketch_similarity
from streamer.sketch.method_signer import block_hashes, class_keys
from streamer.sketch.methods.shingled import ShingleParameters, Shingler, megashingles_of
from streamer.sketch.scheme import choose, method
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import NativeSigner
from streamer.text.tokens import tokens
from tests.oracles import plain_signature as plain
from tests.unit.sketch.methods.test_shingled import SECRET

OVER_SHINGLES = (
    "banding", "bottom_k", "megashingles", "minhash", "mod_p", "one_permutation", "supershingles",
    "words",
)  # fmt: skip
FEW_WORDS = st.lists(st.sampled_from(["rose", "is", "a", "Rose", "das", "漢字", "é"]), max_size=40)


def words(first: int, end: int) -> str:
    return " ".join(f"word{i}" for i in range(first, end))


def similarity(name: str, a: str, b: str, **options: Any) -> float:
    one = method(name, options, SECRET)
    first, second = (one.sign(PageText(text)).sketch for text in (a, b))
    return int(sketch_similarity(int(one.measure), first, second)) / 10_000


@given(st.text(), st.integers(1, 4), st.integers(1, 3), st.integers(1, 4))
@example(words(0, 3000), 5, 14, 6)
def test_minhash_in_python_is_the_native_one(text: str, width: int, bands: int, rows: int) -> None:
    shape = SignatureSettings(shingle_width=width, bands=bands, rows=rows)
    text = text.encode("utf-8", "replace").decode()
    native = NativeSigner(shape, SECRET).sign([text.encode()], [0])
    own = method("minhash", shape.identity(), SECRET).sign(PageText(text))
    by_definition = plain.sign(text, plain.derive_seeds(SECRET, width, bands * rows), bands, rows)
    assert list(own.keys) == native.keys[0, :-1].tolist() == by_definition.keys[:-1]
    assert own.sketch.tolist() == native.sketches[0].tolist() == by_definition.sketch


@pytest.mark.parametrize("name", OVER_SHINGLES)
def test_equal_texts_are_wholly_similar_and_strangers_not_at_all(name: str) -> None:
    one = method(name, {}, SECRET)
    text, other = words(0, 400), words(1000, 1400)
    assert similarity(name, text, text) == 1.0
    assert similarity(name, text, other) < 0.1
    keys, strangers = (one.sign(PageText(t)).keys for t in (text, other))
    under_another_secret = method(name, {}, bytes(32)).sign(PageText(text)).keys
    assert len(keys) == one.bands
    assert not set(keys) & {*strangers, *under_another_secret} - {ABSENT_KEY}


@pytest.mark.parametrize(
    ("name", "options", "off_by"),
    [
        ("banding", {}, 0.16), ("bottom_k", {}, 0.2), ("mod_p", {"p": 10}, 0.25),
        ("one_permutation", {}, 0.1), ("minhash", {}, 0.1),
    ],
)  # fmt: skip
def test_estimates_are_near_the_truth(name: str, options: dict[str, Any], off_by: float) -> None:
    for shared in (900, 700, 400):  # of 996 shingles each
        true = (shared - 4) / (2 * 996 - (shared - 4))
        estimate = similarity(name, words(0, 1000), words(1000 - shared, 2000 - shared), **options)
        assert abs(estimate - true) < off_by  # four standard errors


def test_mod_p_keeps_only_what_p_divides_and_of_a_short_text_the_least() -> None:
    one = method("mod_p", {"p": 7}, SECRET)
    hashes = Shingler(ShingleParameters(), SECRET).hashes(PageText(words(0, 200)))
    kept = sorted(h >> 32 for h in hashes.tolist() if h % 7 == 0)
    sketch = one.sign(PageText(words(0, 200))).sketch
    assert sketch[1:].view("<u4")[: len(kept)].tolist() == kept
    assert int(sketch[0]) == len(kept)
    everything_or_one = method("mod_p", {"p": 1000}, SECRET)
    assert int(everything_or_one.sign(PageText("a b c d e f")).sketch[0]) == 1
    assert similarity("mod_p", "a b c d e f", "g h i j k l", p=1000) == 0


def test_few_shingles_are_compared_exactly_and_a_text_that_has_none_equals_itself() -> None:
    assert similarity("bottom_k", words(0, 44), words(10, 44)) == 0.75
    for name in ("banding", "bottom_k", "mod_p", "one_permutation", "supershingles"):
        assert similarity(name, "two words", "two words") == 1.0
        assert similarity(name, "two words", "other words") < 0.1


@given(st.sets(st.integers(0, (1 << 64) - 1), min_size=1, max_size=60), st.integers(1, 4))
def test_class_keys_hash_the_least_value_of_each_class(values: set[int], rows: int) -> None:
    bands, seed = 3, 5
    ordered = np.array(sorted(values), np.uint64)
    count = bands * rows
    found = class_keys(ordered, ordered % np.uint64(count), bands, rows, seed)
    least = [0xFFFFFFFF] * count
    for value in values:
        least[value % count] = min(least[value % count], value >> 32)
    for band in range(bands):
        own = least[band * rows : (band + 1) * rows]
        data = b"".join(value.to_bytes(4, "little") for value in own)
        expected = mmh3.hash64(data, seed + band, signed=False)[0]
        assert found[band] == (ABSENT_KEY if set(own) == {0xFFFFFFFF} else expected)


# ---- bags of words ---------------------------------------------------------------------------


@given(st.one_of(FEW_WORDS.map(" ".join), st.text()), st.integers(1, 3), st.integers(1, 4))
def test_words_sign_words_and_how_often_each_came_before(text: str, bands: int, rows: int) -> None:
    text = text.encode("utf-8", "replace").decode()
    own = method("words", {"bands": bands, "rows": rows}, SECRET).sign(PageText(text))
    seeds = plain.derive_seeds(SECRET, 1, bands * rows)
    found = tokens(text)
    bag = {
        plain.murmur(f"{word} {found[:place].count(word)}".encode(), seeds.token_seed)
        for place, word in enumerate(found)
    }
    assert list(own.keys) == plain.band_keys(bag, seeds, bands, rows)
    assert own.sketch.tolist() == plain.pack(plain.sketch_hashes(bag, seeds))


def test_bags_at_the_threshold_share_a_key() -> None:
    one = method("words", {}, SECRET)
    found = 0
    for first in range(200):  # 400 words of 500 in both
        both = [f"{first} w{i}" for i in range(200)]
        pair = (" ".join([*both, *(f"{side}{i}" for i in range(50))]) for side in "ab")
        keys = [set(one.sign(PageText(text)).keys) for text in pair]
        found += bool(keys[0] & keys[1])
    assert found >= 188, "98.8 % are expected"


@given(st.lists(st.booleans(), min_size=6, max_size=6))
def test_a_megashingle_is_equal_exactly_if_two_supershingles_are(equal: list[bool]) -> None:
    first = list(range(100, 106))
    second = [a if same else a + 50 for a, same in zip(first, equal, strict=True)]
    shared = set(megashingles_of(first, 3)) & set(megashingles_of(second, 3))
    assert len(shared) == sum(1 for _ in combinations(range(sum(equal)), 2))
    score = sketch_similarity(int(Measure.SLOTS), pack_slots(first), pack_slots(second))
    assert (score >= round(choose("megashingles").threshold * 10_000)) == bool(shared)


# ---- chances ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resemblance", "two_of_six", "one_of_six"),
    [(0.8, 0.026, 0.237), (0.9, 0.415, 0.790), (0.95, 0.879, 0.982)],
)
def test_supershingles_find_as_many_pairs_as_the_binomial_says(
    resemblance: float, two_of_six: float, one_of_six: float
) -> None:
    """Min-hashes of a pair are each equal with the probability of its resemblance."""
    random, pairs, blocks, rows = np.random.default_rng(int(resemblance * 100)), 20_000, 6, 14
    one, other = random.integers(0, 1 << 32, (2, pairs, blocks * rows), np.uint32)
    other = np.where(random.random(one.shape) < resemblance, one, other)
    hashed = [np.array([block_hashes(each, rows, 1) for each in side]) for side in (one, other)]
    equal = (hashed[0] == hashed[1]).sum(axis=1)
    for least, expected in ((2, two_of_six), (1, one_of_six)):
        error = (expected * (1 - expected) / pairs) ** 0.5
        assert (equal >= least).mean() == pytest.approx(expected, abs=4 * error + 0.0005)
