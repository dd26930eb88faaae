"""How well and how fast the main text of pages is found, next to libraries that extract it.

Sets of pages that are no part of this repository are looked for below DATA; a table whose set is
missing is left out:

- `wcxb_dev.tar.xz`: pages of seven kinds, reviewed (WCXB). Word F1 by kind, by folds of registered
  domains: each page's blocks are judged by trees that were trained on the other folds of all sets.
- `main_text.tar.xz`: pages of articles whose main text was marked by hand. Token F1, by folds, too.
- `set10b_templates_dev.tar.xz`: articles in the furniture of other pages. Each page is judged by
  trees that have not seen the page that its furniture is of, nor others of that fold. A stream of
  exact Jaccard over 5-word shingles then finds its article among those kept before, or another
  one: a false duplicate.

What needs no set is in main_text_pages.py.

What a library takes counts as ours does: where it takes less than 25 words of a page, all visible
text stands for it. The tables are printed as Markdown, and put into the page of the documentation
between its two marks.

    python benchmarks/main_text.py ../shared/data --page docs/main-text.md
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tarfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np
from rich.console import Console

# A script has its own folder on the path, but its modules are imported from the root.
sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from benchmarks import main_text_pages as made
from benchmarks.figures import empty_table, markdown
from benchmarks.html_pages import messages
from benchmarks.main_text_stream import (
    Reader,
    Stream,
    Words,
    token_f1,
    visible_words,
    words_or_visible,
)
from benchmarks.peers.extractors import Extractor, extractors
from benchmarks.training.forests import grow, rows_of_crawl
from benchmarks.training.marked import MarkedPage, PageReader, labelled
from streamer.sketch.settings import MAIN_TEXT, SignatureSettings
from streamer.sketch.signer import NativeSigner
from streamer.text.main_text import (
    MainText,
    Model,
    html_to_main_text,
    model_of,
    new_main_text,
    read_model,
)
from streamer.text.scan import Bytes
from streamer.text.slices import Places, Slices
from streamer.text.visible import HTML, scratch_bytes
from streamer.text.words import canonical_words

if TYPE_CHECKING:
    from rich.table import Table

MARKED, TEMPLATES, KINDS = "main_text.tar.xz", "set10b_templates_dev.tar.xz", "wcxb_dev.tar.xz"
FOLDS = 5
THRESHOLD = 0.65  # a little over that of `balanced`
NEWSPAPERS = "page"  # the collection that was marked with most care
# What a page weighs, by its set; less if it was marked by other rules, or if its text is in others.
WEIGHTS = {NEWSPAPERS: 0.5, MARKED: 0.15, TEMPLATES: 0.25, KINDS: 1.0}
SPEED_PAGES = 1000
TRIES = 3
BATCH = 64  # pages that are signed together
BEGIN, END = "<!-- written by benchmarks/main_text.py -->\n", "<!-- until here -->\n"
WHAT = ("kinds", "marked", "templates", "scripts", "languages", "speed")


class Marked(NamedTuple):
    """A page whose main text is marked; `collection` is who marked it."""

    name: str
    collection: str
    page: MarkedPage


class SitePage(NamedTuple):
    """A page of a stream: what it is a copy of, the template or kind that it is counted under."""

    url: str
    html: str
    article: str
    group: str


def fold_of(name: str) -> int:
    """Return the fold of a page by its id, the same everywhere."""
    return zlib.crc32(name.encode()) % FOLDS


def marked_pages(data: Path) -> list[Marked]:
    """Return the pages of the marked set; names are without their collection."""
    found = []
    for line in archive_lines(data / MARKED, "pages.jsonl"):
        page = json.loads(line)
        collection, _, name = page["id"].partition("/")
        weight = WEIGHTS.get(collection, WEIGHTS[MARKED])
        marked = MarkedPage(page["html"], page["main_text"], weight)
        found.append(Marked(name, collection, marked))
    return found


def pages_of_kinds(data: Path) -> list[Marked]:
    """Return the pages of seven kinds, by their kind; names are the domains that they are of."""
    found = []
    for line in archive_lines(data / KINDS, "pages.jsonl"):
        page = json.loads(line)
        name = registered_domain(page["host"] or page["id"])
        marked = MarkedPage(page["html"], page["main_content"], WEIGHTS[KINDS])
        found.append(Marked(name, page["page_type"], marked))
    return found


def registered_domain(host: str) -> str:
    """Return about what was registered of a host: its last two names, three below `co.uk`."""
    names = host.split(".")
    is_second = len(names[-1]) == 2 and len(names[-2:][0]) <= 3  # noqa: PLR2004 - of letters
    return ".".join(names[-3:] if is_second else names[-2:])


def archive_lines(archive: Path, name: str) -> Iterator[bytes]:
    """Yield the lines of a file in an archive."""
    with tarfile.open(archive) as files:
        for member in files:
            if member.name.endswith("/" + name) and (file := files.extractfile(member)):
                yield from file
                return


def templates(data: Path) -> list[SitePage]:
    """Return the pages of the templates, with the name of the page that their furniture is of."""
    truth = {}
    for line in archive_lines(data / TEMPLATES, "truth_articles.tsv"):
        url, article, template = line.decode().rstrip("\n").split("\t")
        truth[url] = article, template.partition("_")[2]
    read = map(json.loads, archive_lines(data / TEMPLATES, "pages.jsonl"))
    return [SitePage(each["url"], each["body"], *truth[each["url"]]) for each in read]


def articles_of(data: Path) -> dict[str, str]:
    """Return the marked text of each article."""
    read = json.loads(b"".join(archive_lines(data / TEMPLATES, "articles.json")))
    return {
        name: text if isinstance(text, str) else "\n".join(map(str, text))
        for name, text in read.items()
    }


def training_pages(data: Path) -> list[Marked]:
    """Return what the package's models are trained on: marked pages, articles in templates."""
    pages = marked_pages(data)
    if (data / KINDS).exists():
        pages += pages_of_kinds(data)
    if (data / TEMPLATES).exists():
        articles, weight = articles_of(data), WEIGHTS[TEMPLATES]
        pages += [
            Marked(
                each.group, TEMPLATES,
                MarkedPage(each.html, articles[each.article], weight, each.url),
            )
            for each in templates(data)
        ]  # fmt: skip
    return pages


