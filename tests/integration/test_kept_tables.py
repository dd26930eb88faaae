"""Rows of kept pages as a table, with `replay --kept`: each once, whatever kill came.

With `--with-text` rows and lines have their texts: those that were compared.
"""

import gzip
import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from streamer.errors import StoreUnavailable
from streamer.run.kept_tables import KeptTable
from streamer.run.output_checks import part_of
from streamer.text.visible import HTML, visible_text
from tests.helpers.growing_index import everything
from tests.helpers.kills import code_of
from tests.helpers.place import Place, lines, page, replay_through_kills, said
from tests.integration.test_sites import crawl as sites_crawl
from tests.unit.pages.test_table_copy import write

DIES = """
import os, sys, unittest.mock
from streamer.cli.main import app
def die(*_arguments):
    os.kill(os.getpid(), 9)
with unittest.mock.patch(sys.argv.pop(1), die):
    app(standalone_mode=False)
"""
COLUMNS = pa.schema(
    {
        "url": pa.string(), "body": pa.string(), "score": pa.int32(),
        "meta": pa.struct({"tags": pa.list_(pa.string())}),
    }
).with_metadata({"made": "here"})  # fmt: skip


def crawl(start: int, count: int) -> list[dict[str, Any]]:
    """Return rows: pages, of which many are copies, and some that are none."""
    rows = []
    for number in range(start, start + count):
        row = json.loads(page(number * 7 % 31 if number % 3 else number))
        row |= {"score": number, "meta": {"tags": ["x"] * (number % 3)}}
        rows.append(row | ({"body": None} if number % 17 == 5 else {}))
    return rows


def write_rows(path: Path, rows: list[dict[str, Any]], group_rows: int = 13) -> Path:
    path.parent.mkdir(exist_ok=True)
    return write(path, pa.Table.from_pylist(rows, COLUMNS), group_rows)


