"""Pages of a crawl or a source are found in verdicts, and who depends on them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from streamer.errors import InputError, SettingsError
from tests.helpers.commands import run

CRAWLS: dict[str, list[object]] = {"old.jsonl": ["a", "b", "a"], "new.jsonl": ["c", "c", 7]}


def page(number: int, crawl: object, host: str = "h") -> str:
    words = " ".join(f"word{number}x{i}" for i in range(60))
    return json.dumps({"url": f"https://{host}.example/{number}", "body": words, "crawl": crawl})


def place(verdict: Any) -> int:
    return int(verdict["page"]["offset"])


def replay(folder: Path, names: list[str], verdicts: str, *options: str) -> list[Any]:
    files = [folder / name for name in names]
    own = ("--index", folder / "index", "--verdicts", folder / verdicts)
    run("replay", *files, *own, "--carry", "crawl", *options)
    return [json.loads(line) for line in (folder / verdicts).read_text().splitlines()]


def crawled(folder: Path, *options: str) -> Path:
    """Judge two files; the second has copies of the first two pages, and a page of its own."""
    for name, crawls in CRAWLS.items():
        numbers = [0, 1, 2] if name == "old.jsonl" else [0, 1, 5]
        pages = [page(n, crawl, name[:3]) for n, crawl in zip(numbers, crawls, strict=True)]
        (folder / name).write_text("\n".join([*pages, ""]))
    said = sorted(replay(folder, [*CRAWLS], "v.jsonl", *options), key=place)
    said.sort(key=lambda each: "new" in each["page"]["topic"])
    assert [each["verdict"][0] for each in said] == ["u", "u", "u", "d", "d", "u"]
    return folder / "index"


def forget(index: Path, *options: str) -> str:
    return run("forget", index, "--verdicts", index.parent / "v.jsonl", *options)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an index and its verdicts."""
    folder = tmp_path_factory.mktemp("made")
    crawled(folder)
    return folder


@pytest.mark.parametrize(
    ("options", "gone", "lost"),
    [
        (["--carried", "crawl=a"], [0, 2], [0]),
        (["--carried", "crawl=a", "--carried", "crawl=b"], [0, 1, 2], [0, 1]),
        (["--carried", "crawl=7"], [5], []),
        (["--source", "{}/old.jsonl", "--carried", "crawl=7"], [0, 1, 2, 5], [0, 1]),
        (["--url", "https://old.example/1", "--carried", "crawl=7"], [1, 5], [1]),
        (["--host", ".old.example"], [0, 1, 2], [0, 1]),
    ],
    ids=lambda each: " ".join(map(str, each)),
)
def test_what_is_selected_is_gone_and_those_that_depended_on_it_are_listed(
    made: Path, tmp_path: Path, options: list[str], gone: list[int], lost: list[int]
) -> None:
    options = [each.format(made) for each in options]
    for name in ("index", "v.jsonl"):
        copy = shutil.copytree if name == "index" else shutil.copy
        copy(made / name, tmp_path / name)
    index, out = tmp_path / "index", tmp_path / "lost.jsonl"
    reported = forget(index, *options, "--dependents", str(out), "--dry-run")
    assert int(reported.split()[0]) == len(gone)
    before = out.read_text()
    assert int(forget(index, *options, "--dependents", str(out), "--overwrite").split()[0]) == len(
        gone
    )
    assert out.read_text() == before
    depends = sorted(map(json.loads, before.splitlines()), key=place)
    assert [each["url"] for each in depends] == [f"https://new.example/{n}" for n in lost]
    assert all(each["verdict"] == "duplicate" for each in depends)
    held = b"".join(path.read_bytes() for path in index.rglob("*") if path.is_file())
    names = {n: b"https://%s.example/%d" % (b"new" if n == 5 else b"old", n) for n in (0, 1, 2, 5)}
    assert [n for n, url in names.items() if url not in held] == gone


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--carried", "crawl"], "a field and its value"),
        (["--url", "x"], "need the verdicts of the index, and only"),
        (["--source", "a.jsonl", "--dependents", "{}/v.jsonl"], "is a file of --verdicts"),
        (["--before", "2026-01-01T00:00Z", "--dependents", "d"], "have no times"),
    ],
    ids=["carried", "url", "dependents", "before"],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, options: list[str], said: str) -> None:
    index = crawled(tmp_path)
    with pytest.raises(SettingsError, match=said):
        forget(index, *(each.format(tmp_path) for each in options))
    with pytest.raises(SettingsError):
        run("forget", index, "--carried", "crawl=a")


@pytest.mark.parametrize("missing", ["--carried crawl=z", "--carried other=a", "--source old"])
def test_a_crawl_that_the_verdicts_do_not_have_is_refused(tmp_path: Path, missing: str) -> None:
    index = crawled(tmp_path)
    with pytest.raises(InputError, match=f"no page of {missing.removeprefix('--')}, so nothing"):
        forget(index, "--carried", "crawl=a", *missing.split())
    assert forget(index, "--carried", "crawl=a", "--dry-run").startswith("2 ")


def test_verdicts_of_another_index_or_with_versions_of_urls_are_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        crawled(folder)
    chosen = "--carried", "crawl=a", "--verdicts", str(second / "v.jsonl")
    with pytest.raises(InputError, match="Give the verdicts of this one"):
        forget(first / "index", *chosen)
    lines = (second / "v.jsonl").read_text().splitlines()
    moved = [line.replace("/old.jsonl", "/gone.jsonl") for line in lines]
    (second / "v.jsonl").write_text("\n".join([*moved, ""]))
    with pytest.raises(InputError, match=r"has read no source .*gone\.jsonl"):
        forget(second / "index", "--carried", "crawl=a")
    tracked = tmp_path / "tracked"
    tracked.mkdir()
    with pytest.raises(InputError, match="--track-changes"):
        forget(crawled(tracked, "--track-changes"), "--carried", "crawl=a")
    assert forget(tracked / "index", "--host", "old.example", "--dependents", str(tracked / "d"))
