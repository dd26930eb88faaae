"""What is said of verdicts that are not those that a test expects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamer import Verdict
from streamer.model import Basis, Container, Decision, Location, NearestKept, Representative
from streamer.testing import Pages, Replayer, assert_same_verdicts
from streamer.testing.verdicts import check_same_files

TEXT = " ".join(f"word{number}" for number in range(100))
NEAR = TEXT.replace("word50", "other")


def verdict(offset: int, *, of: int | None = None, **fields: Any) -> Verdict:
    place, url = Location("crawl.jsonl", 0, offset), f"http://a.example/{offset}"
    other = (
        None if of is None else Representative(Location("crawl.jsonl", 0, of), "http://a.example/")
    )
    own = {
        "verdict": Decision.UNIQUE if of is None else Decision.DUPLICATE,
        "basis": Basis.SIGNATURE,
        "similarity": None if of is None else 0.9,
        "representative": other,
        "same_url": False,
        "text_bytes": 10,
        "index": "fingerprint",
    }
    return Verdict(place, url, **{**own, **fields})


def difference(got: Any, expected: Any) -> list[str]:
    with pytest.raises(AssertionError) as raised:
        assert_same_verdicts(got, expected)
    return str(raised.value).splitlines()


def test_neither_the_order_nor_a_verdict_that_comes_again_counts() -> None:
    verdicts = [verdict(n) for n in range(4)]
    assert_same_verdicts([*reversed(verdicts), verdicts[1]], iter(verdicts))
    assert_same_verdicts([], [])


def test_another_decision_is_shown_with_both_verdicts_and_the_reason() -> None:
    assert difference([verdict(0), verdict(1, of=0)], [verdict(0), verdict(1)]) == [
        "The verdicts on 1 of 2 pages differ.",
        "",
        "crawl.jsonl:1 http://a.example/1",
        "  expected: unique (signature)",
        "  got:      duplicate of crawl.jsonl:0 http://a.example/ (signature, similarity 0.9)",
        "  The similarity to the nearest kept page reaches the threshold.",
    ]
    near = NearestKept(Location("crawl.jsonl", 0, 0), "http://a.example/", similarity=0.7)
    said = difference([verdict(1, nearest=near)], [verdict(1, nearest=None)])
    assert said[3:5] == [
        "  expected: unique (signature)",
        "  got:      unique (signature, nearest to crawl.jsonl:0 http://a.example/ by 0.7)",
    ]
    inside = Container(Location("crawl.jsonl", 0, 0), "http://a.example/", containment=0.95)
    said = difference([verdict(1, contained_in=inside)], [verdict(1)])
    assert (
        said[4] == "  got:      unique (signature, 0.95 of it in crawl.jsonl:0 http://a.example/)"
    )
    said = difference([verdict(1, of=0, basis=Basis.CONTENT)], [verdict(1)])
    assert said[-1] == "  The page has the words of that kept page, in the same order."


def test_another_field_is_shown_by_its_name() -> None:
    assert difference([verdict(0, carried={"a": 1})], [verdict(0)])[3:] == [
        "  expected: unique (signature)",
        "  got:      unique (signature)",
        "  carried: expected {}, got {'a': 1}",
    ]


def test_a_page_with_a_verdict_on_one_side_only_is_shown() -> None:
    said = difference([verdict(0), verdict(1)], [verdict(0), verdict(2)])
    assert said[0] == "The verdicts on 2 of 3 pages differ."
    assert said[2:5] == [
        "crawl.jsonl:2 http://a.example/2",
        "  expected: unique (signature)",
        "  got:      no verdict",
    ]
    assert said[6:] == [
        "crawl.jsonl:1 http://a.example/1",
        "  expected: no verdict",
        "  got:      unique (signature)",
    ]


def test_two_different_verdicts_on_a_page_are_both_shown() -> None:
    said = difference([verdict(1), verdict(1, basis=Basis.TOO_SHORT)], [verdict(1)])
    assert said[4] == "  got:      unique (signature) and unique (too_short)"


def test_of_many_differences_the_first_are_shown_and_the_others_counted() -> None:
    said = difference([verdict(n) for n in range(20)], [verdict(n, of=0) for n in range(20)])
    assert said[0] == "The verdicts on 20 of 20 pages differ."
    assert [line for line in said if "http://a.example/4" in line]
    assert not [line for line in said if "http://a.example/5" in line]
    assert said[-1] == "... and 15 more."


def test_what_a_replay_has_found_unique_is_explained_from_its_index(
    streamer_replay: Replayer,
) -> None:
    pages = Pages([("a", TEXT), ("b", NEAR), b'{"url": "c"}', ("d", "few words")])
    got = streamer_replay(pages, threshold=0.99)
    first, second, short = got
    near = msgspec.structs.replace(
        second, verdict=Decision.DUPLICATE, representative=Representative(first.page, "a")
    )
    said = difference(got, [first, near, short])
    similarity = said[-1].split()[-3]
    assert said[-1] == (
        "  The similarity to the nearest kept page is below the threshold. "
        f"a: {similarity} threshold 0.99."
    )
    assert 0.8 < float(similarity.rstrip(",")) < 0.99
    letter = msgspec.structs.replace(first, page=Location("pages.jsonl", 0, 2), url="c")
    assert difference(got, [*got, letter])[-1] == "  It is a dead letter: missing_body."


def replayed(folder: Path, *verdicts: Verdict, dead_letters: bytes = b"") -> Path:
    folder.mkdir()
    lines = b"".join(msgspec.json.encode(each) + b"\n" for each in verdicts)
    (folder / "verdicts.jsonl").write_bytes(lines)
    (folder / "dead_letters.jsonl").write_bytes(dead_letters)
    return folder


def test_a_killed_replay_with_other_bytes_fails(tmp_path: Path) -> None:
    quiet = replayed(tmp_path / "quiet", verdict(0), verdict(1))
    check_same_files(replayed(tmp_path / "same", verdict(0), verdict(1)), quiet)
    with pytest.raises(
        AssertionError, match=r"(?s)give others:\nThe verdicts on 1 of 2.*a\.example/1"
    ):
        check_same_files(replayed(tmp_path / "lost", verdict(0)), quiet)
    again = replayed(tmp_path / "again", verdict(0), verdict(1), verdict(1))
    with pytest.raises(AssertionError, match=r"verdicts\.jsonl has other bytes"):
        check_same_files(again, quiet)
