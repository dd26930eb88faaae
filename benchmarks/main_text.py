"""How well and how fast the main text of pages is found, beside libraries that extract it.

Two sets of real pages that are no part of this repository are looked for below DATA; without them
there is only the speed:

- `main_text.tar.xz`: pages whose main text was marked by hand. Token F1, by folds: each page's
  blocks are judged by trees that were trained on the other folds.
- `set10b_templates_dev.tar.xz`: articles in the furniture of other pages. Each page is judged by
  trees that have not seen the page that its furniture is of, nor others of that fold. A stream of
  exact Jaccard over 5-word shingles then finds its article among those kept before, or another
  one: a false duplicate.

Speed is that of one thread, of made and of real pages: signing with and without main text, and the
libraries' extraction.

    python benchmarks/main_text.py ../shared/data --peers-pages 300
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tarfile
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

# A script has its own folder on the path, but its modules are imported from the root.
sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from benchmarks.html_pages import messages
from benchmarks.peers.extractors import Extractor, extractors
from streamer.lab.main_text import MarkedPage, sheets_of, train
from streamer.sketch.settings import MAIN_TEXT, SignatureSettings
from streamer.sketch.signer import Signer
from streamer.text.main_text import (
    MainText,
    Model,
    html_to_main_text,
    model_in,
    new_main_text,
)
from streamer.text.slices import Slices
from streamer.text.visible import HTML, scratch_bytes, visible_text
from streamer.text.words import canonical_words

FOLDS = 4
THRESHOLDS = (0.8, 0.65, 0.5)
WIDTH = 5
CARELESS = 0.3  # weight of pages that were marked by other rules: comments count as main text there
SPEED_PAGES = 1000


@dataclass
class Outcome:
    """What a stream of templates came to."""

    new: int = 0
    false: int = 0
    seen: int = 0
    found: int = 0
    wrong: int = 0
    elsewhere: int = 0
    found_elsewhere: int = 0

    @property
    def f1(self) -> float:
        """Return the harmonic mean of precision and recall."""
        return 2 * self.found / max(1, self.found + self.wrong + self.seen)


@dataclass
class Stream:
    """Pages in order, each a duplicate of the most similar one kept before, or kept itself."""

    threshold: float
    outcome: Outcome = field(default_factory=Outcome)
    _kept: dict[int, tuple[int, str]] = field(default_factory=dict)
    _pages_of: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    _sites: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def judge(self, article: str, template: str, words: Sequence[str]) -> None:
        """Judge the next page."""
        shingles = {
            hash(tuple(words[i : i + WIDTH])) for i in range(max(1, len(words) - WIDTH + 1))
        }
        shared = Counter(page for each in shingles for page in self._pages_of.get(each, ()))
        near = [
            (common / (len(shingles) + self._kept[page][0] - common), -page)
            for page, common in shared.most_common(20)
        ]
        similarity, page = max(near, default=(0.0, 0))
        is_duplicate = similarity >= self.threshold
        self._count(article, template, self._kept[-page][1] if is_duplicate else None)
        if not is_duplicate:
            number = len(self._kept)
            self._kept[number] = len(shingles), article
            self._sites[article].add(template)
            for each in shingles:
                self._pages_of[each].append(number)

    def _count(self, article: str, template: str, found: str | None) -> None:
        sites, out = self._sites[article], self.outcome
        elsewhere = bool(sites) and template not in sites
        out.new += not sites
        out.seen += bool(sites)
        out.elsewhere += elsewhere
        out.found += found == article
        out.found_elsewhere += elsewhere and found == article
        out.wrong += found not in (None, article)
        out.false += not sites and found is not None


def fold_of(name: str) -> int:
    """Return the fold of a page by its id, the same everywhere."""
    return zlib.crc32(name.encode()) % FOLDS


def marked_pages(data: Path) -> tuple[list[str], list[MarkedPage]]:
    """Return the ids and pages of the marked set; ids are without their collection."""
    names, pages = [], []
    for line in _lines(data / "main_text.tar.xz", "pages.jsonl"):
        page = json.loads(line)
        collection, _, name = page["id"].partition("/")
        names.append(name)
        weight = 1.0 if collection == "page" else CARELESS
        pages.append(MarkedPage(page["html"], page["main_text"], weight))
    return names, pages


def _lines(archive: Path, name: str) -> Iterator[bytes]:
    """Yield the lines of a file in an archive."""
    with tarfile.open(archive) as files:
        for member in files:
            if member.name.endswith("/" + name) and (file := files.extractfile(member)):
                yield from file
                return


def models_by_fold(names: Sequence[str], pages: Sequence[MarkedPage]) -> list[Model]:
    """Return for each fold a model that was trained on all others."""
    sheets = list(sheets_of(pages))
    models = []
    for fold in range(FOLDS):
        others = [own for name, own in zip(names, sheets, strict=True) if fold_of(name) != fold]
        models.append(model_in(train([sheet for own in others for sheet in own])))
    return models


@dataclass
class Reader:
    """The text that a model takes of pages."""

    main: MainText

    def text(self, page: str) -> str:
        """Return the main text, all visible text if there is none."""
        body = page.encode("utf-8", "replace")
        text = np.empty(scratch_bytes(len(body)), np.uint8)
        end, _ = html_to_main_text(Slices.joined([body]).data, 0, len(body), text, self.main)
        return text[:end].tobytes().decode("utf-8", "replace")


def token_f1(one: Sequence[str], other: Sequence[str]) -> float:
    """Return the F1 of two bags of words."""
    common = (Counter(one) & Counter(other)).total()
    return 2 * common / max(1, len(one) + len(other))


def marked_table(
    marked: Sequence[tuple[str, MarkedPage]],
    readers: Sequence[Reader],
    peers: dict[str, Extractor],
    some: int,
) -> Table:
    """Compare what is taken of pages with what is marked; peers on every nth page only."""
    chosen = marked[:: max(1, len(marked) // some)]
    rows: dict[str, list[float]] = {
        "streamer, by folds, all pages": _f1s(marked, lambda name: readers[fold_of(name)].text),
        "streamer, by folds": _f1s(chosen, lambda name: readers[fold_of(name)].text),
        "all visible text": _f1s(chosen, lambda _name: _visible),
    }
    for peer, extract in peers.items():
        rows[peer] = _f1s(chosen, partial(_always, extract))
    table = Table("main text of marked pages", "pages", "token F1", "median")
    for name, values in rows.items():
        mean, median = statistics.mean(values), statistics.median(values)
        table.add_row(name, f"{len(values):,}", f"{mean:.4f}", f"{median:.4f}")
    return table


def _f1s(
    marked: Sequence[tuple[str, MarkedPage]], reader_of: Callable[[str], Extractor]
) -> list[float]:
    return [
        token_f1(canonical_words(reader_of(name)(page.html)), canonical_words(page.main_text))
        for name, page in marked
    ]


def _always(extract: Extractor, _name: str) -> Extractor:
    return extract


def _visible(page: str) -> str:
    return visible_text(page.encode("utf-8", "replace"), HTML)


def templates_table(data: Path, readers: Sequence[Reader]) -> Table:
    """Judge the articles in other pages' furniture, by all visible text and by main text."""
    archive = data / "set10b_templates_dev.tar.xz"
    truth = {}
    for line in _lines(archive, "truth_articles.tsv"):
        url, article, template = line.decode().rstrip("\n").split("\t")
        truth[url] = article, template
    streams = {
        (what, threshold): Stream(threshold)
        for what in ("visible", "main")
        for threshold in THRESHOLDS
    }
    for line in _lines(archive, "pages.jsonl"):
        page = json.loads(line)
        article, template = truth[page["url"]]
        reader = readers[fold_of(template.partition("_")[2])]
        words = {
            "visible": canonical_words(_visible(page["body"])),
            "main": canonical_words(reader.text(page["body"])),
        }
        for (what, _), stream in streams.items():
            stream.judge(article, template, words[what])
    table = Table("articles in templates", "from", "false", "found", "on another site", "F1")
    for (what, threshold), stream in streams.items():
        out = stream.outcome
        false, found = out.false / max(1, out.new), out.found / max(1, out.seen)
        elsewhere = f"{out.found_elsewhere:,} of {out.elsewhere:,}"
        table.add_row(
            f"{what} text",
            f"{threshold}",
            f"{false:.2%}",
            f"{found:.3f}",
            elsewhere,
            f"{out.f1:.3f}",
        )
    return table