def read_rows(path: Path) -> list[dict[str, Any]]:
    table = parquet.read_table(path) if path.suffix == ".parquet" else feather.read_table(path)
    assert table.schema.equals(COLUMNS)
    assert table.schema.metadata[b"made"] == b"here"
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def split(verdicts: Path, files: dict[Path, list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """Return the kept and the other rows of a verdict file, in the order of the files."""
    is_kept = {
        (each["page"]["topic"], each["page"]["offset"]): each["verdict"] == "unique"
        for each in lines(verdicts)
    }
    judged = [
        (is_kept[place], row)
        for path, rows in files.items()
        for number, row in enumerate(rows)
        if (place := (str(path), number)) in is_kept
    ]
    return [[row for own, row in judged if own is kept] for kept in (True, False)]


@pytest.mark.parametrize(
    ("suffix", "out"), [("parquet", "parquet"), ("arrow", "parquet"), ("parquet", "feather")]
)
def test_rows_stay_rows_in_the_order_of_their_files(place: Place, suffix: str, out: str) -> None:
    files = {
        write_rows(place.folder / "in" / f"{name}.{suffix}", rows): rows
        for name, rows in (("a", crawl(0, 200)), ("b", crawl(7, 5)), ("c", crawl(150, 90)))
    }
    kept, others = (place.folder / f"{name}.{out}" for name in ("kept", "others"))
    arguments = ("--kept", kept, "--duplicates", others, "--threads", "3")
    assert place.replay(place.folder / "in", *arguments, "--head-pages", "25") == 0
    wanted = split(place.verdicts, files)
    assert all(wanted)
    assert [read_rows(kept), read_rows(others)] == wanted
    before = kept.stat()
    assert place.replay(place.folder / "in", *arguments) == 0
    assert kept.stat().st_mtime_ns == before.st_mtime_ns  # of the same rows it is not made again
    clean = place.folder / f"clean.{out}"
    assert place.streamer("select", place.verdicts, place.folder / "in", "--out", clean) == 0
    assert read_rows(clean) == wanted[0]


def test_a_run_without_an_index_leaves_the_table_alone(place: Place) -> None:
    rows = crawl(0, 60)
    path = write_rows(place.folder / "in.parquet", rows)
    kept, others = place.folder / "kept.parquet", place.folder / "others.jsonl"
    run = ("replay", path, "--verdicts", place.verdicts, "--kept", kept, "--duplicates", others)
    assert place.streamer(*run) == 0
    wanted = split(place.verdicts, {path: rows})
    assert (read_rows(kept), lines(others)) == (wanted[0], wanted[1])
    assert not [*place.folder.glob("*.rows*")]
    assert place.streamer(*run) == 2
    assert place.streamer(*run, "--overwrite") == 0


def test_a_table_without_rows_has_its_columns(place: Place) -> None:
    [path] = _folder(place, ["in.parquet"])
    others = place.folder / "others.parquet"
    assert place.replay(path, "--duplicates", others) == 0
    assert read_rows(others) == []


@pytest.mark.parametrize(
    ("option", "where"),
    [
        ("--kept", "streamer.cli.replay.KeptTable.write"),  # all is flushed
        ("--kept", "streamer.pages.table_copy.ChosenRows.__new__"),
        ("--kept", "streamer.run.outputs.Path.replace"),  # the new file is complete, without name
        ("--verdicts", "streamer.cli.replay.VerdictTable.write"),
        ("--verdicts", "streamer.run.verdict_files.Path.replace"),
    ],
)
def test_a_kill_at_the_end_leaves_the_table_to_the_next_run(
    place: Place, option: str, where: str
) -> None:
    one, two = (
        write_rows(place.folder / f"{start}.parquet", crawl(start, 40)) for start in (0, 30)
    )

    def run(name: str) -> list[str]:
        outputs = {"--verdicts": f"{name}.jsonl", option: f"{name}.parquet", "--index": name}
        named = [str(word) for each, out in outputs.items() for word in (each, place.folder / out)]
        return ["replay", *named, *map(str, place.key)]

    killed, quiet = (place.folder / f"{name}.parquet" for name in ("killed", "quiet"))
    for name in ("killed", "quiet"):
        assert place.streamer(*run(name), one) == 0
    before = killed.read_bytes()
    assert code_of(DIES, where, *run("killed"), two) == -signal.SIGKILL
    assert killed.read_bytes() == before
    for name in ("killed", "quiet"):
        assert place.streamer(*run(name), two) == 0
    assert parquet.read_table(killed).equals(parquet.read_table(quiet))
    assert killed.read_bytes() != before
    assert not part_of(str(killed)).exists()


def test_if_one_file_fails_others_do_not(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_rows(place.folder / "in.parquet", crawl(0, 40))
    names = [place.folder / f"{each}.parquet" for each in ("verdicts", "kept", "others")]
    run = ("replay", path, "--verdicts", names[0], "--kept", names[1], "--duplicates", names[2])
    write, made = KeptTable.write, "streamer.cli.replay.KeptTable.write"

    def full(table: KeptTable, *arguments: Any) -> None:
        if table.name == str(names[1]):
            raise StoreUnavailable(f"No space is left for {table.name}.")
        write(table, *arguments)

    with mock.patch(made, full):
        assert place.streamer(*run) == 1
    assert f"No space is left for {names[1]}" in said(capsys)
    assert parquet.read_table(names[0]).num_rows > len(read_rows(names[2])) > 0
    assert not names[1].exists()


def test_further_runs_make_the_table_of_all_rows_or_say_what_is_gone(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        write_rows(place.folder / f"{start}.parquet", rows): rows
        for start in (0, 20, 40)
        for rows in [crawl(start, 30)]
    }
    one, two, three = files
    kept = place.folder / "kept.parquet"
    for path in (one, two):
        assert place.replay(path, "--kept", kept) == 0
    whole = read_rows(kept)
    moved = one.rename(place.folder / "moved.parquet")
    before = everything(place.folder)
    assert place.replay(three, "--kept", kept) == 2
    assert f"has rows of {one}, which is not there any more. Put it back, or give --moved" in said(
        capsys
    )
    assert everything(place.folder) == before
    write_rows(one, crawl(1, 30))
    before = everything(place.folder)
    assert place.replay(three, "--kept", kept) == 1
    assert f"{one}: has changed since its rows were judged" in said(capsys)
    assert read_rows(kept) == whole
    assert everything(place.folder) == before
    one.unlink()
    assert place.replay(three, moved, "--kept", kept, "--moved", f"{one}={moved}") == 0
    assert read_rows(kept) == split(place.verdicts, files)[0]
    assert place.replay(three) == 2
    assert f"The index writes --kept {kept}, which would lack" in said(capsys)


def _folder(place: Place, names: Sequence[str]) -> list[Path]:
    """Write files of these names, each of its kind; `other` has columns of its own."""
    found = []
    for name in names:
        path = place.folder / name
        if path.suffix == ".parquet":
            table = pa.Table.from_pylist(crawl(0, 3), COLUMNS)
            parquet.write_table(table.drop(["score"]) if "other" in name else table, path)
        else:
            text = b"<p>some words of a page" if path.suffix == ".html" else page(1)
            path.write_bytes(b"url,body\nu,some words\n" if path.suffix == ".csv" else text)
        found.append(path)
    return found


@pytest.mark.parametrize(
    ("names", "out", "why"),
    [
        (["a.jsonl"], "k.parquet", "a.jsonl is not a Parquet or Arrow file, and --kept"),
        (["a.parquet", "b.csv"], "k.arrow", "b.csv is not a Parquet or Arrow file, and --kept"),
        (["a.html"], "k.parquet", "Name the output .jsonl for it"),
        (["a.parquet", "other.parquet"], "k.parquet", "other.parquet has other columns than"),
        (["a.parquet"], "k.parquet.zst", "named as Parquet, but pages are written as JSON lines"),
    ],
)
def test_other_inputs_are_refused_before_anything_is_judged(
    place: Place, names: list[str], out: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = _folder(place, names)
    before = everything(place.folder)
    with mock.patch("streamer.run.replay.Replay.run", side_effect=AssertionError):
        assert place.replay(*paths, "--kept", place.folder / out) == 2
    assert why in said(capsys)
    assert everything(place.folder) == before


def test_a_pipe_and_a_topic_are_refused(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.replay("-", "--kept", place.folder / "k.parquet") == 2
    assert "- is not a Parquet or Arrow file" in said(capsys)
    topic = ("--from-topic", "pages", "--verdicts", place.verdicts)
    assert place.streamer("replay", *topic, "--kept", place.folder / "k.parquet") == 2
    assert "a topic has messages. Name it .jsonl" in said(capsys)


@pytest.mark.parametrize("option", ["--kept", "--duplicates", "--verdicts"])
def test_an_index_replaces_only_the_table_that_it_has_made(
    place: Place, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two, three = (
        write_rows(place.folder / f"{start}.parquet", crawl(start, 30)) for start in (0, 20, 40)
    )
    table = place.folder / "table.parquet"
    more: list[str | Path] = [] if option == "--verdicts" else ["--verdicts", place.verdicts]
    run: list[str | Path] = ["replay", "--index", place.index, *more, option, table]
    assert place.streamer(*run, one) == 0
    own = table.read_bytes()
    table.write_bytes(own[:-1] + b"x")
    before = everything(place.folder)
    assert place.streamer(*run, one, two) == 2
    assert f"{table} exists, and this index has not made it" in said(capsys)
    assert everything(place.folder) == before
    table.unlink()
    assert place.streamer(*run, one, two) == 0
    assert table.read_bytes() != own
    assert place.streamer(*run, one, two, three) == 0


# Small, so that other pages of a site are judged between one and the next.
SITES = ("--preset", "balanced", "--site-memory", "1MiB")
PLAIN = {"url": "http://plain.example/", "body": "It is <no> page.\n\u00e9 \U0001f600"}


def records() -> list[dict[str, Any]]:
    pages = [{"url": url, "body": body, "more": [{}]} for url, body in sites_crawl()]
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

    kills = (2, "_judge_chunk"), (2, "flush"), (4, "_write"), (3, "sync")
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
