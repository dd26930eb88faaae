"""`streamer replay` as its users meet it: files in, verdicts out, again and again."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.place import Place, lines, page


@pytest.mark.parametrize("wrong", [0, 75, 149])
def test_a_page_dated_in_the_future_expires_no_other(
    place: Place, wrong: int, capsys: pytest.CaptureFixture[str]
) -> None:
    dates = [f"2026-01-{1 + n // 24:02}T{n % 24:02}:00:00Z" for n in range(300)]
    dates[wrong] = "2999-01-01T00:00:00Z"
    pages = [page(n % 150, fetched_at=date) for n, date in enumerate(dates)]
    source, summary = place.write("pages.jsonl", *pages), place.folder / "summary.json"
    assert place.replay(source, "--expire-after", "30d", "--summary", summary) == 0
    found = [each["verdict"] for each in lines(place.verdicts)]
    assert found == ["unique"] * 150 + ["duplicate"] * 150
    said = json.loads(summary.read_bytes())
    last = f"record {wrong} of {source}"
    assert (said["wrong_dates"], said["examples"]["wrong_date"]) == (1, last)
    assert f"(the last: {last})" in capsys.readouterr().err


def test_an_open_key_file_is_warned_of(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    (_, key), pages = place.key, place.write("pages.jsonl", page(1))
    command = [sys.executable, "-m", "streamer", "replay", str(pages)]
    command += ["--index", str(place.index), "--verdicts", str(place.verdicts)]
    for mode, warned in ((0o644, 1), (0o600, 0)):
        key.chmod(mode)
        subprocess.run([*command, "--key-file", str(key)], check=True)
        said = capfd.readouterr().err
        assert said.count(f"Warning: All users may read the key file {key}") == warned


def test_the_summary_counts_every_record_and_names_fields_that_are_missing(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = place.write(
        "pages.jsonl", page(1, score=7), b"\n", page(1, large="x" * 100_000), b"[]\n",
        page(2, content_type="image/png"),
    )  # fmt: skip
    summary = place.folder / "summary.json"
    carry = [word for name in ("score", "scroe", "large") for word in ("--carry", name)]
    assert place.replay(pages, "--summary", summary, *carry) == 0
    found = json.loads(summary.read_bytes())
    assert found["missing_fields"] == ["scroe"]
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("Warning") == 1
    assert "Warning: No page of this run had scroe, so no verdict carries it." in said
    assert place.replay(place.write("none.jsonl", b"\n"), "--carry", "score") == 0
    assert "carries" not in capsys.readouterr().err
    assert found["records"] == 5
    assert found["pages"] == 2 == found["unique"] + found["duplicates"]
    assert found["dead_letters"] == {"not_an_object": 1}
    assert found["skipped"] == {"blank_line": 1, "type_not_text": 1}


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
        "key", "pages.jsonl", "verdicts.jsonl", "verdicts.jsonl.dead.jsonl",
    }  # fmt: skip


RECORDS = [page(1), b"{broken\n", page(2), page(1), page(3), b"{torn\n", page(2), page(4)]


def _judge(
    place: Place, folder: Path, count: int, *moved: str, out: str = "out/v", pages: str = "in"
) -> int:
    """Replay the first records of `in` from within a folder, by names that are in it."""
    (folder / out).parent.mkdir(parents=True, exist_ok=True)
    for number, records in enumerate((RECORDS[:count], RECORDS[1:count])):
        path = folder / pages / f"{number}.jsonl"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(b"".join(records))
    with contextlib.chdir(folder):
        return place.streamer(
            "replay", pages, "--verdicts", out, "--index", "index", *place.key,
            *(f"--moved={change}" for change in moved),
        )  # fmt: skip


def test_what_was_moved_goes_on_with_each_line_once(place: Place) -> None:
    quiet, folder, there = (place.folder / name for name in ("quiet", "folder", "there"))
    for each in (quiet, folder):
        assert _judge(place, each, 4) == 0
    assert _judge(place, quiet, 8) == 0
    wanted = [(quiet / "out" / name).read_bytes() for name in ("v", "v.dead.jsonl")]
    for name in ("v", "v.dead.jsonl"):  # of a run that was killed before its flush
        with (folder / "out" / name).open("ab") as file:
            file.write(b'{"verdict": "of a run that was ki')
    there.mkdir()
    for old, new in (("index", "index"), ("in", "pages"), ("out", "results")):
        (folder / old).rename(there / new)
    names = {"pages": "pages", "out": "results/v"}
    assert _judge(place, there, 4, **names) in {2, 3}, "it says what to do"
    for _ in range(2):
        moved = f"{folder}/in=pages", f"{folder}/out=results"
        assert _judge(place, there, 8, *moved, **names) == 0
        assert [(there / "results" / name).read_bytes() for name in ("v", "v.dead.jsonl")] == wanted


def test_verdicts_of_another_index_are_refused_where_this_ones_lay(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = place.folder / "one", place.folder / "other"
    assert _judge(place, one, 4) == 0
    assert _judge(place, other, 6) == 0
    shutil.copyfile(other / "out" / "v", one / "out" / "v")
    assert _judge(place, one, 8) == 3
    said = " ".join(capsys.readouterr().err.split())
    assert "v is not the file that the index has written" in said
    assert (one / "out" / "v").read_bytes() == (other / "out" / "v").read_bytes()
    there = one.rename(place.folder / "there")
    assert _judge(place, there, 8) == 2, "it is not known there either"
    assert (there / "out" / "v").read_bytes() == (other / "out" / "v").read_bytes()


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
    assert len(lines(place.verdicts)) < 9000
    pages = b"".join(map(page, range(9000)))
    subprocess.run(command, input=pages, check=True, stdout=subprocess.DEVNULL)
    assert [v["page"]["offset"] for v in lines(place.verdicts)] == list(range(9000))


def test_check_says_what_changes_where_a_setting_is_left_out(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """An index names the version of the rules that its settings need, which may fall."""
    assert place.replay(place.write("pages.jsonl", page(1)), "--near-misses", "0.1") == 0
    capsys.readouterr()
    assert place.streamer("check", "--index", place.index) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "near_misses 0.1 -> 0.0" in said
    assert "rules_version" not in said
