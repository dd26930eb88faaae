"""Replays of tests: what they read, what they do not, and that a kill is one."""

import json
from pathlib import Path
from unittest.mock import patch

import pytest

from streamer import Page
from streamer.cli.main import run
from streamer.run.outputs import OutputFile
from streamer.testing import KEY, KILL, Pages, Replayer

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
