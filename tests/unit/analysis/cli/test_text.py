"""The command `text`: a record with the text of each page, as JSON lines and as Parquet."""

import gzip
import json
from pathlib import Path

import pytest
from pyarrow import parquet

import streamer
from streamer.errors import InputError, SettingsError
from tests.helpers.commands import invoked, refusal
from tests.helpers.fleet import streamer as streamer_process
from tests.integration.test_main_text import PAGES
from tests.unit.analysis.test_clusters import write


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    records = [{"url": url, "body": body} for url, body in PAGES.items()]
    return write(tmp_path / "pages.jsonl", [*records, {"body": "no URL"}])


def test_each_page_has_a_line_with_its_text(pages: Path) -> None:
    out = pages.with_name("texts.jsonl.gz")
    result = invoked("text", pages, "--out", out)
    found = [json.loads(line) for line in gzip.decompress(out.read_bytes()).splitlines()]
    assert [each["url"] for each in found] == [*PAGES]
    kinds = ["main", "main", "main", "visible", "visible", "plain"]
    assert [each["kind"] for each in found] == kinds
    for number, (each, html) in enumerate(zip(found[:5], PAGES.values(), strict=False)):
        own = streamer.extract(html)
        assert (each["title"], each["text"]) == (own.title, own.text)
        assert each["page"] == {"topic": str(pages), "partition": 0, "offset": number}
        assert "blocks" not in each
    assert found[5]["text"] == PAGES["http://text.example/"]
    rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert rows[:4] == ["pages 6", "main 3", "plain 1", "visible 2"]
    assert "1 records have no text (1 missing_url)" in result.stderr


def test_texts_go_to_stdout_and_to_parquet(pages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.analysis.cli.text._GROUP_BYTES", 1)
    out = pages.with_name("texts.parquet")
    done = streamer_process("text", pages, "--out", "-", "--blocks", "--preset", "balanced")
    invoked("text", pages, "--out", out, "--blocks", "--preset", "balanced")
    lines = done.stdout
    assert "visible 2" in " ".join(done.stderr.split())
    found = [json.loads(line) for line in lines.splitlines()]
    rows = parquet.read_table(out).to_pylist()
    assert len(rows) == len(found) == len(PAGES)
    for row, line in zip(rows, found, strict=True):
        place = line.pop("page")
        assert {name: row.pop(f"page_{name}") for name in place} == place
        assert row == {"blocks": None, **line}
    assert {block["left_out"] for block in found[0]["blocks"]} == {None, "links", "unlikely"}
    visible = pages.with_name("visible.jsonl")
    invoked("text", pages, "--out", visible, "--text", "visible")
    kinds = {json.loads(line)["kind"] for line in visible.read_text().splitlines()}
    assert kinds == {"visible", "plain"}


def test_nothing_is_left_of_a_run_that_fails(pages: Path) -> None:
    out = pages.with_name("texts.jsonl")
    damaged = pages.with_name("damaged.jsonl.gz")
    damaged.write_bytes(gzip.compress(pages.read_bytes())[:-20])
    assert isinstance(refusal("text", damaged, "--out", out)[0], InputError)
    assert not out.exists()
    table = pages.with_name("texts.csv")
    assert "names no format" in str(refusal("text", pages, "--out", table)[0])
    out.write_text("mine")
    assert isinstance(refusal("text", pages, "--out", out)[0], SettingsError)
    assert isinstance(refusal("text", pages, "--out", pages, "--overwrite")[0], SettingsError)
    assert out.read_text() == "mine"
    invoked("text", pages, "--out", out, "--overwrite")
    assert len(out.read_text().splitlines()) == len(PAGES)
