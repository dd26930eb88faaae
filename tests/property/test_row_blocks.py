"""Blocks of rows: packed and gathered by kernels, held against reading a row at a time."""

from __future__ import annotations

import functools
import itertools
import random

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.index.checksum import PADDING, Bytes, Places, damaged_block
from streamer.index.row_blocks import (
    ROWS_A_BLOCK,
    RowPlaces,
    agree,
    gather_marks,
    gather_rows,
    pack_rows,
)
from streamer.sketch.resemblance import SKETCH_WORDS
from tests.oracles.row_block import RowBlock

U64 = st.integers(0, 2**64 - 1)
rows_of = st.lists(st.tuples(U64, U64, st.binary(max_size=30)), max_size=3 * ROWS_A_BLOCK + 2)
Rows = list[tuple[int, int, bytes]]


def packed(rows: Rows, keys: int) -> list[bytes]:
    seeds = np.array([seed for _, seed, _ in rows], np.uint64)
    sketches = seeds.repeat(SKETCH_WORDS).reshape(-1, SKETCH_WORDS)
    sketches[:, 0] = np.arange(len(rows))
    refs = np.array([ref for ref, _, _ in rows], np.uint64)
    own = seeds.repeat(keys).reshape(-1, keys)
    own[:, 1:2] = np.arange(len(rows))[:, None]
    blocks = []
    for data, lengths in pack_rows(refs, sketches, own, masks_of(rows), [url for *_, url in rows]):
        limits = np.cumsum([0, *lengths.tolist()]).tolist()
        assert limits[-1] == len(data)
        blocks += [data[start:end].tobytes() for start, end in itertools.pairwise(limits)]
    return blocks


def masks_of(rows: Rows) -> npt.NDArray[np.uint64]:
    """Return which keys rows are posted under: some by their refs."""
    return np.array([ref & 0xF for ref, _, _ in rows], np.uint64)


def joined(blocks: list[bytes]) -> tuple[Bytes, Places]:
    """Return blocks as they are read from a row file, and their limits."""
    limits = np.cumsum([0, *map(len, blocks)])
    return np.frombuffer(b"".join([*blocks, PADDING]), np.uint8), limits


@settings(max_examples=100, deadline=None)
@given(rows_of, st.integers(1, 4), st.randoms())
def test_rows_are_gathered_from_blocks_as_if_read_one_by_one(
    rows: Rows, keys: int, draw: random.Random
) -> None:
    blocks = packed(rows, keys)
    assert len(blocks) == -(-len(rows) // ROWS_A_BLOCK)
    slots = np.array(draw.choices(range(len(rows)), k=20) if rows else [], np.int64)
    first = slots - slots % ROWS_A_BLOCK
    data, limits = joined(blocks)
    places = RowPlaces(
        data,
        limits[slots // ROWS_A_BLOCK],
        np.minimum(ROWS_A_BLOCK, len(rows) - first),
        np.full(len(slots), keys),
        slots - first,
    )
    kept, marks = gather_rows(places), gather_marks(places, keys)
    for i, slot in enumerate(slots.tolist()):
        start = slot - slot % ROWS_A_BLOCK
        block = RowBlock(blocks[slot // ROWS_A_BLOCK], min(ROWS_A_BLOCK, len(rows) - start), keys)
        assert (kept.refs[i], kept.urls[i]) == (rows[slot][0], rows[slot][2])
        assert (block.ref(slot - start), block.url(slot - start)) == (kept.refs[i], kept.urls[i])
        assert block.marks(slot - start).tolist() == marks[i].tolist()
        own = [rows[slot][1] & 0xFFFFFFFF if place != 1 else slot for place in range(keys)]
        assert marks[i].tolist() == [
            mark if rows[slot][0] >> place & 1 else 0 for place, mark in enumerate(own)
        ]
        assert block.sketch(slot - start).tolist() == kept.sketches[i].tolist()
        assert kept.sketches[i, 0] == slot


@settings(max_examples=100, deadline=None)
@given(rows_of, st.integers(1, 4), st.randoms())
def test_a_row_agrees_with_keys_whose_lower_half_is_one_of_its_marks(
    rows: Rows, keys: int, draw: random.Random
) -> None:
    count = min(len(rows), ROWS_A_BLOCK)
    data, limits = joined(packed(rows, keys)[:1])
    slots, same = np.arange(count), np.full(count, keys)
    places = RowPlaces(data, limits[:1].repeat(count), np.full(count, count), same, slots)
    marks = gather_marks(places, keys).tolist()
    upper = draw.getrandbits(32) << 32
    asked = [draw.choice([*own, draw.getrandbits(32)]) for own in marks]
    found = agree(places, np.array([upper | half for half in asked], np.uint64))
    assert found.tolist() == [half in own for half, own in zip(asked, marks, strict=True)]


def sum_of(data: bytes) -> int:
    """Return the checksum of a block, word by word with whole numbers."""
    factor, mask = 0x9E3779B97F4A7C15, 2**64 - 1
    lanes = [len(data), 1, 2, 3]
    whole = len(data) // 32 * 32
    words = np.frombuffer(data, "<u8", len(data) // 8).tolist()
    for place, word in enumerate(words):
        lane = place % 4 if 8 * place < whole else 0
        lanes[lane] = (lanes[lane] * factor + word) & mask
    if rest := data[len(data) // 8 * 8 :]:
        lanes[1] = (lanes[1] * factor + int.from_bytes(rest, "little")) & mask
    return functools.reduce(lambda total, lane: (total * factor + lane) & mask, lanes)


@settings(max_examples=100, deadline=None)
@given(rows_of.filter(bool), st.integers(1, 4), st.data())
def test_a_block_ends_with_its_checksum_and_any_other_byte_is_told(
    rows: Rows, keys: int, draw: st.DataObject
) -> None:
    blocks = packed(rows, keys)
    assert [int.from_bytes(block[-8:], "little") for block in blocks] == [
        sum_of(block[:-8]) for block in blocks
    ]
    assert damaged_block(*joined(blocks)) == -1
    bad = draw.draw(st.integers(0, len(blocks) - 1))
    place = draw.draw(st.integers(0, len(blocks[bad]) - 1))
    changed = bytearray(blocks[bad])
    changed[place] ^= draw.draw(st.integers(1, 255))
    assert damaged_block(*joined([*blocks[:bad], bytes(changed), *blocks[bad + 1 :]])) == bad
    assert damaged_block(*joined([bytes(len(blocks[0]))])) == 0, "a hole"
