"""Folders of many small files: each costs little, and none shows in the verdicts of others."""

import gzip
import json
import random
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from streamer.index.codec import SOURCES, entry_key
from streamer.stored.store import Store
from tests.helpers.place import Place, lines, page, replay_through_kills

FILES = 150


def without_url(number: int) -> bytes:
    return page(number).replace(b'"url"', b'"uri"')


def write_files(folder: Path, count: int, seed: int = 1) -> None:
    """Write small files of all kinds, most of one page."""
    draw = random.Random(seed)
    for number in range(count):
        kind = draw.randrange(12)
        name = folder / f"{number % 5}" / f"{number:05}.jsonl"
        name.parent.mkdir(parents=True, exist_ok=True)
        own = draw.randrange(max(1, number))  # many are copies of an earlier one
        content = page(own)
        if kind == 0:
            content = b""
        elif kind == 1:
            content = draw.choice((b"{broken\n", without_url(own), b'{"url":"u"}\n', b"[]\n"))
        elif kind == 2:
            content = page(number) + b"\n" + b'{"url": 5, "body": "b"}\n' + page(own).rstrip()
        elif kind == 3:
            content = b"".join(page(own + each) for each in range(draw.choice((9, 10, 14))))
        elif kind == 4:
            content = draw.choice((b"\n", b"\xef\xbb\xbf" + page(own), b"\n" * 3 + page(own)))
        elif kind == 5:
            content = b'{"url": "http://a.example/b", "body": "b",\n"more": 1}\n' + page(own)
        if kind in {6, 7}:
            name = name.with_suffix(".jsonl.gz")
            content = gzip.compress(content * (kind - 5), mtime=0)
        name.write_bytes(content)


def judged(place: Place, name: str, *more: str, ungathered: bool = False) -> tuple[Any, ...]:
    """Replay the folder of pages; return the verdicts and the dead letters."""
    verdicts = place.folder / f"{name}.jsonl"
    outs = ("--verdicts", verdicts, "--index", place.folder / name, *place.key)
    arguments = ("replay", place.folder / "in", *outs, "--complete")
    name = "streamer.run.replay.gather_small_files"
    alone = mock.patch(name, lambda steps, _is_file: steps) if ungathered else nullcontext()
    with alone:
        assert place.streamer(*arguments, *more) == 0
    return verdicts.read_bytes(), Path(f"{verdicts}.dead.jsonl").read_bytes()


@pytest.mark.parametrize("seed", [1, 2])
def test_verdicts_and_dead_letters_do_not_depend_on_how_files_are_gathered(
    place: Place, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(place.folder / "in", FILES, seed)
    wanted = judged(place, "alone", ungathered=True)
    assert all(wanted)
    reported = capsys.readouterr().out.replace("alone", "")
    for at_once in (1, 2, 7, 1000):
        with mock.patch("streamer.run.small_files.FILES_MAX", at_once):
            assert judged(place, f"by-{at_once}") == wanted
        found = capsys.readouterr().out.replace(f"by-{at_once}", "")
        for what in ("record ", "records "):
            assert [line for line in found.splitlines() if f" {what}" in line] == [
                line for line in reported.splitlines() if f" {what}" in line
            ]


def test_a_run_over_small_files_that_is_killed_goes_on_with_the_same_bytes(place: Place) -> None:
    write_files(place.folder / "in", FILES)

    def replay(name: str, kills: Sequence[tuple[int, str]]) -> tuple[bytes, bytes]:
        verdicts = place.folder / f"{name}.jsonl"
        outs = (place.folder / "in", "--verdicts", verdicts, "--index", place.folder / name)
        more = (*place.key, "--head-pages", "10", "--complete")
        replay_through_kills(kills, *outs, *more)
        return verdicts.read_bytes(), Path(f"{verdicts}.dead.jsonl").read_bytes()

    wanted = replay("quiet", ())
    assert (
        replay("killed", ((5, "_judge_chunk"), (9, "_judge_chunk"), (3, "_begin_flush"))) == wanted
    )


def test_small_files_that_all_fail_alike_end_the_run_and_leave_nothing(place: Place) -> None:
    contents = [b"", b"\n\n", *map(without_url, range(12))]
    files = [place.write(f"{i:02}.jsonl", content) for i, content in enumerate(contents)]
    assert place.replay(*files) == 2
    assert not place.verdicts.exists()
    assert not place.index.exists()
    assert place.replay(*files, "--keep-going") == 1
    letters = Path(f"{place.verdicts}.dead.jsonl")
    assert len(lines(letters)) == 12
    after = [
        place.write("after.jsonl", page(1)),
        *(place.write(f"{each.name}.jsonl", each.read_bytes()) for each in files[2:]),
    ]
    assert place.replay(*after) == 0, "after a page they are dead letters"
    assert [each["page"]["topic"] for each in lines(letters)[12:]] == [*map(str, after[1:])]


def test_pages_that_a_rule_leaves_out_of_small_files_are_counted_and_shown(place: Place) -> None:
    rules = place.write("rules.toml", b'[[rule]]\nhost = "b.example"\nskip = true\n')
    hosts = ("a.example", "b.example", "c.example")
    pages = [page(i, url=f"http://{host}/") for i, host in enumerate(hosts)]
    files = [place.write(f"{i}.jsonl", record) for i, record in enumerate(pages)]
    summary = place.folder / "summary.json"
    assert place.replay(*files, "--rules", rules, "--summary", summary) == 0
    reported = json.loads(summary.read_bytes())
    assert reported["skipped"] == {"rule": 1}
    assert reported["examples"] == {"rule": f"among the records 0 to 0 of {files[1]}"}


def test_small_files_that_have_grown_go_on_and_others_stay_as_they_are(place: Place) -> None:
    files = [place.write(f"{number}.jsonl", page(number)) for number in range(20)]
    assert place.replay(*files) == 0
    for number in (3, 17):
        with files[number].open("ab") as file:
            file.write(page(100) + page(101 + number))
    assert place.replay(*files, place.write("new.jsonl", page(3))) == 0
    found = [(Path(v["page"]["topic"]).stem, v["page"]["offset"]) for v in lines(place.verdicts)]
    grown = [("3", 1), ("3", 2), ("17", 1), ("17", 2), ("new", 0)]
    assert found == [(str(number), 0) for number in range(20)] + grown


def test_missing_sources_are_damage(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    file = place.write("a.jsonl", page(1))
    assert place.replay(file) == 0
    store = Store.open(place.index / "store")
    store.put_note(entry_key(SOURCES, 0), b"")
    store.close()
    assert place.replay(file) == 3
    assert "block 0 of its sources is missing" in capsys.readouterr().err
