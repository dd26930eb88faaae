"""Replays in which records fail: runs that stop early, dead letters judged again, what is said."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.growing_index import everything
from tests.helpers.place import Place, lines, page

FIELDS = ("--fields", '{"url": "/uri", "body": "/html"}')


def crawled(number: int, **more: Any) -> bytes:
    """Return a page whose fields have other names than the default mapping's."""
    message = json.loads(page(number))
    renamed = {"uri": message["url"], "html": message["body"], "meta": {"status": 200}, **more}
    return json.dumps(renamed).encode() + b"\n"


def summary(place: Place, *arguments: str | Path, code: int = 0) -> dict[str, Any]:
    """Replay; return the summary. Where dead letters are all that came, the run has failed."""
    file = place.folder / "summary"
    returned = place.replay(*arguments, "--summary", file)
    found: dict[str, Any] = json.loads(file.read_bytes())
    only_dead = bool(found["dead_letters"]) and not found["pages"]
    assert returned == (code or int(only_dead))
    return found


@pytest.mark.parametrize("count", [10, 2_000])
def test_first_records_that_all_fail_alike_end_the_run_and_leave_nothing(
    place: Place, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = place.write("pages.jsonl", *(crawled(i) for i in range(count)))
    before = everything(place.folder)
    assert place.replay(pages) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1, said
    assert f"The first {count:,} records of {pages} all fail" in said
    for words in ("missing_url", "record 0", "/uri, /html, /meta/status", "/url", "--keep-going"):
        assert words in said
    assert "fox" not in said, "names of fields only"
    assert everything(place.folder) == before
    found = summary(place, pages, *FIELDS)
    assert (found["pages"], found["total"]["dead"]) == (count, {})


def test_keep_going_makes_dead_letters(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    pages = place.write("pages.jsonl", *(crawled(i) for i in range(30)))
    assert summary(place, pages, "--keep-going")["dead_letters"] == {"missing_url": 30}
    said = capsys.readouterr().err
    assert "No page was judged: of 30 records, 30 became dead letters" in said
    assert f"missing_url (30), for example record 0 of {pages}" in said
    assert place.replay(pages) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "30 of them dead letters; give their file as PAGES to judge these again" in out


@pytest.mark.parametrize(
    "records",
    [
        [crawled(1), b"{broken\n"] * 6,
        [*[crawled(i) for i in range(20)], page(1)],
        [b'{"url": 1, "body": "b"}\n', b'{"url": "http://a/", "body": 1}\n'] * 6,
        [crawled(i) for i in range(9)],
    ],
    ids=["two codes", "a page in the end", "two fields", "too few"],
)
def test_records_that_fail_in_different_ways_or_are_few_do_not_end_the_run(
    place: Place, records: Sequence[bytes]
) -> None:
    found = summary(place, place.write("pages.jsonl", *records))
    assert found["pages"] + sum(found["dead_letters"].values()) == len(records)
    assert len(lines(Path(f"{place.verdicts}.dead.jsonl"))) == sum(found["dead_letters"].values())


def test_a_second_source_that_fails_ends_the_run_and_what_was_before_stays(place: Place) -> None:
    good = place.write("a.jsonl", *map(page, range(20)))
    bad = place.write("b.jsonl", *map(crawled, range(20)))
    few = place.write("c.jsonl", *map(crawled, range(9)))
    assert place.replay(good, bad) == 2
    assert len(lines(place.verdicts)) == 20
    state = everything(place.folder)
    assert place.replay(bad) == 2
    assert everything(place.folder) == state
    found = summary(place, good, few)
    assert (found["sources_done_before"], found["dead_letters"]) == (1, {"missing_url": 9})
    assert place.replay(bad, *FIELDS) == 0
    assert len(lines(place.verdicts)) == 40


def test_a_source_that_was_read_under_this_mapping_before_is_not_held_up(place: Place) -> None:
    pages = place.write("pages.jsonl", *map(page, range(20)))
    assert place.replay(pages) == 0
    with pages.open("ab") as file:
        file.writelines(map(crawled, range(50)))
    assert summary(place, pages)["dead_letters"] == {"missing_url": 50}


def test_dead_letters_are_an_input_whose_records_are_judged_again(place: Place) -> None:
    records = [page(1), *[crawled(i) for i in range(2, 40)], b"{broken\n", page(41), crawled(41)]
    pages = place.write("pages.jsonl", *records)
    assert summary(place, pages)["dead_letters"] == {"missing_url": 39, "invalid_json": 1}
    letters = Path(f"{place.verdicts}.dead.jsonl")
    pages.unlink()
    again = ("--dead-letters", place.folder / "again.jsonl", *FIELDS)
    found = summary(place, letters, *again)
    assert (found["pages"], found["dead_letters"]) == (39, {"invalid_json": 1})
    assert found["duplicates"] == 1, "compared with what was judged before"
    verdicts = lines(place.verdicts)[2:]
    assert [(v["page"]["topic"], v["page"]["offset"]) for v in verdicts] == [
        (str(letters), offset) for offset in [*range(38), 39]
    ]
    assert verdicts[-1]["representative"]["page"]["topic"] == str(pages)
    [still] = lines(place.folder / "again.jsonl")
    assert still["page"] == {"topic": str(letters), "partition": 0, "offset": 38}
    assert still["value_base64"] == lines(letters)[38]["value_base64"]
    assert summary(place, letters, *again)["records"] == 0
    third = summary(place, place.folder / "again.jsonl", "--keep-going", "--dead-letters",
                    place.folder / "third.jsonl")  # fmt: skip
    assert third["dead_letters"] == {"invalid_json": 1}


def test_dead_letters_that_do_not_hold_their_record_stay_what_they_are(place: Place) -> None:
    archive = place.write("pages.warc", b"WARC/1.0\r\nWARC-Type: response\r\n\r\n")
    long = place.write("long.jsonl", crawled(2), b'{"url": "%s"}\n' % (b"x" * 70_000), crawled(3))
    common = ("--keep-going", "--page-bytes-max", "65536")
    assert place.replay(archive, long, *common) == 1
    letters = Path(f"{place.verdicts}.dead.jsonl")
    before = lines(letters)
    assert [each["truncated"] for each in before] == [False, False, True, False]
    found = summary(place, letters, *FIELDS, "--dead-letters", place.folder / "again")
    after = lines(place.folder / "again")
    assert found["pages"] == 2
    assert [{**each, "page": None} for each in after] == [
        {**before[number], "page": None} for number in (0, 2)
    ]


def test_an_index_does_not_take_its_own_dead_letters_while_it_writes_them(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.replay(place.write("pages.jsonl", page(1), crawled(2))) == 0
    before = everything(place.folder)
    assert place.replay(Path(f"{place.verdicts}.dead.jsonl"), *FIELDS) == 2
    assert "is both input and output" in capsys.readouterr().err
    assert everything(place.folder) == before


def test_dead_letters_can_be_a_failure(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    pages = place.write("pages.jsonl", *[page(i) for i in range(6)], *[b"{broken\n"] * 4)
    outs = ("--overwrite", "--verdicts", place.verdicts, "--fail-on-dead-letters")
    assert place.streamer("replay", pages, *outs, "0.4") == 0
    assert "Most" not in capsys.readouterr().err
    assert place.streamer("replay", pages, *outs, "0.39") == 4
    assert "40.00% of the records are dead letters" in capsys.readouterr().err
    more = place.write("more.jsonl", page(1), b"\n", *[b"{broken\n"] * 9)
    assert place.streamer("replay", more, *outs, "1") == 0
    said = capsys.readouterr().err
    assert "Most records became dead letters: 9 of 11, most often with invalid_json (9)" in said
    assert f"for example record 2 of {more}" in said


def test_a_short_source_that_fails_otherwise_does_not_hide_one_that_fails_throughout(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    short = place.write("a.jsonl", b"{broken\n")
    bad = place.write("b.jsonl", *map(crawled, range(20)))
    assert place.replay(short, bad) == 2
    assert f"The first 20 records of {bad} all fail with missing_url" in capsys.readouterr().err
    assert len(lines(Path(f"{place.verdicts}.dead.jsonl"))) == 1, "that of the short one"
