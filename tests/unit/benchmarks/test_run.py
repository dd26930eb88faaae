"""Every subject on a tiny input: it is measured, kept, shown on the page and compared."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from benchmarks import (
    beside,
    collisions,
    compare,
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
    report,
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
from benchmarks.peers.peer import (
    INDEX_PEERS,
    INDEXES_LEFT_OUT,
    LEFT_OUT,
    SIGNING_PEERS,
    STREAM_PEERS,
)
from benchmarks.run import SUBJECTS, Options, Subject


def small_throughput(folder: Path) -> throughput.Throughput:
    """Replay three chunks, so that flushes come between."""
    result = throughput.measure(folder, 5000, step=200, head_pages=16)
    replay = result.run
    assert replay is not None
    assert replay.pages == replay.unique + replay.duplicates == 5000
    assert 0 < replay.duplicates_of_flushed <= replay.duplicates
    assert replay.stages == {}, "the measured run is not instrumented"
    assert all(stage.cpu_us > 0 for stage in result.stages), result.stages
    return result


def small_signing(_folder: Path) -> signing.Signing:
    result = signing.measure(pages=12, rounds=2)
    named = [peer.name for peer in result.peers] + [peer.name for peer in result.absent]
    expected = [entry.name for entry in SIGNING_PEERS] + [peer.name for peer in LEFT_OUT]
    assert sorted(named) == sorted(expected)
    assert (result.peers[0].name, result.peers[0].ratio) == ("streamer", 1)
    return result


def small_lsh(folder: Path) -> lsh.Lsh:
    result = lsh.measure(folder, 2_000, rounds=1)
    assert len(result.systems) + len(result.absent) == len(INDEX_PEERS) + len(INDEXES_LEFT_OUT)
    for one in result.systems:
        assert (one.indexed, one.timed, one.rounds, one.sentence) == (1_600, 400, 1, None)
        least = 60 if "Lance" in one.name else 77  # it sees none of the same batch
        assert least <= one.duplicates <= 82, one
        assert one.memory_bytes > 0
        assert (one.disk_bytes > 0) == ("on disk" in one.name)
        assert one.us == pytest.approx(one.ratio * result.systems[0].us)
    return result


def small_library(_folder: Path) -> library.Library:
    result = library.measure(60, rounds=1)
    assert 0 < result.duplicates < 30
    assert all(ratio > 0 for ratio in (result.rate, *result.ratios.values()))
    return result


def small_collisions(_folder: Path) -> collisions.Collisions:
    result = collisions.measure(1)
    assert result.duplicates[0] == 419, "the proportions of the published table"
    assert {one.name for one in result.hashes if one.published} == set(collisions.PUBLISHED)
    return result


def small_quality(folder: Path) -> list[quality.Quality]:
    """Judge an archive of one collection; the other one is absent."""
    shared = folder / "shared"
    pages = shared / "set7_mccormick" / "pages.jsonl"
    pages.parent.mkdir(parents=True)
    pages.write_bytes(b"".join(corpus.generate(60)))
    with tarfile.open(shared / "set7_mccormick.tar.xz", "w:xz") as archive:
        archive.add(pages.parent, "set7_mccormick")
    absent, *present = quality.measure(folder / "unpacked", keys=2, data=shared)
    assert absent.sentence is not None
    assert [one.detector for one in present] == [entry.name for entry in STREAM_PEERS]
    assert all(trial.f1 > 0.8 for one in present for trial in one.trials)
    return [absent, *present]


def small_html(folder: Path) -> html_pages.HtmlPages:
    result = html_pages.measure(folder, 60, rounds=1)
    assert result.html_bytes == pytest.approx(html_pages.PAGE_BYTES, rel=0.1)
    assert result.text_bytes == pytest.approx(html_pages.TEXT_BYTES, rel=0.1)
    return result


def small_shards(folder: Path) -> shards.ShardRates:
    result = shards.measure(folder, 400, shards=(1, 2), held_against=3, head_pages=100)
    one, two = result.measured
    assert (one.flushes, two.flushes) == (3, 3), "at the start, after the chunk, at the end"
    assert one.hops == 0
    assert 0.7 < two.hops <= 1, "kept pages, four of five, are handed on"
    assert [len(one.shard_us) for one in result.measured] == [1, 2]
    assert result.trial is not None
    assert len(result.trial.run.shard_us) == 3
    return result


def small_scale(folder: Path) -> scale.Scale:
    """Replay a little more than a step a chunk; start after a stop and after a kill."""
    sizes = {"base_pages": 300, "step": 1800, "head_pages": 100, "killed_pages": 1500}
    result = scale.measure(folder, 5400, start_rounds=1, **sizes)
    replay, start = result.run, result.start
    assert replay is not None
    assert replay.memory is not None
    assert start is not None
    assert replay.pages == replay.unique + replay.duplicates == 5400
    assert 0.12 < replay.duplicates / replay.pages < 0.28
    assert start.index_pages == replay.index_pages == replay.unique
    assert 0.1 < start.killed_s <= start.caught_up_s
    parts = {part.name: part.size_bytes for part in replay.memory.parts}
    assert sum(parts.values()) == replay.memory.resident.total_bytes
    assert {memory.BASE, memory.REST, "memtable", "key table", *memory.ROCKSDB} <= parts.keys()
    return result


def small_growth(folder: Path) -> growth.Growth:
    result = growth.measure(folder, 60_000)
    assert [sample.kept for sample in result.samples] == [6_000 * at for at in range(1, 11)]
    return result


def small_flushes(folder: Path) -> list[flushes.Sample]:
    samples = flushes.measure(folder, 210, samples=10)
    assert samples[-1].rows == 208 + 2 * flushes.LARGE_ROWS
    assert all(sample.is_bounded for sample in samples)
    return samples


def small_beside(folder: Path) -> beside.Beside:
    result = beside.measure(folder, 4_000, rounds=1)
    assert (result.without.duplicates, result.none_near.duplicates) == (0, 0)
    assert result.half_near.duplicates == result.pages // 2
    return result


MEASURED: dict[str, Callable[[Path], Any]] = {
    "throughput": small_throughput,
    "signing": small_signing,
    "lsh": small_lsh,
    "library": small_library,
    "collisions": small_collisions,
    "quality": small_quality,
    "html": small_html,
    "shards": small_shards,
    "scale": small_scale,
    "growth": small_growth,
    "flushes": small_flushes,
    "lifetimes": lambda folder: lifetimes.measure(folder, 4_000),
    "beside": small_beside,
}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make what comes before and around a measurement small, too."""
    monkeypatch.setattr(timed_replay, "WARM_PAGES", 10)
    monkeypatch.setattr(signing, "TURN_SECONDS", 0.0)
    monkeypatch.setattr(library, "PEER_PAGES", 50)
    monkeypatch.setattr(start_time, "SMALL_PAGES", 20)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_a_subject_is_measured_kept_shown_and_compared(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, page, name = tmp_path / "work", tmp_path / "benchmarks.md", subject.name
    tiny = subject._replace(measure=lambda asked: MEASURED[name](asked.folder))
    monkeypatch.setattr(run, "SUBJECTS", (tiny,))
    done = run.run([name], Options(work), Console(file=io.StringIO(), width=120))
    left = {path.name.partition("-")[0] for path in work.iterdir()}
    made = {"corpus", "html", "shared", "unpacked", results.RESULTS_FILE}
    assert left <= made, "scratch was left"
    report.write(work, page)
    (section,) = (one for one in report.SECTIONS if one.subject == name)
    shown = page.read_text("utf-8").partition(f"## {section.title}\n")[2].partition("\n## ")[0]
    assert f"Command: `{section.command}`" in shown
    assert "| --- |" in shown
    assert report.NOT_MEASURED not in shown
    decoded = msgspec.json.decode(done.subjects[name].result)
    watched = compare.SUBJECTS[name]
    for path in filter(None, (watched.size, *(one.path for one in watched.figures))):
        assert list(compare.values(decoded, path)), path


def test_every_subject_has_its_section_and_its_watched_figures() -> None:
    names = [subject.name for subject in SUBJECTS]
    assert [section.subject for section in report.SECTIONS] == names
    assert sorted(compare.SUBJECTS) == sorted(names)
    assert run.parse([]) == (names, Options(run.FOLDER))


def test_the_command_leaves_results_with_the_machine(tmp_path: Path) -> None:
    asked = run.parse(["--only", "library", "--library-pages", "20", "--folder", str(tmp_path)])
    run.run(*asked, Console(file=io.StringIO(), width=120))
    found = json.loads((tmp_path / results.RESULTS_FILE).read_bytes())
    assert found["machine"]["packages"].keys() == set(machine.PACKAGES)
    assert found["subjects"]["library"]["result"]["pages"] == 20


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
    assert done.subjects.keys() == {"small"}
