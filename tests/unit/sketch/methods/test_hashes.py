"""Hash functions give their published values at seed 0, and others at every other seed."""

import zlib

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.sketch.methods import hashes
from tests.oracles.plain_signature import fmix

ALPHABET = b"abcdefghijklmnopqrstuvwxyz1234567890"  # the collection's own test key
WHOLE = 1 << hashes.DEGREE | hashes.POLYNOMIAL


def remainder(dividend: int, divisor: int) -> int:
    """Divide polynomials over GF(2) bit by bit."""
    while dividend.bit_length() >= divisor.bit_length():
        dividend ^= divisor << (dividend.bit_length() - divisor.bit_length())
    return dividend


def times(one: int, other: int) -> int:
    product = 0
    for bit in range(hashes.DEGREE):
        product ^= one << bit if other >> bit & 1 else 0
    return remainder(product, WHOLE)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rs", 4097835502), ("js", 1651003062), ("pjw", 126631744), ("elf", 126631744),
        ("bkdr", 3153586616), ("sdbm", 3449571336), ("djb", 729241521), ("ap", 882643939),
        ("md5", 0x7F7D52A001B9D2C71B6BAE1F189F41F3),
        ("sha1", 0xDEA3C171ABCDFB3E8380D6860630F618EB6E074F),
    ],
)  # fmt: skip
def test_a_hash_of_the_collections_key_has_the_published_value(name: str, value: int) -> None:
    assert hashes.HASHES[name](ALPHABET, 0) == value


def test_crc32_has_the_published_values() -> None:
    """Tables print the same bits signed."""
    for text, value in ((b"My war is over.", 1759088479), (b"My war is over!", -127495474)):
        assert hashes.HASHES["crc32"](text, 0) == value % (1 << 32)


@given(st.binary(max_size=40), st.integers(0, (1 << 32) - 1))
def test_functions_that_take_a_seed_get_it_as_their_library_does(data: bytes, seed: int) -> None:
    assert hashes.HASHES["mmh3"](data, seed) == mmh3.hash64(data, seed, signed=False)[0]
    assert hashes.HASHES["mmh3-32"](data, seed) == mmh3.hash(data, seed, signed=False)
    assert hashes.HASHES["mmh3-128"](data, seed) == mmh3.hash128(data, seed, signed=False)
    assert hashes.HASHES["crc32"](data, seed) == zlib.crc32(data, seed)


@given(st.binary(max_size=40))
def test_rabins_fingerprint_is_the_remainder_of_the_text_as_a_polynomial(data: bytes) -> None:
    dividend = 1 << 8 * len(data) | int.from_bytes(data, "big")
    assert hashes.rabin64(data) == remainder(dividend, WHOLE)
    assert hashes.HASHES["rabin"](data, 0) == hashes.rabin64(data)


def test_rabins_polynomial_is_irreducible() -> None:
    """By Rabin's test: x**(2**64) = x, and x**(2**32) - x has no factor in common with it."""
    powers = [2]
    for _ in range(hashes.DEGREE):
        powers.append(times(powers[-1], powers[-1]))
    assert powers[hashes.DEGREE] == 2
    one, other = WHOLE, powers[hashes.DEGREE // 2] ^ 2
    while other:
        one, other = other, remainder(one, other)
    assert one == 1


@pytest.mark.parametrize("name", hashes.HASHES)
def test_every_hash_depends_on_its_seed_and_fits_its_width(name: str) -> None:
    seeds = [0, 1, 2, (1 << 32) + 1, (1 << 64) - 1]
    assert len({hashes.HASHES[name](b"a shingle of words", seed) for seed in seeds}) == len(seeds)
    widths = {"mmh3-128": 128, "md5": 128, "sha1": 160}
    bits = 32 if name in hashes.NARROW else widths.get(name, 64)
    hashed = (hashes.HASHES[name](ALPHABET[:n], seed) for n in range(36) for seed in seeds)
    longest = max(value.bit_length() for value in hashed)
    assert bits - 8 <= longest <= bits


@given(st.integers(0, (1 << 64) - 1))
def test_the_finaliser_is_the_kernels(word: int) -> None:
    assert hashes.mix64(word) == fmix(word)
