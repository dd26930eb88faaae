"""Output files hold each line once, whatever was written before the index knew of it."""

import errno
import gzip
import hashlib
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from streamer.compression import zstd
from streamer.errors import OutputClosed, SettingsError, StoreMismatch, StoreUnavailable
from streamer.run import output_checks
from streamer.run.output_checks import LINES_SUFFIX, ROWS_SUFFIX, output_key, table_of
from streamer.run.outputs import OutputFile, complete_output, read_lines_within

INDEX = Path("my-index")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "verdicts.jsonl"


def write(path: Path, data: bytes, known: int | None, *, index: Path | None = INDEX) -> int:
    output = OutputFile.open(str(path), known, index=index)
    output.start()
    output.write(data)
    output.sync(last=True)
    output.close()
    return output.length


def test_a_folder_that_is_not_there_is_named_and_not_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "out"
    for opening in (
        lambda: OutputFile.open(str(path), None, index=INDEX),
        lambda: output_checks.check_writable(path),
        complete_output(str(path)).__enter__,
    ):
        with pytest.raises(SettingsError, match=f"there is no folder {path.parent}"):
            opening()
    assert not path.parent.exists()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.symlink_to("held"), "it is a link"),
        (lambda path: path.symlink_to("nothing"), "it is a link"),
        (os.mkfifo, "it is a pipe"),
    ],
)
def test_no_output_goes_through_a_link_or_waits_for_the_reader_of_a_pipe(
    path: Path, make: Callable[[Path], None], why: str
) -> None:
    held = path.with_name("held")
    held.write_bytes(b"of somebody else")
    make(path)
    for opening in (
        lambda: OutputFile.open(str(path), None, index=None, overwrite=True),
        lambda: output_checks.check_made(str(path), (), index=INDEX, overwrite=False),
        lambda: output_checks.check_writable(path),
        complete_output(str(path)).__enter__,
    ):
        with pytest.raises(SettingsError, match=why):
            opening()
    assert held.read_bytes() == b"of somebody else"


def test_what_a_shell_has_opened_is_taken_as_it_is() -> None:
    read, write = os.pipe()
    with complete_output(f"/dev/fd/{write}") as file:
        file.write(b"one\n")
    assert os.read(read, 9) == b"one\n"
    os.close(read)
    os.close(write)


@pytest.mark.parametrize("make", [lambda part: part.symlink_to("held"), os.mkfifo, Path.touch])
def test_parts_in_the_way_are_removed_not_read(path: Path, make: Callable[[Path], None]) -> None:
    held = path.with_name("held")
    held.write_bytes(b"of somebody else")
    make(output_checks.part_of(str(path)))
    like = path.with_name(f"{path.name}.part")
    like.write_bytes(b"of somebody else")
    with complete_output(str(path)) as file:
        file.write(b"one\n")
    assert path.read_bytes() == b"one\n"
    assert held.read_bytes() == like.read_bytes() == b"of somebody else"


def test_the_note_of_an_index_replaces_no_file_of_somebody_else(path: Path) -> None:
    mark = output_checks.owner_file(str(path))
    for make in (lambda: mark.write_bytes(b"notes\n"), lambda: mark.symlink_to("held")):
        make()
        with pytest.raises(SettingsError, match=f"{mark} is not of streamer"):
            OutputFile.open(str(path), None, index=INDEX)
        mark.unlink()
    assert not path.exists()


@pytest.mark.parametrize("name", ["v.db", "v.arrow", "v.xlsx.gz", "v.jsonl.bz2", "v.parquet.gz"])
def test_an_ending_of_no_format_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=r"names no format .* End it in \.jsonl, \.csv\."):
        output_checks.check_ending("verdicts", name, ".jsonl", ".csv")


@pytest.mark.parametrize("name", ["-", "v", "v.gz", "v.jsonl.zst", "V.JSON", "/dev/fd/3", "v.csv"])
def test_a_name_without_an_ending_or_with_one_of_lines_is_taken(name: str) -> None:
    output_checks.check_ending("verdicts", name, ".jsonl", ".csv")


def test_what_lies_behind_the_known_length_is_cut_off(path: Path) -> None:
    path.write_bytes(b"known\nunknown\n")
    output = OutputFile.open(str(path), 6, index=INDEX)
    assert path.read_bytes() == b"known\nunknown\n", "nothing is changed before the start"
    output.start()
    output.close()
    assert path.read_bytes() == b"known\n"
    assert write(path, b"again\n", 6) == 12
    assert path.read_bytes() == b"known\nagain\n"


