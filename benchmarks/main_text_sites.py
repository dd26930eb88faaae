"""What the table of sites gives: articles in templates by folds, the sample crawl, and its cost.

- `set10b_templates_dev.tar.xz` below DATA: articles in the furniture of other pages, in the order
  of the stream. Each page is judged by trees that were trained on the other folds of all sets,
  with and without what is known of its site. A page without main text is held to FALLBACK.
- `set3_llvm_docs.tar.xz`: four releases of a documentation, by the package's own models, which have
  not seen it.
- The sample crawl, by the package's own models: its seed is another one than that which they were
  trained on. The share found, by kind.
- Microseconds a page, of CPU.

    python benchmarks/main_text_sites.py ../shared/data
"""

# Measured on articles in templates: .984 are found with the table at .63, .14 % of the new ones are
# false; .981 and .00 % at .65. A page of 25 kB takes 57 us instead of 44.

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

# A script has its own folder on the path, but its modules are imported from the root.
sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from benchmarks.figures import empty_table
from benchmarks.html_pages import messages
from benchmarks.main_text import (
    TEMPLATES,
    SitePage,
    archive_lines,
    fold_of,
    models_by_fold,
    templates,
    training_pages,
)
from benchmarks.main_text_stream import Stream
from benchmarks.training.marked import PageReader, read_blocks
from streamer.analysis.sample.crawl import Crawl
from streamer.sketch.settings import MAIN_TEXT, SignatureSettings
from streamer.sketch.signer import NativeSigner
from streamer.sketch.site_memory import SiteKeys, SiteMemory
from streamer.text import blocks
from streamer.text.main_text import (
    MODEL,
    SITE_MODEL,
    MainText,
    Model,
    choose_blocks,
    new_main_text,
    read_model,
)
from streamer.text.scan import Bytes
from streamer.text.visible import HTML
from streamer.text.words import canonical_words

if TYPE_CHECKING:
    from rich.table import Table

THRESHOLD, FALLBACK = 0.63, 0.7
RELEASES = "set3_llvm_docs.tar.xz"
CRAWL_PAGES = 4000
SPEED_PAGES, TRIES, FILLS = 1000, 5, 100


def chosen_words(main: MainText, html: str, repeats: Bytes) -> tuple[list[str], bool]:
    """Return the words that are compared of a page, and whether they are main text."""
    if len(main.repeats):
        main.repeats[: len(repeats)] = repeats
    text = read_blocks(html, main)
    count, cut = choose_blocks(main)
    every, is_main = int(main.structure.now[blocks.COUNT]), count > 0
    chosen = main.scores[:every] >= cut if is_main else np.ones(every, np.bool_)
    spans = main.records[:every][chosen][:, [blocks.START, blocks.END]].tolist()
    taken = b" ".join(text[start:end].tobytes() for start, end in spans)
    return canonical_words(taken.decode("utf-8", "replace")), is_main


def judged(pages: Iterable[SitePage], models: Sequence[Model]) -> tuple[Stream, dict[str, str]]:
    """Judge pages, each by the model of its group's fold; return also what is found by group."""
    learner = PageReader(sites=True)
    mains = [new_main_text(model) for model in models]
    stream, counts = Stream(THRESHOLD), defaultdict[str, list[int]](lambda: [0, 0])
    for page in pages:
        _, repeats = learner.read(page.html, page.url)
        words, is_main = chosen_words(mains[fold_of(page.group) % len(mains)], page.html, repeats)
        before = stream.outcome.found, stream.outcome.seen
        stream.judge(page.article, page.group, words, 0.0 if is_main else FALLBACK)
        counts[page.group][0] += stream.outcome.found - before[0]
        counts[page.group][1] += stream.outcome.seen - before[1]
    return stream, {name: f"{found / seen:.3f}" for name, (found, seen) in counts.items() if seen}


def releases(data: Path) -> Iterator[SitePage]:
    """Yield the pages of the documentation, which are all of one group."""
    lines = archive_lines(data / RELEASES, "truth_clusters.tsv")
    truth = dict(line.decode().rstrip("\n").split("\t")[:2] for line in lines)
    for line in archive_lines(data / RELEASES, "pages.jsonl"):
        page = json.loads(line)
        yield SitePage(page["url"], page["body"], truth.get(page["url"], page["url"]), "releases")


