"""The texts of kept pages, with `replay --kept --with-text`: those that were compared."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from streamer.text.visible import HTML, visible_text
from tests.helpers.place import Place, lines, replay_through_kills, said
from tests.integration.test_sites import crawl
from tests.unit.pages.test_table_copy import write

# Small, so that other pages of a site are judged between one and the next.
SITES = ("--preset", "balanced", "--site-memory", "1MiB")
PLAIN = {"url": "http://plain.example/", "body": "It is <no> page.\n\u00e9 \U0001f600"}


def records() -> list[dict[str, Any]]:
    pages = [{"url": url, "body": body, "more": [{}]} for url, body in crawl()]
    return [*pages[:7], PLAIN, *pages[7:]]


def texts_of(place: Place, pages: Path, *options: str) -> dict[str, str]:
    """Return the texts of pages by their URLs, as `streamer text` has them."""
    out = place.folder / "texts.jsonl"
    assert place.streamer("text", pages, "--out", out, "--overwrite", *options) == 0
    return {each["url"]: each["text"] for each in lines(out)}


def written(path: Path, form: str) -> Path:
    """Write the records as a file of this form."""
    if form == "folder":
        path.mkdir()
        for number, each in enumerate(records()):
            (path / f"{number:03}.jsonl").write_text(json.dumps(each))
    elif form == "parquet":
        rows = [each | {"more": [{}]} for each in records()]
        schema = pa.schema({name: pa.string() for name in ("url", "body")})
        write(path, pa.Table.from_pylist(rows, schema), 7)
    else:
        ends = " \r\n" if form == "jsonl" else "\n"
        path.write_text("".join(f"{json.dumps(each)}{ends}" for each in records()))
    return path


@pytest.mark.parametrize(("form", "out"), [("jsonl", "gz"), ("folder", "jsonl"), ("parquet", "gz")])
def test_lines_have_the_compared_text_as_a_field(place: Place, form: str, out: str) -> None:
    pages = written(place.folder / f"in.{form}", form)
    kept, others = place.folder / f"kept.jsonl.{out}", place.folder / "others.jsonl"
    outputs = ("--kept", kept, "--with-text", "--duplicates", others, "--complete")
    assert place.replay(pages, *outputs, *SITES, *place.key) == 0
    whole = kept.read_bytes()
    found = [
        json.loads(line) for line in (gzip.decompress(whole) if out == "gz" else whole).splitlines()
    ]
    wanted = texts_of(place, pages, *SITES)
    assert {each["url"]: each["text"] for each in found}.items() <= wanted.items()
    assert len(found) > 20
    assert not any("text" in each for each in lines(others))
    without = texts_of(place, pages, "--preset", "balanced", "--site-memory", "0")
    assert any(each["text"] != without[each["url"]] for each in found)  # sites have their part
    by_url = {each["url"]: each for each in records()}
    for each in found:
        own = by_url[each["url"]]
        assert each["body"] == own["body"]
        assert form == "parquet" or {**own, "text": each["text"]} == each


def test_without_main_text_it_is_all_that_is_visible(place: Place) -> None:
    pages, kept = written(place.folder / "in.jsonl", "jsonl"), place.folder / "kept.jsonl"
    assert place.replay(pages, "--kept", kept, "--with-text") == 0
    for each in lines(kept):
        visible = visible_text(each["body"].encode(), 0 if each["url"] == PLAIN["url"] else HTML)
        assert each["text"].split() == visible.split()


def test_a_line_that_is_repaired_keeps_its_bytes_and_gets_its_text(place: Place) -> None:
    bad = [b'{"url": "http://a.example/", "body": "cut %b' % end for end in (rb"\ud800", b"a \xe2")]
    pages, kept = place.write("in.jsonl", *(each + b'"}\n' for each in bad)), place.folder / "kept"
    assert place.replay(pages, "--kept", kept, "--with-text") == 0
    texts = (b"cut \xef\xbf\xbd", b"cut a \xef\xbf\xbd")
    wanted = [b'%b","text":"%b"}\n' % both for both in zip(bad, texts, strict=True)]
    assert kept.read_bytes() == b"".join(wanted)
    for carried in ((), ("--carry", "id")):  # with these the whole message is repaired
        out = place.folder / f"{len(carried)}.jsonl"
        assert place.streamer("replay", pages, "--verdicts", out, *carried) == 0
        assert place.streamer("score", pages, out) == 0


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_tables_have_it_as_a_column(place: Place, suffix: str) -> None:
    pages = written(place.folder / "in.parquet", "parquet")
    kept, others = (place.folder / f"{name}.{suffix}" for name in ("kept", "others"))
    outputs = ("--kept", kept, "--with-text", "--duplicates", others, *SITES, *place.key)
    assert place.replay(pages, *outputs) == 0
    read = parquet.read_table if suffix == "parquet" else feather.read_table
    table = read(kept)
    assert table.schema.names == ["url", "body", "text"]
    assert read(others).schema.names == ["url", "body"]
    found = {each["url"]: each["text"] for each in table.to_pylist()}
    assert found.items() <= texts_of(place, pages, *SITES).items()
    assert PLAIN["url"] in found
    more = place.folder / "more.parquet"
    rows = [{"url": "http://new.example/", "body": "<p>a new page <b>comes</b>"}, PLAIN]
    write(more, pa.Table.from_pylist(rows, table.schema.remove(2)), 1)
    assert place.replay(more, *outputs) == 0
    assert read(kept).to_pylist()[-1] == {**rows[0], "text": "a new page comes"}
    assert read(kept).num_rows == table.num_rows + 1


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_killed_run_goes_on_with_each_text_once(place: Place, form: str) -> None:
    pages = written(place.folder / f"in.{form}", form)
    suffix = "parquet" if form == "parquet" else "jsonl"

    def arguments(name: str) -> tuple[str | Path, ...]:
        kept, verdicts = (place.folder / f"{name}.{each}" for each in (suffix, "verdicts.jsonl"))
        outputs = ("--verdicts", verdicts, "--index", place.folder / name, "--kept", kept)
        return (pages, *outputs, "--with-text", *SITES, *place.key, "--head-pages", "9")

    kills = (2, "_judge_new"), (2, "flush"), (4, "_write"), (3, "sync")
    replay_through_kills(kills, *arguments("killed"))
    assert place.streamer("replay", *arguments("quiet")) == 0
    killed, quiet = (place.folder / f"{name}.{suffix}" for name in ("killed", "quiet"))
    assert killed.read_bytes() == quiet.read_bytes()


def test_a_text_without_place_is_refused(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    own = {"url": "http://a.example/", "body": "a page", "text": "its own"}
    path = place.write("own.jsonl", json.dumps(own).encode(), b"\n")
    table = place.folder / "own.parquet"
    write(table, pa.Table.from_pylist([own]), 1)
    warc = place.write(
        "a.warc", b"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: 1\r\n\r\na\r\n\r\n"
    )
    assert place.replay(path, "--with-text") == 2
    assert "Give --kept too" in said(capsys)
    for pages in (path, table):
        outputs = ("--kept", place.folder / f"kept{pages.suffix}", "--with-text")
        assert place.replay(pages, *outputs) == 2
        assert "has a field or column 'text' already" in said(capsys)
    assert place.replay(warc, "--kept", place.folder / "kept.warc", "--with-text") == 2
    assert "no field for a text" in said(capsys)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_an_index_goes_on_as_it_began(
    place: Place, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    pages = written(place.folder / "in.parquet", "parquet")
    kept = ("--kept", place.folder / f"kept.{suffix}")
    assert place.replay(pages, *kept, "--with-text") == 0
    assert place.replay(pages, *kept) == 2
    assert "have their text: give --with-text" in said(capsys)
    new = ("replay", pages, "--verdicts", place.folder / "w.jsonl", "--index", place.folder / "new")
    others = ("--kept", place.folder / f"others.{suffix}")
    assert place.streamer(*new, *others) == 0
    assert place.streamer(*new, *others, "--with-text") == 2
    assert "have no text: leave out --with-text" in said(capsys)
