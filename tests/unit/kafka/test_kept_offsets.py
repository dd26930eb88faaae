"""What is committed with an offset in verdicts: which verdicts are copied, and of which topics."""

from __future__ import annotations

import pytest

from streamer.kafka.kept_offsets import CopyProgress, decode_progress
from streamer.kafka.owner import SEQUENCE


def take(progress: CopyProgress, number: bytes | None) -> bool | None:
    return progress.take([("other", b"0:0"), (SEQUENCE, number)])


def test_a_repeated_verdict_is_no_new_one_at_any_shard() -> None:
    progress = CopyProgress("verdicts", "log")
    numbers = [b"0:3", b"0:5", b"1:0", b"0:3", b"0:5", b"1:0", b"0:6", b"1:9", b"1:8"]
    assert [take(progress, each) for each in numbers] == [
        True, True, True, False, False, False, True, True, False,
    ]  # fmt: skip
    assert progress.following == {0: 7, 1: 10}


@pytest.mark.parametrize("number", [None, b"", b"x:1", b"1:", b"1", b"-1:2"])
def test_a_message_without_a_number_is_no_verdict(number: bytes | None) -> None:
    progress = CopyProgress("verdicts", "log")
    assert take(progress, number) is None
    assert progress.take([]) is None
    assert progress.following == {}


def test_progress_is_committed_as_a_short_text() -> None:
    progress = CopyProgress("v" * 32, "l" * 32, dict.fromkeys(range(48), 1 << 40))
    text = progress.encode()
    assert decode_progress(text) == progress
    assert len(text) < 4096, "brokers take no more: offset.metadata.max.bytes"


@pytest.mark.parametrize("text", [None, "", "copied by hand", "{}", "[1]"])
def test_what_another_program_committed_says_nothing(text: str | None) -> None:
    assert decode_progress(text) is None
