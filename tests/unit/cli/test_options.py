"""Each setting is declared once: flags, environment, file and `check` are made from that."""

import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from streamer.cli.main import COMMANDS, app
from streamer.cli.options import command
from streamer.config import Declared, Settings, list_settings
from streamer.panels import KAFKA, SECURITY, SUBJECTS, VERDICTS
from tests.helpers.commands import run
from tests.helpers.fleet import exit_code

runner = CliRunner()
OTHERS = {
    "snapshot_every": "30m",  # values that are no default, of settings that do not take "7"
    "threshold": "0.7",
    "method": "simhash",
    "accept": "minhash",
    "method_option": "width=2",
    "canonical": "stem=english",
    "text": "main",
    "kept_expired": "skip",
    "value": "body",
    "tombstones": "forget",
    "preset": "nutch",
    "page_bytes_max": "2048",
    "site_memory": "2097152",
    "chunk_seconds": "2.5",
    "window": "2048",
    "role": "sign",
    "accept_loss": "true",
    "per_partition": "true",
    "track_changes": "true",
    "near_misses": "0.15",
    "fallback_threshold": "0.7",
    "exact": "true",
    "expire_after": "7d",
    "log_format": "console",
    "log_level": "debug",
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
}
NEEDED = {
    "method_option": ("--method", "simhash"),
    "fallback_threshold": ("--text", "main"),
    "site_memory": ("--text", "main"),
}
FLAGS = [one for one in list_settings() if one.flag]


def flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def shown(*arguments: str, **environment: str) -> dict[str, str]:
    """Return the settings that `streamer check --all` shows, by name."""
    done = runner.invoke(app, ["check", "--all", *arguments], env={"COLUMNS": "400", **environment})
    assert done.exit_code == 0, done.output
    rows = [re.split(r"\s{2,}", line.rstrip(), maxsplit=2) for line in done.stdout.splitlines()]
    return {row[0].strip(): row[1] for row in rows if len(row) == 3}


def panels(name: str, wanted: str = "--help") -> dict[str, str]:
    """Return the help of a command by panel, on one line each."""
    parts = re.split(r"╭─ (.+?) ─+╮", run(name, wanted, columns=400))
    return {
        title: " ".join(text.split()) for title, text in zip(parts[1::2], parts[2::2], strict=True)
    }


@pytest.mark.parametrize("one", list_settings(), ids=lambda one: one.name)
def test_a_setting_is_a_flag_a_variable_and_a_key_of_a_file(one: Declared, tmp_path: Path) -> None:
    value = OTHERS.get(one.name, "7")
    more = NEEDED.get(one.name, ())
    words = one.type == tuple[str, ...]
    expected = str((value,)) if words else value
    if one.name in {"sasl_password", "registry_password"}:
        expected = "*" * 10
    if one.name == "rules":
        value = expected = str(tmp_path / "rules.toml")
        Path(value).write_text('[[rule]]\nhost = "example.org"\nskip = true\n')
    file = tmp_path / "settings.toml"
    spelled = value if one.type is bool else repr([value] if words else value)
    file.write_text(f"{one.name} = {spelled}\n")
    variable = {f"STREAMER_{one.name.upper()}": value}
    ways = [shown(*more, **variable), shown(*more, "--config", str(file))]
    if one.flag:
        given = [flag(one.name), value]
        if one.type is bool:
            given = [flag(one.name) if value == "true" else f"--no-{flag(one.name)[2:]}"]
        ways.append(shown(*more, *given))
    for way in ways:
        assert way[one.name].lower() == expected.lower()


@pytest.mark.parametrize("name", ["check", "worker"])
def test_the_help_has_each_flag_in_its_panel_with_its_text_and_default(name: str) -> None:
    reported = panels(name, "--help-all")
    for one in FLAGS:
        assert f"{flag(one.name)} " in reported[one.panel]
        assert one.text in reported[one.panel]
        if one.default and one.type is not bool:
            assert f"{one.text.split()[-1]} [default: {one.default}]" in reported[one.panel]
    assert "--sasl-password " not in reported[SECURITY]


