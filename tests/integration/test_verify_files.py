"""`streamer verify --index`: clean after replays of files, and whatever is changed is noticed."""

import contextlib
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from streamer.stored.store import Store
from tests.helpers.place import Place, killed_replay, lines, page
from tests.integration.test_page_outputs import crawl, warc_record

Lines = list[bytes]


def judged(place: Place, *arguments: str, records: int = 120) -> list[Path]:
    """Judge two files; return them."""
    pages = crawl(records)
    files = [
        place.write("one.jsonl", *pages[:-9]),
        place.write("two.jsonl.gz", gzip.compress(b"".join(pages[-9:]))),
    ]
    assert place.replay(*files, *place.key, *arguments) == 0
    return files


def verified(
    place: Place, files: list[Path], *arguments: str | Path, verdicts: Path | None = None
) -> dict[str, Any] | int:
    """Return what was found, or the exit code of a refusal."""
    report = place.folder / "report.json"
    report.unlink(missing_ok=True)
    code = place.streamer(
        "verify", *files, "--index", place.index, "--json", report,
        "--verdicts", verdicts or place.verdicts,
        *place.key, *arguments,
    )  # fmt: skip
    if not report.exists():
        return code
    found: dict[str, Any] = json.loads(report.read_bytes())
    assert code == (0 if found["clean"] else 1)
    return found


def broken(found: dict[str, Any] | int) -> list[str]:
    assert isinstance(found, dict)
    return [name for name, check in found["checks"].items() if check["violations"]]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--exact", "--track-changes"),
        ("--keep-pages", "9", "--head-pages", "4"),
        ("--keep-pages", "20", "--head-pages", "4", "--exact"),
        ("--carry", "url"),
        ("--scope", "host"),
        ("--near-misses", "0.4", "--text", "main", "--threshold", "0.5"),
        ("--near-misses", "0.4", "--exact"),
    ],
    ids=" ".join,
)
def test_what_a_replay_has_done_is_clean_and_all_of_it_is_looked_at(
    place: Place, arguments: tuple[str, ...]
) -> None:
    files = judged(place, *arguments)
    found = verified(place, files, *(arguments if "--carry" in arguments else ()))
    assert isinstance(found, dict)
    assert broken(found) == []
    counts, checks = found["counts"], found["checks"]
    said = lines(place.verdicts)
    dead = lines(Path(f"{place.verdicts}.dead.jsonl"))
    assert counts["pages unique"] + counts["pages duplicate"] == len(said) > 100
    assert counts["pages dead-lettered"] == len(dead) > 0
    assert checks["outcomes"]["looked_at"] == 120
    assert counts["skipped: blank_line"] + len(said) + len(dead) == 120
    assert checks["verdict_bytes"]["looked_at"] == len(said) + len(dead)
    assert checks["representatives"]["looked_at"] == counts["pages duplicate"]
    assert (counts["pages duplicate"] > 20) == ("--keep-pages" not in arguments)
    assert checks["index_rows"]["looked_at"] > 0


def test_dead_letters_of_verdicts_as_parquet_are_found_beside_either_file(place: Place) -> None:
    files = judged(place)
    table = place.folder / "v.parquet"
    index = ("--verdicts", table, "--index", place.folder / "other")
    assert place.streamer("replay", *files, *index, *place.key) == 0
    for name in (table, Path(f"{table}.jsonl.zst")):
        found = verified(place, files, *index[2:], verdicts=name)
        assert broken(found) == [], name
        assert isinstance(found, dict)
        assert found["counts"]["pages dead-lettered"] > 0


