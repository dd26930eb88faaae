"""The witness locks an index, under its path."""

from pathlib import Path

import pytest

from streamer.errors import StoreUnavailable
from streamer.stored.witness import NAME, Witness


def test_a_witness_is_held_under_its_path_though_another_was_removed_there(tmp_path: Path) -> None:
    first = Witness(tmp_path)
    (tmp_path / NAME).unlink()
    second = Witness(tmp_path)
    with pytest.raises(StoreUnavailable, match="open in this process already"):
        Witness(tmp_path)
    first.close()
    with pytest.raises(StoreUnavailable, match="open in this process already"):
        Witness(tmp_path)
    second.close()