def crawl() -> Iterator[SitePage]:
    """Yield the HTML pages of the sample crawl by their kinds; a copy has its origin's article."""
    roots: dict[int, int] = {}
    for planted in Crawl().records(CRAWL_PAGES):
        if b'"body":"' not in planted.line or b"<" not in planted.line:
            continue
        with suppress(ValueError):  # a line that was cut
            body = json.loads(planted.line)["body"]
            origin = planted.origin.ordinal if planted.origin else planted.ordinal
            root = roots[planted.ordinal] = roots.get(origin, origin)
            yield SitePage(planted.url, body, str(root), str(planted.kind))


def templates_table(data: Path) -> Table:
    """Judge articles in templates, by trees that have not seen their template."""
    pages, marked = templates(data), training_pages(data)
    heads = ("false", "found", "on another site", "F1")
    table = empty_table("Articles in the furniture of other pages, by folds", "trees", *heads)
    for name, sites in (("without sites", False), ("with sites", True)):
        models = models_by_fold(marked, sites=sites)
        table.add_row(name, *judged(pages, models)[0].outcome.shown())
    return table


def crawl_table() -> Table:
    """Judge the sample crawl by the package's models; show what is found of each kind."""
    found = [judged(crawl(), [read_model(path)])[1] for path in (MODEL, SITE_MODEL)]
    table = empty_table("The sample crawl, found by kind", "kind", "without sites", "with sites")
    for kind in sorted(found[0]):
        table.add_row(kind, *(each[kind] for each in found))
    return table


def releases_table(data: Path) -> Table:
    """Judge the documentation by the package's models."""
    heads = ("false", "found", "on another site", "F1")
    table = empty_table("Four releases of a documentation", "model", *heads)
    for name, path in (("without sites", MODEL), ("with sites", SITE_MODEL)):
        table.add_row(name, *judged(releases(data), [read_model(path)])[0].outcome.shown())
    return table


def speed_table() -> Table:
    """Time what a page of 25 kB costs, in a table that is full."""
    bodies = [json.loads(line)["body"].encode() for line in messages(SPEED_PAGES)]
    flags, keys = [HTML] * len(bodies), SiteKeys(bytes(32))
    urls = [b"https://site-%d.example/%d" % (i // 20, i) for i in range(len(bodies))]
    hosts, pages = keys.hosts(urls), keys.urls(urls)
    signer = NativeSigner(SignatureSettings(canonical=MAIN_TEXT, site_memory=64 << 20), bytes(32))
    plain = NativeSigner(SignatureSettings(canonical=MAIN_TEXT), bytes(32))
    memory = SiteMemory(64 << 20)
    own = signer.read(bodies, flags, hosts, pages).blocks
    rng = np.random.default_rng(1)
    for _ in range(FILLS):  # so that entries are spread over all of the memory
        other = own._replace(keys=rng.integers(0, 1 << 64, len(own.keys), np.uint64))
        memory.learn_judged(other)
    repeats = memory.learn_judged(own)
    work: dict[str, Callable[[], object]] = {
        "signatures without sites": lambda: plain.sign(bodies, flags),
        "signatures": lambda: signer.sign_read(signer.read(bodies, flags, hosts, pages), repeats),
        "hashes of hosts and URLs": lambda: (keys.hosts(urls), keys.urls(urls)),
        "the table": lambda: memory.learn_judged(own),
    }
    size = sum(map(len, bodies)) / len(bodies)
    table = empty_table(f"CPU of a page of {size / 1000:.0f} kB", "work", "us")
    for name, each in work.items():
        times = []
        for _ in range(TRIES):
            began = time.process_time()
            each()
            times.append(time.process_time() - began)
        table.add_row(name, f"{1e6 * min(times) / len(bodies):.1f}")
    return table


def main() -> None:
    """Print what there is data for."""
    parser = argparse.ArgumentParser(description="Measure what is known of sites, and its cost.")
    parser.add_argument("data", type=Path, help="folder with the archives")
    data = parser.parse_args().data
    console = Console()
    console.print(speed_table())
    console.print(crawl_table())
    if (data / RELEASES).exists():
        console.print(releases_table(data))
    if (data / TEMPLATES).exists():
        console.print(templates_table(data))


if __name__ == "__main__":
    main()