def test_files_of_one_name_in_two_folders_are_told_apart(place: Place) -> None:
    files = judged(place)
    for day in ("one", "two"):
        (folder := place.folder / day).mkdir()
        files.append(folder / "pages.jsonl")
        files[-1].write_bytes(page(700 + len(files)) + page(800) + page(700 + len(files)))
        with contextlib.chdir(folder):
            assert place.replay(Path("pages.jsonl"), *place.key) == 0
    names = [each["page"]["topic"] for each in lines(place.verdicts)][-6:]
    assert names == ["pages.jsonl"] * 3 + [str(files[-1])] * 3
    assert broken(verified(place, files)) == []
    out = place.folder / "clean.jsonl"
    assert place.streamer("select", place.verdicts, *files, "--out", out) == 0
    of_days = [each["url"].rpartition("/")[2] for each in lines(out)][-3:]
    assert of_days == ["703", "800", "704"]
    copy = lines(place.verdicts)[-2]
    assert copy["representative"]["page"] == {"topic": "pages.jsonl", "partition": 0, "offset": 1}


def test_warc_files_and_small_files_of_several_runs_are_clean(place: Place) -> None:
    (place.folder / "in").mkdir()
    for number in range(30):
        place.write(f"in/{number:02}.jsonl", page(number % 7), page(number))
    place.write("crawl.warc", *(warc_record(number % 9) for number in range(40)))
    given = [place.folder / "crawl.warc", place.folder / "in"]
    for each in reversed(given):
        assert place.replay(each, *place.key) == 0
    found = verified(place, given)
    assert broken(found) == []
    assert isinstance(found, dict)
    assert found["checks"]["outcomes"]["looked_at"] == 100


def altered(field: str, value: Any) -> Callable[[Lines], Lines]:
    """Return what alters a field of the third duplicate."""

    def alter(said: Lines) -> Lines:
        at = [i for i, line in enumerate(said) if b'"duplicate"' in line][2]
        fields = json.loads(said[at])
        fields[field] = value
        new = json.dumps(fields, separators=(",", ":")).encode() + b"\n"
        return [*said[:at], new, *said[at + 1 :]]

    return alter


# What is done to the verdicts, or to the dead letters; and the checks that notice it.
CHANGES: dict[str, tuple[Callable[[Lines], Lines], set[str]]] = {
    "one is missing": (lambda said: [*said[:50], *said[51:]], {"outcomes", "numbers"}),
    "the last is missing": (lambda said: said[:-1], {"outcomes", "numbers"}),
    "one stands twice": (lambda said: [*said[:50], said[40], *said[50:]], {"numbers"}),
    "two are exchanged": (
        lambda said: [*said[:40], said[41], said[40], *said[42:]], {"numbers"},
    ),
    "one is of no record": (
        lambda said: [*said, said[0].replace(b'"offset":0', b'"offset":4711')], {"existing"},
    ),
    "one is of a blank line": (
        lambda said: [*said, said[0].replace(b'"offset":0', b'"offset":8')], {"outcomes"},
    ),
    "one is no JSON": (
        lambda said: [*said[:3], b"{\n", *said[4:]], {"outcomes", "numbers", "verdict_bytes"},
    ),
    "the last has no end": (lambda said: [*said[:-1], said[-1].rstrip()], {"verdict_bytes"}),
    "another URL": (altered("url", "http://other.example/"), {"verdict_bytes"}),
    "too little similarity": (altered("similarity", 0.7), {"verdict_bytes", "representatives"}),
    "another field more": (altered("more", 1), {"verdict_bytes"}),
    "a letter is missing": (lambda said: said[1:], {"outcomes"}),
    "a letter stands twice": (lambda said: [*said, said[-1]], {"numbers"}),
    "two letters are exchanged": (lambda said: [said[1], said[0], *said[2:]], {"numbers"}),
    "a letter is altered": (
        lambda said: [said[0].replace(b"invalid", b"another"), *said[1:]], {"verdict_bytes"},
    ),
}  # fmt: skip


def test_whatever_is_changed_in_the_verdicts_and_dead_letters_is_noticed(place: Place) -> None:
    files = judged(place)
    whole = [place.verdicts, Path(f"{place.verdicts}.dead.jsonl")]
    noticed = {}
    for name, (change, _) in CHANGES.items():
        paths, changed = [*whole], int("letter" in name)
        said = whole[changed].read_bytes().splitlines(keepends=True)
        assert change(said) != said
        paths[changed] = place.write("copy.jsonl", *change(said))
        found = verified(place, files, "--dead-letters", paths[1], verdicts=paths[0])
        noticed[name] = set(broken(found))
    assert {name: wanted - noticed[name] for name, (_, wanted) in CHANGES.items()} == {
        name: set() for name in CHANGES
    }


