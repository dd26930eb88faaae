"""Pages that are forgotten: no representative any more, and nothing of them on the disk."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from streamer.errors import SettingsError
from streamer.index.codec import BANDS
from streamer.index.forgetting import BEFORE, URL
from streamer.index.messages import Forget, Term
from streamer.stored.deep_check import check_index
from streamer.stored.forget import forget
from streamer.stored.generations import read_note
from streamer.stored.lookup import StoredLookup
from streamer.stored.rows import scan_rows
from streamer.stored.store import Store
from tests.helpers.commands import run
from tests.helpers.kills import code_of
from tests.helpers.stored_rows import POSTINGS_A_ROW, assert_holds, flush

URLS = [
    "https://a.example/one", "https://a.example/two", "https://www.b.example/one",
    "https://b.example:8080/two", "https://notb.example/", "https://[broken/",
]  # fmt: skip


def rows_left(store: Store) -> list[int]:
    return [ref - 7 for part in scan_rows(store) for ref in part.rows.refs]


def forget_all(store: Store, terms: list[Term], *, dry_run: bool = False) -> int:
    return forget(store, Forget(terms), dry_run=dry_run)


def test_rows_are_forgotten_and_all_others_stay(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    gone = {0, 7, 599, *range(700, 705), 1299}
    urls: list[Term] = [(URL, b"https://example.org/%d" % row) for row in gone]
    left = [row for row in range(1300) if row not in gone]
    with contextlib.closing(Store.open(folder)) as store:
        flush(store, range(600))
        flush(store, range(600, 1300))
    with contextlib.closing(Store.open(folder)) as store:
        assert forget_all(store, urls, dry_run=True) == len(gone)
        assert rows_left(store) == [*range(1300)]
    with contextlib.closing(Store.open(folder)) as store:
        assert forget_all(store, urls) == len(gone)
        assert forget_all(store, urls) == 0
        assert_holds(store, left)
    with contextlib.closing(Store.open(folder)) as store:
        assert rows_left(store) == left
        assert store.meta is not None
        assert (store.meta.rows, store.meta.postings) == (len(left), 3 * len(left))
        flush(store, range(1300, 1310))
        assert_holds(store, [*left, *range(1300, 1310)])
    assert not any(finding.damage for finding in check_index(tmp_path))


def test_nothing_of_what_is_forgotten_stays_among_frozen_keys(tmp_path: Path) -> None:
    with (
        contextlib.closing(Store.open(tmp_path / "store")) as store,
        contextlib.closing(StoredLookup(store, 0)) as lookup,
    ):
        for first in (0, 100, 200):
            lookup.refresh(flush(store, range(first, first + 100)))
        lookup.wait()
        assert forget_all(store, [(BEFORE, 150_000)], dry_run=True) == 150
        assert read_note(store).count == 300 * POSTINGS_A_ROW
        assert forget_all(store, [(BEFORE, 150_000)]) == 150
        assert read_note(store).count == 0
        frozen = store._to_write()._families[BANDS]  # noqa: SLF001 - nobody else asks for all
        assert not list(frozen.keys())
        assert_holds(store, range(150, 300))


def test_an_index_of_which_all_is_forgotten_goes_on(tmp_path: Path) -> None:
    with contextlib.closing(Store.open(tmp_path / "store")) as store:
        flush(store, range(50))
        assert forget_all(store, [(BEFORE, 20_000)]) == 20
        assert_holds(store, range(20, 50))
        assert forget_all(store, [(BEFORE, 1 << 60)]) == 30
    with contextlib.closing(Store.open(tmp_path / "store")) as store:
        assert_holds(store, [])
        flush(store, range(50, 60))
        assert_holds(store, range(50, 60))
    assert not any(finding.damage for finding in check_index(tmp_path))


# ---- the command --------------------------------------------------------------------------------


def page(number: int, url: str, **fields: Any) -> str:
    words = " ".join(f"word{number}x{i}" for i in range(60))
    return json.dumps({"url": url, "body": words, **fields}) + "\n"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    lines = [page(i, url, fetched_at=1_700_000_000 + i) for i, url in enumerate(URLS)]
    judge(tmp_path, "pages.jsonl", lines)
    return tmp_path / "index"


def judge(folder: Path, name: str, lines: list[str]) -> list[Any]:
    """Return the verdicts on pages."""
    (folder / name).write_text("".join(lines))
    out = folder / f"{name}.verdicts.jsonl"
    run("replay", folder / name, "--verdicts", out, "--index", folder / "index")
    return [json.loads(line) for line in out.read_text().splitlines()]


@pytest.mark.parametrize(
    ("options", "gone"),
    [
        (["--url", URLS[0]], [0]),
        (["--url", URLS[0], "--url", URLS[5]], [0, 5]),
        (["--host", "a.example"], [0, 1]),
        (["--host", "B.example."], [3]),
        (["--host", ".b.example"], [2, 3]),
        (["--host", "example"], []),
        (["--before", "2023-11-14T22:13:22Z"], [0, 1]),
        (["--host", "a.example", "--before", "2023-11-14T22:13:21Z"], [0, 1]),
    ],
)
def test_what_is_forgotten_is_gone(index: Path, options: list[str], gone: list[int]) -> None:
    for more in (("--dry-run",), ()):
        assert run("forget", index, *options, *more).split()[0] == str(len(gone))
    held = b"".join(path.read_bytes() for path in index.rglob("*") if path.is_file())
    there = [url for url in URLS if held.count(url.encode())]
    assert there == [url for i, url in enumerate(URLS) if i not in gone]
    again = judge(index.parent, "again.jsonl", [page(i, "https://c.example/") for i in range(6)])
    assert [i for i, each in enumerate(again) if each["verdict"] == "unique"] == gone


def test_what_to_forget_must_be_said(index: Path) -> None:
    for options in ([], ["--before", "soon"], ["--url", "a", "--wait", "-1"], ["--host", "a b"]):
        with pytest.raises(SettingsError):
            run("forget", index, *options)


# ---- kills, and folders in use -------------------------------------------------------------------

KILLED = """
import os, sys
from pathlib import Path
from streamer.stored.database import Database
from streamer.stored.store import Store
from streamer.index.messages import Forget
from streamer.stored import forget as module
from tests.helpers.kills import die_before

