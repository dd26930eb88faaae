"""The pages "Coming from ..." run: both sides where the other library is here, else ours alone."""

import gzip
import json
import re
import tomllib
import zipfile
from pathlib import Path
from random import Random
from string import ascii_lowercase
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from benchmarks.peers.datatrove_minhash import SpacedWords
from tests.helpers.cdx import warc_record
from tests.helpers.place import lines
from tests.integration.test_examples import run

ROOT = Path(__file__).parents[2]
PAGES = {path.stem: path for path in (ROOT / "docs" / "coming-from").glob("*.md")}
TEXTS = 40


def blocks(page: str, language: str) -> list[str]:
    text = PAGES[page].read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def texts() -> dict[str, str]:
    """Return texts; each third one is that before it with a few words more."""
    rng, text, found = Random(1), "", dict[str, str]()
    for number in range(TEXTS):
        words = ("".join(rng.choices(ascii_lowercase, k=5)) for _ in range(60))
        text = f"{text} and two words" if number % 3 == 2 else " ".join(words)
        found[f"http://a.example/{number}"] = text
    return found


COPIES = {name for number, name in enumerate(texts()) if number % 3 == 2}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder of a page, with a folder for data."""
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_parquet(folder: Path) -> None:
    rows = [{"id": name, "text": text} for name, text in texts().items()]
    parquet.write_table(pa.Table.from_pylist(rows), folder / "data" / "part.parquet")


def ids(path: Path) -> list[str]:
    found: list[str] = parquet.read_table(path).column("id").to_pylist()
    return found


def run_ours(page: str, folder: Path) -> None:
    script = "".join(blocks(page, "sh"))
    assert script
    done = run(script, folder)
    assert done.returncode == 0, done.stdout


def test_a_page_is_short_and_there_is_one_for_each_tool() -> None:
    assert PAGES.keys() == {"browsertrix", "datasketch", "datatrove", "nemo-curator", "text-dedup"}
    for path in PAGES.values():
        assert 25 <= len(path.read_text(encoding="utf-8").splitlines()) <= 45, path


def test_datasketch_finds_the_same_pages(folder: Path) -> None:
    (folder / "texts.json").write_text(json.dumps(texts()))
    found: dict[str, Any] = {}
    for block in blocks("datasketch", "python"):
        exec(block, found)  # noqa: S102 - the page's own code
    assert found["ours"] == found["theirs"]
    assert found["ours"].keys() == COPIES


def test_datatrove_keeps_the_same_pages(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parquet(folder)
    monkeypatch.setattr(  # spaCy is not installed here
        "datatrove.pipeline.dedup.minhash.load_word_tokenizer", lambda _language: SpacedWords()
    )
    [theirs] = blocks("datatrove", "python")
    exec(theirs, {})  # noqa: S102 - the page's own code
    run_ours("datatrove", folder)
    [kept] = [ids(path) for path in folder.glob("theirs/*.parquet")]
    assert {*ids(folder / "ours.parquet")} == texts().keys() - COPIES
    # Of two pages that are alike, theirs keeps either.
    assert len(kept) == TEXTS - len(COPIES)


@pytest.mark.parametrize("page", ["nemo-curator", "text-dedup"])
def test_ours_runs_where_the_other_tool_is_not_here(folder: Path, page: str) -> None:
    write_parquet(folder)
    run_ours(page, folder)
    assert {*ids(folder / "clean.parquet")} == texts().keys() - COPIES
    for block in blocks(page, "toml"):
        assert tomllib.loads(block)["algorithm"]["threshold"] == 0.7
    for block in blocks(page, "python"):
        compile(block, page, "exec")
    if page == "text-dedup":
        assert {each["url"] for each in lines(folder / "clusters.jsonl")} >= COPIES


def test_a_collection_of_browsertrix_becomes_one_without_copies(folder: Path) -> None:
    archive = folder / "crawls" / "collections" / "site" / "site.wacz"
    archive.parent.mkdir(parents=True)
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>"
    headers = {"WARC-Date": "2026-01-01T00:00:00Z", "Content-Type": "application/http"}.items()
    records = [
        warc_record("response", name, http + text.encode(), *headers)
        for name, text in texts().items()
    ]
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("archive/data.warc", b"".join(records))
    run_ours("browsertrix", folder)
    said = {
        each["url"] for each in lines(folder / "verdicts.jsonl") if each["verdict"] == "duplicate"
    }
    assert said == COPIES
    revisits = gzip.decompress((folder / "revisits.warc.gz").read_bytes())
    assert revisits.count(b"WARC-Type: metadata") == len(COPIES)
