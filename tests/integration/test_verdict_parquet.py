"""The verdicts of a replay as Parquet: the same as the JSON lines, and each once."""

import signal
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from pyarrow import parquet

from streamer import read_verdicts
from streamer.compression import zstd
from streamer.errors import StoreUnavailable
from streamer.run.verdict_files import open_verdicts
from tests.helpers.kills import code_of
from tests.helpers.place import Place, lines, page
from tests.helpers.verdict_lines import COLUMNS

DIES = """
import os, sys, unittest.mock
from streamer.cli.main import app
def die(*_arguments):
    os.kill(os.getpid(), 9)
with unittest.mock.patch(sys.argv.pop(1), die):
    app(standalone_mode=False)
"""


@pytest.mark.parametrize("more", [[], ["--track-changes", "--exact"], ["--text", "main"]])
def test_a_table_has_what_the_lines_have(place: Place, tmp_path: Path, more: list[str]) -> None:
    pages = [page(each, score={"a": [each, "ü", 1.50]}) for each in (1, 2, 1, 3, 2, 2)]
    pages += [page(9, url="=cmd()"), b'{"url": "-a,\\"b\\"", "body": "b"}\n']
    given = place.write("in.jsonl", *pages)
    options = [*more, *map(str, place.key), "--carry", "score"]
    names = ("v.jsonl", "v.parquet")
    for name in names:
        assert place.streamer("replay", given, "--verdicts", tmp_path / name, *options) == 0
    plain, table = (tmp_path / name for name in names)
    with open_verdicts(table) as file:
        assert file.read() == plain.read_bytes()
    assert list(read_verdicts(table)) == list(read_verdicts(plain))
    found = parquet.read_table(table)
    assert tuple(found.column_names) == COLUMNS
    assert found["page_offset"].to_pylist() == list(range(8))
    assert found["similarity"].to_pylist() == [each["similarity"] for each in lines(plain)]
    assert found["carried"][0].as_py() == '{"score":{"a":[1,"ü",1.5]}}'
    assert found.schema.field("same_url").type == pa.bool_()
    assert not (tmp_path / "v.parquet.jsonl.zst").exists()


def test_an_index_goes_on_in_a_table_that_a_command_reads(place: Place, tmp_path: Path) -> None:
    table = tmp_path / "v.parquet"
    for run in (1, 2, 3):
        given = place.write(f"{run}.jsonl", *([page(run), page(1)] if run < 3 else []))
        assert place.streamer("replay", given, "--verdicts", table, "--index", place.index) == 0
        whole = parquet.read_table(table)
        assert whole.num_rows == 2 * min(run, 2)
    assert whole["page_topic"].to_pylist() == [f"{tmp_path}/{n}.jsonl" for n in (1, 1, 2, 2)]
    out = tmp_path / "clean.jsonl"
    both = [tmp_path / f"{number}.jsonl" for number in (1, 2)]
    assert place.streamer("select", table, *both, "--out", out) == 0
    assert [each["url"] for each in lines(out)] == ["http://a.example/1", "http://a.example/2"]


def test_a_run_without_verdicts_makes_a_table_without_rows(place: Place, tmp_path: Path) -> None:
    table = tmp_path / "v.parquet"
    assert place.streamer("replay", place.write("in.jsonl"), "--verdicts", table) == 0
    assert tuple(parquet.read_schema(table).names) == COLUMNS
    assert list(read_verdicts(table)) == []


@pytest.mark.parametrize(
    "where",
    [
        "streamer.cli.replay.VerdictTable.write",  # all is flushed
        "streamer.run.parquet_verdicts.Path.replace",  # the new file is complete, and has no name
    ],
)
def test_a_kill_leaves_the_table_before_and_the_next_run_makes_the_whole(
    place: Place, tmp_path: Path, where: str
) -> None:
    table, own = tmp_path / "v.parquet", ("--index", place.index)
    first = place.write("1.jsonl", page(1), page(2))
    assert place.streamer("replay", first, "--verdicts", table, *own) == 0
    before = table.read_bytes()
    second = place.write("2.jsonl", page(1), page(3))
    command = ["replay", str(second), "--verdicts", str(table), "--index", str(place.index)]
    assert code_of(DIES, where, *command) == -signal.SIGKILL
    assert table.read_bytes() == before
    assert place.streamer(*command) == 0
    found = parquet.read_table(table)
    assert found["page_offset"].to_pylist() == [0, 1, 0, 1]
    assert found["verdict"].to_pylist() == ["unique", "unique", "duplicate", "unique"]
    left = sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("v.parquet."))
    assert left == [
        "v.parquet.dead.jsonl", "v.parquet.dead.jsonl.index",
        "v.parquet.jsonl.zst", "v.parquet.jsonl.zst.index",
    ]  # fmt: skip
    kept = zstd.decompress((tmp_path / "v.parquet.jsonl.zst").read_bytes())
    with open_verdicts(table) as file:
        assert file.read() == kept


def test_a_failure_at_the_end_without_an_index_leaves_nothing_in_the_way(
    place: Place, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "v.parquet"
    run = ("replay", place.write("in.jsonl", page(1)), "--verdicts", table)
    full = StoreUnavailable(f"No space is left for {table}. Free some and run the same command.")
    with mock.patch("streamer.cli.replay.VerdictTable.write", side_effect=full):
        assert place.streamer(*run) == 1
    assert "Free some and run the same command." in " ".join(capfd.readouterr().err.split())
    assert not [*tmp_path.glob("v.*")]
    assert place.streamer(*run) == 0
    assert parquet.read_table(table).num_rows == 1


def test_files_of_others_are_not_replaced(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    given = place.write("in.jsonl", page(1))
    table = place.write("v.parquet", b"PAR1")
    run = ("replay", given, "--verdicts", table)
    refused = {
        (): "already exists",
        ("--index", place.index): "this index has not made it",
        ("--dead-letters", table): "--dead-letters and --verdicts must be different files",
        ("--summary", table): "is an output already",
    }
    for more, why in refused.items():
        assert place.streamer(*run, *more) == 2
        assert why in " ".join(capfd.readouterr().err.split())
        assert table.read_bytes() == b"PAR1"
    assert place.streamer(*run, "--overwrite") == 0
    assert parquet.read_table(table).num_rows == 1
    assert place.streamer("replay", table, "--verdicts", table, "--overwrite") == 2
