"""The same pages in every format of input: the same verdicts, over kills and resumed runs."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.helpers.cdx import archive, warc_record
from tests.helpers.place import Place, lines, page, replay_through_kills
from tests.helpers.verdict_lines import letter, written
from tests.unit.pages.test_table_copy import write

PAGES = 260
Record = dict[str, Any]


def records() -> list[Record]:
    """Return pages of which every third is a copy."""
    return [json.loads(page(number - number % 3 // 2)) for number in range(PAGES)]


def write_rows(path: Path, pages: list[Record]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(
            file, ["url", "body"], delimiter="\t" if path.suffix == ".tsv" else ","
        )
        writer.writeheader()
        writer.writerows(pages)


def write_table(path: Path, pages: list[Record]) -> None:
    write(path, pa.Table.from_pylist(pages), 70)


def write_cdx(path: Path, pages: list[Record]) -> None:
    """Write pages as WARC records, and a list of these."""
    kind = ("Content-Type", "text/plain")
    records = [warc_record("resource", each["url"], each["body"].encode(), kind) for each in pages]
    crawl = archive("crawl.warc.gz", records)
    path.with_name(crawl.name).write_bytes(crawl.data)
    path.write_bytes(b"".join(crawl.line(n, each["url"]) for n, each in enumerate(pages)))


def write_letters(path: Path, pages: list[Record]) -> None:
    """Write the dead letters that pages would be without a mapping."""
    records = (json.dumps(each).encode() for each in pages)
    written(path, *(letter(number, record=record) for number, record in enumerate(records)))


WRITERS: dict[str, Callable[[Path, list[Record]], None]] = {
    ".csv": write_rows, ".tsv": write_rows, ".parquet": write_table, ".arrow": write_table,
    ".cdxj": write_cdx, ".dead.jsonl": write_letters,
}  # fmt: skip


def judged(place: Place, name: str, *pages: Path, kills: tuple[tuple[int, str], ...] = ()) -> bytes:
    """Replay pages, killed before these calls; return the verdicts."""
    verdicts, index = place.folder / f"{name}.verdicts.jsonl", place.folder / f"{name}.index"
    outs = ("--verdicts", verdicts, "--index", index, *place.key)
    replay_through_kills(kills, *pages, *outs, "--head-pages", "30", "--complete")
    return verdicts.read_bytes()


@pytest.mark.parametrize("suffix", WRITERS)
def test_verdicts_are_those_of_json_lines_whatever_was_killed(place: Place, suffix: str) -> None:
    plain = place.write("pages.jsonl", *(json.dumps(each).encode() + b"\n" for each in records()))
    path = place.folder / f"pages{suffix}"
    WRITERS[suffix](path, records())
    wanted = judged(place, "plain", plain).replace(b"pages.jsonl", path.name.encode())
    kills = ((2, "_judge_chunk"), (2, "_begin_flush"), (1, "_judge_chunk"))
    assert wanted.count(b'"duplicate"') == PAGES // 3
    assert judged(place, "quiet", path) == wanted
    assert judged(place, "killed", path, kills=kills) == wanted


def test_pages_without_urls_have_places(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    path = place.folder / "pages.parquet"
    write_table(path, [{"text": each["body"]} for each in records()])
    fields = ("--fields", '{"body": "/text"}')
    assert place.replay(path, *fields) == 0
    found = lines(place.verdicts)
    assert {each["url"] for each in found} == {""}
    assert not any(each["same_url"] for each in found)
    copies = [each for each in found if each["verdict"] == "duplicate"]
    assert [each["representative"]["page"]["offset"] for each in copies] == [
        each["page"]["offset"] - 1 for each in copies
    ]
    outs = ("--verdicts", place.folder / "other.jsonl", "--track-changes")
    assert place.streamer("replay", path, *fields, *outs) == 2
    assert "--track-changes needs URLs" in capsys.readouterr().err


def test_kept_page_files_are_messages(place: Place) -> None:
    rows, folder = records(), place.folder / "site"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.html").write_text(f"<p>{rows[number]['body']}")
    (folder / "4.txt").write_bytes(b"caf\xe9 and more")
    outs = ("--verdicts", place.folder / "v.jsonl", "--kept", place.folder / "site.jsonl")
    assert place.streamer("replay", folder, *outs, "--url-prefix", "https://a.example/") == 0
    *pages, last = lines(place.folder / "site.jsonl")
    assert [(each["content_type"], each["body"]) for each in pages] == [
        ("text/html", f"<p>{row['body']}") for row in rows[:2]
    ]
    assert (last["url"], last["body_base64"]) == ("https://a.example/4.txt", "Y2Fm6SBhbmQgbW9yZQ==")
