"""What the database holds, as bytes: keys in the order of their numbers, states by their fields."""

import msgspec
import pytest

from streamer.index import codec
from streamer.index.codec import ROWS, entry_key, format_of, pack_state, unpack_state
from streamer.index.messages import IndexSettings
from streamer.index.ports import Horizon

NUMBERS = [0, 1, 255, 256, (1 << 32) - 1, 1 << 32, (1 << 63) - 1]


def state(**changed: object) -> codec.ShardState:
    fields = {
        "settings": IndexSettings(threshold=0.9).model_dump(), "horizon": Horizon(5, 1),
        "verdicts": 3, "applied": 9, "next_row": 2, "refused": 1, "missing": {"pages:1": 9},
        "generation": (1, 2, 3), "forgotten": codec.PendingForget([("url", b"u", 2, "ask", 1)]),
        "positions": {"pages:0": 7, "config": 1}, **changed,
    }  # fmt: skip
    return msgspec.convert(fields, codec.ShardState)


def test_keys_of_many_blocks_are_those_of_each() -> None:
    assert codec.entry_keys(ROWS, NUMBERS) == [entry_key(ROWS, number) for number in NUMBERS]


def test_a_state_comes_back_and_equal_ones_have_equal_bytes() -> None:
    packed = pack_state(state())
    assert pack_state(unpack_state(packed)) == packed
    assert unpack_state(packed).positions == state().positions
    assert pack_state(state(positions={"config": 1, "pages:0": 7})) == packed
    assert pack_state(state(verdicts=4)) != packed


def test_the_format_of_a_state_is_read_without_knowing_the_rest_of_it() -> None:
    assert format_of(msgspec.msgpack.encode({"format": 999, "new": [1]})) == 999
    with pytest.raises(msgspec.MsgspecError):
        format_of(b"\xc1")
