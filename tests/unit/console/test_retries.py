from __future__ import annotations

import shlex
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import pytest

from streamer.console.retries import FileRetries, RetriedLetters, RetryState, TopicRetries
from streamer.console.view import QueryTooLong
from streamer.errors import InputError, SettingsError, StreamerError
from streamer.kafka.connection import Connection
from streamer.model import DeadLetter
from streamer.run.appending import AppendedFile, appending
from tests.helpers.verdict_lines import letter, place, unique, written

CUT = msgspec.structs.replace(letter(7), truncated=True)
OF_WARC = msgspec.structs.replace(letter(8), page=place(8, "crawl.warc.gz"))
LETTERS = [letter(3), letter(4), letter(5, "invalid_json"), CUT, OF_WARC]


@pytest.fixture
def retries(tmp_path: Path) -> FileRetries:
    files = written(tmp_path / "v.jsonl", unique(0)), written(tmp_path / "v.dead.jsonl", *LETTERS)
    return FileRetries(tmp_path / "again.dead.jsonl", files, tmp_path / "my index")


def chosen(tmp_path: Path) -> list[DeadLetter]:
    lines = (tmp_path / "again.dead.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=DeadLetter) for line in lines]


def test_one_record_or_all_of_a_code_are_chosen_once(retries: FileRetries, tmp_path: Path) -> None:
    assert retries.choose("missing_url", "pages.jsonl:4", 5) == RetriedLetters(sent=1)
    assert chosen(tmp_path) == [letter(4)]
    again = FileRetries(tmp_path / "again.dead.jsonl", [tmp_path / "v.dead.jsonl"], None)
    for found, counts in ((retries, RetriedLetters(1, 1, 2)), (again, RetriedLetters(0, 2, 2))):
        assert found.choose("missing_url", "", 5) == counts
    assert chosen(tmp_path) == [letter(4), letter(3)]
    assert retries.choose("missing_url", "pages.jsonl:5", 5) == RetriedLetters()


def test_the_command_judges_what_is_chosen(retries: FileRetries, tmp_path: Path) -> None:
    retries.choose("invalid_json", "", 5)
    assert retries.state.chosen == 1
    assert shlex.split(retries.state.command) == [
        "streamer", "replay", str(tmp_path / "again.dead.jsonl"),
        "--index", str(tmp_path / "my index"), "--verdicts", str(tmp_path / "v.jsonl"),
        "--dead-letters", str(tmp_path / "again.again.dead.jsonl"),
    ]  # fmt: skip


def test_a_line_that_is_being_written_is_left_for_later(
    retries: FileRetries, tmp_path: Path
) -> None:
    with (tmp_path / "v.dead.jsonl").open("ab") as file:
        file.write(msgspec.json.encode(letter(9))[:-20])
    assert retries.choose("missing_url", "", 5).sent == 2


def test_a_blank_line_is_passed_over_and_no_dead_letter_is_named(
    retries: FileRetries, tmp_path: Path
) -> None:
    with (tmp_path / "v.dead.jsonl").open("ab") as file:
        file.write(b"\n \n" + msgspec.json.encode(letter(9)) + b"\n")
    assert retries.choose("missing_url", "", 5).sent == 3
    with (tmp_path / "v.dead.jsonl").open("ab") as file:
        file.write(b"{}\n")
    with pytest.raises(InputError, match=r"v\.dead\.jsonl:9: not a dead letter"):
        retries.choose("missing_url", "", 5)
    one = retries.choose("missing_url", "pages.jsonl:3", 5)  # nothing behind it is read
    assert one == RetriedLetters(before=1)


@pytest.mark.parametrize("cut", [1, 20])
def test_what_a_kill_has_cut_short_is_written_again(
    retries: FileRetries, tmp_path: Path, cut: int
) -> None:
    out = tmp_path / "again.dead.jsonl"
    retries.choose("missing_url", "", 5)
    out.write_bytes(out.read_bytes()[:-cut])
    assert retries.state.chosen == 1
    again = FileRetries(out, [tmp_path / "v.dead.jsonl"], None)
    assert again.choose("missing_url", "", 5) == RetriedLetters(1, 1, 2)
    assert chosen(tmp_path) == [letter(3), letter(4)]


def test_two_consoles_choose_a_dead_letter_once(
    retries: FileRetries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = FileRetries(tmp_path / "again.dead.jsonl", [tmp_path / "v.dead.jsonl"], None)

    def later(path: Path) -> AbstractContextManager[AppendedFile]:  # the other has the lock first
        monkeypatch.undo()
        assert other.choose("missing_url", "pages.jsonl:3", 5) == RetriedLetters(sent=1)
        return appending(path)

    monkeypatch.setattr("streamer.console.retries.appending", later)
    assert retries.choose("missing_url", "", 5) == RetriedLetters(1, 1, 2)
    assert chosen(tmp_path) == [letter(3), letter(4)]


def test_choosing_ends_in_time_and_appends_all_or_nothing(
    retries: FileRetries, tmp_path: Path
) -> None:
    with pytest.raises(QueryTooLong):
        retries.choose("missing_url", "", -1)
    (tmp_path / "again.dead.jsonl").mkdir()
    with pytest.raises(InputError, match="give another --retry-file"):
        retries.choose("missing_url", "", 5)
    assert retries.state.chosen == 0


@pytest.mark.parametrize("place", ["pages", "pages:x", "pages/x:1"])
def test_what_is_no_place_of_a_topic_is_refused(place: str) -> None:
    retries = TopicRetries(Connection("localhost:1"), "pages-dlt", "streamer")
    with pytest.raises(StreamerError, match="is no place of a topic"):
        retries.choose("missing_url", place, 60)
    assert retries.state == RetryState("pages", 0, "")


def test_a_file_that_a_replay_would_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"must end in \.dead\.jsonl"):
        FileRetries(tmp_path / "again.jsonl", [], None)
    with pytest.raises(InputError, match="not a dead letter"):
        FileRetries(written(tmp_path / "v.dead.jsonl", unique(0)), [], None)
