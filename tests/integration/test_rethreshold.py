"""`streamer rethreshold`: what it calls certain is what a replay at that threshold gives."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copyfileobj
from unittest import mock

import pytest

from streamer.compression import zstd
from tests.helpers.fleet import exit_code
from tests.integration.test_replay import Place, lines


def judged(place: Place, crawl: Path, name: str, *arguments: str) -> Path:
    key = place.folder / "key"
    if not key.exists():
        place.write("key", b"7" * 64).chmod(0o600)
    out = place.folder / f"{name}.jsonl"
    command = ("replay", crawl, "--verdicts", out, "--key-file", key)
    assert exit_code(*command, *arguments) == 0
    return out


@pytest.mark.parametrize("arguments", [(), ("--exact",)], ids=" ".join)
def test_what_is_certain_is_what_a_replay_at_that_threshold_gives(
    tmp_path: Path, crawl: Path, arguments: tuple[str, ...]
) -> None:
    place = Place(tmp_path)
    before = judged(place, crawl, "before", *arguments)
    for threshold in ("0.82", "0.97", "0.99"):
        wanted = judged(place, crawl, threshold, "--threshold", threshold, *arguments)
        out = tmp_path / f"told-{threshold}.jsonl"
        command = ("rethreshold", before, threshold, "--was", "0.8", "--out", out)
        assert exit_code(*command) == 0
        found = {"exact": 0, "decision": 0, "open": 0}
        other = {json.dumps(each["page"]): each for each in lines(wanted)}
        told = lines(out)
        assert len(told) == len(other)
        for verdict in told:
            real, known = other[json.dumps(verdict["page"])], verdict.pop("known")
            found[known] += 1
            if known == "exact":
                assert verdict == real
            elif known == "decision":
                assert real["verdict"] == "duplicate"
                assert real["similarity"] >= verdict["similarity"]
        assert found["exact"] > 20
        assert found["open"] > 0
        counts = [tmp_path / f"c-{each}.jsonl" for each in ("before", "told")]
        for verdicts, clusters in zip((before, out), counts, strict=True):
            assert exit_code("clusters", verdicts, "--out", clusters) == 0
        assert counts[0].read_bytes() != counts[1].read_bytes()


def test_a_compressed_file_is_unpacked_once(tmp_path: Path, crawl: Path) -> None:
    before = judged(Place(tmp_path), crawl, "before")
    packed, out = tmp_path / "before.jsonl.zst", tmp_path / "told.jsonl"
    packed.write_bytes(zstd.compress(before.read_bytes()))
    with mock.patch("streamer.run.verdict_files.shutil.copyfileobj", wraps=copyfileobj) as copying:
        assert exit_code("rethreshold", packed, "0.9", "--was", "0.8", "--out", out) == 0
    assert copying.call_count == 1


@pytest.mark.parametrize("arguments", [(), ("--exact",), ("--also",)], ids=" ".join)
def test_what_is_certain_at_a_lower_threshold_is_what_a_replay_gives(
    tmp_path: Path, crawl: Path, arguments: tuple[str, ...]
) -> None:
    place = Place(tmp_path)
    if arguments == ("--also",):
        judged(place, crawl, "clean", "--index", str(tmp_path / "clean"), "--threshold", "0.95")
        pages = crawl.read_bytes().splitlines(keepends=True)
        changed = [line.replace(b" the ", b" this ", 3) for line in pages]
        crawl = place.write("changed.jsonl", *changed)
        arguments = ("--also", str(tmp_path / "clean"))
    near = judged(place, crawl, "near", "--near-misses", "0.25", *arguments)
    certain = 0
    for threshold in ("0.78", "0.7", "0.6"):
        wanted = judged(place, crawl, threshold, "--threshold", threshold, *arguments)
        out = tmp_path / f"told-{threshold}.jsonl"
        assert exit_code("rethreshold", near, threshold, "--out", out) == 0
        other = {json.dumps(each["page"]): each for each in lines(wanted)}
        for verdict in lines(out):
            real, known = other[json.dumps(verdict["page"])], verdict.pop("known")
            certain += known != "open"
            if known == "exact":
                assert verdict == real
            elif known == "decision":
                assert real["verdict"] == "duplicate"
                assert real["similarity"] >= verdict["similarity"]
        assert exit_code("clusters", out, "--out", tmp_path / "clusters.jsonl") == 0
    assert certain > 20 or "--exact" in arguments
    stricter, wanted = tmp_path / "told-0.9.jsonl", judged(place, crawl, "0.9", *arguments)
    assert exit_code("rethreshold", near, "0.9", "--out", stricter) == 0
    assert len(lines(stricter)) == len(lines(wanted))


def test_a_lower_threshold_is_refused_and_nothing_is_written(
    tmp_path: Path, crawl: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before, out = judged(Place(tmp_path), crawl, "before"), tmp_path / "told.jsonl"
    assert exit_code("rethreshold", before, "0.7", "--was", "0.8", "--out", out) == 1
    assert "lower than --was 0.8" in capfd.readouterr().err
    assert exit_code("rethreshold", before, "0.7", "--out", out) == 1
    assert "Give that with --was" in " ".join(capfd.readouterr().err.split())
    assert exit_code("rethreshold", before, "0.9", "--out", before) == 2
    capfd.readouterr()
    assert exit_code("rethreshold", "/dev/null", "0.9", "--out", out) == 2
    assert "is no file. Give one, since it is read twice" in capfd.readouterr().err
    assert not list(tmp_path.glob("told*"))


def test_what_is_no_run_of_one_shard_is_refused(
    tmp_path: Path, crawl: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place, out = Place(tmp_path), tmp_path / "told.jsonl"
    several = judged(place, crawl, "several", "--shards", "3")
    assert exit_code("rethreshold", several, "0.9", "--was", "0.8", "--out", out) == 1
    assert "verdicts of an index with several shards" in " ".join(capfd.readouterr().err.split())
    one = judged(place, crawl, "one")
    near = judged(place, crawl, "near", "--shards", "3", "--near-misses", "0.2")
    assert exit_code("rethreshold", near, "0.7", "--out", out) == 1
    assert "and one shard" in " ".join(capfd.readouterr().err.split())
    near = judged(place, crawl, "narrow", "--near-misses", "0.05")
    assert exit_code("rethreshold", near, "0.7", "--out", out) == 1
    assert "from the similarity 0.75 on" in " ".join(capfd.readouterr().err.split())
    assert exit_code("rethreshold", one, "0.9", "--was", "0.8", "--out", out) == 0
    again = ("rethreshold", out, "0.95", "--was", "0.9", "--out", tmp_path / "again.jsonl")
    assert exit_code(*again) == 2
    assert "was made by rethreshold" in " ".join(capfd.readouterr().err.split())
