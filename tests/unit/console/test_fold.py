"""The fold of verdicts into a view, and the process that it runs in."""

import gzip
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from streamer.compression import zstd
from streamer.console.fold import Fold, Pace
from streamer.console.fold_process import FoldProcess, FoldTask
from streamer.console.view import VerdictView
from streamer.errors import InputError, SettingsError, StoreUnavailable
from streamer.kafka.connection import Connection
from streamer.kafka.topics import Names
from streamer.model import DeadLetter, Representative, Verdict
from streamer.run.verdict_files import VerdictTable
from tests.helpers.verdict_lines import duplicate, letter, place, unique, written
from tests.helpers.wait import wait_until

LINES: list[Verdict | DeadLetter] = [
    unique(0),
    unique(1),
    duplicate(2, of=0, similarity=0.8123),
    letter(3),
    duplicate(4, of=0, similarity=0.9),
    duplicate(5, of=1, similarity=0.9),
    letter(6, "invalid_json"),
]
COUNTS = {
    "verdicts": [("duplicate", "signature", 3), ("unique", "signature", 2)],
    "similarities": [(8123, 1), (9000, 2)],
    "clusters": [("https://www.site0.example/page-0", 2), ("https://www.site1.example/page-1", 1)],
    "hosts": [
        ("www.site0.example", 1, 0),
        ("www.site1.example", 2, 1),
        ("www.site2.example", 2, 2),
    ],
    "letters": [("invalid_json", 1), ("missing_url", 1)],
}


@pytest.fixture
def view(tmp_path: Path) -> Iterator[VerdictView]:
    view = VerdictView(tmp_path / "view")
    yield view
    view.close()


def fold(view: VerdictView, *files: Path) -> None:
    one = Fold(view, files)
    one.go_on()
    one.close()


def rows(view: VerdictView, query: str) -> list[Any]:
    with view.read(5) as connection:
        return [tuple(row) for row in connection.execute(query)]


def counts(view: VerdictView) -> dict[str, list[Any]]:
    queries = {
        "verdicts": "SELECT verdict, basis, pages FROM verdict_count ORDER BY verdict, basis",
        "similarities": "SELECT similarity, pages FROM similarity_count ORDER BY similarity",
        "clusters": "SELECT url, duplicates FROM cluster ORDER BY ref",
        "hosts": "SELECT name, pages, duplicates FROM host ORDER BY name",
        "letters": "SELECT code, sum(letters) FROM letter_count GROUP BY code ORDER BY code",
    }
    return {name: rows(view, query) for name, query in queries.items()}


def packed(path: Path) -> Path:
    other = path.with_name(f"{path.name}.gz")
    other.write_bytes(gzip.compress(path.read_bytes()))
    return other


def test_lines_become_pages_letters_and_counts_once(tmp_path: Path, view: VerdictView) -> None:
    fold(view, *(written(tmp_path / f"{name}.jsonl", *LINES) for name in "ab"))
    assert counts(view) == COUNTS
    assert rows(view, "SELECT count(*) FROM page") == [(5,)]
    assert rows(view, "SELECT record, value_bytes FROM letter LIMIT 1") == [(b'{"uri": "x"}', 12)]


@pytest.mark.parametrize("at", range(len(LINES) + 1))
def test_a_file_that_has_grown_is_read_on(tmp_path: Path, view: VerdictView, at: int) -> None:
    path = written(tmp_path / "v.jsonl", *LINES[:at])
    fold(view, path)
    before = view.path
    written(path, *LINES)
    fold(view, path)
    assert counts(view) == COUNTS
    assert view.path == before


def test_another_page_at_the_same_place_is_counted(tmp_path: Path, view: VerdictView) -> None:
    one = written(tmp_path / "a.jsonl", *LINES)
    other = written(tmp_path / "b.jsonl", unique(0), unique(1, "https://else.example/"), unique(9))
    fold(view, one, other)
    assert rows(view, "SELECT passed_over FROM input ORDER BY path") == [(0,), (1,)]
    assert rows(view, "SELECT count(*) FROM page") == [(6,)]


@pytest.mark.parametrize("change", ["replaced", "shortened", "left_out"])
def test_other_inputs_make_the_view_again(tmp_path: Path, view: VerdictView, change: str) -> None:
    other: list[Verdict | DeadLetter] = [
        unique(number, f"https://other.example/{number}") for number in range(20)
    ]
    path, second = written(tmp_path / "v.jsonl", *other), tmp_path / "second.jsonl"
    files = [path]
    if change == "left_out":
        files.append(written(second, unique(99)))
    fold(view, *files)
    lines = [*LINES, *(unique(n) for n in range(10, 40))] if change == "replaced" else LINES
    written(path, *lines)
    fold(view, path)
    assert counts(view)["letters"] == COUNTS["letters"]
    assert rows(view, "SELECT count(*) FROM page WHERE url LIKE '%other%'") == [(0,)]


