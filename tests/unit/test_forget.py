"""Pages that are forgotten: no representative any more, and nothing of them on the disk."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from typer.testing import CliRunner

from streamer.cli.main import app
from streamer.index.codec import BANDS
from streamer.index.deep_check import check_index
from streamer.index.frozen import read_note
from streamer.index.store import Store
from streamer.index.stored_lookup import StoredLookup
from streamer.index.stored_rows import scan_rows
from streamer.run.forget import Wanted, forget
from tests.helpers.stored_rows import POSTINGS_A_ROW, assert_holds, flush, keys_of

if TYPE_CHECKING:
    from pathlib import Path

URLS = [
    "https://a.example/one",
    "https://a.example/two",
    "https://www.b.example/one",
    "https://b.example:8080/two",
    "https://notb.example/",
    "https://[broken/",
]
runner = CliRunner()


def rows_left(store: Store) -> list[int]:
    return [ref - 7 for part in scan_rows(store, 0) for ref in part.rows.refs]


def forget_all(store: Store, wanted: Wanted, *, dry_run: bool = False) -> int:
    return forget(store, wanted, dry_run=dry_run, progress=lambda _blocks: None)


def test_rows_are_forgotten_and_all_others_stay(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    gone = {0, 7, 599, *range(700, 705), 1299}
    urls = frozenset(f"https://example.org/{row}" for row in gone)
    left = [row for row in range(1300) if row not in gone]
    with contextlib.closing(Store.open(folder)) as store:
        flush(store, range(600))
        flush(store, range(600, 1300))
    with contextlib.closing(Store.open(folder)) as store:
        assert forget_all(store, Wanted(urls), dry_run=True) == len(gone)
        assert rows_left(store) == [*range(1300)]
    with contextlib.closing(Store.open(folder)) as store:
        assert forget_all(store, Wanted(urls)) == len(gone)
        assert forget_all(store, Wanted(urls)) == 0
        assert_holds(store, left)
    with contextlib.closing(Store.open(folder)) as store:
        assert rows_left(store) == left
        assert store.meta is not None
        assert (store.meta.shards[0].rows, store.meta.shards[0].postings) == (
            len(left),
            3 * len(left),
        )
        flush(store, range(1300, 1310))
        assert_holds(store, [*left, *range(1300, 1310)])
    assert not any(finding.damage for finding in check_index(tmp_path))


def test_nothing_of_what_is_forgotten_stays_among_frozen_keys(tmp_path: Path) -> None:
    def found(lookup: StoredLookup) -> list[int]:
        rows: list[int] = np.unique(lookup.find(keys_of(range(400))).rows).tolist()
        return rows

    folder = tmp_path / "store"
    with (
        contextlib.closing(Store.open(folder)) as store,
        contextlib.closing(StoredLookup(store, 0, 0)) as lookup,
    ):
        for first in (0, 100, 200):
            lookup.refresh(flush(store, range(first, first + 100)))
        lookup.wait()
    with contextlib.closing(Store.open(folder)) as store:
        assert forget_all(store, Wanted(before_ms=150_000), dry_run=True) == 150
        assert read_note(store, 0).count == 300 * POSTINGS_A_ROW
        assert forget_all(store, Wanted(before_ms=150_000)) == 150
        assert read_note(store, 0).count == 0
        frozen = store._to_write()._families[BANDS]  # noqa: SLF001 - nobody else asks for all
        assert not list(frozen.keys())
        assert found(StoredLookup(store, 0)) == [*range(150, 300)]
        with contextlib.closing(StoredLookup(store, 0, 0)) as lookup:
            lookup.refresh(flush(store, range(300, 310)))
            lookup.wait()
            assert found(lookup) == [*range(150, 310)]
            assert read_note(store, 0).count == 160 * POSTINGS_A_ROW
    assert not any(finding.damage for finding in check_index(tmp_path))


def test_pages_before_a_time_are_forgotten(tmp_path: Path) -> None:
    with contextlib.closing(Store.open(tmp_path / "store")) as store:
        flush(store, range(50))
        assert forget_all(store, Wanted(before_ms=20_000)) == 20
        assert_holds(store, range(20, 50))


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
    out = folder / f"{name}.verdicts"
    found = runner.invoke(
        app,
        ["replay", str(folder / name), "--verdicts", str(out), "--index", str(folder / "index")],
    )
    assert found.exit_code == 0, found.output
    return [json.loads(line) for line in out.read_text().splitlines()]


@pytest.mark.parametrize(
    ("options", "gone"),
    [
        (["--url", URLS[0]], [0]),
        (["--url", URLS[0], "--url", URLS[5]], [0, 5]),
        (["--host", "a.example"], [0, 1]),
        (["--host", "B.example"], [3]),
        (["--host", ".b.example"], [2, 3]),
        (["--host", "example"], []),
        (["--before", "2023-11-14T22:13:22Z"], [0, 1]),
        (["--host", "a.example", "--before", "2023-11-14T22:13:21Z"], [0, 1]),
    ],
)
def test_what_is_forgotten_answers_no_page_and_is_not_on_the_disk(
    index: Path, options: list[str], gone: list[int]
) -> None:
    told = runner.invoke(app, ["forget", str(index), *options, "--dry-run"])
    assert (told.exit_code, told.output.split()[0]) == (0, str(len(gone)))
    done = runner.invoke(app, ["forget", str(index), *options])
    assert (done.exit_code, done.output.split()[0]) == (0, str(len(gone)))
    held = b"".join(path.read_bytes() for path in index.rglob("*") if path.is_file())
    there = [url for url in URLS if held.count(url.encode())]
    assert there == [url for i, url in enumerate(URLS) if i not in gone]
    again = judge(index.parent, "again.jsonl", [page(i, "https://c.example/") for i in range(6)])
    assert [i for i, each in enumerate(again) if each["verdict"] == "unique"] == gone


def test_what_to_forget_must_be_said(index: Path) -> None:
    for options in ([], ["--before", "soon"]):
        result = runner.invoke(app, ["forget", str(index), *options])
        assert result.exit_code != 0
