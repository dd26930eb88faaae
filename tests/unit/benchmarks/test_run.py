"""Every subject on a tiny input: it runs, leaves no scratch, and its report says what was done."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from benchmarks import (
    beside,
    corpus,
    flushes,
    growth,
    html_pages,
    library,
    lifetimes,
    lsh,
    machine,
    memory,
    quality,
    results,
    run,
    scale,
    shards,
    signing,
    start_time,
    throughput,
    timed_replay,
)
from benchmarks.corpus_file import DiskTooSmall
from benchmarks.figures import markdown
from benchmarks.peers.peer import INDEX_PEERS, LEFT_OUT, SIGNING_PEERS, STREAM_PEERS
from benchmarks.run import SUBJECTS, Options, Subject
from benchmarks.shards import plan
from streamer.run.index_folder import read_meta

# ---- speed ---------------------------------------------------------------------------------------


def test_throughput_is_measured_over_all_pages_and_stages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed_replay, "WARM_PAGES", 10)
    pages = 5000  # of 4 kB: three chunks, so that flushes come between
    measured = throughput.measure(tmp_path, pages, step=200, head_pages=16)
    assert [path.suffix for path in tmp_path.iterdir()] == [".jsonl"] * 2, "scratch was left"
    replay = measured.run
    assert replay is not None
    assert replay.pages == replay.unique + replay.duplicates == pages
    assert sum(span.pages for span in replay.spans) == pages
    assert replay.index_pages == replay.unique
    assert 0 < measured.rate == pytest.approx(pages / replay.seconds)
    assert measured.ratio == pytest.approx(measured.rate / measured.target)
    assert replay.peak_rss_bytes > 50 << 20
    assert measured.index_bytes_a_page > 256, "less than the sketches alone"
    assert 0 < replay.duplicates_of_flushed <= replay.duplicates
    assert replay.stages == {}, "the measured run is not instrumented"
    times = {stage.name: stage.cpu_us for stage in measured.stages}
    assert {"reading", "sign", "store: key table", "verdict"} < times.keys()
    assert all(value > 0 for value in times.values()), times
    assert 0 < measured.overhead_us < sum(times.values()) - times["not in a stage"]
    text = markdown(throughput.tables(measured))
    for word in ("25,000", "made in", "MiB", "budget us", f"{measured.rate:,.0f}"):
        assert word in text, word


def test_peers_sign_or_are_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing, "TURN_SECONDS", 0.0)
    result = signing.measure(pages=12, rounds=2)
    names = [peer.name for peer in result.peers]
    absent = {peer.name: peer.reason for peer in result.absent}
    expected = [entry.name for entry in SIGNING_PEERS] + [peer.name for peer in LEFT_OUT]
    assert sorted([*names, *absent]) == sorted(expected)
    assert names[0] == "streamer"
    assert result.peers[0].ratio == 1
    assert all(0 < peer.fastest_us <= peer.median_us for peer in result.peers)
    text = markdown(signing.tables(result))
    assert all(word in text for word in (*expected, *absent.values()))


def test_every_index_finds_the_copies_among_the_last_documents(tmp_path: Path) -> None:
    indexed = lsh.measure(tmp_path, 2_000, rounds=1)
    assert list(tmp_path.iterdir()) == [], "scratch was left"
    names = [one.name for one in indexed.systems] + [one.name for one in indexed.absent]
    assert sorted(names) == sorted(entry.name for entry in INDEX_PEERS)
    for one in indexed.systems:
        assert (one.indexed, one.timed, one.rounds, one.sentence) == (1_600, 400, 1, None)
        assert 77 <= one.duplicates <= 82, one
        assert 0 < one.us == pytest.approx(one.ratio * indexed.systems[0].us)
    text = markdown(lsh.tables(indexed))
    assert all(word in text for word in (*names, "of 400"))


def test_pages_of_html_are_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_pages, "warm", lambda _folder: None)
    result = html_pages.measure(tmp_path, 40, rounds=1)
    assert result.pages == 40
    assert result.megabytes_s == pytest.approx(result.rate * result.html_bytes / 1e6)
    assert 0 < result.rate == result.rates[0]
    assert "12,000" in markdown([html_pages.table(result)])
    assert msgspec.json.decode(msgspec.json.encode(result), type=html_pages.HtmlPages) == result


def test_shards_are_measured_and_predicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "warm", lambda _folder: None)
    result = shards.measure(tmp_path, 400, shards=(1, 2), head_pages=100)
    one, two = result.measured
    assert (one.flushes, two.flushes) == (3, 3), "at the start, after the chunk, at the end"
    assert one.hops == 0
    assert 0.7 < two.hops <= 1, "kept pages, four of five, are handed on"
    assert min(result.costs.sign_us, result.costs.shard_us) > 0
    assert result.plans[2][4] == plan(result.costs, 2, 4)
    assert [path.suffix for path in tmp_path.iterdir()] == [".jsonl"], "scratch was left"
    text = markdown([shards.table(result), shards.prediction_table(result)])
    assert all(word in text for word in ("64 cores", f"{one.rate:,.0f}"))
    assert msgspec.json.decode(msgspec.json.encode(result), type=shards.ShardRates) == result


# ---- scale ---------------------------------------------------------------------------------------


def no_starts(_folder: Path, index: Path, *, rounds: int, killed_pages: int) -> Any:
    """Stand in for the starts, which take long: tell of what index they would be."""
    store, meta = read_meta(index)
    store.close()
    assert killed_pages == 30
    kept, nothing = meta.shards[0].rows, [0.0] * rounds
    return start_time.StartTime(kept, 1, nothing, nothing, nothing, 0, 0, 0)


def test_a_run_at_scale_is_measured_with_its_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed_replay, "WARM_PAGES", 10)
    monkeypatch.setattr(start_time, "measure", no_starts)
    pages, step = 5400, 1800  # of 4 kB: a chunk is a little more than a step
    sizes = {"base_pages": 300, "step": step, "head_pages": 100, "killed_pages": 30}
    measured = scale.measure(tmp_path, pages, start_rounds=2, **sizes)
    left = sorted(path.name.partition("-")[0] for path in tmp_path.iterdir())
    assert left == ["corpus"] * 3, "scratch was left"
    assert msgspec.json.decode(msgspec.json.encode(measured), type=scale.Scale) == measured
    run = measured.run
    assert run is not None
    assert run.pages == run.unique + run.duplicates == pages
    assert 0.12 < run.duplicates / run.pages < 0.28
    assert run.index_pages == run.unique
    assert run.hops == 0
    assert measured.rate == pytest.approx(pages / run.seconds)
    assert measured.last_to_first == pytest.approx(measured.rates[-1] / measured.rates[0])
    assert measured.source_alone is not None
    assert measured.source is not None
    assert (measured.source_alone.pages, measured.source.pages) == (300, pages)
    assert measured.start is not None
    assert (measured.start.index_pages, len(measured.start.clean)) == (run.unique, 2)
    assert [sample.pages >= step * (n + 1) for n, sample in enumerate(run.samples)] == [True] * 3
    for sample in run.samples:
        assert 20 << 20 < sample.anonymous_bytes < sample.rss_bytes <= measured.peak_bytes
    whole = run.memory
    assert whole is not None
    parts = {part.name: part.size_bytes for part in whole.parts}
    assert sum(parts.values()) == whole.resident.total_bytes
    assert {memory.BASE, memory.REST, "head", "key table", *memory.ROCKSDB} <= parts.keys()
    assert parts["head"] >= (100 + 1024) * (8 + 15 * 8 + 8 + 33 * 8 + 1), "its columns alone"
    text = markdown(scale.tables(measured))
    for word in ("41,667", "0.85", "600", "2,048 MiB", "after a kill", memory.REST):
        assert word in text, word


def test_starts_are_timed_after_a_stop_and_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_time, "SMALL_PAGES", 20)
    base = tmp_path / "base.jsonl"
    base.write_bytes(b"".join(corpus.generate(60)))
    timed_replay.timed_replay(
        timed_replay.parse([str(base), "result.json", "--folder", str(tmp_path)])
    )
    index = tmp_path / "index"
    # The verdicts on half of these are more than a pipe holds.
    start = start_time.measure(tmp_path, index, rounds=1, killed_pages=1500)
    store, meta = read_meta(index)
    store.close()
    assert 0 < start.index_pages < meta.shards[0].rows
    assert 0.1 < start.clean_s == start.clean[0]
    assert 0.1 < start.killed_s <= start.caught_up_s == start.caught_up[0]
    assert "after a kill" in markdown([start_time.table(start)])


# ---- indexes that live long ----------------------------------------------------------------------


def test_an_index_of_many_flushes_is_bounded_and_whole(tmp_path: Path) -> None:
    *samples, opened = flushes.measure(tmp_path, 210, samples=3)
    assert [sample.flushes for sample in (*samples, opened)] == [70, 140, 210, 210]
    assert opened.rows == 208 + 2 * flushes.LARGE_ROWS
    assert all(sample.is_bounded for sample in (*samples, opened))
    assert not msgspec.structs.replace(opened, files=flushes.FILES_MAX + 1).is_bounded
    assert "70" in markdown([flushes.table([*samples, opened])])


def test_an_index_beyond_its_memory_is_opened_and_restored(tmp_path: Path) -> None:
    result = growth.measure(tmp_path, 60_000)
    assert [sample.kept for sample in result.samples] == [6_000 * at for at in range(1, 11)]
    assert min(result.opened, result.snapshot, result.restored) > 0
    assert not [*tmp_path.iterdir()]
    assert "60,000" in markdown([growth.table(result)])
    assert "54,000" in markdown([growth.samples_table(result)])


def test_every_way_to_expire_has_ten_lifetimes(tmp_path: Path) -> None:
    result = lifetimes.measure(tmp_path, 4_000)
    assert [len(samples) for samples in result.values()] == [10] * 3
    assert "by number" in markdown([lifetimes.table(result)])
    assert not [*tmp_path.iterdir()]


def test_pages_are_judged_beside_another_index_which_is_resharded(tmp_path: Path) -> None:
    result = beside.measure(tmp_path, 4_000, rounds=1)
    assert (result.without.duplicates, result.none_near.duplicates) == (0, 0)
    assert result.half_near.duplicates == result.pages // 2
    sizes = result.resharding
    assert sizes.disk_bytes >= sizes.new_bytes > sizes.old_bytes > 0
    assert "4,000" in markdown([beside.table(result)])
    assert not [*tmp_path.iterdir()]


# ---- quality -------------------------------------------------------------------------------------


def test_a_collection_is_judged_under_every_key(tmp_path: Path) -> None:
    shared = tmp_path / "shared"  # with an archive of one collection; the other one is absent
    pages = shared / "set7_mccormick" / "pages.jsonl"
    pages.parent.mkdir(parents=True)
    pages.write_bytes(b"".join(corpus.generate(60)))
    with tarfile.open(shared / "set7_mccormick.tar.xz", "w:xz") as archive:
        archive.add(pages.parent, "set7_mccormick")
    measured = quality.measure(tmp_path, keys=2, data=shared)
    absent, *present = measured
    assert absent.collection == "set3_llvm_docs"
    assert absent.sentence is not None
    assert [one.detector for one in present] == [entry.name for entry in STREAM_PEERS]
    for one in present:
        assert one.sentence is not None or len(one.trials) == 2
        for trial in one.trials:
            assert trial.right + trial.missed > 5
            assert trial.f1 > 0.8
    text = markdown(quality.tables(measured))
    for word in ("set7_mccormick", "streamer", "20 right", "set3_llvm_docs is not measured"):
        assert word in text, word


def test_a_program_that_adds_pages_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "PEER_PAGES", 50)
    found = library.measure(60, rounds=1)
    assert found.pages == 60
    assert 0 < found.duplicates < 30
    assert 3000 < found.mean_bytes < 6000
    assert all(ratio > 0 for ratio in (found.rate, *found.ratios.values()))
    [line] = [one for one in markdown([library.table(found)]).splitlines() if "Dedup" in one]
    assert line.endswith("| 30,000 |")


def test_the_results_are_json_with_the_machine(tmp_path: Path) -> None:
    text = io.StringIO()
    asked = run.parse(["--only", "library", "--library-pages", "20", "--folder", str(tmp_path)])
    run.run(*asked, Console(file=text, width=120))
    found = json.loads((tmp_path / results.RESULTS_FILE).read_bytes())
    assert found["machine"]["cores"] >= 1
    assert found["machine"]["packages"].keys() == set(machine.PACKAGES)
    assert found["subjects"].keys() == {"library"}
    assert found["subjects"]["library"]["result"]["pages"] == 20
    assert "cores" in text.getvalue()


def test_a_subject_that_the_disk_is_too_small_for_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_asked: Options) -> None:
        raise DiskTooSmall("there is no room.")

    def one(result: int) -> Iterator[str]:
        yield f"it is {result}"

    subjects = (Subject("large", int, refuse, one), Subject("small", int, lambda _asked: 7, one))
    monkeypatch.setattr(run, "SUBJECTS", subjects)
    text = io.StringIO()
    done = run.run(["large", "small"], Options(tmp_path), Console(file=text, width=120))
    assert "large is not measured: there is no room." in text.getvalue()
    assert "it is 7" in text.getvalue()
    assert done.subjects.keys() == {"small"}


def test_a_process_that_fails_ends_the_run_with_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise subprocess.CalledProcessError(1, "replay")

    monkeypatch.setattr(throughput, "measure", fail)
    monkeypatch.setattr(sys, "argv", ["run.py", "--only", "throughput", "--folder", str(tmp_path)])
    with pytest.raises(SystemExit, match="1"):
        run.main()
    assert "process failed" in capsys.readouterr().out


def test_without_a_choice_all_benchmarks_run() -> None:
    subjects, asked = run.parse([])
    assert subjects == [subject.name for subject in SUBJECTS]
    assert {"throughput", "signing", "lsh", "quality"} <= set(subjects)
    assert asked == Options(run.FOLDER)
