import os
from pathlib import Path

import msgspec
import pytest

from streamer.console.command import sort_inputs
from streamer.console.inputs import CutOff, read_batches, witness_of
from streamer.errors import InputError
from streamer.run.verdict_files import read_verdicts
from tests.helpers.verdict_lines import LETTER, UNIQUE, duplicate, written


def test_a_file_is_read_on_from_a_position(tmp_path: Path) -> None:
    path = written(tmp_path / "v.jsonl", UNIQUE, duplicate(1, of=0), duplicate(2, of=0))
    first, *rest = read_batches(path, 0, 0, lines_max=1)
    again = [*read_batches(path, first.position, 1, lines_max=1)]
    assert again == rest
    assert [line.page.offset for batch in again for line in batch.lines] == [1, 2]


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"], ids=["none", "newline", "blank"])
def test_the_last_line_needs_no_end(tmp_path: Path, end: bytes) -> None:
    path = tmp_path / "v.jsonl"
    path.write_bytes(msgspec.json.encode(UNIQUE) + end)
    assert sum(len(batch.lines) for batch in read_batches(path, 0, 0)) == 1


def test_a_line_that_is_being_written_is_left_for_later(tmp_path: Path) -> None:
    path = written(tmp_path / "v.jsonl", UNIQUE)
    whole = path.stat().st_size
    with path.open("ab") as file:
        file.write(msgspec.json.encode(duplicate(1, of=0))[:-5])
    batches = read_batches(path, 0, 0)
    assert next(batches).position == whole
    with pytest.raises(CutOff, match="ends within a line"):
        next(batches)


def test_a_folder_is_all_its_files_and_others_are_passed_over_with_a_notice(tmp_path: Path) -> None:
    verdicts = written(tmp_path / "v.jsonl", UNIQUE)
    letters = written(tmp_path / "v.jsonl.dead.jsonl", LETTER)
    (tmp_path / "notes.txt").write_text("other")
    assert sort_inputs([verdicts]).files == (verdicts, letters)
    assert sort_inputs([tmp_path]).files == (verdicts, letters)
    pages = tmp_path / "pages.jsonl"
    pages.write_text('{"url": "https://a.example/", "body": "x"}\n')
    given = sort_inputs([tmp_path])
    assert given.files == (verdicts, letters)
    (notice,) = given.notices
    assert f"{pages}:1: neither a verdict nor a dead letter" in notice
    with pytest.raises(InputError, match="neither a verdict"):
        sort_inputs([tmp_path, pages])
    verdicts.unlink()
    letters.unlink()
    with pytest.raises(InputError, match="neither a verdict"):
        sort_inputs([tmp_path])


def test_what_is_no_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        sort_inputs([tmp_path / "v.jsonl"])
    with pytest.raises(InputError, match="has no index, and no file"):
        sort_inputs([tmp_path])
    with pytest.raises(InputError, match="CSV"):
        sort_inputs([written(tmp_path / "v.csv", UNIQUE)])


@pytest.mark.parametrize("name", ["v.jsonl", "v.parquet", "v.jsonl.gz"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match="is a pipe or a device; write its lines to a file"):
        sort_inputs([tmp_path / name])
    with pytest.raises(InputError, match="is a pipe or a device; write its lines to a file"):
        next(read_verdicts(tmp_path / name))


def test_a_witness_tells_a_file_that_has_grown_from_another_one(tmp_path: Path) -> None:
    path = written(tmp_path / "v.jsonl", UNIQUE, *(duplicate(n, of=0) for n in range(1, 50)))
    length = path.stat().st_size
    seen = witness_of(path, length)
    with path.open("ab") as file:
        file.write(b"more")
    assert witness_of(path, length) == seen
    path.write_bytes(path.read_bytes().replace(b"page-49", b"page-94"))
    assert witness_of(path, length) != seen
    path.write_bytes(b"")
    assert witness_of(path, length) != seen