@pytest.mark.parametrize("name", ["replay", "worker", "check", "spark", "verify", "compare"])
def test_the_help_has_its_subjects_in_the_order_of_the_document(name: str) -> None:
    whole = [*panels(name, "--help-all" if name != "compare" else "--help")]
    reported = [title for title in whole if title not in {"Arguments", "Options"}]
    assert reported == [one for one in SUBJECTS if one in reported]
    assert whole[: -len(reported)] == [one for one in ("Arguments", "Options") if one in whole]
    declared = [*dict.fromkeys(one.panel for one in list_settings())]
    assert declared == [one for one in SUBJECTS if one in declared], "docs/settings.md has these"


def test_a_command_takes_the_settings_that_it_names_and_no_others() -> None:
    reported = panels("tail")
    assert {"--brokers", "--index-name"} == set(re.findall(r"--[a-z-]+", reported[KAFKA]))
    assert VERDICTS not in reported
    wanted = {flag(one.name) for one in FLAGS if one.panel == SECURITY}
    assert wanted == set(re.findall(r"--[a-z-]+", reported[SECURITY]))


@pytest.mark.parametrize(("name", "lines_max"), [("replay", 108), ("worker", 75), ("check", 75)])
def test_the_help_of_a_command_leaves_out_what_is_rarely_used(name: str, lines_max: int) -> None:
    short, whole = (run(name, wanted, columns=80) for wanted in ("--help", "--help-all"))
    assert len(short.splitlines()) <= lines_max < 130 < len(whole.splitlines())
    left_out = {flag(one.name) for one in FLAGS} - set(re.findall(r"--[a-z-]+", short))
    assert "--bucket-max" in left_out
    assert re.search(rf"\d+ more options: .*{name} --help-all", short)
    assert "more options" not in whole


@pytest.mark.parametrize("name", COMMANDS)
def test_the_text_of_a_help_is_wrapped_once(name: str) -> None:
    width = 80
    lines = run(name, "--help", columns=width).split("╭")[0].rstrip().splitlines()
    for line, after in itertools.pairwise(lines):
        if line.strip() and after.strip():
            assert len(line.rstrip()) + 1 + len(after.split()[0]) >= width - 1, (line, after)


def test_a_list_is_given_flag_by_flag_or_as_words() -> None:
    words = {"STREAMER_CARRY": "score language"}
    assert shown(**words)["carry"] == "('score', 'language')"
    assert shown("--carry", "a b", "--carry", "c", **words)["carry"] == "('a b', 'c')"


def test_check_shows_the_threshold_of_the_method_where_none_is_set() -> None:
    assert shown("--method", "simhash")["threshold"].startswith("0.95")
    assert shown("--method", "simhash", "--threshold", "0.9")["threshold"] == "0.9"


@dataclass(frozen=True)
class Pair:
    first: Annotated[str, typer.Option(help="One.")]
    second: Annotated[int, typer.Option(help="Another.")] = 2


def test_a_record_of_options_and_the_settings_reach_the_command_as_one_value_each() -> None:
    taken: list[Any] = []

    @command
    def act(
        page: str, *, pair: Pair, settings: Annotated[Settings, "bands", KAFKA], last: bool = False
    ) -> None:
        """Act."""
        taken.append((page, pair, settings.bands, settings.brokers, last))

    alone = typer.Typer()
    alone.command()(act)
    done = runner.invoke(alone, ["p", "--first", "x", "--bands", "9", "--last"])
    assert done.exit_code == 0, done.output
    act("q", first="y", second=5, brokers="b:1")
    assert taken == [
        ("p", Pair("x"), 9, "localhost:9092", True),
        ("q", Pair("y", 5), 14, "b:1", False),
    ]
    assert runner.invoke(alone, ["p"]).exit_code == 2, "--first is missing"
    assert runner.invoke(alone, ["p", "--first", "x", "--rows", "9"]).exit_code == 2


@pytest.mark.parametrize("given", [["--scope", ""], ["--scope="], [""]])
def test_an_empty_variable_is_refused(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("check", *given) == 2
    assert "is a variable of the shell" in " ".join(capsys.readouterr().err.lower().split())
