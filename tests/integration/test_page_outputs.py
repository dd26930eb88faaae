"""The pages themselves, with --kept and --duplicates: each once, as it came, whatever kill came.

`select` chooses pages again: by the earliest, those that the run has kept.
"""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from warcio.archiveiterator import ArchiveIterator

from streamer.compression import zstd
from streamer.run.output_checks import part_of
from tests.helpers.growing_index import everything
from tests.helpers.pipes import piped
from tests.helpers.place import Place, lines, page, replay_through_kills
from tests.integration.test_formats import write_rows, write_table
from tests.integration.test_small_files import FILES, write_files

BROKEN = b"{broken\n"


def crawl(count: int) -> list[bytes]:
    """Return lines: pages, of which many are copies, and some that are none."""
    pages = [page(number * 7 % 31 if number % 3 else number) for number in range(count)]
    pages[5::17] = [BROKEN] * len(pages[5::17])
    pages[8::19] = [b"\n"] * len(pages[8::19])
    return pages


def text_of(number: int) -> bytes:
    body: str = json.loads(page(number))["body"]
    return body.encode()


def warc_record(number: int, kind: str = "response") -> bytes:
    body = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + text_of(number)
    fields = [
        "WARC/1.0", f"WARC-Type: {kind}", f"WARC-Target-URI: http://a.example/{number}",
        f"WARC-Record-ID: <urn:uuid:{number:032x}>", "WARC-Date: 2026-01-01T00:00:00Z",
        "Content-Type: application/http; msgtype=response", f"content-length:   {len(body)}",
    ]  # fmt: skip
    return "\r\n".join(fields).encode() + b"\r\n\r\n" + body + b"\r\n\r\n"


def arc_record(number: int) -> bytes:
    body = b"HTTP/1.1 200 OK\nContent-Type: text/html\n\n" + text_of(number)
    head = b"http://a.example/%d 10.0.0.1 20260101000000 text/html %d\n" % (number, len(body))
    return head + body + b"\n"


def expanded(path: Path) -> bytes:
    data = path.read_bytes()
    if not data or path.suffix not in {".gz", ".zst"}:
        return data
    return gzip.decompress(data) if path.suffix == ".gz" else zstd.decompress(data)


def split(verdicts: Path, record: Callable[[str, int], bytes]) -> tuple[bytes, bytes]:
    """Return the kept and the other records of a verdict file, in its order."""
    found: dict[str, list[bytes]] = {"unique": [], "duplicate": []}
    for each in lines(verdicts):
        at = each["page"]
        found[each["verdict"]].append(record(at["topic"], at["offset"]))
    return b"".join(found["unique"]), b"".join(found["duplicate"])


def line_of(name: str, ordinal: int) -> bytes:
    """Return a record of a file, as its reader finds it."""
    data = Path(name).read_bytes()
    data = gzip.decompress(data) if name.endswith(".gz") else data
    return data.removeprefix(b"\xef\xbb\xbf").split(b"\n")[ordinal] + b"\n"


def test_kept_duplicates_and_dead_letters_are_all_records_each_once(place: Place) -> None:
    write_files(place.folder / "in", FILES)
    place.write("in/large.jsonl", *crawl(500)[:-1], page(499).rstrip())
    kept, others = place.folder / "kept.jsonl.gz", place.folder / "others.jsonl.zst"
    outputs = ("--kept", kept, "--duplicates", others, "--complete", "--threads", "3")
    summary = place.folder / "summary.json"
    more = ("--head-pages", "16", "--summary", summary)
    with mock.patch("streamer.pages.chunk.CHUNK_RECORDS_MAX", 50):
        assert place.replay(place.folder / "in", *outputs, *more) == 0
    wanted = split(place.verdicts, line_of)
    assert all(wanted)
    assert (expanded(kept), expanded(others)) == wanted
    counts = json.loads(summary.read_bytes())
    dead = lines(Path(f"{place.verdicts}.dead.jsonl"))
    written = sum(each.count(b"\n") for each in wanted)
    assert counts["records"] == written + len(dead) + sum(counts["skipped"].values())