def models_by_fold(pages: Sequence[Marked], *, sites: bool = False) -> list[Model]:
    """Return for each fold a model that was trained on all others.

    What repeats on sites is learned of all pages, whatever fold is left out.
    """
    reader = PageReader(sites=sites)
    rows = [(fold_of(each.name), labelled(each.page, reader)) for each in pages]
    crawl, models = rows_of_crawl(sites=sites), []
    for fold in range(FOLDS):
        others = [own for other, own in rows if other != fold and own is not None]
        grown = grow(others, crawl)
        models.append(model_of(grown["trees"], grown["base"], sites=sites))
    return models


def ways(readers: Sequence[Reader], peers: dict[str, Extractor]) -> dict[str, Words]:
    """Return who takes words of a page, by name."""

    def ours(name: str, page: str) -> list[str]:
        return canonical_words(readers[fold_of(name)].text(page))

    found: dict[str, Words] = {"`--text main`": ours}
    found |= {peer: partial(_words_of_peer, extract) for peer, extract in peers.items()}
    return found | {"all visible text": lambda _name, page: visible_words(page)}


def _words_of_peer(extract: Extractor, _name: str, page: str) -> list[str]:
    try:
        text = extract(page)
    except ValueError:  # a page that a library cannot read; it takes nothing of it
        text = ""
    return words_or_visible(text, page)


