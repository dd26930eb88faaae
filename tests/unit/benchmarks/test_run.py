"""Every benchmark on a tiny input: it runs, and its report says what was done."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import tarfile
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pytest
from rich.console import Console

from benchmarks import (
    corpus,
    corpus_file,
    lsh,
    machine,
    quality,
    results,
    run,
    signing,
    throughput,
    timed_replay,
)
from benchmarks.corpus_file import DiskTooSmall, obtain
from benchmarks.figures import markdown
from benchmarks.peers.peer import (
    INDEX_PEERS,
    LEFT_OUT,
    SIGNING_PEERS,
    STREAM_PEERS,
    Absent,
    Entry,
    IndexPeer,
    SigningPeer,
)
from benchmarks.peers.shingles import shingles
from benchmarks.run import SUBJECTS, Options, Subject
from streamer.lab.sample.score import read_verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAGES = 5000  # of 4 kB: three chunks, so that flushes come between


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[throughput.Throughput]:
    folder = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timed_replay, "WARM_PAGES", 10)
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
    assert 0 < replay.duplicates_of_flushed <= replay.duplicates
    assert replay.stages == {}, "left alone"


def test_every_stage_of_a_replay_is_timed(measured: throughput.Throughput) -> None:
    times = {stage.name: stage.cpu_us for stage in measured.stages}
    rest = times.pop("not in a stage")
    assert all(value > 0 for value in times.values()), times
    assert {"reading", "sign", "store: key table", "verdict"} < times.keys()
    assert rest > 0
    assert 0 < measured.overhead_us < sum(times.values())


def test_the_throughput_is_printed_beside_target_and_budgets(
    measured: throughput.Throughput,
) -> None:
    text = markdown(throughput.tables(measured))
    for word in (
        "25,000",
        "made in",
        "MiB",
        "store: key table",
        "budget us",
        f"{measured.rate:,.0f}",
    ):
        assert word in text, word


def test_a_disk_that_is_too_small_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1_000_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    result = throughput.measure(tmp_path, 1_000_000)
    assert "1.0 GB free" in markdown(throughput.tables(result))
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
    monkeypatch.setattr(corpus_file, "_version", lambda *_sources: "other")
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


def test_every_peer_signs_or_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert all(name in text for name in expected)
    assert all(reason in text for reason in absent.values())


@pytest.mark.parametrize(
    "entry", [entry for entry in SIGNING_PEERS if entry.signs], ids=lambda entry: entry.name
)
def test_a_peer_tells_texts_apart_and_signs_one_text_alike(entry: Entry[SigningPeer]) -> None:
    peer = entry.load()
    if peer is None:
        # A benchmark does without it too, and says so; CI has the lock with all of them.
        pytest.skip(f"{entry.name} is not installed; it comes with requirements/bench.lock")
    texts = signing.raw_texts(2)
    ended = [texts[0], texts[0].rsplit(b" ", 60)[0]]  # so the end of a text is signed too
    assert signature(peer, texts[:1]) == signature(peer, texts[:1])
    assert signature(peer, texts[:1]) != signature(peer, texts[1:])
    assert signature(peer, ended[:1]) != signature(peer, ended[1:])


def signature(peer: SigningPeer, texts: Sequence[bytes]) -> str:
    signed: Any = peer.sign(texts)
    first = signed[0]
    for name in ("digest", "to_rows"):  # of rensa
        if hasattr(first, name):
            return str(getattr(first, name)())
    for name in ("keys", "value", "hashvalues"):  # of streamer, simhash, datasketch
        if hasattr(first, name):
            return str(getattr(first, name))
    return str(first)


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
    signs: bool = True

    def load(self) -> Counted:
        return Counted(self.name)


def test_the_peers_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing, "SIGNING_PEERS", (Loaded("a"), Loaded("b"), Loaded("c")))
    monkeypatch.setattr(Counted, "turns", [])
    monkeypatch.setattr("time.process_time", iter(range(100)).__next__)
    signing.measure(pages=1, rounds=3)
    assert "".join(Counted.turns) == "abc" + "abc" + "bca" + "cab"  # the first is the warm-up


def test_the_target_is_set_against_the_fastest_peer_that_signs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entries = (Loaded("us"), Loaded("slow"), Loaded("quick"), Loaded("shingles", signs=False))
    monkeypatch.setattr(signing, "SIGNING_PEERS", entries)
    monkeypatch.setattr(Counted, "turns", [])
    seconds = {"us": 1, "slow": 9, "quick": 6, "shingles": 3}
    monkeypatch.setattr("time.process_time", lambda: sum(seconds[name] for name in Counted.turns))
    result = signing.measure(pages=1, rounds=2)
    assert (result.fastest, result.ratio) == ("quick", 6.0)
    assert [peer.ratio for peer in result.peers] == [1, 9, 6, 3]


def test_a_library_that_is_not_installed_makes_its_peer_absent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry: Entry[SigningPeer] = Entry("rensa", "rensa_peers", "RMinHashPeer")
    monkeypatch.delitem(sys.modules, "benchmarks.peers.rensa_peers", raising=False)
    monkeypatch.setitem(sys.modules, "rensa", None)
    assert entry.load() is None


def test_shingles_are_runs_of_five_tokens() -> None:
    assert shingles(list("abcdefg")) == ["a b c d e", "b c d e f", "c d e f g"]
    assert shingles(list("abc")) == ["a b c"]


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
    text = markdown(quality.tables(quality.measure(tmp_path, keys=1, data=data)))
    for word in ("set7_mccormick", "streamer", "20 right", "set3_llvm_docs is not measured"):
        assert word in text, word


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


def test_one_document_in_five_is_a_near_copy_of_any_earlier_one() -> None:
    documents = list(chain(*lsh.batches(0, 5_000, 700)))
    seen: dict[tuple[int, bytes], int] = {}
    distances: list[int] = []
    exact = 0
    for number, document in enumerate(documents):
        exact += document in documents[:number]
        halves = list(enumerate((document[:287], document[288:])))  # one word of 64 may differ
        found = [seen[half] for half in halves if half in seen]
        distances += [number - min(found)] if found else []
        seen |= {half: number for half in halves if half not in seen}
    assert len(distances) == 1_000
    assert 250 < exact < 420
    assert max(distances) > 3_500
    assert all(document.count(b" ") == 63 for document in documents)


def test_a_document_is_a_function_of_its_number() -> None:
    whole = list(chain(*lsh.batches(0, 300, 100)))
    assert list(chain(*lsh.batches(150, 300, 7))) == whole[150:]
    assert set(whole).isdisjoint(chain(*lsh.batches(0, 300, 100, seed=2)))


def test_every_index_finds_the_copies_among_the_last_documents(tmp_path: Path) -> None:
    indexed = lsh.measure(tmp_path, 2_000, rounds=1)
    assert list(tmp_path.iterdir()) == [], "scratch was left"
    names = [one.name for one in indexed.systems] + [one.name for one in indexed.absent]
    assert sorted(names) == sorted(entry.name for entry in INDEX_PEERS)
    for one in indexed.systems:
        assert (one.indexed, one.timed, one.sentence) == (1_600, 400, None)
        assert 77 <= one.duplicates <= 82, one
        assert one.us > 0
        assert one.rounds == 1
        assert one.ratio == one.ratio_least == pytest.approx(one.us / indexed.systems[0].us)
    text = markdown(lsh.tables(indexed))
    assert all(entry.name in text for entry in INDEX_PEERS)
    assert "of 400" in text


def times(*microseconds: float) -> list[lsh.IndexTime]:
    return [lsh.IndexTime("x", 900, 100, us, us / 2, 20, int(us)) for us in microseconds]


def test_each_round_of_an_index_is_held_against_ours_in_the_same_round() -> None:
    ours = times(4.0, 8.0, 5.0)
    found = lsh.over_rounds(times(8.0, 8.0, 20.0), ours)
    assert (found.us, found.cpu_us, found.rounds, found.peak_rss_bytes) == (8.0, 4.0, 3, 20)
    assert (found.ratio, found.ratio_least, found.ratio_greatest) == (2.0, 1.0, 4.0)
    slow = lsh.over_rounds(times(80.0), ours)
    assert (slow.us, slow.rounds, slow.ratio) == (80.0, 1, 20.0)


def test_indexes_take_turns_and_a_slow_one_has_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []
    names = [entry.name for entry in INDEX_PEERS]
    microseconds = dict(zip(names, (2.0, 3.0, 200.0), strict=True))

    def run(_folder: Path, entry: Entry[IndexPeer], _documents: int) -> lsh.IndexTime | Absent:
        asked.append(entry.name)
        [time] = times(microseconds[entry.name])
        return msgspec.structs.replace(time, name=entry.name)

    monkeypatch.setattr(lsh, "_in_a_process", run)
    found = lsh.measure(tmp_path, 10, rounds=3)
    assert asked == [*names, *names[:2], *names[:2]]
    assert [(one.name, one.rounds) for one in found.systems] == list(
        zip(names, (3, 3, 1), strict=True)
    )


class Endless:
    """An index that is given documents, and counts them."""

    def __init__(self) -> None:
        self.judged: list[int] = []
        self.settled_at: list[int] = []

    def sign(self, texts: Sequence[bytes]) -> int:
        return len(texts)

    def judge(self, batches: Sequence[int]) -> int:
        self.judged += batches
        return 0

    def settle(self) -> None:
        self.settled_at.append(sum(self.judged))


def test_an_index_is_settled_before_and_after_the_timed_documents() -> None:
    index = Endless()
    lsh.timed("x", index, 30_000)
    assert index.settled_at == [24_000, 30_000]


@pytest.mark.parametrize(
    ("limit", "value", "said"),
    [("MEMORY_MAX_BYTES", 1 << 20, "memory"), ("FILL_SECONDS_MAX", 0.0, "filling")],
)
def test_an_index_that_takes_too_much_is_given_fewer_documents_and_that_is_said(
    limit: str, value: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lsh, limit, value)
    result = lsh.timed("x", Endless(), 30_000)
    assert (result.indexed, result.timed) == (lsh.BATCH, 6_000)
    assert result.sentence is not None
    assert said in result.sentence
    text = markdown(lsh.tables(lsh.Lsh(30_000, [result], [])))
    assert f"x was given {lsh.BATCH:,} documents only: {result.sentence}." in text


def test_the_results_are_json_with_the_machine(tmp_path: Path) -> None:
    text = io.StringIO()
    asked = run.parse(["--only", "library", "--library-texts", "20", "--folder", str(tmp_path)])
    run.run(*asked, Console(file=text, width=120))
    found = json.loads((tmp_path / results.RESULTS_FILE).read_bytes())
    assert found["machine"]["cores"] >= 1
    assert found["machine"]["packages"].keys() == set(machine.PACKAGES)
    assert found["subjects"].keys() == {"library"}
    assert found["subjects"]["library"]["result"]["texts"] == 20
    assert "cores" in text.getvalue()


def test_a_result_is_read_as_it_was_written(
    measured: throughput.Throughput, tmp_path: Path
) -> None:
    path = tmp_path / "results.json"
    new = results.Results(machine.describe(), "2024-06-01")
    new.subjects["throughput"] = results.encoded(measured, 0.5)
    results.write(path, new)
    found = results.read(path)
    assert found is not None
    assert found.found("throughput", throughput.Throughput) == measured
    assert found.found("signing", signing.Signing) is None
    assert found.found("throughput", signing.Signing) is None


@pytest.mark.parametrize("field", ["load", "commit", "processor", "packages"])
def test_other_subjects_results_stay_where_machine_and_packages_are_the_same(
    field: str, tmp_path: Path
) -> None:
    path, here = tmp_path / "results.json", machine.describe()
    one = results.Results(here, "2024-06-01", {"one": results.encoded(1, 0.0)})
    results.write(path, one)
    other: dict[str, Any] = {
        "load": here.load + 1, "commit": "other", "processor": "other", "packages": {"numpy": "0"}
    }  # fmt: skip
    there = msgspec.structs.replace(here, **{field: other[field]})
    results.write(path, results.Results(there, "2024-06-02", {"two": results.encoded(2, 0.0)}))
    found = results.read(path)
    assert found is not None
    assert found.machine == there
    assert found.subjects.keys() == ({"one", "two"} if field in {"load", "commit"} else {"two"})


def test_results_of_another_version_are_written_over(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text('{"machine": 1}')
    assert results.read(path) is None
    results.write(path, results.Results(machine.describe(), "2024-06-01"))
    assert results.read(path) is not None


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


@pytest.mark.parametrize("count", ["0", "-1", "many"])
def test_a_number_of_pages_is_a_positive_number(
    count: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run.parse(["--pages", count])
    assert "--pages" in capsys.readouterr().err


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
