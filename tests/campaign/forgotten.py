"""Pages that are forgotten, with every feature that keeps something of pages.

Each round forgets pages of an index several times. After each time no byte of any file of the index
is what was kept of them alone, the same command forgets nothing and changes nothing, and
`streamer check --deep` finds no damage.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

from streamer.index.url_versions import url_of
from streamer.run.index_folder import store_folder
from streamer.stored.generations import read_note
from streamer.stored.row_blocks import gather_rows, rows_at
from streamer.stored.store import Store
from tests.helpers.commands import ended
from tests.helpers.growing_index import everything

SITES, PAGES = 6, 40  # pages of each site
TRACE_BYTES = 8  # what is shorter may be in a file for another reason
EVERYTHING_OF_CRAWLS = (  # by which an index cannot forget if it has versions of URLs
    *("--exact", "--threshold", "0.8", "--carry", "crawl"),
    *("--keep-pages", "100000", "--expire-after", "3650d", "--bucket-max", "3"),
    *("--index-memory", "1", "--head-pages", "60"),
)
EVERYTHING = "--track-changes", *EVERYTHING_OF_CRAWLS


def run(rounds: int, seed: int, folder: Path) -> list[str]:
    """Forget pages of two indexes in turn: with versions of URLs, and by crawls."""
    write_key(folder / "key")
    made = [_judge(folder / "urls", seed, EVERYTHING)]
    made.append(_judge(folder / "crawls", seed, EVERYTHING_OF_CRAWLS))
    violations = []
    for number in range(rounds):
        draw, index = Random(f"{seed}/{number}"), folder / "index"
        original = made[number % len(made)]
        shutil.copytree(original, index)
        choices = _crawls(draw, original) if original == made[-1] else _choices(draw, index)
        try:
            for options in choices:
                _forget(index, options)
        except AssertionError as error:
            violations.append(f"round {number}, seed {seed}: {error}")
        shutil.rmtree(index)
    return violations


def url_of_page(site: int, number: int) -> str:
    """Return the URL of a page."""
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
                "crawl": f"crawl{site}",
            }
            lines.append(json.dumps(page))
    file.write_text("\n".join(lines) + "\n")


def write_key(file: Path) -> Path:
    """Write a key that only its owner can read."""
    file.write_text(f"{7:064d}\n")
    file.chmod(0o600)
    return file


def _judge(folder: Path, seed: int, options: tuple[str, ...]) -> Path:
    """Judge two versions of all pages with all features; return the folder of the index."""
    folder.mkdir()
    draw, index, reference = Random(seed), folder / "index", folder / "reference"
    other, key = folder / "other.jsonl", folder.parent / "key"
    other.write_text(json.dumps({"url": "https://other.example/", "body": "a b c " * 30}) + "\n")
    _done(
        "replay", other, "--index", reference, "--verdicts", folder / "o.jsonl", "--key-file", key,
        "--exact",
    )  # fmt: skip
    for version in (1, 2):
        file = folder / f"pages{version}.jsonl"
        write_pages(file, version, draw)
        _done(
            "replay", file, "--index", index, "--verdicts", folder / "v.jsonl", "--key-file", key,
            "--also", f"other={reference}", *options,
        )  # fmt: skip
    with reading(index) as store:
        assert read_note(store).count, "keys are frozen"
    return index


def reading(index: Path) -> closing[Store]:
    """Return the store of an index, which is closed at the end."""
    return closing(Store.open(store_folder(index), writable=False))


def _done(*arguments: object) -> str:
    code, said = ended(*arguments)
    assert code == 0, said
    return said


def _choices(draw: Random, index: Path) -> Iterator[tuple[str, ...]]:
    """Yield what is forgotten one after the other; the last is chosen when the others are done."""
    sites = draw.sample(range(SITES), 4)
    yield "--host", f"site{sites[0]}.example"
    yield "--host", f".site{sites[1]}.example"
    urls = {url_of_page(draw.choice(sites[2:]), draw.randrange(PAGES)) for _ in range(3)}
    yield tuple(part for url in sorted(urls) for part in ("--url", url))
    yield _edges(index)


def _crawls(draw: Random, original: Path) -> Iterator[tuple[str, ...]]:
    """Yield the crawls that are forgotten one after the other."""
    for site in draw.sample(range(SITES), 3):
        yield "--carried", f"crawl=crawl{site}", "--verdicts", str(original.with_name("v.jsonl"))


def _edges(index: Path) -> tuple[str, ...]:
    """Return the URLs whose versions are the first and last of all: RocksDB notes their keys."""
    with reading(index) as store:
        versions = [version for _, version in store.scan_urls()]
    return "--url", url_of(versions[0]).decode(), "--url", url_of(versions[-1]).decode()


def _forget(index: Path, options: tuple[str, ...]) -> None:
    """Forget pages, and look for traces of them.

    Raises:
        AssertionError: a trace is left, or the index is damaged.
    """
    before = b"".join(data for data in everything(index).values() if data)
    named: set[bytes] = set()
    others: set[bytes] = set()
    for url, trace in _traces(index):
        (named if _is_named(url, options) else others).add(trace)
    named = {one for one in named - others if len(one) >= TRACE_BYTES and one in before}
    pages = [url_of_page(site, number) for site in range(SITES) for number in range(PAGES)]
    urls = {url.encode() for url in pages if _is_named(url.encode(), options)}
    assert len(named) >= 2 * len(urls & named), "what is looked for was there"
    assert int(_done("forget", index, *options).split()[0]), f"{options}: nothing was forgotten"
    after = everything(index)
    left = {
        (name, trace)
        for trace in named | urls
        for name, data in after.items()
        if trace in (data or b"")
    }
    assert not left, f"{options}: {sorted(left)[:3]}"
    again = _done("forget", index, *options)
    assert again.split()[0] == "0", f"{options}, once more: {again}"
    assert everything(index) == after, f"{options}, once more: files changed"
    _done("check", "--index", index, "--deep", "--key-file", index.with_name("key"))


def _traces(index: Path) -> Iterator[tuple[bytes, bytes]]:
    """Yield what the store has of pages, each with the URL that it is of."""
    with reading(index) as store:
        assert store.meta is not None
        for part in store.keys(1024):
            kept = gather_rows(rows_at(part.slots, store.row_blocks))
            sets = store.shingles(part.slots.tolist())
            for at, url in enumerate(kept.urls):
                yield url, url
                yield url, kept.sketches[at].tobytes()
                yield url, sets[at]
        for key, version in store.scan_urls():
            yield url_of(version), key
            yield url_of(version), version


def _is_named(url: bytes, options: tuple[str, ...]) -> bool:
    if options[0] == "--carried":
        return url.startswith(b"https://site%b.example/" % options[1][-1].encode())
    if options[0] == "--host":
        return url.split(b"/")[2].decode() == options[1].strip(".")
    return url.decode() in options