def speed_table(
    what: str, bodies: Sequence[str], peers: dict[str, Extractor], peers_pages: int
) -> Table:
    """Time one thread on pages: signing, and the libraries' extraction."""
    raw = [body.encode() for body in bodies]
    size = sum(map(len, raw)) / len(raw)
    table = Table(f"one thread, {what}", "pages/s", "MB/s", "main text: times as fast")
    rates = {}
    for name, settings in (
        ("streamer, signed by main text", SignatureSettings(canonical=MAIN_TEXT)),
        ("streamer, signed by visible text", SignatureSettings()),
    ):
        signer = Signer(settings, bytes(32))
        signer.sign(raw[:10], [HTML] * 10)  # so that nothing is compiled in the time
        flags = [HTML] * len(raw)
        rates[name] = max(_rate(partial(signer.sign, raw, flags), len(raw)) for _ in range(3))
    some = bodies[:peers_pages]
    for name, extract in peers.items():
        extract(some[0])
        rates[name] = _rate(partial(_extract_all, extract, some), len(some))
    first = next(iter(rates.values()))
    for name, rate in rates.items():
        table.add_row(name, f"{rate:,.0f}", f"{rate * size / 1e6:,.1f}", f"{first / rate:,.1f}")
    return table


def _extract_all(extract: Extractor, pages: Sequence[str]) -> None:
    for page in pages:
        extract(page)