def marked_table(pages: Sequence[Marked], who: dict[str, Words]) -> Table:
    """Compare what is taken of pages with what is marked."""
    groups = {
        "newspapers": [each for each in pages if each.collection == NEWSPAPERS],
        "all kinds": [each for each in pages if each.collection != NEWSPAPERS],
    }
    heads = [f"{name}, {len(group):,} pages" for name, group in groups.items()]
    table = empty_table("Token F1 of the main text of marked pages", "", *heads, "median of all")
    for name, words in who.items():
        values = [_f1s(group, words) for group in groups.values()]
        means = [f"{statistics.mean(each):.3f}" for each in values]
        table.add_row(name, *means, f"{statistics.median(chain(*values)):.3f}")
    return table


def kinds_table(pages: Sequence[Marked], who: dict[str, Words]) -> Table:
    """Compare what is taken of pages of several kinds with what is marked."""
    kinds = sorted({each.collection for each in pages})
    groups = {"all": list(pages)}
    groups |= {kind: [each for each in pages if each.collection == kind] for kind in kinds}
    heads = [f"{name} {len(group):,}" for name, group in groups.items()]
    table = empty_table("Word F1 of pages of seven kinds", "", *heads)
    for name, words in who.items():
        table.add_row(
            name, *(f"{statistics.mean(_f1s(own, words)):.3f}" for own in groups.values())
        )
    return table


def _f1s(pages: Sequence[Marked], words: Words) -> list[float]:
    return [
        token_f1(words(each.name, each.page.html), canonical_words(each.page.main_text))
        for each in pages
    ]


def templates_table(data: Path, who: dict[str, Words]) -> Table:
    """Judge the articles in other pages' furniture, by what each way takes of them."""
    streams = {name: Stream(THRESHOLD) for name in who}
    for page in templates(data):
        for name, words in who.items():
            streams[name].judge(page.article, page.group, words(page.group, page.html))
    heads = ("false", "found", "on another site", "F1")
    table = empty_table("Articles in the furniture of other pages, from .65", "", *heads)
    for name, stream in streams.items():
        table.add_row(name, *stream.outcome.shown())
    return table


def speed_table(what: str, bodies: Sequence[str], peers: dict[str, Extractor], some: int) -> Table:
    """Time pages: extraction alone and whole signatures, on one thread and on two."""
    raw = [body.encode() for body in bodies]
    size = sum(map(len, raw)) / len(raw)
    texts = Slices.joined(raw)  # as they are in a chunk
    rates = {
        "`--text main`, the text alone": _best(partial(_extract, texts, BATCH), len(raw)),
        "`--text main`, a call a page": _best(partial(_extract, texts, 1), len(raw)),
    }
    for text, settings in (
        ("main", SignatureSettings(canonical=MAIN_TEXT)),
        ("visible", SignatureSettings()),
    ):
        signers = [NativeSigner(settings, bytes(32)) for _ in range(2)]
        name = f"`--text {text}`, whole signatures"
        rates[name] = _best(partial(_sign, signers[:1], raw), len(raw))
        work = partial(_sign, signers, raw)
        rates[f"{name}, two threads"] = _best(work, len(raw), time.perf_counter)
    for name, extract in peers.items():
        extract(bodies[0])
        rates[name] = _best(partial(_extract_all, extract, bodies[:some]), min(some, len(bodies)))
    heads = ("pages/s", "MB/s", *(f"times {name}" for name in peers))
    table = empty_table(f"Speed on {what}, {size / 1000:.0f} kB a page", "", *heads)
    for name, rate in rates.items():
        times = [f"{rate / rates[peer]:,.1f}" for peer in peers]
        table.add_row(name, f"{rate:,.0f}", f"{rate * size / 1e6:,.1f}", *times)
    return table


def _extract(pages: Slices, batch: int) -> None:
    """Take the main text of pages, so many with each call into native code."""
    main = new_main_text(read_model())
    text = np.empty(scratch_bytes(int(pages.lengths.max())), np.uint8)
    for start in range(0, len(pages), batch):
        some = slice(start, start + batch)
        _take_main_text(pages.data, pages.starts[some], pages.ends[some], text, main)


def _of_each(data: Bytes, starts: Places, ends: Places, text: Bytes, main: MainText) -> None:
    for i in range(starts.shape[0]):
        html_to_main_text(data, starts[i], ends[i], text, main)


