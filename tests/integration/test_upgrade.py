"""An index of an older format, or judged by other settings: what that means is said before."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from streamer.index.codec import FORMAT, READ_FORMATS
from streamer.run.index_folder import store_folder
from streamer.stored.store import Store
from tests.helpers.damage import digests
from tests.helpers.growing_index import run
from tests.unit.stored.test_forget import URLS, page

if TYPE_CHECKING:
    from pathlib import Path


def judge(folder: Path, *options: object) -> tuple[int, str]:
    """Judge pages with an index in a folder; return the exit code and what was said."""
    pages = folder / "pages.jsonl"
    pages.write_text("".join(page(i, url) for i, url in enumerate(URLS)))
    return run(
        "replay", pages, "--index", folder / "index", "--verdicts", folder / "v.jsonl", *options
    )


def format_of(index: Path) -> int:
    with contextlib.closing(Store.open(store_folder(index), writable=False)) as store:
        assert store.meta is not None
        return store.meta.format


@pytest.fixture
def older(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with an index that says it has the format before ours."""
    with monkeypatch.context() as patch:
        patch.setattr("streamer.stored.store.FORMAT", READ_FORMATS[-2])
        assert judge(tmp_path, "--head-pages", 2)[0] == 0
    assert format_of(tmp_path / "index") == READ_FORMATS[-2] < FORMAT
    return tmp_path


@pytest.mark.parametrize("command", ["replay", "forget"])
def test_an_older_index_is_converted_after_that_was_said_or_refused(
    older: Path, command: str
) -> None:
    index = older / "index"

    def give(*options: str) -> tuple[int, str]:
        if command == "replay":
            return run(
                "replay", older / "more.jsonl", "--index", index, "--verdicts", older / "w.jsonl",
                *options,
            )  # fmt: skip
        return run("forget", index, "--host", "a.example", *options)

    (older / "more.jsonl").write_text(page(9, "https://more.example/"))
    before = digests(index)
    code, said = give("--no-convert")
    assert (code, f"has format {READ_FORMATS[-2]}" in said) == (3, True), said
    assert digests(index) == before
    code, said = give()
    assert code == 0, said
    last = {"replay": "pages judged", "forget": "kept pages forgotten"}[command]
    assert said.index("is converted to") < said.index(last)
    assert format_of(index) == FORMAT
    code, said = give("--no-convert")
    assert (code, "convert" in said) == (0, False), said


def test_settings_that_change_are_named_with_what_they_hold_for(tmp_path: Path) -> None:
    assert judge(tmp_path)[0] == 0
    code, said = judge(tmp_path)
    assert (code, "Settings have changed" in said) == (0, False)
    code, said = judge(tmp_path, "--threshold", "0.9")
    assert code == 0
    assert "threshold (before: 0.8, now: 0.9)" in said
    assert f"The {len(URLS)} records judged before keep their verdicts" in said
    assert "name another --index and other output files" in said