def test_compressed_files_are_read_on_too(tmp_path: Path, view: VerdictView) -> None:
    path = written(tmp_path / "v.jsonl", *LINES[:4])
    first = packed(path)
    fold(view, first)
    with first.open("ab") as file:
        rest = written(path, *LINES[4:]).read_bytes()
        file.write(gzip.compress(rest)[:-9])
    fold(view, first)
    assert "compressed part" in rows(view, "SELECT note FROM input")[0][0]
    first.write_bytes(first.read_bytes()[: -(len(gzip.compress(rest)) - 9)] + gzip.compress(rest))
    fold(view, first)
    assert counts(view) == COUNTS
    assert rows(view, "SELECT note FROM input") == [("",)]


def make_table(path: Path, lines: Path) -> None:
    VerdictTable(str(path), lines).write(lambda _amount: None, lambda _part: None)


def test_a_parquet_file_is_folded_again_when_it_is_new(tmp_path: Path, view: VerdictView) -> None:
    path = tmp_path / "v.parquet"
    judged = [line for line in LINES if isinstance(line, Verdict)]
    for lines in (judged[:2], judged):
        packed = tmp_path / "v.jsonl.zst"
        packed.write_bytes(zstd.compress(written(tmp_path / "v.jsonl", *lines).read_bytes()))
        make_table(path, packed)
        fold(view, path)
    assert counts(view) == COUNTS | {"letters": []}


def test_a_wrong_line_is_noted_and_those_before_it_stay(tmp_path: Path, view: VerdictView) -> None:
    path = written(tmp_path / "v.jsonl", *LINES)
    fold(view, path)
    with path.open("ab") as file:
        file.write(b"<html>\n")
    fold(view, path)
    assert counts(view) == COUNTS
    ((note,),) = rows(view, "SELECT note FROM input")
    assert "v.jsonl:8: neither a verdict nor a dead letter" in note


def test_a_file_that_is_back_is_no_warning(tmp_path: Path, view: VerdictView) -> None:
    path = written(tmp_path / "v.jsonl", *LINES)
    one = Fold(view, [path])
    one.go_on()
    path.rename(tmp_path / "away")
    one.go_on()
    assert "No such file" in rows(view, "SELECT note FROM input")[0][0]
    assert counts(view) == COUNTS
    (tmp_path / "away").rename(path)
    one.go_on()
    assert rows(view, "SELECT note FROM input") == [("",)]
    one.close()


def test_a_damaged_byte_is_noted(tmp_path: Path, view: VerdictView) -> None:
    path = written(tmp_path / "v.jsonl", unique(0, carried={"a": "XX"}), unique(1))
    path.write_bytes(path.read_bytes().replace(b"XX", b"\xff\xff"))
    fold(view, path, written(tmp_path / "w.jsonl", *LINES))
    assert counts(view) == COUNTS
    assert "can't decode byte 0xff" in rows(view, "SELECT note FROM input ORDER BY path")[0][0]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("of the test"), "The fold failed"),
        (InputError("Check --brokers."), "Verdicts cannot be read. Check --brokers."),
    ],
)
def test_a_fault_is_the_trouble_and_does_not_end_the_fold(
    tmp_path: Path, view: VerdictView, caplog: pytest.LogCaptureFixture, error: Exception, said: str
) -> None:
    class Faulty(Fold):
        def go_on(self) -> None:
            raise SystemExit if self.trouble else error

    one = Faulty(view, [written(tmp_path / "v.jsonl", *LINES)])
    with closing(one), pytest.raises(SystemExit):
        one.run()
    assert (repr(error) if said == "The fold failed" else str(error)) in one.trouble
    assert caplog.messages == [said]


def test_a_parquet_file_with_a_wrong_row_is_folded_once(tmp_path: Path, view: VerdictView) -> None:
    lines = written(tmp_path / "v.jsonl", *(unique(n) for n in range(12_000)))
    path = tmp_path / "v.parquet"
    make_table(path, lines)
    table = parquet.read_table(path)
    at = table.schema.get_field_index("basis")
    values = table["basis"].to_pylist()
    values[11_000] = "nonsense"
    parquet.write_table(table.set_column(at, "basis", pa.array(values)), path)
    for _ in range(3):  # each as after a start: the note stays, too
        fold(view, path)
        assert rows(view, "SELECT count(*) FROM page") == [(10_000,)]
        assert "neither a verdict" in rows(view, "SELECT note FROM input")[0][0]
        assert view.path.name == "view-1.sqlite"


