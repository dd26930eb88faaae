"""Blocks of rows: packed and gathered by kernels, held against reading a row at a time."""

import random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.index.codec import KEYS, ROWS, entry_key
from streamer.index.ports import FlushedRows
from streamer.index.postings import Bytes, Places
from streamer.sketch.resemblance import SKETCH_WORDS
from streamer.stored import row_blocks
from streamer.stored.row_blocks import ROWS_A_BLOCK, SLOTS_A_KEY_BLOCK, gather_halves, unpack_keys
from tests.oracles.row_block import RowBlock

U64 = st.integers(0, 2**64 - 1)
rows_of = st.lists(st.tuples(U64, U64, st.binary(max_size=30)), max_size=3 * ROWS_A_BLOCK + 2)
Rows = list[tuple[int, int, bytes]]


def flushed(rows: Rows, keys: int) -> FlushedRows:
    seeds = np.array([seed for _, seed, _ in rows], np.uint64)
    sketches = seeds.repeat(SKETCH_WORDS).reshape(-1, SKETCH_WORDS)
    sketches[:, 0] = np.arange(len(rows))
    refs = np.array([ref for ref, _, _ in rows], np.uint64)
    own = seeds.repeat(keys).reshape(-1, keys)
    own[:, 1:2] = np.arange(len(rows))[:, None]
    numbers, urls = np.arange(len(rows)) * 3, [url for *_, url in rows]
    times = seeds.view(np.int64)
    return FlushedRows(numbers, refs, sketches, own, masks_of(rows), urls, times, b"")


def packed(rows: Rows, keys: int) -> list[bytes]:
    """Return the blocks of rows, which begin with the seventh."""
    entries = list(row_blocks.row_entries(flushed(rows, keys), 7 * ROWS_A_BLOCK))
    assert [key for key, _ in entries] == [entry_key(ROWS, 7 + i) for i in range(len(entries))]
    return [block for _, block in entries]


def masks_of(rows: Rows) -> npt.NDArray[np.uint64]:
    """Return which keys rows are posted under: some by their refs."""
    return np.array([ref & 0xF for ref, _, _ in rows], np.uint64)


def joined(blocks: list[bytes]) -> tuple[Bytes, Places]:
    """Return blocks as they are read from a row file, and their limits."""
    limits = np.cumsum([0, *map(len, blocks)])
    return np.frombuffer(b"".join([*blocks, row_blocks.PADDING]), np.uint8), limits


@settings(max_examples=100, deadline=None)
@given(rows_of, st.integers(1, 4), st.randoms())
def test_rows_of_blocks_are_those_read_singly(rows: Rows, keys: int, draw: random.Random) -> None:
    blocks = packed(rows, keys)
    assert len(blocks) == -(-len(rows) // ROWS_A_BLOCK)
    slots = np.array(draw.choices(range(len(rows)), k=20) if rows else [], np.int64)
    first = slots - slots % ROWS_A_BLOCK
    data, limits = joined(blocks)
    places = row_blocks.RowPlaces(data, limits[slots // ROWS_A_BLOCK], slots - first)
    kept, halves = row_blocks.gather_rows(places), gather_halves(places, keys)
    for i, slot in enumerate(slots.tolist()):
        start = slot - slot % ROWS_A_BLOCK
        block = RowBlock(blocks[slot // ROWS_A_BLOCK])
        assert (kept.refs[i], kept.urls[i]) == (rows[slot][0], rows[slot][2])
        assert (block.ref(slot - start), block.url(slot - start)) == (kept.refs[i], kept.urls[i])
        assert block.time(slot - start) == kept.times[i] == np.uint64(rows[slot][1]).view(np.int64)
        assert block.halves(slot - start).tolist() == halves[i].tolist()
        own = [rows[slot][1] & 0xFFFFFFFF if place != 1 else slot for place in range(keys)]
        assert halves[i].tolist() == [
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
    places = row_blocks.RowPlaces(data, limits[:1].repeat(count), np.arange(count))
    halves = gather_halves(places, keys).tolist()
    upper = draw.getrandbits(32) << 32
    asked = [draw.choice([*own, draw.getrandbits(32)]) for own in halves]
    found = row_blocks.agree(places, np.array([upper | half for half in asked], np.uint64))
    assert found.tolist() == [half in own for half, own in zip(asked, halves, strict=True)]


@settings(max_examples=50, deadline=None)
@given(
    rows_of, st.integers(1, 4), st.sampled_from([1, 2, SLOTS_A_KEY_BLOCK]), st.integers(0, 2**40)
)
def test_keys_come_back_with_their_rows_and_slots(
    rows: Rows, keys: int, repeated: int, many: int
) -> None:
    given_rows = flushed(rows * repeated, keys)
    given_rows.rows += many
    rows_end = int(given_rows.rows.max(initial=0)) + 1
    entries = list(row_blocks.key_entries(given_rows, 5 * SLOTS_A_KEY_BLOCK))
    blocks = [block for _, block in entries]
    assert [key for key, _ in entries] == [entry_key(KEYS, 5 + i) for i in range(len(entries))]
    found = unpack_keys(5, blocks, rows_end)
    if not rows:
        assert found is None
        return
    assert found is not None
    assert found.rows.tolist() == given_rows.rows.tolist()
    left = np.uint64(24)
    assert found.keys.tolist() == (given_rows.keys >> left << left).tolist()
    whole = found.whole(given_rows.keys.astype(np.uint32))
    assert whole.keys.tolist() == given_rows.keys.tolist()
    assert found.masks.tolist() == given_rows.masks.tolist()
    first = 5 * SLOTS_A_KEY_BLOCK
    assert found.slots.tolist() == list(range(first, first + len(given_rows.rows)))
    with pytest.raises(ValueError, match="5"):
        unpack_keys(5, [blocks[0][:-1]], rows_end)
