"""docs/methods.md is what the program says of its methods."""

import sys
from pathlib import Path

import pytest

from deploy.made_documents import methods_page
from streamer.cli.main import run
from streamer.sketch.scheme import PRESETS, methods

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"


def streamer(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    monkeypatch.setattr(sys, "argv", ["streamer", *arguments])
    with pytest.raises(SystemExit) as ended:
        run()
    return ended.value.code


def test_the_page_is_made_of_the_methods() -> None:
    assert methods_page() == PAGE.read_text(encoding="utf-8"), (
        "make it with `python -m deploy.made_documents methods > docs/methods.md`"
    )


def test_the_list_names_each_method_and_preset(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert streamer(monkeypatch, "methods") == 0
    out = capsys.readouterr().out
    assert [name for name in [*methods(), *PRESETS] if name not in out] == []


def test_one_method_is_shown_with_each_parameter(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert streamer(monkeypatch, "methods", "short-texts") == 0
    out = capsys.readouterr().out
    assert [name for name in methods()["bottom_k"].defaults.model_fields if name not in out] == []
    assert "characters" in out


def test_a_method_that_is_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert streamer(monkeypatch, "methods", "magic") == 2
    assert "There is no method magic" in capsys.readouterr().err