@pytest.mark.parametrize("damage", [b"", b"SQLite format 3\0 and no more", b"text"])
def test_a_damaged_view_is_made_again(tmp_path: Path, view: VerdictView, damage: bytes) -> None:
    path = written(tmp_path / "v.jsonl", *LINES)
    fold(view, path)
    view.path.write_bytes(damage)
    fold(view, path)
    assert counts(view) == COUNTS


LACKS = [
    "DROP TABLE cluster", "DROP TABLE letter_count", "DROP TABLE input",
    "ALTER TABLE letter DROP COLUMN detail", "ALTER TABLE page RENAME COLUMN url TO address", "",
]  # fmt: skip


@pytest.mark.parametrize("statement", LACKS)
def test_a_view_that_lacks_something_or_loses_it_while_it_is_used_is_made_again(
    tmp_path: Path, view: VerdictView, statement: str
) -> None:
    path = written(tmp_path / "v.jsonl", *LINES)
    one = Fold(view, [path])
    one.go_on()
    for go_on, name in ((one.go_on, "view-2.sqlite"), (lambda: fold(view, path), "view-3.sqlite")):
        with closing(sqlite3.connect(view.path, isolation_level=None)) as other:
            other.execute(statement or "PRAGMA wal_checkpoint(TRUNCATE)")
        if not statement:  # but its pages are lost
            data = view.path.read_bytes()
            view.path.write_bytes(data[:4096] + bytes(len(data) - 4096))
            go_on()
        go_on()
        assert counts(view) == COUNTS
        assert view.path.name == name
        one.close()


def test_a_full_disk_is_trouble_that_passes(tmp_path: Path, view: VerdictView) -> None:
    path = written(tmp_path / "v.jsonl", *LINES[:1])
    one = Fold(view, [path])
    one.go_on()
    one._connection.execute("PRAGMA max_page_count = 1")  # noqa: SLF001 - SQLite's own full disk
    lines = [
        unique(number, f"https://a.example/{'x' * 500}/{number}") for number in range(10, 2000)
    ]
    written(path, *LINES, *lines)
    with pytest.raises(StoreUnavailable, match="database or disk is full"):
        one.go_on()
    one._connection.execute("PRAGMA max_page_count = 1000000")  # noqa: SLF001 - as above
    one.go_on()
    assert rows(view, "SELECT count(*) FROM page") == [(len(lines) + 5,)]
    one.close()


def test_one_console_has_a_view(view: VerdictView) -> None:
    with pytest.raises(SettingsError, match=r"Another console .* --view"):
        VerdictView(view.folder)
    assert [path.name for path in view.folder.iterdir()] == ["lock"]


def test_what_else_a_folder_has_stays(tmp_path: Path) -> None:
    folder = tmp_path / "view"
    folder.mkdir()
    others = {"view-notes.txt", "view-3.sqlite.bak", "view-x.sqlite", "view-1", "view--1.sqlite"}
    for name in others | {"view-1.sqlite", "view-1.sqlite-wal", "view-12.sqlite"}:
        (folder / name).write_text("x")
    view = VerdictView(folder)
    view.make_again().close()
    found = {path.name for path in folder.iterdir()}
    assert found - {"view-13.sqlite-wal", "view-13.sqlite-shm"} == others | {
        "lock",
        "view-13.sqlite",
    }
    view.close()


def test_what_a_verdict_has_beyond_the_usual_is_kept(tmp_path: Path, view: VerdictView) -> None:
    other = Representative(place(9, "old.jsonl"), "https://else.example/", "last-year")
    line = msgspec.structs.replace(
        duplicate(1, of=0, carried={"score": 1.5}), representative=other, exact=True
    )
    fold(view, written(tmp_path / "v.jsonl", line))
    assert rows(view, "SELECT more FROM page") == [('{"carried":{"score":1.5},"exact":true}',)]
    assert rows(view, "SELECT topic FROM source WHERE other = 'last-year'") == [("old.jsonl",)]


def test_the_pace_is_the_mean_of_the_last_seconds() -> None:
    pace = Pace()
    rates = []
    for now, count in [(0, 100), (1, 110), (2, 130), (12, 230), (13, 230), (30, 230), (31, 5)]:
        pace.note(count, now)
        rates.append(pace.rate)
    assert rates == [None, 10, 15, 10, pytest.approx(100 / 11), 0, None]


