"""The benchmarks of speed at scale: sources keep their promises, models meet what was measured."""

from __future__ import annotations

import json
import subprocess
from mmap import mmap
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import (
    corpus,
    html_pages,
    memory,
    salted_source,
    scale,
    shards,
    start_time,
    timed_replay,
)
from benchmarks.corpus_file import PAGE_BYTES
from benchmarks.figures import markdown
from benchmarks.peers.shingles import shingles
from benchmarks.shards import Costs, Measured, cpu_us, fitted, plan, predict
from benchmarks.timed_replay import Span
from streamer.pages.chunk import CHUNK_BYTES_MAX
from streamer.run.index_folder import read_meta

BASE_PAGES = 60
PASSES = 4
CORES = range(2, 65)


# ---- the salted source ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("salted") / "base.jsonl"
    path.write_bytes(b"".join(corpus.generate(BASE_PAGES)))
    return path


def salted(base: Path, pages: int) -> list[dict[str, str]]:
    copies = salted_source.base_copies(BASE_PAGES)
    blocks = salted_source.blocks(base, copies, pages)
    lines = b"".join(block.tobytes() for block in blocks).splitlines()
    return [json.loads(line) for line in lines]


def shifted(text: str, salt: int) -> str:
    """Oracle: every vowel is moved so many letters on, past z to a again."""
    moved = "".join(chr((ord(vowel) - ord("a") + salt) % 26 + ord("a")) for vowel in "aeiou")
    return text.translate(str.maketrans("aeiou", moved))


def test_a_salted_page_is_its_base_page_with_vowels_shifted_and_nothing_else(base: Path) -> None:
    originals = [json.loads(line) for line in base.read_bytes().splitlines()]
    pages = salted(base, PASSES * BASE_PAGES)
    copies = salted_source.base_copies(BASE_PAGES)
    for place, page in enumerate(pages):
        number, at = divmod(place, BASE_PAGES)
        salt = salted_source.salts_of_pass(number, copies)[at]
        original = originals[at]
        assert page["body"] == shifted(original["body"], int(salt))
        assert page["url"] == original["url"].replace("/article-", f"/pass-{number:02}-")
        assert page.keys() == original.keys()
        assert page["content_type"] == original["content_type"]


def test_pages_of_two_salts_share_no_shingle(base: Path) -> None:
    body = json.loads(base.read_bytes().splitlines()[0])["body"]
    sets = [set(shingles(shifted(body, salt).split())) for salt in range(6)]
    for salt, one in enumerate(sets):
        assert len(one) > 400
        assert not any(one & other for other in sets[:salt])


def test_copies_are_spread_over_all_passes_so_far_and_originals_are_new() -> None:
    copies = np.arange(40_000) % 5 == 0
    salts = salted_source.salts_of_pass(3, copies)
    assert set(salts[~copies].tolist()) == {3}
    shares = np.bincount(salts[copies], minlength=4) / copies.sum()
    assert shares == pytest.approx(np.full(4, 0.25), abs=0.03)


