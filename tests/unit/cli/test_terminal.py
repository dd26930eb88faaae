"""What a command prints shows names as they are: brackets are no markup, and colons no emoji."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.table import Table

from streamer.cli.main import run
from streamer.cli.terminal import Terminal, amount_bar, count_bar
from tests.helpers.place import page

NAMES = ["no[red]such", "a[/x]b", "[bold]", "[plot]", ":warning:", "[link]"]


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.chdir(tmp_path)


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def streamer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return what runs a command; it gives the exit code, and all that was printed."""

    def call(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["streamer", *arguments])
        with pytest.raises(SystemExit) as ended:
            run()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out + printed.err

    return call


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        (1, "replay {}.jsonl --verdicts v.jsonl"),
        (1, "inspect {}"),
        (1, "forget {} --host a.example --dry-run"),
        (1, "snapshot {} to"),
        (2, "check --config {}"),
        (2, "check --preset {}"),
        (1, "replay {}.doc --verdicts v.jsonl"),
        (2, "replay --{}"),
        (2, "clusters {}"),
        (2, "clusters v.jsonl --scope {}"),
        (2, "{}"),
    ],
)
def test_an_error_shows_the_name_with_brackets(
    streamer: Run, name: str, code: int, arguments: str
) -> None:
    Path(f"{name}.doc").parent.mkdir(parents=True, exist_ok=True)
    Path(f"{name}.doc").write_text("no pages")
    ended, printed = streamer(*(each.format(name) for each in arguments.split()))
    assert (ended, name in printed) == (code, True), printed
    assert "Traceback" not in printed


def test_notes_and_the_summary_of_a_replay_show_names_with_brackets(streamer: Run) -> None:
    Path("p[x].jsonl").write_bytes(page(1) * 300)
    Path("e[red].jsonl").write_bytes(b"")
    given = ["p[x].jsonl", "e[red].jsonl", "--verdicts", "v[b].jsonl", "--index", "i[y]"]
    ended, printed = streamer("replay", *given)
    assert ended == 0, printed
    assert "Empty: e[red].jsonl" in printed
    assert "100% of p[x].jsonl" in printed
    ended, printed = streamer("inspect", "i[y]", "--all")
    assert (ended, "position in " in printed, "p[x].jsonl" in printed) == (0, True, True), printed


@pytest.mark.parametrize("name", NAMES)
def test_no_string_is_markup_whatever_holds_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    terminal = Terminal(file=shown, force_terminal=True, width=200)
    table = Table(f"head {name}", title=f"title {name}", caption=f"caption {name}")
    table.add_row(f"cell {name}")
    terminal.print(table)
    terminal.say(f"said {name}")
    terminal.warn(f"warned {name}")
    terminal.fail(f"failed {name}")
    monkeypatch.setattr("streamer.cli.terminal.Terminal", lambda **_: terminal)
    with amount_bar(f"amount {name}", 2):
        pass
    with count_bar() as report:
        report(f"count {name}", 1, 2)
    for where in ("head", "title", "caption", "cell", "said", "warned", "failed", "amount"):
        assert f"{where} {name}" in shown.getvalue(), where
    assert f"count {name}" in shown.getvalue()


@pytest.mark.parametrize(
    ("command", "value", "wanted"),
    [
        ("check --threshold", "high", "it must be a number"),
        ("check --threads", "1.5", "it must be a whole number"),
        ("clusters v.jsonl --warn-share", "3", "it must be at most 1.0"),
        ("clusters v.jsonl --scope", "x", "'x' is not one of 'none', 'host', 'domain'"),
        ("sample to --seed", "x", "it must be a whole number"),
    ],
)
def test_a_value_of_another_type_is_refused_in_our_words(
    streamer: Run, command: str, value: str, wanted: str
) -> None:
    said = f"Error: {command.rsplit(maxsplit=1)[-1]} '{value}' cannot be used: {wanted}.\n"
    assert streamer(*command.split(), value) == (2, said)


def test_warm_fails_where_compiled_kernels_can_be_stored_nowhere(
    streamer: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamer.cli.upkeep.FOLDER", None)
    said = "Error: Nothing was compiled: it could be stored nowhere.\n"
    assert streamer("warm") == (1, said)