def test_another_row_of_the_index_is_noticed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    files = judged(place)
    read = Store.row_blocks

    def changed(self: Store, blocks: list[int]) -> list[bytes]:
        found = read(self, blocks)
        if str(place.index) not in str(self.path) or 0 not in blocks:
            return found
        first = np.frombuffer(found[0], np.uint8).copy()
        first[400] ^= 1  # in a sketch
        return [first.tobytes(), *found[1:]]

    monkeypatch.setattr(Store, "row_blocks", changed)
    assert broken(verified(place, files)) == ["index_rows"]


def test_after_a_kill_it_is_clean_once_the_replay_has_ended(place: Place) -> None:
    file = place.write("pages.jsonl", *crawl(400))
    arguments = (
        file, "--verdicts", place.verdicts, "--index", place.index, *place.key,
        "--complete", "--head-pages", "9",
    )  # fmt: skip
    assert killed_replay(12, "_judge_chunk", *arguments) == -9
    assert verified(place, [file]) == 1
    assert killed_replay(0, "-", *arguments) == 0
    with mock.patch("streamer.pages.chunk.CHUNK_RECORDS_MAX", 20):
        assert broken(verified(place, [file])) == []


def test_settings_under_which_no_page_was_judged_leave_an_index_as_it_was(place: Place) -> None:
    key, empty = place.key, place.write("empty.jsonl")
    file = place.write("a.jsonl", *map(page, range(8)))
    for given, threshold in ((empty, "0.6"), (file, "0.8"), (file, "0.9"), (empty, "0.7")):
        assert place.replay(given, *key, "--threshold", threshold) == 0
    assert broken(verified(place, [empty, file])) == []
    more = place.write("b.jsonl", page(9))
    assert place.replay(more, *key, "--threshold", "0.9") == 0
    assert verified(place, [empty, file, more]) == 3


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("settings", "its settings were changed on the way"),
        ("missing", "which is not among the PAGES"),
        ("unknown", "has read no file"),
        ("grown", "records that the index has not judged"),
        ("changed", "has changed since the index read it"),
        ("mapping", "another field mapping"),
        ("turns", "read by turns"),
        ("copies", "read by turns"),
        ("damaged", "has changed since the index read it"),
    ],
)
def test_what_the_index_does_not_know_is_refused(
    place: Place, what: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    files, more = judged(place), tuple[str | Path, ...]()
    if what == "settings":
        more = ("--threshold", "0.9")
        with files[0].open("ab") as file:  # settings come into force with a page
            file.write(page(600))
        assert place.replay(*files, *place.key, *more) == 0
        more = ()
    elif what == "missing":
        files = files[:1]
    elif what == "unknown":
        files.append(place.write("three.jsonl", page(1)))
    elif what in {"grown", "turns", "copies"}:
        with files[0].open("ab") as file:
            file.writelines(map(page, [1] if what == "copies" else range(500, 520)))
        if what != "grown":
            assert place.replay(*files, *place.key) == 0
    elif what == "damaged":
        packed = gzip.compress(b"".join(map(page, range(800, 900))), mtime=0)
        files.append(place.write("three.jsonl.gz", packed))
        assert place.replay(files[-1], *place.key) == 0
        files[-1].write_bytes(packed[:-40])  # so that both pass
    elif what == "changed":
        files[0].write_bytes(files[0].read_bytes().replace(b"quick11 ", b"quack11 "))
    elif what == "mapping":
        more = ("--fields", '{"url": "/url", "body": "/text"}')
    capfd.readouterr()
    assert verified(place, files, *more) in {1, 2, 3}
    assert said in " ".join(capfd.readouterr().err.split())
