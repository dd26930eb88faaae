"""What is forgotten is in no byte of any file of the index, with every feature that keeps pages."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from streamer.index.frozen import read_note
from streamer.index.row_blocks import gather_rows, rows_at
from streamer.index.store import Store
from streamer.index.url_versions import url_of
from streamer.run.index_folder import store_folder
from tests.helpers.growing_index import run

if TYPE_CHECKING:
    from collections.abc import Iterator

SITES, PAGES = 6, 40  # pages of each site
EVERYTHING = (
    *("--track-changes", "--retire-replaced", "--exact", "--threshold", "0.8"),
    *("--keep-pages", "100000", "--expire-after", "3650d", "--bucket-max", "3"),
    *("--index-memory", "1", "--head-pages", "60"),
)


def url_of_page(site: int, number: int) -> str:
    return f"https://site{site}.example/secret{site}x{number:03}"


def write_pages(file: Path, version: int, draw: Random) -> None:
    """Write pages of all sites; in a version some URLs have other texts, and some are copies."""
    lines = []
    for number in range(PAGES):
        for site in range(SITES):
            is_of_cluster = number % 4 == 0  # a large one, of near copies
            seed = f"{version if number % 3 == 0 else 0}x{0 if is_of_cluster else number}x{site}"
            words = [f"w{seed}n{i}" for i in range(120)]
            if is_of_cluster:
                words[draw.randrange(120)] = f"other{version}x{number}x{site}"
            page = {
                "url": url_of_page(site, number),
                "body": " ".join(words),
                "fetched_at": 1_700_000_000 + version * 1_000_000 + number,
            }
            lines.append(json.dumps(page))
    file.write_text("\n".join(lines) + "\n")


def judge(folder: Path, shards: int) -> Path:
    """Judge two versions of all pages with all features; return the folder of the index."""
    draw, index = Random(7), folder / "index"
    other = folder / "other.jsonl"
    other.write_text(json.dumps({"url": "https://other.example/", "body": "a b c " * 30}) + "\n")
    replay = ("replay", other, "--index", folder / "other", "--verdicts", folder / "o.jsonl")
    key = folder / "key"
    key.write_text(f"{7:064d}\n")
    key.chmod(0o600)
    assert run(*replay, "--key-file", key, "--exact", "--shards", shards)[0] == 0
    for version in (1, 2):
        file = folder / f"pages{version}.jsonl"
        write_pages(file, version, draw)
        code, said = run(
            "replay", file, "--index", index, "--verdicts", folder / "v.jsonl", "--key-file", key,
            "--also", f"other={folder / 'other'}", "--shards", shards, *EVERYTHING,
        )  # fmt: skip
        assert code == 0, said
    return index


def traces(index: Path) -> Iterator[tuple[bytes, bytes]]:
    """Yield what the store has of pages, each with the URL that it is of."""
    store = Store.open(store_folder(index), writable=False)
    try:
        assert store.meta is not None
        for shard in range(len(store.meta.shards)):
            for part in store.keys(shard, 1024):
                kept = gather_rows(rows_at(part.slots, store.row_blocks))
                sets = store.shingles(part.slots.tolist())
                for at, url in enumerate(kept.urls):
                    yield url, url
                    yield url, kept.sketches[at].tobytes()
                    yield url, sets[at]
        for key, version in store.scan_urls():
            yield url_of(version), key
            yield url_of(version), version
    finally:
        store.close()


def held_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def is_gone(url: bytes, options: tuple[str, ...]) -> bool:
    if options[0] == "--host":
        return url.split(b"/")[2].decode() == options[1].strip(".")
    return url.decode() in options


def edges(index: Path) -> tuple[str, ...]:
    """Return the URLs whose versions are the first and last of all: RocksDB notes their keys."""
    store = Store.open(store_folder(index), writable=False)
    versions = [version for _, version in store.scan_urls()]
    store.close()
    return "--url", url_of(versions[0]).decode(), "--url", url_of(versions[-1]).decode()


@pytest.mark.parametrize("shards", [1, 3])
def test_nothing_of_what_was_forgotten_is_left_in_any_file(tmp_path: Path, shards: int) -> None:
    index = judge(tmp_path, shards)
    with_filters = Store.open(store_folder(index), writable=False)
    assert read_note(with_filters, 0).count, "keys are frozen"
    with_filters.close()
    for chosen in (
        ("--host", "site1.example"),
        ("--host", ".site2.example"),
        ("--url", url_of_page(3, 0), "--url", url_of_page(3, 3), "--url", url_of_page(4, 5)),
        (),
    ):
        options = chosen or edges(index)
        before = held_in(index)
        named: set[bytes] = set()
        others: set[bytes] = set()
        for url, trace in traces(index):
            (named if is_gone(url, options) else others).add(trace)
        named = {trace for trace in named - others if len(trace) >= 8 and trace in before}
        urls = [
            url_of_page(site, number).encode()
            for site in range(SITES)
            for number in range(PAGES)
            if is_gone(url_of_page(site, number).encode(), options)
        ]
        assert len(named) >= 2 * len(urls), "what is looked for was there"
        code, said = run("forget", index, *options)
        assert code == 0, said
        assert int(said.split()[0]) > 0 or not chosen
        after = {str(path): path.read_bytes() for path in index.rglob("*") if path.is_file()}
        left = [(name, url) for url in urls for name, data in after.items() if url in data]
        assert not left
        assert not [(name, t) for t in named for name, data in after.items() if t in data]
        again, said = run("forget", index, *options)
        assert (again, said.split()[0]) == (0, "0")
        assert {str(p): p.read_bytes() for p in index.rglob("*") if p.is_file()} == after


def test_the_number_of_forgotten_pages_does_not_depend_on_flushes(tmp_path: Path) -> None:
    write_pages(tmp_path / "1.jsonl", 1, Random(7))
    write_pages(tmp_path / "2.jsonl", 2, Random(7))
    key = tmp_path / "key"
    key.write_text(f"{7:064d}\n")
    key.chmod(0o600)
    counts = set()
    for head in (20, 10_000):
        index = tmp_path / f"index{head}"
        code, said = run(
            "replay", tmp_path / "1.jsonl", tmp_path / "2.jsonl", "--index", index, "--key-file",
            key, "--verdicts", tmp_path / f"{head}.jsonl", "--track-changes", "--retire-replaced",
            "--keep-pages", "150", "--head-pages", head,
        )  # fmt: skip
        assert code == 0, said
        counts.add(run("forget", index, "--host", ".example", "--dry-run")[1].split()[0])
        counts.add(run("forget", index, "--host", ".example")[1].split()[0])
    assert len(counts) == 1
    assert counts != {"0"}
