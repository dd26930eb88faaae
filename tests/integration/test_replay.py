"""`streamer replay` as its users meet it: files in, verdicts out, again and again."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamer.config import Settings
from streamer.run.index_folder import IndexFolder
from streamer.sketch.settings import SignatureSettings
from tests.helpers.fleet import exit_code

PROSE = "the quick brown fox {0} jumps over a lazy dog while {0} animals of farm {0} look on "


def page(number: int, **more: Any) -> bytes:
    """Return a page whose text shares little with those of other numbers."""
    text = " ".join(f"{word}{number}" for word in (PROSE * 3).format(number).split())
    message = {"url": f"http://a.example/{number}", "body": text, **more}
    return json.dumps(message).encode() + b"\n"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Place:
    """A folder to run in; `streamer` returns the exit code."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def streamer(self, *arguments: str | Path) -> int:
        return exit_code(*arguments)

    def write(self, name: str, *records: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(b"".join(records))
        return path

    def replay(self, *arguments: str | Path) -> int:
        return self.streamer(
            "replay", *arguments, "--verdicts", self.verdicts, "--index", self.index
        )

    @property
    def verdicts(self) -> Path:
        return self.folder / "verdicts.jsonl"

    @property
    def index(self) -> Path:
        return self.folder / "index"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_kept_pages_expire_by_the_time_of_their_fetching(place: Place) -> None:
    days = [1, 3, 4.5, 5, 2, 9, 9.5]
    pages = [page(0, fetched_at=1_700_000_000 + int(day * 86_400)) for day in days]
    expected = [None, 0, None, 2, 2, None, 5]
    whole = place.write("pages.jsonl", *pages)
    place.write("one.jsonl", *pages[:3])
    place.write("two.jsonl", *pages[3:])

    def offsets(path: Path) -> list[int | None]:
        pages = sorted(
            lines(path), key=lambda each: (each["page"]["topic"], each["page"]["offset"])
        )
        return [
            each["representative"] and each["representative"]["page"]["offset"] for each in pages
        ]

    assert place.replay(whole, "--expire-after", "3d", "--head-pages", "1") == 0
    assert offsets(place.verdicts) == expected
    index = "--index", place.folder / "other", "--verdicts", place.folder / "other.jsonl"
    for name in ("one.jsonl", "two.jsonl"):
        rules = (
            "--expire-after",
            "3d",
        )
        assert place.streamer("replay", place.folder / name, *rules, *index) == 0
    split = [None, 0, None, 2, 2, None, 2]  # of the second file the records count from 0 again
    assert offsets(place.folder / "other.jsonl") == split
    assert place.replay(whole, "--complete") == 0


def test_of_kept_pages_the_newest_answer(place: Place) -> None:
    pages = place.write("pages.jsonl", *map(page, (0, 1, 0, 2, 0)))
    assert place.replay(pages, "--keep-pages", "2") == 0
    assert [each["verdict"] for each in lines(place.verdicts)] == [
        *("unique", "unique", "duplicate", "unique", "unique")
    ]
    assert place.replay(pages, "--expire-after", "30") == 2


def test_copies_are_duplicates_of_the_first_page(place: Place) -> None:
    copy = page(1).replace(b"/1", b"/copy", 1)
    pages = place.write("pages.jsonl", page(1), page(2), copy)
    assert place.replay(pages) == 0
    first, second, third = lines(place.verdicts)
    assert (first["verdict"], second["verdict"], third["verdict"]) == (
        "unique",
        "unique",
        "duplicate",
    )
    assert third["representative"] == {"page": first["page"], "url": "http://a.example/1"}
    assert (third["basis"], third["similarity"], third["same_url"]) == ("content", 1.0, False)
    assert first["page"] == {"topic": str(pages), "partition": 0, "offset": 0}


@pytest.mark.parametrize("now", [(9, 2, 3), (1,), (1, 9, 3)])
def test_a_file_that_has_changed_is_refused_with_the_remedy(
    place: Place, now: tuple[int, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    pages = place.write("pages.jsonl", page(1), page(2))
    assert place.replay(pages) == 0
    before = place.verdicts.read_bytes()
    place.write("pages.jsonl", *map(page, now))
    assert place.replay(pages) == 3
    assert "has changed since" in capsys.readouterr().err
    assert place.verdicts.read_bytes() == before


def test_a_second_file_meets_the_pages_of_the_first(place: Place) -> None:
    assert place.replay(place.write("one.jsonl", page(1), page(2))) == 0
    assert place.replay(place.write("two.jsonl", page(2), page(3))) == 0
    verdicts = lines(place.verdicts)
    assert [v["verdict"] for v in verdicts] == ["unique", "unique", "duplicate", "unique"]
    assert verdicts[2]["representative"]["page"]["topic"].endswith("one.jsonl")
    assert verdicts[2]["same_url"] is True


def test_verdicts_do_not_depend_on_threads_shapes_of_files_or_flushes(place: Place) -> None:
    records = [page(i % 40) for i in range(200)]
    plain = place.write("pages.jsonl", *records)
    place.write("key", b"ab" * 32)
    found = []
    runs: list[list[str]] = [["--threads", "1"], ["--threads", "3", "--head-pages", "4"]]
    for number, more in enumerate(runs):
        out, index = place.folder / f"v{number}.jsonl", place.folder / f"i{number}"
        key = ["--key-file", str(place.folder / "key")]
        assert (
            place.streamer("replay", plain, "--verdicts", out, "--index", index, *key, *more) == 0
        )
        found.append(out.read_bytes())
    assert found[0] == found[1]
    assert found[0].count(b"\n") == 200


def test_the_summary_counts_every_record(place: Place) -> None:
    pages = place.write(
        "pages.jsonl", page(1), b"\n", page(1), b"[]\n", page(2, content_type="image/png")
    )
    summary = place.folder / "summary.json"
    assert place.replay(pages, "--summary", summary) == 0
    found = json.loads(summary.read_bytes())
    assert found["records"] == 5
    assert found["pages"] == 2 == found["unique"] + found["duplicates"]
    assert found["dead_letters"] == {"not_an_object": 1}
    assert found["skipped"] == {"blank_line": 1, "type_not_text": 1}


def test_carried_fields_come_with_the_verdict(place: Place) -> None:
    pages = place.write("pages.jsonl", page(1, score=7, fetched_at="2024-06-01T00:00:00Z"))
    assert place.replay(pages, "--carry", "score", "--carry", "fetched_at") == 0
    assert lines(place.verdicts)[0]["carried"] == {"score": 7, "fetched_at": "2024-06-01T00:00:00Z"}


def test_a_carried_field_that_no_page_has_is_warned_of(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = place.write("pages.jsonl", page(1, score=7), page(2, large="x" * 100_000))
    summary = place.folder / "summary.json"
    carry = [word for name in ("score", "scroe", "large") for word in ("--carry", name)]
    assert place.replay(pages, "--summary", summary, *carry) == 0
    assert json.loads(summary.read_bytes())["missing_fields"] == ["scroe"]
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("Warning") == 1
    assert "Warning: No page of this run had scroe, so no verdict carries it." in said


def test_a_run_without_pages_warns_of_no_carried_field(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.replay(place.write("pages.jsonl", b"\n"), "--carry", "score") == 0
    assert "carries" not in capsys.readouterr().err


def test_empty_pages_are_nobodys_duplicates(place: Place) -> None:
    empty = [page(i, body="<p><img src=a></p>", content_type="text/html") for i in range(3)]
    assert place.replay(place.write("pages.jsonl", *empty)) == 0
    assert {(v["verdict"], v["basis"]) for v in lines(place.verdicts)} == {("unique", "too_short")}


def test_short_pages_match_equal_content_only(place: Place) -> None:
    texts = ("Page not found", "page NOT found!", "Page not there")
    records = [page(i, body=text) for i, text in enumerate(texts)]
    assert place.replay(place.write("pages.jsonl", *records)) == 0
    assert [v["verdict"] for v in lines(place.verdicts)] == ["unique", "duplicate", "unique"]
    assert {v["basis"] for v in lines(place.verdicts)} == {"too_short"}


def test_a_preset_and_a_directory_of_compressed_files(place: Place) -> None:
    folder = place.folder / "crawl"
    folder.mkdir()
    message = {"url": "http://b.example/", "response_url": "http://b.example/1", "status_code": 200}
    body = json.loads(page(1))["body"]
    (folder / "a.jsonl.gz").write_bytes(
        gzip.compress(json.dumps({**message, "body": body}).encode())
    )
    (folder / "b.jsonl").write_text(
        json.dumps({**message, "body": body, "status_code": 404}) + "\n"
    )
    assert place.replay(folder, "--preset", "scrapy-cluster") == 0
    assert [v["url"] for v in lines(place.verdicts)] == ["http://b.example/1"]


def test_a_run_does_not_read_its_own_outputs(place: Place) -> None:
    place.write("pages.jsonl", page(1), b"{broken\n")
    for _ in range(2):
        assert place.replay(place.folder) == 0
        assert len(lines(place.verdicts)) == 1
    assert place.replay(place.verdicts) == 2


def test_without_an_index_nothing_is_left_behind(place: Place) -> None:
    pages = place.write("pages.jsonl", page(1))
    for again in ((), ("--overwrite",)):
        assert place.streamer("replay", pages, "--verdicts", place.verdicts, *again) == 0
        assert len(lines(place.verdicts)) == 1
    assert {p.name for p in place.folder.iterdir()} <= {
        "pages.jsonl",
        "verdicts.jsonl",
        "verdicts.jsonl.dead.jsonl",
    }


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--bands", "20"], 3, "--bands is 14 there and 20 here"),
        (["--threshold", "1.5"], 2, "threshold"),
        (["--preset", "unknown"], 2, "there are"),
        (["--fields", "{}", "--preset", "warc"], 2, "not both"),
        (["--no-such-option"], 2, "No such option"),
        (["--config", "none.toml"], 2, "no settings file"),
        (["none.jsonl"], 1, "none.jsonl"),
    ],
)
def test_what_cannot_be_has_its_exit_code_and_a_sentence(
    place: Place, arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = place.write("pages.jsonl", page(1))
    assert place.replay(pages) == 0
    assert place.replay(pages, *arguments) == code
    assert words in " ".join(capsys.readouterr().err.split())


def test_an_index_in_use_is_left_alone(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    pages = place.write("pages.jsonl", page(1))
    assert place.replay(pages) == 0
    folder = IndexFolder.open(place.index, SignatureSettings())
    try:
        assert place.replay(pages) == 1
        assert "in use by another process" in " ".join(capsys.readouterr().err.split())
        assert place.streamer("inspect", place.index) == 0, "reading goes on beside a writer"
    finally:
        folder.store.close()


RECORDS = [page(1), b"{broken\n", page(2), page(1), page(3), b"{torn\n", page(2), page(4)]


def _judge(
    place: Place, folder: Path, count: int, *moved: str, out: str = "out/v", pages: str = "in"
) -> int:
    """Replay the first records of `in` from within a folder, by names that lie in it."""
    for number, records in enumerate((RECORDS[:count], RECORDS[1:count])):
        path = folder / pages / f"{number}.jsonl"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(b"".join(records))
    key = place.folder / "key"
    with contextlib.chdir(folder):
        return place.streamer(
            "replay", pages, "--verdicts", out, "--index", "index", "--key-file", key,
            *(f"--moved={change}" for change in moved),
        )  # fmt: skip


def _move_all(folder: Path) -> tuple[Path, dict[str, str]]:
    return folder.rename(folder.with_name("moved")), {}


def _move_verdicts(folder: Path) -> tuple[Path, dict[str, str]]:
    (folder / "out").rename(folder / "other")
    (folder / "other" / "v").rename(folder / "other" / "verdicts.jsonl")
    (folder / "other" / "v.dead.jsonl").rename(folder / "other" / "verdicts.jsonl.dead.jsonl")
    return folder, {"out": "other/verdicts.jsonl"}


def _move_inputs(folder: Path) -> tuple[Path, dict[str, str]]:
    (folder / "in").rename(folder / "archive")
    return folder, {"pages": "archive"}


def _move_each_elsewhere(folder: Path) -> tuple[Path, dict[str, str]]:
    there = folder.with_name("there")
    there.mkdir()
    (folder / "index").rename(there / "index")
    (folder / "in").rename(there / "pages")
    (folder / "out").rename(there / "results")
    return there, {"pages": "pages", "out": "results/v"}


@pytest.mark.parametrize(
    ("move", "moved"),
    [
        (_move_all, ["{}=../moved"]),
        (
            _move_verdicts,
            ["out/v=other/verdicts.jsonl", "out/v.dead.jsonl=other/verdicts.jsonl.dead.jsonl"],
        ),
        (_move_inputs, ["in=archive"]),
        (_move_each_elsewhere, ["{}/in=pages", "{}/out=results"]),
    ],
)
def test_what_was_moved_goes_on_with_each_line_once(
    place: Place, move: Callable[[Path], tuple[Path, dict[str, str]]], moved: list[str]
) -> None:
    place.write("key", b"ab" * 32)
    quiet, folder = place.folder / "quiet", place.folder / "folder"
    for each in (quiet, folder):
        each.mkdir()
        assert _judge(place, each, 4) == 0
    assert _judge(place, quiet, 8) == 0
    wanted = [(quiet / "out" / name).read_bytes() for name in ("v", "v.dead.jsonl")]
    for name in ("v", "v.dead.jsonl"):  # of a run that was killed before its flush
        with (folder / "out" / name).open("ab") as file:
            file.write(b'{"verdict": "of a run that was ki')
    changes = [each.format(folder) for each in moved]
    folder, names = move(folder)
    assert _judge(place, folder, 4, **names) in {2, 3}, "it says what to do"
    for _ in range(2):
        assert _judge(place, folder, 8, *changes, **names) == 0
        out = folder / names.get("out", "out/v")
        assert [out.read_bytes(), Path(f"{out}.dead.jsonl").read_bytes()] == wanted


def test_an_older_backup_goes_on_with_the_verdicts_as_they_are_now(place: Place) -> None:
    place.write("key", b"ab" * 32)
    quiet, folder = place.folder / "quiet", place.folder / "folder"
    for each in (quiet, folder):
        each.mkdir()
        assert _judge(place, each, 4) == 0
    shutil.copytree(folder / "index", folder / "backup")
    for each in (quiet, folder):
        assert _judge(place, each, 6) == 0
    shutil.rmtree(folder / "index")
    (folder / "backup").rename(folder / "index")
    assert _judge(place, folder, 6) == 0
    for each in (quiet, folder):
        assert _judge(place, each, 8) == 0
    for name in ("v", "v.dead.jsonl"):
        assert (folder / "out" / name).read_bytes() == (quiet / "out" / name).read_bytes()


def test_verdicts_of_another_index_are_refused_where_this_ones_lay(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.write("key", b"ab" * 32)
    one, other = place.folder / "one", place.folder / "other"
    one.mkdir()
    other.mkdir()
    assert _judge(place, one, 4) == 0
    assert _judge(place, other, 6) == 0
    shutil.copyfile(other / "out" / "v", one / "out" / "v")
    assert _judge(place, one, 8) == 3
    assert "v is not the file that the index has written" in " ".join(
        capsys.readouterr().err.split()
    )
    assert (one / "out" / "v").read_bytes() == (other / "out" / "v").read_bytes()
    there = one.rename(place.folder / "there")
    assert _judge(place, there, 8) == 2, "it is not known there either"
    assert (there / "out" / "v").read_bytes() == (other / "out" / "v").read_bytes()


def test_a_full_disk_ends_the_run_and_the_next_one_goes_on(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = place.write("pages.jsonl", *map(page, range(50)))
    full = [
        "--verdicts",
        "/dev/full",
        "--dead-letters",
        str(place.folder / "dead"),
        "--index",
        str(place.index),
    ]
    assert place.streamer("replay", pages, *full) == 1
    assert "No space is left" in " ".join(capsys.readouterr().err.split())
    assert place.replay(pages) == 0
    assert [v["page"]["offset"] for v in lines(place.verdicts)] == list(range(50))


def test_an_interrupt_ends_cleanly_and_the_next_run_goes_on(place: Place) -> None:
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "streamer", "replay", "-", "--verdicts", str(place.verdicts)]
    command += ["--index", str(place.index)]
    with subprocess.Popen(command, stdin=reader, stdout=subprocess.PIPE, text=True) as process:
        os.close(reader)
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(b"".join(map(page, range(5000))))
            pipe.flush()  # and no more: the reader waits when it is interrupted
            while not place.verdicts.exists():
                assert process.poll() is None
            process.send_signal(2)
            assert process.wait() == 130
        assert process.stdout is not None
        assert "continues from here" in process.stdout.read()
    done = len(lines(place.verdicts))
    assert done < 9000
    pages = b"".join(map(page, range(9000)))
    subprocess.run(command, input=pages, check=True, stdout=subprocess.DEVNULL)
    assert [v["page"]["offset"] for v in lines(place.verdicts)] == list(range(9000))


def test_verdicts_on_standard_output_are_nothing_but_verdicts(place: Place) -> None:
    pages = place.write("pages.jsonl", page(1), page(1))
    command = [sys.executable, "-m", "streamer", "replay", str(pages), "--verdicts", "-"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert [json.loads(line)["verdict"] for line in done.stdout.splitlines()] == [
        "unique",
        "duplicate",
    ]
    assert "pages judged" in done.stderr


def test_changed_thresholds_hold_from_the_next_page_on(place: Place) -> None:
    words = json.loads(page(1))["body"].split()
    edited = " ".join(["new", *words[3:]])
    other = json.dumps({"url": "http://a.example/e", "body": edited}).encode() + b"\n"
    assert place.replay(place.write("one.jsonl", page(1), other)) == 0
    assert place.replay(place.write("two.jsonl", other), "--threshold", "1.0") == 0
    assert [v["verdict"] for v in lines(place.verdicts)] == ["unique", "duplicate", "unique"]


def test_inspect_and_check_tell_what_an_index_is(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.replay(place.write("pages.jsonl", *map(page, range(30))), "--head-pages", "4") == 0
    capsys.readouterr()
    assert place.streamer("inspect", place.index, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    named = {**found["identity"], **found["settings"]}
    options = {"method": "minhash", "shingle_width": 5, "bands": 14, "rows": 6}
    rules = {"threshold": 0.8, "min_shingles": 5, "bucket_max": 64, "measure": "resemblance"}
    assert {**options, **rules}.items() <= named.items()
    assert named.keys() <= {
        *Settings.model_fields, "fingerprint", "key", "measure", "rules_version"
    }  # fmt: skip
    assert found["shards"][0]["pages_kept"] == 30
    assert found["shards"][0]["buckets"] == sum(found["shards"][0]["buckets_by_size"].values())
    assert next(iter(found["position"].values())) == {"records": 30, "finished": True}
    assert place.streamer("check", "--index", place.index) == 0
    assert "nothing changes" in " ".join(capsys.readouterr().out.split())
    assert found["settings"]["expire_after"] == "never"
    changed = ("--threshold", "0.9", "--min-shingles", "7", "--expire-after", "14d")
    assert place.streamer("check", "--index", place.index, *changed) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "From the next page on: threshold 0.8 -> 0.9, min_shingles 5 -> 7, expire_after never"
        in said
    )
    assert "-> 2w." in said
    assert place.streamer("check", "--index", place.index, "--rows", "4") == 3
    assert place.streamer("inspect", place.folder / "none") == 1


def test_check_says_what_changes_where_a_setting_is_left_out(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """An index names the version of the rules that its settings need, which may fall."""
    pages = place.write("pages.jsonl", page(1))
    assert place.replay(pages, "--near-misses", "0.1") == 0
    capsys.readouterr()
    assert place.streamer("check", "--index", place.index) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "near_misses 0.1 -> 0.0" in said
    assert "rules_version" not in said


def test_inspect_names_the_options_of_a_method(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--method", "supershingles", "--method-option", "blocks=4"]
    assert place.replay(place.write("pages.jsonl", page(1)), *options) == 0
    capsys.readouterr()
    assert place.streamer("inspect", place.index, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["identity"]["method"] == "supershingles"
    assert found["identity"]["method_option blocks"] in {4, "4"}
    assert found["settings"]["measure"] == "slots"


def test_a_foreign_verdict_file_is_not_touched(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.verdicts.write_text("mine\n")
    assert place.replay(place.write("pages.jsonl", page(1))) == 2
    assert "was not written with this index" in " ".join(capsys.readouterr().err.split())
    assert place.verdicts.read_text() == "mine\n"


def test_the_bar_moves_while_what_was_judged_of_a_compressed_file_is_checked(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[int, int]] = []

    @contextlib.contextmanager
    def watched(*_arguments: Any) -> Iterator[Callable[[int, int], None]]:
        yield lambda amount, records: shown.append((amount, records))

    monkeypatch.setattr("streamer.cli.replay.progress_bar", watched)
    letters = random.Random(1).randbytes(30_000).hex()
    records = [json.dumps({"url": f"http://a.example/{n}", "body": letters}) for n in range(400)]
    before, after = (gzip.compress("\n".join([*part, ""]).encode(), 1) for part in
                     (records[:-1], records[-1:]))  # fmt: skip
    pages = place.write("pages.jsonl.gz", before)
    assert place.replay(pages) == 0
    shown.clear()
    pages.write_bytes(before + after)
    assert place.replay(pages) == 0
    checking = [amount for amount, records in shown if not records]
    assert len(checking) >= 10
    assert checking == sorted(checking)
    assert 0 < checking[0] < len(before) / 2
    assert shown[-1] == (len(before) + len(after), 1)
