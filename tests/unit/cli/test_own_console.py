from pathlib import Path

import pytest

from streamer.cli import own_console
from streamer.cli.own_console import console_of_files, environment_of, run_console_beside
from streamer.config import Settings, load_settings
from streamer.stored.witness import Witness
from tests.helpers.wait import wait_until


def test_the_console_of_files_gets_an_index_that_is_there(tmp_path: Path) -> None:
    settings = load_settings(key_file=tmp_path / "key")
    (tmp_path / "index").mkdir()
    arguments = console_of_files([tmp_path / "v.jsonl"], tmp_path / "index", settings)
    assert arguments == [
        str(tmp_path / "v.jsonl"), "--key-file", str(tmp_path / "key"), "--input-topic", "pages",
    ]  # fmt: skip
    place = str(tmp_path / "index")
    held = Witness(tmp_path / "index")
    held.begin()
    assert place not in console_of_files([], tmp_path / "index", settings)
    held.write(1)
    assert place in console_of_files([], tmp_path / "index", settings)
    held.close()


def test_the_console_of_workers_reaches_the_same_brokers(tmp_path: Path) -> None:
    settings = load_settings(
        brokers="b:1", index_name="i", security_protocol="SASL_SSL", sasl_mechanism="PLAIN",
        sasl_username="u", sasl_password="secret",  # noqa: S106 - of the test
    )  # fmt: skip
    arguments = own_console.console_of_workers(tmp_path / "none", settings)
    pairs = dict(zip(arguments[::2], arguments[1::2], strict=True))
    assert pairs == {
        "--brokers": "b:1", "--index-name": "i", "--input-topic": "pages",
        "--security-protocol": "SASL_SSL",
        "--sasl-mechanism": "PLAIN", "--sasl-username": "u",
    }  # fmt: skip
    own = {"HOME": "/h", "STREAMER_BROKERS": "x:1", "STREAMER_CONSOLE_TOKEN": "t"}
    assert environment_of(settings, own) == {
        "HOME": "/h", "STREAMER_CONSOLE_TOKEN": "t", "STREAMER_SASL_PASSWORD": "secret",
    }  # fmt: skip


def test_a_console_that_does_not_start_is_one_warning(tmp_path: Path) -> None:
    said: list[str] = []
    warnings: list[str] = []
    with run_console_beside([str(tmp_path / "none")], Settings(), said.append, warnings.append):
        wait_until(lambda: bool(warnings))
    (warning,) = warnings
    assert "No such file" in warning
    assert warning.endswith("the run goes on without it.")
    assert said == []


@pytest.mark.parametrize("fault", ["missing", "file"])
def test_a_program_that_cannot_be_run_is_one_warning(
    tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    if fault == "file":
        python.touch()
    monkeypatch.setattr("sys.executable", str(python))
    warnings: list[str] = []
    with run_console_beside([], Settings(), warnings.append, warnings.append):
        pass
    (warning,) = warnings
    assert warning.startswith("The console cannot be started: ")