@pytest.mark.parametrize("kind", ["warc", "arc"])
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_archive_records_come_as_they_were_once(place: Place, kind: str, suffix: str) -> None:
    record = warc_record if kind == "warc" else arc_record
    numbers = [number * 5 % 40 for number in range(90)]
    first = (
        warc_record(0, "request")
        if kind == "warc"
        else b"filedesc://a.arc 0.0.0.0 20260101 text/plain 3\nabc\n"
    )
    records = [first, *map(record, numbers)]
    pages = place.write(f"in.{kind}.gz", *map(gzip.compress, records))
    kept, others = (place.folder / f"{name}.{kind}{suffix}" for name in ("kept", "others"))
    assert place.replay(pages, "--kept", kept, "--duplicates", others) == 0
    wanted = split(place.verdicts, lambda _name, ordinal: records[ordinal])
    assert (expanded(kept), expanded(others)) == wanted
    if suffix != ".zst":
        with kept.open("rb") as file:
            found = [
                each.rec_headers.get_header("WARC-Target-URI") or each.rec_headers.get_header("uri")
                for each in ArchiveIterator(file)
            ]
        assert found == [f"http://a.example/{number}" for number in dict.fromkeys(numbers)]
        again = place.folder / "again.jsonl"
        assert place.streamer("replay", kept, "--verdicts", again) == 0
        assert {each["verdict"] for each in lines(again)} == {"unique"}
        assert len(lines(again)) == len(found)


@pytest.mark.parametrize(
    ("form", "table"), [("jsonl.gz", "csv"), ("jsonl.zst", "csv.gz"), ("warc.gz", "jsonl")]
)
def test_a_killed_run_goes_on_with_each_page_once(place: Place, form: str, table: str) -> None:
    is_warc = form.startswith("warc")
    numbers = [number * 7 % 31 if number % 3 else number for number in range(300)]
    records = [*map(warc_record, numbers)] if is_warc else crawl(300)
    pages = place.write("in.warc" if is_warc else "in.jsonl", *records)

    def arguments(name: str, table: str = table) -> tuple[str | Path, ...]:
        kept, others = (place.folder / f"{name}.{part}.{form}" for part in ("kept", "others"))
        few = ("--head-pages", "25", "--threads", "3", "--complete")
        outputs: tuple[str | Path, ...] = ("--kept", kept, "--duplicates", others)
        if is_warc:
            outputs += "--revisits", place.folder / f"{name}.revisits.warc.zst"
        verdicts = place.folder / f"{name}.verdicts.{table}"
        own = ("--verdicts", verdicts, "--index", place.folder / name, *place.key)
        return (pages, *own, *outputs, *few)

    kills = (3, "start"), (6, "_judge_chunk"), (3, "flush"), (11, "_write")
    replay_through_kills(kills, *arguments("killed"))
    assert place.streamer("replay", *arguments("quiet")) == 0
    assert place.streamer("replay", *arguments("lines", "jsonl")) == 0
    verdicts = [place.folder / f"{name}.verdicts.{table}" for name in ("killed", "quiet")]
    assert expanded(verdicts[0]) == expanded(verdicts[1])
    if is_warc:
        killed, once = (place.folder / f"{name}.revisits.warc.zst" for name in ("killed", "quiet"))
        assert expanded(killed) == expanded(once) != b""
    found = [expanded(place.folder / f"killed.{part}.{form}") for part in ("kept", "others")]
    quiet = place.folder / "lines.verdicts.jsonl"
    assert tuple(found) == split(quiet, lambda _name, ordinal: records[ordinal])


