"""What is said of verdicts that are not those that a test expects."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamer import Verdict
from streamer.model import Basis
from streamer.testing import assert_same_verdicts
from streamer.testing.replays import check_same_files
from tests.helpers.verdict_lines import unique, written


def difference(got: Any, expected: Any) -> list[str]:
    with pytest.raises(AssertionError) as raised:
        assert_same_verdicts(got, expected)
    return str(raised.value).splitlines()


def test_neither_the_order_nor_a_verdict_that_comes_again_counts() -> None:
    verdicts = [unique(n) for n in range(4)]
    assert_same_verdicts([*reversed(verdicts), verdicts[1]], iter(verdicts))


def test_pages_that_differ_are_shown_with_all_verdicts_on_them() -> None:
    one, other = unique(1), unique(2)
    short = msgspec.structs.replace(one, basis=Basis.TOO_SHORT)
    line = {id(each): msgspec.json.encode(each).decode() for each in (one, other, short)}
    assert difference([unique(0), one, short], [unique(0), one, other]) == [
        "The verdicts on 2 of 3 pages differ.",
        "",
        f"expected: {line[id(one)]}",
        f"got:      {line[id(one)]} and {line[id(short)]}",
        "",
        f"expected: {line[id(other)]}",
        "got:      no verdict",
    ]


def test_of_many_differences_the_first_are_shown_and_the_others_counted() -> None:
    said = difference([unique(n) for n in range(20)], [])
    assert said[0] == "The verdicts on 20 of 20 pages differ."
    assert sum(line.startswith("got:") for line in said) == 5
    assert said[-1] == "... and 15 more."


def replayed(folder: Path, *verdicts: Verdict) -> Path:
    folder.mkdir()
    written(folder / "verdicts.jsonl", *verdicts)
    (folder / "dead_letters.jsonl").write_bytes(b"")
    return folder


def test_a_killed_replay_with_other_bytes_fails(tmp_path: Path) -> None:
    quiet = replayed(tmp_path / "quiet", unique(0), unique(1))
    check_same_files(replayed(tmp_path / "same", unique(0), unique(1)), quiet)
    with pytest.raises(
        AssertionError, match=r"(?s)give others:\nThe verdicts on 1 of 2.*site1\.example/page-1"
    ):
        check_same_files(replayed(tmp_path / "lost", unique(0)), quiet)
    again = replayed(tmp_path / "again", unique(0), unique(1), unique(1))
    with pytest.raises(AssertionError, match=r"verdicts\.jsonl has other bytes"):
        check_same_files(again, quiet)