def test_a_file_shorter_than_known_is_refused_with_the_remedy_and_left_alone(path: Path) -> None:
    with pytest.raises(StoreMismatch, match="has 0 bytes"):
        OutputFile.open(str(path), 6, index=INDEX)
    assert not path.exists()
    path.write_bytes(b"short")
    reported = r"has 5 bytes, but the index has published 6 .* Put the file back"
    with pytest.raises(StoreMismatch, match=reported):
        OutputFile.open(str(path), 6, index=INDEX)
    assert path.read_bytes() == b"short"


def test_a_foreign_file_is_refused_with_the_remedy_and_left_alone(path: Path) -> None:
    path.write_bytes(b"someone else's")
    with pytest.raises(SettingsError, match=r"was not written with this index\. Name another file"):
        OutputFile.open(str(path), None, index=INDEX)
    assert path.read_bytes() == b"someone else's"
    path.write_bytes(b"")  # what is empty may be used
    assert write(path, b"one\n", None) == 4


def test_without_an_index_a_file_is_replaced_on_request_only(path: Path) -> None:
    path.write_bytes(b"of the run before, and longer")
    with pytest.raises(SettingsError, match=r"already exists\. .* --overwrite to replace it"):
        OutputFile.open(str(path), None, index=None)
    output = OutputFile.open(str(path), None, index=None, overwrite=True)
    assert path.read_bytes() == b"of the run before, and longer", "nothing changes before the start"
    output.start()
    output.write(b"one\n")
    output.close()
    assert path.read_bytes() == b"one\n"


def test_an_output_of_an_index_is_never_replaced(path: Path) -> None:
    write(path, b"one\n", None, index=INDEX)
    with pytest.raises(SettingsError, match=f"of the index {INDEX.resolve()}, which needs them"):
        OutputFile.open(str(path), None, index=None, overwrite=True)
    assert path.read_bytes() == b"one\n"


def test_the_name_of_an_output_tells_the_table_that_is_made_of_it() -> None:
    for table in ("clean.parquet", "clean.arrow", "a/clean.FEATHER"):
        assert table_of(f"{table}{ROWS_SUFFIX}", ROWS_SUFFIX) == table
    assert table_of(f"v.parquet{LINES_SUFFIX}", LINES_SUFFIX) == "v.parquet"
    others = ("v.arrow.jsonl.zst", LINES_SUFFIX), ("v.parquet.jsonl.zst", ROWS_SUFFIX)
    for name, suffix in (*others, ("pages.jsonl.rows", ROWS_SUFFIX)):
        assert table_of(name, suffix) == name


@pytest.mark.parametrize("suffix", [ROWS_SUFFIX, LINES_SUFFIX])
def test_a_file_made_of_an_indexs_output_is_never_replaced(tmp_path: Path, suffix: str) -> None:
    made = tmp_path / "made.parquet"
    made.write_bytes(b"PAR1")
    write(Path(f"{made}{suffix}"), b"one\n", None, index=INDEX)
    with pytest.raises(SettingsError, match=f"of the index {INDEX.resolve()}, which needs them"):
        output_checks.check_made(str(made), (), index=None, overwrite=True)
    assert made.read_bytes() == b"PAR1"


def test_what_an_index_had_under_a_name_that_is_free_again_is_no_hindrance(path: Path) -> None:
    write(path, b"one\n", None, index=INDEX)
    path.unlink()
    write(path, b"two\n", None, index=None)
    assert path.read_bytes() == b"two\n"
    assert not output_checks.owner_file(str(path)).exists()