def test_an_index_goes_on_in_the_same_file_in_another_one_and_never_without(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, later = place.folder / "kept.jsonl", place.folder / "later.jsonl"
    one, two = place.write("1.jsonl", page(1), page(1)), place.write("2.jsonl", page(2), page(1))
    assert place.replay(one, "--kept", kept) == 0
    assert place.replay(one, two, "--kept", kept) == 0
    assert kept.read_bytes() == page(1) + page(2)
    three = place.write("3.jsonl", page(3), page(2))
    before = everything(place.folder)
    assert place.replay(three) == 2
    assert "Give --kept with this file" in " ".join(capsys.readouterr().err.split())
    assert place.replay(three, "--kept", kept, "--duplicates", place.folder / "others") == 2
    assert "has judged pages without --duplicates" in " ".join(capsys.readouterr().err.split())
    assert everything(place.folder) == before
    assert place.replay(three, "--kept", later) == 0
    assert (kept.read_bytes(), later.read_bytes()) == (page(1) + page(2), page(3))
    moved = later.rename(place.folder / "moved.jsonl")
    change = ("--moved", f"{later}={moved}")
    assert place.replay(place.write("4.jsonl", page(4)), "--kept", moved, *change) == 0
    assert moved.read_bytes() == page(3) + page(4)


def test_standard_input_to_standard_output_is_a_filter(place: Place) -> None:
    pages = [page(1), page(2).rstrip() + b"\r\n", page(1), BROKEN, page(3).rstrip()]
    done = piped(b"".join(pages), "replay", "-", "--kept", "-", "--verdicts", place.verdicts)
    assert done.returncode == 0, done.stderr
    assert done.stdout == pages[0] + pages[1] + pages[4] + b"\n"


def test_the_other_names_of_an_output_that_is_replaced_keep_what_they_have(place: Place) -> None:
    pages = place.write("in.jsonl", page(1))
    out = place.folder / "v.jsonl"
    os.link(place.write("real", b"old"), out)
    assert place.streamer("replay", pages, "--verdicts", out, "--overwrite") == 0
    assert (place.folder / "real").read_text() == "old"
    assert "unique" in out.read_text()


NUMBERS = [number * 7 % 40 for number in range(90)]


def write_lines(folder: Path) -> None:
    write_files(folder, 60)
    (folder / "large.jsonl.gz").write_bytes(gzip.compress(b"".join(crawl(500)).rstrip()))
    spread = json.dumps([json.loads(page(number)) for number in NUMBERS], indent=1)
    (folder / "spread.json").write_text(spread)


def write_archive(folder: Path) -> None:
    for kind, record in (("warc", warc_record), ("warc.gz", warc_record)):
        records = map(record, NUMBERS)
        packed = map(gzip.compress, records) if kind.endswith("gz") else records
        (folder / f"in.{kind}").write_bytes(b"".join(packed))


def write_tables(folder: Path) -> None:
    pages = [json.loads(page(number)) for number in NUMBERS]
    write_table(folder / "in.parquet", [{**each, "more": each["url"]} for each in pages])
    write_rows(folder / "in.csv", pages)


def write_texts(folder: Path) -> None:
    for number in NUMBERS[:50]:
        body = json.loads(page(number))["body"]
        (folder / f"{len([*folder.iterdir()]):03}.txt").write_text(body)


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (write_lines, "jsonl"), (write_lines, "jsonl.zst"), (write_archive, "warc.gz"),
        (lambda folder: (folder / "in.arc").write_bytes(b"".join(map(arc_record, NUMBERS))), "arc"),
        (write_tables, "jsonl.gz"), (write_texts, "jsonl"),
    ],
)  # fmt: skip
def test_the_earliest_pages_are_those_that_the_run_kept(
    place: Place, write: Callable[[Path], None], name: str
) -> None:
    pages, kept, out = (place.folder / each for each in ("in", f"kept.{name}", f"out.{name}"))
    pages.mkdir()
    write(pages)
    prefix = ("--url-prefix", "http://a.example/")
    options = ("--kept", kept, "--complete", *prefix)
    assert place.replay(pages, *options) == 0
    assert place.streamer("select", place.verdicts, pages, "--out", out, *prefix) == 0
    assert expanded(out) == expanded(kept)
    said = [each["verdict"] for each in lines(place.verdicts)]
    assert min(said.count("unique"), said.count("duplicate")) >= 10
    assert not part_of(str(out)).exists()


def test_a_later_run_on_an_index_has_survivors_of_its_own_only(place: Place) -> None:
    one = place.write("1.jsonl", page(1), page(2))
    two = place.write("2.jsonl", page(2), page(3), page(1), page(3))
    kept, later, out = (place.folder / name for name in ("kept.jsonl", "later.jsonl", "out.jsonl"))
    assert place.replay(one, "--kept", kept) == 0
    verdicts = place.folder / "later.verdicts.jsonl"
    index = ("--index", place.index, "--verdicts", verdicts, "--kept", later)
    assert place.streamer("replay", two, *index) == 0
    assert place.streamer("select", verdicts, two, "--out", out) == 0
    assert out.read_bytes() == later.read_bytes() == page(3)
    both = place.write("both.verdicts.jsonl", place.verdicts.read_bytes(), verdicts.read_bytes())
    options = ("--out", out, "--overwrite")
    assert place.streamer("select", both, one, two, *options) == 0
    assert out.read_bytes() == page(1) + page(2) + page(3)
    assert place.streamer("select", both, two, *options) == 1
    assert place.streamer("select", both, two, "--some", *options) == 0
    assert out.read_bytes() == page(3)


def test_pages_of_a_pipe_are_selected_from_the_same_pipe(place: Place) -> None:
    data = b"".join((page(1), page(1), b"{broken\n", page(2)))
    piped(data, "replay", "-", "--verdicts", place.verdicts)
    selected = piped(data, "select", place.verdicts, "-", "--out", "-")
    assert selected.stdout == page(1) + page(2)
