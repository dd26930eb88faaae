"""After a replay, `select` chooses its pages again: by the earliest, those that it kept."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from streamer.run.output_checks import part_of
from tests.helpers.pipes import piped
from tests.helpers.place import Place, lines, page
from tests.integration.test_formats import write_rows, write_table
from tests.integration.test_page_outputs import arc_record, crawl, expanded, warc_record
from tests.integration.test_small_files import write_files

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
