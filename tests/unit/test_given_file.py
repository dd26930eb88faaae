"""Files that options name: pipes and devices too, for which no command waits without end."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from streamer import given_file
from streamer.errors import SettingsError
from streamer.given_file import read_given
from streamer.pages.mapping import parse_fields
from streamer.rules import read_rules
from streamer.sketch.collection import load_collection
from streamer.sketch.settings import read_secret
from streamer.text.main_text import read_model


@pytest.mark.parametrize(
    "read", [lambda p: parse_fields(str(p)), read_rules, load_collection, read_secret, read_model]
)
def test_a_pipe_without_writer_is_refused(read: Callable[[Path], object], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SettingsError):
        read(tmp_path / "pipe")


def test_a_pipe_that_a_shell_has_opened_is_read_to_its_end() -> None:
    ends = os.pipe()
    os.write(ends[1], b"text")
    os.close(ends[1])
    assert read_given(Path(f"/dev/fd/{ends[0]}")) == b"text"
    os.close(ends[0])


def test_a_folder_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        read_given(tmp_path)


def test_a_device_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_file, "BYTES_MAX", 1 << 20)
    with pytest.raises(ValueError, match="more than 256 MiB"):
        read_given(Path("/dev/zero"))