def test_where_blocks_end_does_not_show(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = salted(base, 2 * BASE_PAGES + 7)
    monkeypatch.setattr(salted_source, "BLOCK_BYTES", 9_001)
    assert salted(base, 2 * BASE_PAGES + 7) == whole
    assert len(whole) == 2 * BASE_PAGES + 7


@given(
    st.lists(st.text('aeioubcnz "é\n'.replace("\n", ""), max_size=80), min_size=1, max_size=5),
    st.integers(0, 9),
    st.data(),
)
def test_the_salting_kernel_is_its_oracle(texts: list[str], at: int, data: Any) -> None:
    head = "a" * at  # before the text: must stay
    salts = [data.draw(st.integers(0, salted_source.PASSES_MAX - 1)) for _ in texts]
    lines = [f"{head}{text}\n".encode() for text in texts]
    given_lines = np.frombuffer(b"".join(lines), np.uint8).copy()
    ends = np.cumsum([len(line) for line in lines])
    salted_source.salt_lines(given_lines, ends, np.array(salts), at, salted_source.shifted_vowels())
    wanted = [head + shifted(text, salt) + "\n" for text, salt in zip(texts, salts, strict=True)]
    assert given_lines.tobytes().decode() == "".join(wanted)


def test_more_passes_than_salts_are_refused(base: Path) -> None:
    with pytest.raises(ValueError, match="more than 26"):
        salted(base, 26 * BASE_PAGES + 1)


def test_a_base_file_that_is_too_short_is_refused(base: Path) -> None:
    blocks = salted_source.blocks(base, salted_source.base_copies(BASE_PAGES + 1), BASE_PAGES + 1)
    with pytest.raises(ValueError, match=f"has {BASE_PAGES} pages"):
        list(blocks)


# ---- scale, memory and starts --------------------------------------------------------------------


def no_starts(_folder: Path, index: Path, *, rounds: int, killed_pages: int) -> Any:
    """Stand in for the starts, which take long: tell of what index they would be."""
    store, meta = read_meta(index)
    store.close()
    assert killed_pages == 30
    kept, nothing = meta.shards[0].rows, [0.0] * rounds
    return start_time.StartTime(kept, 1, nothing, nothing, nothing, 0, 0, 0)


PAGES, STEP = 5400, 1800  # of 4 kB: a chunk is a little more than a step


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> scale.Scale:
    folder = tmp_path_factory.mktemp("scale")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timed_replay, "WARM_PAGES", 10)
        patch.setattr(start_time, "measure", no_starts)
        result = scale.measure(
            folder,
            PAGES,
            base_pages=300,
            step=STEP,
            head_pages=100,
            start_rounds=2,
            killed_pages=30,
        )
    left = sorted(path.name.partition("-")[0] for path in folder.iterdir())
    assert left == ["corpus"] * 3, "scratch was left"
    return result


def test_a_run_at_scale_is_measured_over_all_of_its_pages(measured: scale.Scale) -> None:
    run = measured.run
    assert run is not None
    assert run.pages == run.unique + run.duplicates == PAGES
    assert sum(span.pages for span in run.spans) == PAGES
    assert 0.12 < run.duplicates / run.pages < 0.28
    assert run.index_pages == run.unique
    assert measured.rate == pytest.approx(PAGES / run.seconds)
    assert measured.index_bytes_a_page > 256, "less than the sketches alone"
    assert measured.last_to_first == pytest.approx(measured.rates[-1] / measured.rates[0])
    assert run.hops == 0
    assert measured.source_alone is not None
    assert measured.source is not None
    assert (measured.source_alone.pages, measured.source.pages) == (300, PAGES)
    assert measured.source.cpu_us > 0
    assert measured.start is not None
    assert (measured.start.index_pages, len(measured.start.clean)) == (run.unique, 2)


def test_a_result_at_scale_survives_being_written_and_is_shown_beside_its_targets(
    measured: scale.Scale,
) -> None:
    assert msgspec.json.decode(msgspec.json.encode(measured), type=scale.Scale) == measured
    text = markdown(scale.tables(measured))
    for word in ("41,667", "0.85", "600", "2,048 MiB", "after a kill", memory.REST):
        assert word in text, word


def test_memory_is_sampled_on_the_way(measured: scale.Scale) -> None:
    run = measured.run
    assert run is not None
    assert [sample.pages >= STEP * (n + 1) for n, sample in enumerate(run.samples)] == [True] * 3
    for sample in run.samples:
        assert 20 << 20 < sample.anonymous_bytes < sample.rss_bytes <= measured.peak_bytes


def test_the_parts_of_the_memory_add_up(measured: scale.Scale) -> None:
    assert measured.run is not None
    whole = measured.run.memory
    assert whole is not None
    parts = {part.name: part.size_bytes for part in whole.parts}
    assert sum(parts.values()) == whole.resident.total_bytes
    assert {memory.BASE, memory.REST, "head", "key table", *memory.ROCKSDB} <= parts.keys()
    assert parts[memory.BASE] > 50 << 20
    assert parts["head"] >= (100 + 1024) * (8 + 15 * 8 + 8 + 33 * 8 + 1), "its columns alone"
    assert whole.kept_pages == measured.run.unique


def test_starts_are_timed_after_a_stop_and_after_a_kill(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_time, "SMALL_PAGES", 20)
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


def test_a_command_that_ends_before_its_verdicts_is_no_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        start_time._Command(tmp_path / "index", tmp_path / "no.jsonl") as command,  # noqa: SLF001 - its own failure
        pytest.raises(subprocess.CalledProcessError),
    ):
        command.follow(new_from=0, count=1)
    assert "no such file" in capsys.readouterr().err


