"""Every benchmark on a tiny input: it runs, and its report says what was done."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from rich.console import Console

from benchmarks import corpus, corpus_file, machine, quality, run, signing, tables, throughput
from benchmarks.corpus_file import DiskTooSmall, obtain
from benchmarks.peers.peer import SIGNING_PEERS, STREAM_PEERS, Entry, SigningPeer
from benchmarks.peers.shingles import shingles
from streamer.sample.verdict_file import read_verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGES = 1500  # of 4 kB: three chunks, so that flushes come between


def printed() -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=120), text


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[throughput.Throughput]:
    folder = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(throughput, "WARM_PAGES", 10)
        yield throughput.measure(folder, PAGES, step=200, head_pages=16)
    assert [path.suffix for path in folder.iterdir()] == [".jsonl"] * 2, "scratch was left"


def test_a_replay_is_measured_over_all_of_its_pages(measured: throughput.Throughput) -> None:
    replay = measured.run
    assert replay is not None
    assert replay.pages == replay.unique + replay.duplicates == PAGES
    assert sum(span.pages for span in replay.spans) == PAGES
    assert replay.index_pages == replay.unique
    assert 0 < measured.rate == pytest.approx(PAGES / replay.seconds)
    assert measured.ratio == pytest.approx(measured.rate / measured.target)
    assert replay.peak_rss_bytes > 50 << 20
    assert measured.index_bytes_a_page > 256, "less than the sketches alone"


def test_matches_in_the_runs_are_counted(measured: throughput.Throughput) -> None:
    assert measured.run is not None
    assert 0 < measured.run.duplicates_of_runs <= measured.run.duplicates


def test_every_stage_of_a_replay_is_timed(measured: throughput.Throughput) -> None:
    times = {stage.name: stage.cpu_us for stage in measured.stages}
    rest = times.pop("not in a stage")
    assert all(value > 0 for value in times.values()), times
    assert {"reading", "sign", "runs: merging", "verdict"} < times.keys()
    assert rest > 0
    assert 0 < measured.overhead_us < sum(times.values())


def test_a_run_left_alone_has_no_stages(measured: throughput.Throughput) -> None:
    assert measured.run is not None
    assert measured.run.stages == {}


def test_the_throughput_is_printed_beside_target_and_budgets(
    measured: throughput.Throughput,
) -> None:
    console, text = printed()
    tables.print_throughput(console, measured)
    for word in ("25,000", "made in", "MiB", "runs: merging", "budget us", f"{measured.rate:,.0f}"):
        assert word in text.getvalue(), word


def test_a_disk_that_is_too_small_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1_000_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    result = throughput.measure(tmp_path, 1_000_000)
    console, text = printed()
    tables.print_throughput(console, result)
    assert "1.0 GB free" in text.getvalue()
    assert list(tmp_path.iterdir()) == []


def test_a_corpus_is_made_once(tmp_path: Path) -> None:
    made, found = obtain(tmp_path, 20), obtain(tmp_path, 20)
    assert made.seconds is not None
    assert found.seconds is None
    assert found.path.read_bytes() == b"".join(corpus.generate(20))
    assert found.size_bytes == found.path.stat().st_size


def test_another_size_or_seed_is_another_corpus(tmp_path: Path) -> None:
    made = [obtain(tmp_path, pages, seed).path for pages, seed in ((20, 1), (21, 1), (20, 2))]
    assert len({path.read_bytes() for path in made}) == 3


def test_the_corpus_of_another_generator_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = obtain(tmp_path, 20).path
    monkeypatch.setattr(corpus_file, "_version", lambda: "other")
    assert obtain(tmp_path, 20).seconds is not None
    assert not old.exists()


def test_a_corpus_that_was_not_finished_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(_pages: int, _seed: int) -> Iterator[bytes]:
        yield b"{}\n"
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(corpus, "generate", stopped)
        with pytest.raises(KeyboardInterrupt):
            obtain(tmp_path, 20)
    assert obtain(tmp_path, 20).seconds is not None


def test_a_corpus_that_is_there_needs_room_for_its_replay_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    obtain(tmp_path, 20)
    usage = shutil.disk_usage(tmp_path)

    def leave(free: int) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=free))

    leave(20 * corpus_file.REPLAY_BYTES)
    assert obtain(tmp_path, 20).seconds is None
    leave(20 * corpus_file.REPLAY_BYTES - 1)
    with pytest.raises(DiskTooSmall):
        obtain(tmp_path, 20)


def test_every_peer_signs_or_is_named_as_absent() -> None:
    result = signing.measure(pages=12, rounds=2)
    names = [peer.name for peer in result.peers]
    assert sorted(names + result.absent) == sorted(entry.name for entry in SIGNING_PEERS)
    assert names[0] == "streamer"
    assert result.peers[0].ratio == 1
    assert all(0 < peer.fastest_us <= peer.median_us for peer in result.peers)
    console, text = printed()
    tables.print_signing(console, result)
    assert all(entry.name in text.getvalue() for entry in SIGNING_PEERS)


class Counted:
    """A peer that writes down its turns."""

    turns: list[str] = []  # noqa: RUF012 - shared by all peers of one test

    def __init__(self, name: str) -> None:
        self.name = name

    def sign(self, _texts: object) -> None:
        self.turns.append(self.name)


class Loaded(NamedTuple):
    """A table's entry for such a peer."""

    name: str
    target: None = None

    def load(self) -> Counted:
        return Counted(self.name)