module._BLOCKS_AT_ONCE = 1
die_before(1 + int(sys.argv[2]), (Database, "write"), (Database, "settle"))
terms = [("before", 10_000), ("url", b"https://example.org/20"), ("url", b"https://example.org/30")]
module.forget(Store.open(Path(sys.argv[1])), Forget(terms), dry_run=False)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("writes", range(7))
def test_a_kill_leaves_a_whole_index_and_the_command_goes_on(tmp_path: Path, writes: int) -> None:
    folder = tmp_path / "store"
    with contextlib.closing(Store.open(folder)) as store:
        for first in (0, 15, 25):
            flush(store, range(first, first + 10))
    gone = {*range(10), 20, 30}
    assert code_of(KILLED, folder, writes) == -9
    rows = [*range(10), *range(15, 35)]
    with contextlib.closing(Store.open(folder)) as store:
        there = rows_left(store)
        assert {*rows} - gone <= {*there} <= {*rows}
        assert len(there) == 30 - {0: 0, 1: 0, 2: 10, 3: 11}.get(writes, 12)
        assert_holds(store, there)
        terms: list[Term] = [(URL, b"https://example.org/%d" % row) for row in gone]
        # What the killed command has noted does not answer any more, and is not counted again.
        assert forget_all(store, terms) == (0 if writes else 12)
        assert_holds(store, [row for row in rows if row not in gone])
    held = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert not [row for row in gone if b"https://example.org/%d" % row in held and row > 9]
    assert not any(finding.damage for finding in check_index(tmp_path))