_take_main_text: Any = numba.njit(nogil=True)(_of_each)


def _sign(signers: Sequence[NativeSigner], pages: Sequence[bytes]) -> None:
    """Sign pages in batches as the stream does, each signer in a thread."""

    def work(number: int) -> None:
        for start in range(BATCH * number, len(pages), BATCH * len(signers)):
            batch = pages[start : start + BATCH]
            signers[number].sign(batch, [HTML] * len(batch))

    with ThreadPoolExecutor(len(signers)) as threads:
        list(threads.map(work, range(len(signers))))


def _extract_all(extract: Extractor, pages: Sequence[str]) -> None:
    for page in pages:
        extract(page)


def _best(
    work: Callable[[], object], pages: int, clock: Callable[[], float] = time.process_time
) -> float:
    """Return pages a second, of some tries the best; of CPU, since others may be at work."""
    times = []
    for _ in range(TRIES):
        began = clock()
        work()
        times.append(clock() - began)
    return pages / min(times)


def quality_tables(data: Path, wanted: Sequence[str]) -> Iterator[Table]:
    """Yield what is measured on marked pages, by folds."""
    pages = marked_pages(data)
    models = models_by_fold(training_pages(data))
    readers = [Reader(new_main_text(each)) for each in models]
    who = ways(readers, extractors())
    if "kinds" in wanted and (data / KINDS).exists():
        yield kinds_table(pages_of_kinds(data), who)
    if "marked" in wanted:
        yield marked_table(pages, who)
    if "templates" in wanted and (data / TEMPLATES).exists():
        yield templates_table(data, who)
    if "scripts" in wanted:
        papers = [each for each in pages if each.collection == NEWSPAPERS][::2]
        ours = next(iter(who.values()))
        yield made.scripts_table([(each.name, each.page) for each in papers], ours)


def made_tables(wanted: Sequence[str]) -> Iterator[Table]:
    """Yield what is measured with the package's own model, which has seen none of these pages."""
    reader = Reader(new_main_text(read_model()))
    if "languages" in wanted:
        yield made.languages_table(reader)


def speed_tables(data: Path, some: int) -> Iterator[Table | str]:
    """Yield what pages cost; peers are timed on some."""
    peers = extractors()
    load = os.getloadavg()[0]
    yield (f"Speed is pages a second of CPU, of two threads by the clock; load before: {load:.1f}.")
    what, lines = "made", messages(SPEED_PAGES)
    if (data / TEMPLATES).exists():
        what, lines = "real", islice(archive_lines(data / TEMPLATES, "pages.jsonl"), SPEED_PAGES)
    bodies = [json.loads(line)["body"] for line in lines]
    yield speed_table(f"{what} pages", bodies, peers, some)


def tables(data: Path, wanted: Sequence[str], some: int) -> Iterator[Table | str]:
    """Yield the tables that are wanted and have their data."""
    if (data / MARKED).exists() and {"kinds", "marked", "templates", "scripts"} & set(wanted):
        yield from quality_tables(data, wanted)
    yield from made_tables(wanted)
    if "speed" in wanted:
        yield from speed_tables(data, some)


def main() -> None:
    """Measure what there is data for."""
    parser = argparse.ArgumentParser(description="Measure how main text is found, and how fast.")
    parser.add_argument("data", type=Path, help="folder with the archives")
    parser.add_argument("--speed-pages", type=int, default=300, help="of peers")
    parser.add_argument("--only", choices=WHAT, action="append")
    parser.add_argument("--page", type=Path, help="document to put the tables into")
    parsed = parser.parse_args()
    parts = []
    for part in tables(parsed.data, parsed.only or WHAT, parsed.speed_pages):
        parts.append(part)
        Console().print(part)
        if parsed.page:
            before, _, rest = parsed.page.read_text("utf-8").partition(BEGIN)
            _, _, after = rest.partition(END)
            text = f"{before}{BEGIN}\n{markdown(parts)}\n\n{END}{after}"
            parsed.page.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
