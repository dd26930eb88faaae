"""Digests of the verdicts of known pages, by which a change shows that it changes no verdict.

`python -m tests.helpers.verdict_digests` writes tests/fixtures/verdict_digests.json. Write them
again only in a commit that means to change verdicts, and says which.
"""

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.quality import unpacked
from tests.helpers.fleet import exit_code

DIGESTS = Path(__file__).parents[1] / "fixtures/verdict_digests.json"
DATA = Path(__file__).parents[2] / "../shared/data"
KEY = "5a" * 32
SAMPLE, SAMPLE_PAGES = "sample", 4000
HOSTLESS = "main_text"  # its pages have names in the place of URLs
MARKED = ("--fields", '{"url": "/id", "body": "/html"}')
SETS: dict[str, tuple[str, ...]] = {
    "set3_llvm_docs": (),
    "set7_mccormick": (),
    "set10b_templates_dev": (),
    HOSTLESS: MARKED,
    "wcxb_dev": ("--fields", '{"url": "/url", "body": "/html"}'),
}
ALSO = "--also"
OPTIONS: dict[str, tuple[str, ...]] = {
    "default": (),
    "exact": ("--exact",),
    "main text": ("--text", "main"),
    "balanced": ("--preset", "balanced"),
    "site memory": ("--preset", "balanced", "--site-memory", "16MiB"),
    "changes": ("--track-changes",),
    "scope": ("--scope", "host"),
    "also": (ALSO,),  # the second half of the pages, next to an index of the first half
    "expiry": ("--expire-after", "2h"),
    "kept pages": ("--keep-pages", "500"),
    "near misses": ("--near-misses", "0.3", "--head-pages", "700"),
    "words": ("--method", "words", "--exact", "--threshold", "0.6"),
}
DROPPED = ("index", "contained_in", "supersedes")  # the fingerprint, and what no verdict has now


def sample_crawl(folder: Path) -> Path:
    """Write the sample crawl; return the file of its pages."""
    assert exit_code("sample", folder, "--pages", SAMPLE_PAGES) == 0
    return folder / "pages.jsonl"


def labelled_pages(name: str, folder: Path) -> Path | None:
    """Return the pages of a labelled set, or None where it is absent."""
    return unpacked(folder, DATA, name)


def digest(pages: Path, mapping: tuple[str, ...], options: tuple[str, ...], scratch: Path) -> str:
    """Return the digest of the verdicts that a replay with these options gives."""
    key, verdicts = scratch / "key", scratch / "verdicts.jsonl"
    key.write_text(KEY, encoding="ascii")
    replay = ("--key-file", key, *mapping, "--verdicts")
    if options == (ALSO,):
        lines = pages.read_bytes().splitlines(keepends=True)
        first, second = scratch / "first.jsonl", scratch / "second.jsonl"
        first.write_bytes(b"".join(lines[: len(lines) // 2]))
        second.write_bytes(b"".join(lines[len(lines) // 2 :]))
        earlier = scratch / "earlier"
        assert exit_code("replay", first, *replay, scratch / "v.jsonl", "--index", earlier) == 0
        pages, options = second, (ALSO, f"earlier={earlier}")
    assert exit_code("replay", pages, *replay, verdicts, *options) == 0
    found = hashlib.sha256()
    for line in verdicts.read_bytes().splitlines():
        verdict: dict[str, Any] = json.loads(line)
        for name in DROPPED:
            verdict.pop(name, None)
        for place in (verdict, verdict["representative"], verdict.get("nearest")):
            if place is not None:
                place["page"]["topic"] = Path(place["page"]["topic"]).name
        found.update(json.dumps(verdict, sort_keys=True).encode() + b"\n")
    return found.hexdigest()


def options_of(source: str) -> dict[str, tuple[str, ...]]:
    """Return the options with which a set is judged, by their names."""
    return {name: each for name, each in OPTIONS.items() if (source, name) != (HOSTLESS, "scope")}


def main() -> None:
    """Write the digests of all sets and options."""
    found: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources: dict[str, Path | None] = {SAMPLE: sample_crawl(folder / SAMPLE)}
        sources |= {each: labelled_pages(each, folder) for each in SETS}
        for source, pages in sources.items():
            assert pages is not None, f"{source} is not in {DATA}"
            for options, arguments in options_of(source).items():
                scratch = folder / f"{source} {options}"
                scratch.mkdir()
                made = digest(pages, SETS.get(source, ()), arguments, scratch)
                found.setdefault(source, {})[options] = made
    DIGESTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
