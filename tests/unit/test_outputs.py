"""Output files hold each line once, whatever was written before the index knew of it."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from streamer.errors import SettingsError, StoreMismatch, StoreUnavailable
from streamer.run.outputs import OutputFile, output_key

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "verdicts.jsonl"


def write(path: Path, data: bytes, known: int | None, *, lasting: bool = True) -> int:
    output = OutputFile.open(str(path), known, lasting=lasting)
    output.start()
    output.write(data)
    output.sync()
    output.close()
    return output.length


def test_a_new_file_is_made_with_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "out"
    assert write(path, b"one\n", None) == 4
    assert path.read_bytes() == b"one\n"


def test_what_lies_behind_the_known_length_is_cut_off(path: Path) -> None:
    path.write_bytes(b"known\nunknown\n")
    output = OutputFile.open(str(path), 6, lasting=True)
    assert path.read_bytes() == b"known\nunknown\n", "nothing is changed before the start"
    output.start()
    output.close()
    assert path.read_bytes() == b"known\n"
    assert write(path, b"again\n", 6) == 12
    assert path.read_bytes() == b"known\nagain\n"


def test_a_file_shorter_than_known_is_refused_with_the_remedy_and_left_alone(path: Path) -> None:
    with pytest.raises(StoreMismatch, match="has 0 bytes"):
        OutputFile.open(str(path), 6, lasting=True)
    assert not path.exists()
    path.write_bytes(b"short")
    told = r"has 5 bytes, but the index has published 6 .* Put the file back"
    with pytest.raises(StoreMismatch, match=told):
        OutputFile.open(str(path), 6, lasting=True)
    assert path.read_bytes() == b"short"


def test_a_foreign_file_is_refused_with_the_remedy_and_left_alone(path: Path) -> None:
    path.write_bytes(b"someone else's")
    with pytest.raises(
        SettingsError, match=r"was not written with this index\. Remove it, or name another file"
    ):
        OutputFile.open(str(path), None, lasting=True)
    assert path.read_bytes() == b"someone else's"


def test_an_empty_foreign_file_may_be_used(path: Path) -> None:
    path.touch()
    assert write(path, b"one\n", None) == 4


def test_without_a_lasting_index_the_file_is_written_anew(path: Path) -> None:
    path.write_bytes(b"of the run before, and longer")
    assert write(path, b"one\n", None, lasting=False) == 4
    assert path.read_bytes() == b"one\n"


@pytest.mark.parametrize("name", [".", "file/below"])
def test_what_cannot_be_a_file_is_a_settings_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="Cannot write"):
        OutputFile.open(str(tmp_path / name), None, lasting=False)


def test_length_counts_what_is_still_buffered(path: Path) -> None:
    output = OutputFile.open(str(path), None, lasting=True)
    output.write(b"one\n")
    assert output.length == 4
    assert path.read_bytes() == b""
    output.sync()
    assert path.read_bytes() == b"one\n"
    output.close()


def test_a_full_device_is_unavailable_with_the_remedy_and_does_not_hinder_the_end() -> None:
    output = OutputFile.open("/dev/full", None, lasting=True)
    output.write(b"one\n")
    with pytest.raises(
        StoreUnavailable, match=r"No space is left for /dev/full\. Free some and run"
    ):
        output.sync()
    with pytest.raises(StoreUnavailable, match="No space is left"):
        output.write(bytes(3 << 20))
    output.close()


def test_a_device_that_cannot_be_synced_need_not_be() -> None:
    output = OutputFile.open(os.devnull, None, lasting=True)
    output.write(b"one\n")
    output.sync()
    output.close()
    assert output.length == 4


class BrokenPipe(io.RawIOBase):
    def writable(self) -> bool:
        return True

    def write(self, _data: object) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_a_reader_that_is_gone_is_unavailable() -> None:
    output = OutputFile("-", BrokenPipe(), 0)  # type: ignore[arg-type]  # all that is used of a file
    with pytest.raises(StoreUnavailable, match=r"Cannot write -: Broken pipe\."):
        output.write(b"one\n")


def test_standard_output_is_neither_cut_nor_closed(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    output = OutputFile.open("-", 100, lasting=True)
    output.write(b"one\n")
    output.sync()
    output.close()
    print("still open", flush=True)  # noqa: T201 - whether it is open is the question
    assert capfdbinary.readouterr().out == b"one\nstill open\n"


def test_an_output_is_known_by_its_resolved_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        output_key("a/../out")
        == output_key(str(tmp_path / "out"))
        == str((tmp_path / "out").resolve())
    )
    assert output_key("-") == "-"
    output = OutputFile.open("out", None, lasting=True)
    assert output.key == output_key("out")
    output.close()


_WRITER = """
from streamer.run.outputs import OutputFile
output = OutputFile.open("-", None, lasting=False)
for number in range(400):
    output.write(bytes([number % 251]) * 300_000)
output.sync()
"""


def test_a_process_that_is_stopped_and_continued_loses_nothing_of_its_output() -> None:
    command = [sys.executable, "-c", _WRITER]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        wanted = hashlib.blake2b()
        for number in range(400):
            wanted.update(bytes([number % 251]) * 300_000)
        found = hashlib.blake2b()
        while part := os.read(process.stdout.fileno(), 1 << 20):
            found.update(part)
            process.send_signal(signal.SIGSTOP)
            process.send_signal(signal.SIGCONT)
    assert process.returncode == 0
    assert found.digest() == wanted.digest()
