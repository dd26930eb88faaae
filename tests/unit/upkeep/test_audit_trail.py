from __future__ import annotations

import os
from pathlib import Path

import pytest

from streamer.errors import StoreUnavailable
from streamer.upkeep.audit_trail import NAME, copy_trail, deeds_of, note_deed


def figures(folder: Path, limit: int = 10) -> list[dict[str, int]]:
    return [deed.figures for deed in deeds_of(folder, limit)]


def test_deeds_are_read_newest_first(tmp_path: Path) -> None:
    assert deeds_of(tmp_path, 10) == []
    note_deed(tmp_path, "forget", {"pages": 3, "hosts": 1})
    note_deed(tmp_path, "settings changed", {"records": 9}, {"threshold": "0.8 to 0.9"})
    newest, first = deeds_of(tmp_path, 10)
    assert (newest.command, newest.settings) == ("settings changed", {"threshold": "0.8 to 0.9"})
    assert (first.command, first.figures) == ("forget", {"pages": 3, "hosts": 1})
    assert newest.user == first.user != ""
    assert figures(tmp_path, 1) == [{"records": 9}]


@pytest.mark.parametrize("line", [b'{"time":"2026-01', b"\xff\xfe\n", b"[" * 9999, b"{}\n"])
def test_what_is_no_deed_is_left_out(tmp_path: Path, line: bytes) -> None:
    note_deed(tmp_path, "forget", {"pages": 1})
    with (tmp_path / NAME).open("ab") as file:
        file.write(line)
    note_deed(tmp_path, "forget", {"pages": 2})
    assert figures(tmp_path) == [{"pages": 2}, {"pages": 1}]


def test_of_a_long_trail_the_end_is_read(tmp_path: Path) -> None:
    note_deed(tmp_path, "forget", {"pages": 1})
    path = tmp_path / NAME
    path.write_bytes(path.read_bytes() * 20_000)
    note_deed(tmp_path, "forget", {"pages": 2})
    assert figures(tmp_path, 2) == [{"pages": 2}, {"pages": 1}]
    assert 5_000 < len(deeds_of(tmp_path, 100_000)) < 20_000


@pytest.mark.parametrize("obstacle", ["link", "folder", "missing"])
def test_what_cannot_be_noted_is_a_warning(
    tmp_path: Path, obstacle: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder, other = tmp_path / "index", tmp_path / "other"
    if obstacle != "missing":
        folder.mkdir()
        (folder / NAME).symlink_to(other) if obstacle == "link" else (folder / NAME).mkdir()
    note_deed(folder, "forget", {"pages": 1})
    (record,) = caplog.records
    assert record.message.startswith(f"forget is done, but not in {folder / NAME}: ")
    assert not other.exists()
    if obstacle == "folder":
        with pytest.raises(StoreUnavailable, match="See its permissions"):
            deeds_of(folder, 10)


def test_an_index_made_of_another_goes_on_with_its_trail(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    copy_trail(old, new)
    note_deed(old, "forget", {"pages": 1})
    copy_trail(old, new)
    note_deed(new, "reshard", {"shards": 4})
    assert figures(new) == [{"shards": 4}, {"pages": 1}]


@pytest.mark.parametrize("obstacle", ["link", "folder", "fifo"])
def test_a_trail_that_cannot_be_read_stops_no_reshard(
    tmp_path: Path, obstacle: str, caplog: pytest.LogCaptureFixture
) -> None:
    old, new, other = tmp_path / "old", tmp_path / "new", tmp_path / "other"
    old.mkdir()
    new.mkdir()
    other.write_bytes(b"secret")
    if obstacle == "link":
        (old / NAME).symlink_to(other)
    elif obstacle == "folder":
        (old / NAME).mkdir()
    else:
        os.mkfifo(old / NAME)
    copy_trail(old, new)
    (record,) = caplog.records
    assert record.message.startswith(f"The new index does not have the lines of {old / NAME}: ")
    assert not (new / NAME).exists()
    with pytest.raises(StoreUnavailable, match="See its permissions"):
        deeds_of(old, 10)