def _rate(work: Callable[[], object], pages: int) -> float:
    """Return pages a second of CPU."""
    began = time.process_time()
    work()
    return pages / (time.process_time() - began)


def main() -> None:
    """Measure what there is data for."""
    parser = argparse.ArgumentParser(description="Measure how main text is found, and how fast.")
    parser.add_argument("data", type=Path, help="folder with the two archives")
    parser.add_argument("--peers-pages", type=int, default=300, help="pages that peers get")
    parser.add_argument("--only", choices=("marked", "templates", "speed"), action="append")
    parsed = parser.parse_args()
    wanted = parsed.only or ["marked", "templates", "speed"]
    console, peers = Console(), extractors()
    marked_file = parsed.data / "main_text.tar.xz"
    templates = parsed.data / "set10b_templates_dev.tar.xz"
    if marked_file.exists() and {"marked", "templates"} & set(wanted):
        names, pages = marked_pages(parsed.data)
        readers = [Reader(new_main_text(each)) for each in models_by_fold(names, pages)]
        if "marked" in wanted:
            marked = list(zip(names, pages, strict=True))
            console.print(marked_table(marked, readers, peers, parsed.peers_pages))
        if "templates" in wanted and templates.exists():
            console.print(templates_table(parsed.data, readers))
    elif not marked_file.exists():
        console.print(f"There is no {marked_file}: quality is not measured.")
    if "speed" in wanted:
        made = [json.loads(line)["body"] for line in messages(SPEED_PAGES)]
        console.print(speed_table("made pages of 25 kB", made, peers, parsed.peers_pages))
        if templates.exists():
            lines = islice(_lines(templates, "pages.jsonl"), SPEED_PAGES)
            real = [json.loads(line)["body"] for line in lines]
            console.print(speed_table("real pages", real, peers, parsed.peers_pages))


if __name__ == "__main__":
    main()
