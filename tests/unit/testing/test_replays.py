"""Replays of tests: what they read, that a kill is one, and what is said of other verdicts."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from streamer import Page, Verdict
from streamer.cli.main import run
from streamer.model import Basis
from streamer.run.outputs import OutputFile
from streamer.testing import KEY, KILL, Pages, Replayer, assert_same_verdicts
from streamer.testing.replays import check_same_files
from tests.helpers.verdict_lines import unique, written

TEXT = " ".join(f"word{number}" for number in range(100))
NEAR = TEXT.replace("word50", "other")
PAGES = Pages(
    [("a", TEXT), Page(url="b", body=NEAR), {"url": "c", "body": "few words", "score": 3}]
)


def test_verdicts_depend_on_no_variable_and_no_folder(
    streamer_replay: Replayer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMER_THRESHOLD", "0.1")
    monkeypatch.setenv("STREAMER_NO_SETTING", "1")
    judged = []
    for name in ("one", "two"):
        path = tmp_path / name / "crawl.jsonl"
        path.parent.mkdir()
        path.write_text("".join(json.dumps({"url": u, "body": TEXT}) + "\n" for u in "ab").rstrip())
        judged.append(streamer_replay(path))
    assert judged[0] == judged[1]
    assert [(v.page.topic, v.page.offset) for v in judged[0]] == [
        ("crawl.jsonl", 0),
        ("crawl.jsonl", 1),
    ]
    assert (judged[0].index_folder / "secret.key").read_text() == KEY
    [first, _] = streamer_replay(str(tmp_path / "one"))
    assert first.page.topic == "one/crawl.jsonl"


def test_settings_are_taken_by_name(streamer_replay: Replayer, tmp_path: Path) -> None:
    rules, key = tmp_path / "rules.toml", tmp_path / "key"
    rules.write_text('[[rule]]\nhost = "none.example"\nthreshold = 0.5\n')
    key.write_text("5a" * 32)
    found = streamer_replay(
        PAGES, threshold=0.9, carry=("score",), track_changes=True, rules=rules, key_file=key
    )
    assert found[2].carried == {"score": 3}
    assert [each.change for each in found] == ["new"] * 3
    assert found[0].index != streamer_replay(PAGES)[0].index, "the key has no effect"


def test_what_fails_is_shown_as_the_command_says_it(streamer_replay: Replayer) -> None:
    with pytest.raises(AssertionError, match=r"exit code 2, not 0:\n.*no setting treshold"):
        streamer_replay(PAGES, treshold=0.5)


def test_arguments_that_do_not_go_together_are_refused(streamer_replay: Replayer) -> None:
    with pytest.raises(TypeError, match="one of the two"):
        streamer_replay()
    with pytest.raises(TypeError, match="one of the two"):
        streamer_replay([], topic="pages")
    with pytest.raises(TypeError, match="one line"):
        streamer_replay([b"{}\n"])


def test_a_replay_killed_at_each_marker_has_the_bytes_of_a_quiet(streamer_replay: Replayer) -> None:
    first, second, third = PAGES
    pages = Pages([KILL, first, KILL, KILL, b"{broken", second, KILL, third, KILL])
    judged = streamer_replay(pages)
    assert [each.is_duplicate for each in judged] == [False, True, False]
    assert [each.code for each in judged.dead_letters] == ["invalid_json"]


def go_on_without_cutting() -> None:
    """Run the command line where an output goes on behind what it has, whatever was flushed."""
    with patch.object(OutputFile, "start", lambda output: output._file.seek(0, 2)):  # noqa: SLF001 - no option does it
        run()


def test_a_replay_that_does_not_go_on_where_it_was_killed_fails(
    streamer_replay: Replayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{__name__}:{go_on_without_cutting.__name__}"
    monkeypatch.setattr("tests.helpers.forked.COMMANDS", name)
    with pytest.raises(AssertionError, match="killed and resumed"):
        streamer_replay(Pages([*PAGES[:2], KILL, PAGES[2]]), head_pages=1_000_000)


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