def test_a_disk_that_is_too_small_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scale, "REPLAY_BYTES", 1 << 50)
    result = scale.measure(tmp_path, 100, base_pages=20, killed_pages=20)
    assert "GB free" in markdown(scale.tables(result))
    assert not (tmp_path / "scale").exists()


def test_a_replay_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scale, "warm", lambda _folder: None)
    monkeypatch.setattr(timed_replay, "MODULE", "benchmarks.no_such_module")
    with pytest.raises(subprocess.CalledProcessError):
        scale.measure(tmp_path, 60, base_pages=20, killed_pages=20)
    assert not (tmp_path / "scale").exists()


class Holder:
    """An object with arrays in many places."""

    def __init__(self) -> None:
        self.words = np.zeros(100, np.uint64)
        self.view = self.words[10:20]
        self.again = {"x": self.words, "y": [np.zeros(5, np.uint8)]}
        self.itself = self
        self.mapped = mmap(-1, 4096)


def test_each_array_counts_once_under_its_path() -> None:
    sizes = memory.array_bytes(Holder())
    assert sizes[".words"] + sizes[".view"] == 800
    assert sizes[".again[][]"] == 5
    assert sizes[".mapped"] == 4096
    kinds = [memory._kind(path) for path in (".shards[].head.keys", "._lookups[].table._memory[]")]  # noqa: SLF001 - its parts
    assert kinds == ["head", "key table"]


def test_a_last_part_that_is_short_has_no_rate(measured: scale.Scale) -> None:
    assert measured.run is not None
    spans = [Span(100, 1.0), Span(100, 2.0)]
    short = Span(10, 5.0)
    run = msgspec.structs.replace(measured.run, spans=[*spans, short])
    assert run.rates == [100, 50]


# ---- HTML pages ----------------------------------------------------------------------------------


def test_html_pages_have_the_promised_sizes() -> None:
    pages = [json.loads(line)["body"].encode() for line in html_pages.messages(60)]
    assert len(set(pages)) == 60
    seen = html_pages.visible_bytes(pages)
    assert np.mean([len(page) for page in pages]) == pytest.approx(html_pages.PAGE_BYTES, rel=0.1)
    assert np.mean(seen) == pytest.approx(html_pages.TEXT_BYTES, rel=0.1)
    for page in pages:
        assert len(page) == pytest.approx(html_pages.PAGE_BYTES, rel=html_pages.SPREAD + 0.001)


def test_what_a_reader_sees_of_an_html_page_is_its_words() -> None:
    words = [f"word{n}" for n in range(200)]
    page = html_pages.html_page(5, words)
    short = html_pages.html_page(5, words[:100])
    both = html_pages.visible_bytes([page.encode(), short.encode()])
    added = len(" ".join(words[100:]).encode()) + 1
    assert both[0] - both[1] == pytest.approx(added, rel=0.03)
    assert "window.dataLayer" in page


def test_markup_in_the_words_of_an_html_page_is_seen() -> None:
    pages = [html_pages.html_page(5, [word] * 100).encode() for word in ("<b>", "xyz")]
    markup, plain = html_pages.visible_bytes(pages)
    assert markup == plain > 400


def test_an_html_file_is_made_once(tmp_path: Path) -> None:
    (tmp_path / "html-3-old.jsonl").write_bytes(b"")
    path = html_pages.html_file(tmp_path, 3)
    made = path.stat().st_mtime_ns
    assert html_pages.html_file(tmp_path, 3).stat().st_mtime_ns == made
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"".join(html_pages.messages(3))


def test_html_pages_are_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_pages, "warm", lambda _folder: None)
    result = html_pages.measure(tmp_path, 40, rounds=1)
    assert result.pages == 40
    assert result.megabytes_s == pytest.approx(result.rate * result.html_bytes / 1e6)
    assert 0 < result.rate == result.rates[0]
    text = markdown([html_pages.table(result)])
    assert "12,000" in text
    assert "300" in text
    assert msgspec.json.decode(msgspec.json.encode(result), type=html_pages.HtmlPages) == result


# ---- shards --------------------------------------------------------------------------------------