def test_an_output_may_not_be_an_input_by_a_link(path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"pages")
    other = tmp_path / "other"
    os.link(path, other)
    with pytest.raises(SettingsError, match="are the same file"):
        output_checks.check_distinct([str(other)], ["-", str(tmp_path / "none"), str(path)])
    with pytest.raises(SettingsError, match="are one file"):
        output_checks.check_distinct([str(other), str(path)], [])
    output_checks.check_distinct([str(other), "-"], [str(tmp_path)])


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_a_compressed_output_is_whole_at_a_sync_and_cut_there(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"verdicts.jsonl{ending}"
    expand = gzip.decompress if ending == ".gz" else zstd.decompress
    output = OutputFile.open(str(path), None, index=INDEX)
    output.start()
    for line in (b"one\n", b"two\n"):
        output.write(line)
    output.sync()
    known = output.length
    assert expand(path.read_bytes()) == b"one\ntwo\n"
    output.sync()
    assert output.length == known, "nothing is added where nothing was written"
    output.write(os.urandom(1 << 20))  # of which a kill leaves the most
    assert path.stat().st_size > known
    output.close()
    assert list(read_lines_within(path, known)) == [b"one\n", b"two\n"]
    again = OutputFile.open(str(path), known, index=INDEX)
    again.start()
    again.write(b"three\n")
    again.close()
    assert expand(path.read_bytes()) == b"one\ntwo\nthree\n"


@pytest.mark.parametrize(
    "name", ["v.jsonl.gz", "v.csv.zst", "v.parquet.jsonl.zst", "V.JSON.GZ", "kept.warc.gz"]
)
def test_a_compressed_output_without_a_line_is_whole_too(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(path, b"", None, index=None)
    if name == "kept.warc.gz":  # FastWARC reads no record after an empty member
        assert not path.stat().st_size
    else:
        expand = gzip.decompress if name.lower().endswith(".gz") else zstd.decompress
        assert path.stat().st_size
        assert expand(path.read_bytes()) == b""


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_damage_in_a_compressed_output_is_an_error(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"dead.jsonl{ending}"
    length = write(path, bytes(range(256)) * 99, None)
    data = bytearray(path.read_bytes())
    data[length // 2] ^= 255
    path.write_bytes(data)
    with pytest.raises((ValueError, OSError)):
        list(read_lines_within(path, length))


@pytest.mark.parametrize("name", [".", "file/below", "no\udcffutf8"])
def test_what_cannot_be_a_file_is_a_settings_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="Cannot write"):
        OutputFile.open(str(tmp_path / name), None, index=None)


def test_lines_are_in_the_file_as_soon_as_they_are_written(path: Path) -> None:
    output = OutputFile.open(str(path), None, index=INDEX)
    output.write(b"one\n")
    assert output.length == 4
    assert path.read_bytes() == b"one\n"
    output.close()


@pytest.mark.parametrize(
    ("index", "remedy"),
    [(INDEX, r"where the index is\."), (None, r"run the same command again\.$")],
)
def test_a_full_device_is_unavailable_with_the_remedy_and_does_not_hinder_the_end(
    index: Path | None, remedy: str
) -> None:
    output = OutputFile.open("/dev/full", None, index=index)
    with pytest.raises(StoreUnavailable, match=rf"left for /dev/full\. Free some .*{remedy}"):
        output.write(b"one\n")
    with pytest.raises(StoreUnavailable, match="No space is left"):
        output.sync()  # or a flush of the index would count the line
    output.close()


def test_a_device_that_cannot_be_synced_need_not_be() -> None:
    output = OutputFile.open(os.devnull, None, index=INDEX)
    output.write(b"one\n")
    output.sync()
    output.close()
    assert output.length == 4


class BrokenPipe(io.RawIOBase):
    def writable(self) -> bool:
        return True

    def write(self, _data: object) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_a_reader_of_standard_output_that_is_gone_is_no_failure_to_write() -> None:
    with pytest.raises(OutputClosed):
        OutputFile("-", BrokenPipe(), 0).write(b"one\n")  # type: ignore[arg-type]  # all that is used
    with pytest.raises(StoreUnavailable, match=r"Cannot write pipe: Broken pipe\."):
        OutputFile("pipe", BrokenPipe(), 0).write(b"one\n")  # type: ignore[arg-type]  # as above


def test_standard_output_is_not_cut_or_closed(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    output = OutputFile.open("-", 100, index=INDEX)
    output.write(b"one\n")
    output.sync()
    output.close()
    print("still open", flush=True)  # noqa: T201 - whether it is open is the question
    assert capfdbinary.readouterr().out == b"one\nstill open\n"


def test_an_output_is_known_by_real_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = "out", "a/../out", str(tmp_path / "out")
    assert {*map(output_key, names)} == {str((tmp_path / "out").resolve())}
    assert output_key("-") == "-"


_WRITER = """
from streamer.run.outputs import OutputFile
output = OutputFile.open("-", None, index=None)
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


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_the_empty_frame_that_a_killed_run_left_is_taken_for_an_empty_file(
    tmp_path: Path, ending: str
) -> None:
    name = str(tmp_path / f"v.jsonl.{ending}")
    killed = OutputFile.open(name, None, index=tmp_path)
    killed.start()
    killed.sync(last=True)  # and no flush of the index knows it
    killed.close()
    again = OutputFile.open(name, None, index=tmp_path)
    again.start()
    again.close()
    assert (again.length, Path(name).stat().st_size) == (0, 0)