# A console that is killed while its fold waits for lines.
KILLED = """
import os, signal, sys, time
from streamer.console.fold_process import FoldProcess, FoldTask
fold = FoldProcess(FoldTask(sys.argv[1], sys.argv[2:]))
while not (fold.process and fold.state.is_done):
    time.sleep(0.02)
print(fold.process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def pages(folder: Path) -> int:
    with closing(VerdictView(folder, "another.lock")) as view, view.read(5) as connection:
        found: int = connection.execute("SELECT count(*) FROM page").fetchone()[0]
    return found


def test_a_fold_that_is_killed_is_started_again_and_goes_on(tmp_path: Path) -> None:
    file = written(tmp_path / "v.jsonl", unique(0))
    with closing(FoldProcess(FoldTask(str(tmp_path / "view"), [str(file)]))) as fold:
        wait_until(lambda: fold.state.is_done)
        assert pages(tmp_path / "view") == 1
        assert fold.process
        fold.process.kill()
        wait_until(lambda: "exit code -9" in fold.state.trouble)
        written(tmp_path / "v.jsonl", unique(0), unique(1))
        wait_until(lambda: fold.state.is_done and not fold.state.trouble)
        wait_until(lambda: pages(tmp_path / "view") == 2)
    assert fold.process.poll() == -signal.SIGKILL


def test_a_batch_in_hand_is_undone_with_a_console_and_folded_by_the_next(tmp_path: Path) -> None:
    file = written(tmp_path / "v.jsonl", *(unique(n) for n in range(50_000)))
    fold = FoldProcess(FoldTask(str(tmp_path / "view"), [str(file)]))
    wait_until(lambda: any((tmp_path / "view").glob("*-wal")))
    fold.close()
    assert pages(tmp_path / "view") % 10_000 == 0, "batches are whole"
    with closing(FoldProcess(FoldTask(str(tmp_path / "view"), [str(file)]))) as fold:
        wait_until(lambda: fold.state.is_done)
    assert pages(tmp_path / "view") == 50_000


def test_a_fold_ends_with_its_console_and_the_next_one_goes_on(tmp_path: Path) -> None:
    file = written(tmp_path / "v.jsonl", unique(0))
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path / "view", file], capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    written(file, unique(0), unique(1))
    with closing(FoldProcess(FoldTask(str(tmp_path / "view"), [str(file)]))) as fold:
        wait_until(lambda: fold.state.is_done)
        assert pages(tmp_path / "view") == 2
        wait_until(lambda: not Path("/proc", killed.stdout.decode().strip()).exists())


def test_a_view_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    (tmp_path / "view-1.sqlite").mkdir()
    with (
        closing(VerdictView(tmp_path)) as view,
        pytest.raises(StoreUnavailable, match="unable to open"),
    ):
        view.open_to_fold()
    with closing(FoldProcess(FoldTask(str(tmp_path)))) as fold:
        wait_until(lambda: "unable to open" in fold.state.trouble)


def test_nothing_waits_for_a_starting_fold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("true"))
    monkeypatch.setattr(subprocess, "Popen", partial(_slowly, subprocess.Popen))
    began = time.monotonic()
    fold = FoldProcess(FoldTask(str(tmp_path)))
    assert time.monotonic() - began < 1.8  # of two
    fold.close()


def _slowly(start: Any, *arguments: Any, **options: Any) -> Any:
    time.sleep(2)
    return start(*arguments, **options)


def test_a_task_keeps_the_connection(tmp_path: Path) -> None:
    secret = "b"  # noqa: S105 - of nobody
    connection = Connection(
        "host:1", "SASL_SSL", sasl_mechanism="PLAIN", sasl_username="a", sasl_password=secret
    )
    task = FoldTask.of_topics(tmp_path, connection, Names("index", "pages"))
    again = msgspec.json.decode(msgspec.json.encode(task), type=FoldTask)
    assert Connection(**again.connection) == connection  # type: ignore[arg-type]  # its own fields
    assert Names(**again.topics) == Names("index", "pages")  # type: ignore[arg-type]  # as above


def test_a_fold_of_files_does_without_kernels_and_clients() -> None:
    """It has but half of the console's memory; Parquet and topics need more."""
    code = "import sys, streamer.console.fold_process; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    heavy = {"numpy", "numba", "pyarrow", "aiohttp", "aiokafka", "pydantic", "rocksdict"}
    assert heavy.isdisjoint(found.stdout.split())