COSTS = Costs(sign_us=33, shard_us=24, hop_us=4)
costs_drawn = st.builds(Costs, st.floats(1, 100), st.floats(1, 100), st.floats(0, 20))


def test_fitted_costs_hit_measured_points_on_a_line() -> None:
    hops = (0.0, 0.8, 2.4)
    points = [Measured(s, 1.0, 57 + 4 * h, h) for s, h in zip((1, 2, 4), hops, strict=True)]
    costs = fitted(points, 33 / 57)
    assert costs.sign_us == pytest.approx(33)
    assert costs.hop_us == pytest.approx(4)
    for one in points:
        assert cpu_us(costs, one.hops) == pytest.approx(one.cpu_us)


def test_a_hop_costs_nothing_where_noise_is_more() -> None:
    points = [Measured(1, 1.0, 60, 0.0), Measured(2, 1.0, 50, 1.0)]
    costs = fitted(points, 0.5)
    assert costs == Costs(27.5, 27.5, 0.0)
    assert fitted(points[:1], 0.5) == Costs(30, 30, 0.0)


@given(costs_drawn, st.integers(1, 16))
def test_all_shards_together_take_what_was_measured(costs: Costs, number: int) -> None:
    hop = min(costs.hop_us, costs.shard_us)
    together = number * shards.one_shard_us(costs, number)
    assert together == pytest.approx(costs.shard_us + (number - 1) * hop)


@given(costs_drawn, st.integers(1, 16))
def test_more_cores_never_make_it_slower(costs: Costs, number: int) -> None:
    rates = [predict(costs, number, cores) for cores in CORES]
    assert rates == sorted(rates)


@given(costs_drawn)
def test_with_cores_for_all_more_shards_never_make_it_slower(costs: Costs) -> None:
    rates = [predict(costs, number, 10_000) for number in range(1, 17)]
    assert rates == sorted(rates)


@given(costs_drawn, st.integers(1, 16), st.sampled_from(CORES))
def test_a_prediction_takes_no_more_than_there_is(costs: Costs, number: int, cores: int) -> None:
    best = plan(costs, number, cores)
    assert best.signing_cores + best.shard_cores == cores
    assert best.rate * costs.sign_us <= 1e6 * best.signing_cores * (1 + 1e-9)
    busiest_us = best.rate * shards.one_shard_us(costs, number)
    assert busiest_us * -(-number // best.shard_cores) <= 1e6 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("number", "cores", "rate", "bottleneck"),
    [
        (1, 2, 1e6 / 33, "signing"),
        (1, 64, 1e6 / 24, "first shard"),
        (2, 64, 1e6 / 14, "first shard"),
        (2, 4, 2e6 / 33, "signing"),
        (16, 2, 1e6 / 84, "shards that share a core"),
    ],
)
def test_the_bottleneck_is_named(number: int, cores: int, rate: float, bottleneck: str) -> None:
    best = plan(COSTS, number, cores)
    assert best.rate == predict(COSTS, number, cores) == pytest.approx(rate)
    assert best.bottleneck == bottleneck


def test_shards_are_measured_over_more_than_300_flushes() -> None:
    pages_a_chunk = CHUNK_BYTES_MAX // PAGE_BYTES
    assert 0.75 * pages_a_chunk > shards.HEAD_PAGES, "each chunk is a flush"
    assert shards.PAGES / pages_a_chunk > 300


def test_shards_are_measured_and_predicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "warm", lambda _folder: None)
    result = shards.measure(tmp_path, 400, shards=(1, 2), head_pages=100)
    one, two = result.measured
    assert (one.flushes, two.flushes) == (3, 3), "at the start, after the chunk, at the end"
    assert one.hops == 0
    assert 0.7 < two.hops <= 1, "kept pages, four of five, are handed on"
    assert result.costs.sign_us > 0
    assert result.costs.shard_us > 0
    assert result.plans[2][4] == plan(result.costs, 2, 4)
    assert [path.suffix for path in tmp_path.iterdir()] == [".jsonl"], "scratch was left"
    text = markdown([shards.table(result), shards.prediction_table(result)])
    assert "64 cores" in text
    assert f"{one.rate:,.0f}" in text
    assert msgspec.json.decode(msgspec.json.encode(result), type=shards.ShardRates) == result