def test_the_peers_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing, "SIGNING_PEERS", (Loaded("a"), Loaded("b"), Loaded("c")))
    monkeypatch.setattr(Counted, "turns", [])
    monkeypatch.setattr("time.process_time", iter(range(100)).__next__)
    signing.measure(pages=1, rounds=3)
    assert "".join(Counted.turns) == "abc" + "abc" + "bca" + "cab"  # the first is the warm-up


def test_a_library_that_is_not_installed_makes_its_peer_absent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry: Entry[SigningPeer] = Entry("rensa", "rensa_minhash", "RMinHashPeer")
    monkeypatch.delitem(sys.modules, "benchmarks.peers.rensa_minhash", raising=False)
    monkeypatch.setitem(sys.modules, "rensa", None)
    assert entry.load() is None


def test_shingles_are_runs_of_five_tokens() -> None:
    words = list("abcdefg")
    assert shingles(words) == ["a b c d e", "b c d e f", "c d e f g"]
    assert shingles(words[:3]) == ["a b c"]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an archive of one collection; the other one is absent."""
    folder = tmp_path_factory.mktemp("shared")
    pages = folder / "set7_mccormick" / "pages.jsonl"
    pages.parent.mkdir()
    pages.write_bytes(b"".join(corpus.generate(60)))
    with tarfile.open(folder / "set7_mccormick.tar.xz", "w:xz") as archive:
        archive.add(pages.parent, "set7_mccormick")
    return folder


def test_a_collection_is_judged_under_every_key(data: Path, tmp_path: Path) -> None:
    absent, *present = quality.measure(tmp_path, keys=2, data=data)
    assert absent.collection == "set3_llvm_docs"
    assert absent.sentence is not None
    assert [one.detector for one in present] == [entry.name for entry in STREAM_PEERS]
    for one in present:
        assert one.sentence is not None or len(one.trials) == 2
        for trial in one.trials:
            assert trial.right + trial.missed > 5
            assert trial.f1 > 0.8
            assert trial.seconds > 0


def test_the_quality_is_printed_with_its_targets_and_what_is_absent(
    data: Path, tmp_path: Path
) -> None:
    console, text = printed()
    tables.print_quality(console, quality.measure(tmp_path, keys=1, data=data))
    for word in ("set7_mccormick", "streamer", "20 right", "set3_llvm_docs is not measured"):
        assert word in text.getvalue(), word


def test_minimum_and_median_are_over_the_keys() -> None:
    trials = [quality.Trial(1, 0, 0, f1, f1, f1, 1.0) for f1 in (0.9, 0.7, 0.8)]
    result = quality.Quality("c", "d", "t", trials)
    assert result.values("f1") == [0.7, 0.8, 0.9]
    assert result.median("f1") == 0.8


def test_datasketch_calls_equal_pages_duplicates_of_the_earliest(tmp_path: Path) -> None:
    peer = STREAM_PEERS[1].load()
    assert peer is not None
    texts = [" ".join(f"{page}-{word}" for word in range(40)) for page in (0, 1, 2, 1, 1)]
    pages, verdicts = tmp_path / "pages.jsonl", tmp_path / "verdicts.jsonl"
    lines = [json.dumps({"url": f"u{n}", "body": text}) for n, text in enumerate(texts)]
    pages.write_text("\n".join(lines))
    peer.judge(pages, verdicts, 0.8, 1)
    said = list(read_verdicts(verdicts))
    assert [one.verdict for one in said] == ["unique"] * 3 + ["duplicate"] * 2
    places = [one.representative and one.representative.page.offset for one in said]
    assert places == [None, None, None, 1, 1]


def test_the_results_are_json_with_the_machine(tmp_path: Path) -> None:
    options = run.parse(["--only", "signing", "--signing-pages", "5", "--folder", str(tmp_path)])
    console, text = printed()
    results = run.run(options, console)
    run.write(results, tmp_path)
    found = json.loads((tmp_path / run.RESULTS_FILE).read_bytes())
    assert found["machine"]["cores"] >= 1
    assert found["machine"]["packages"].keys() == set(machine.PACKAGES)
    assert found["signing"]["pages"] == 5
    assert found["throughput"] is found["quality"] is None
    assert "cores" in text.getvalue()


def test_all_results_can_be_written(measured: throughput.Throughput, tmp_path: Path) -> None:
    run.write(run.Results(machine.describe(), measured), tmp_path)
    found = json.loads((tmp_path / run.RESULTS_FILE).read_bytes())
    assert found["throughput"]["run"]["pages"] == PAGES


@pytest.mark.parametrize("count", ["0", "-1", "many"])
def test_a_number_of_pages_is_a_positive_number(
    count: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run.parse(["--pages", count])
    assert "--pages" in capsys.readouterr().err


def test_a_replay_that_fails_ends_the_run_with_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise subprocess.CalledProcessError(1, "replay")

    monkeypatch.setattr(throughput, "measure", fail)
    monkeypatch.setattr(sys, "argv", ["run.py", "--only", "throughput", "--folder", str(tmp_path)])
    with pytest.raises(SystemExit, match="1"):
        run.main()
    assert "replay failed" in capsys.readouterr().out


def test_without_a_choice_all_benchmarks_run() -> None:
    assert run.parse([]).only == ["throughput", "signing", "quality"]
