"""The command `hints`: what a crawler need not fetch, learned from verdicts."""

import os
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from streamer.analysis.documents import read_bodies
from streamer.analysis.hints.filters import FilterRules
from streamer.analysis.hints.hint import Hint, HintKind, HintLimits, HostHints
from streamer.analysis.hints.learn import VerdictsByHost
from streamer.analysis.hints.parameters import WHOLE_HOST
from streamer.cli.options import Overwrite, command
from streamer.cli.terminal import Terminal, amount_bar, listing, progress_bar
from streamer.errors import InputError, SettingsError
from streamer.garbage import freeze_gc
from streamer.run.output_checks import STANDARD_OUTPUT, check_ending, check_new
from streamer.run.outputs import complete_output
from streamer.run.reading import PageReader
from streamer.run.verdict_files import read_places
from streamer.text.visible import canonical_link

ROWS_SHOWN = 40


@dataclass(frozen=True)
class HintOutputs:
    """The files that are made of hints.

    Attributes:
        out: File for the hints, one line of JSON per host; - for stdout.
        stormcrawler (FILE.json): File of URL filters for StormCrawler.
        nutch (FILE): File for Nutch: .xml for its regex-normalize.xml, .txt for its
            regex-urlfilter.txt. May be given twice.
    """

    out: str | None = None
    stormcrawler: str | None = None
    nutch: list[str] | None = None
    overwrite: Overwrite = False

    @property
    def names(self) -> list[str]:
        """Return the files that are written."""
        given = [self.out, self.stormcrawler, *(self.nutch or ())]
        return [name for name in given if name is not None]

    def check(self, inputs: Iterable[str], folders: Iterable[str]) -> None:
        """Raise SettingsError if they cannot be written as they are named.

        None may be an input, nor in one of the `folders` of pages.
        """
        if self.out is not None:
            check_ending("out", self.out, ".jsonl")
        for name in self.nutch or ():
            if not name.endswith((".xml", ".txt")):
                raise SettingsError(
                    f"--nutch {name} must end in .xml (regex-normalize) or .txt (regex-urlfilter)."
                )
        check_new(self.names, inputs, overwrite=self.overwrite)
        for folder in filter(os.path.isdir, folders):
            for name in self.names:
                if name != STANDARD_OUTPUT and Path(name).resolve().is_relative_to(
                    Path(folder).resolve()
                ):
                    raise SettingsError(
                        f"{name} is in {folder}, the folder of the pages, and would be read as "
                        "one of them. Name another output."
                    )


@dataclass(frozen=True)
class HintOptions:
    """Which hints are given, and what they are compared with.

    Attributes:
        error_max: Greatest error of a hint: the share of pages that it may get wrong, as an upper
            bound with 95 % confidence.
        support_min: Least support of a hint: number of groups of pages.
        pages (FILES): Files with the pages, or folders of these: compare hints with the canonical
            links of the pages. May be given several times.
    """

    error_max: Annotated[float, typer.Option(min=0.001, max=0.5)] = 0.1
    support_min: Annotated[int, typer.Option(min=2)] = 10
    pages: list[str] | None = None


@command
def hints(
    verdicts: Annotated[list[Path], typer.Argument(exists=True, dir_okay=False)],
    *,
    outputs: HintOutputs,
    options: HintOptions,
    reader: PageReader,
) -> None:
    """Learn from verdicts which URLs of a host have the same content, so need not be fetched.

    Per host: parameters and path segments that do not change a page, soft errors (one page that
    answers for unlike URLs), and traps (URLs that grow without new content). Each hint has its
    support, its error, and the share of its URLs that must still be fetched to notice a change.
    Without an output, a table is shown.

    Memory is bounded: verdicts are sorted in TMPDIR (about 200 bytes each), and of a host the first
    200,000 URLs are looked at.

    Example: streamer hints verdicts.jsonl --out hints.jsonl --stormcrawler urlfilters.json

    Example: streamer hints verdicts.jsonl --pages crawl/ --out hints.jsonl

    Example: streamer hints verdicts.jsonl --nutch regex-normalize.xml --nutch regex-urlfilter.txt

    Args:
        verdicts: The verdicts of an index: JSON lines (.gz, .zst as well) or Parquet, in order.
    """
    sources = reader.open(options.pages) if options.pages else []
    regular = [source.name for source in sources if source.is_regular]
    outputs.check([*map(str, verdicts), *regular], options.pages or ())
    console = Terminal(stderr=True)
    freeze_gc()
    with VerdictsByHost() as by_host:
        _read(verdicts, by_host, console)
        if sources:
            with progress_bar(sources) as report:
                for page in read_bodies(reader, sources, report):
                    if link := canonical_link(page.utf8, page.flags):
                        by_host.add_canonical(page.name, link)
        limits = HintLimits(options.error_max, options.support_min)
        table = _write(by_host.hints(limits, with_links=options.pages is not None), outputs)
    (console if outputs.names else Terminal()).print(table)


def _read(files: Sequence[Path], by_host: VerdictsByHost, console: Terminal) -> None:
    """Read all verdicts of files.

    Raises:
        InputError: a file cannot be read, or no verdict of any has a URL.
    """
    place = 0
    for path in files:
        before = by_host.judged, by_host.without_host
        with amount_bar(f"reading {path.name}", path.stat().st_size) as report:
            for _, verdict in read_places(path, report):
                by_host.add(verdict, place)
                place += 1
        judged, lacking = by_host.judged - before[0], by_host.without_host - before[1]
        if lacking:
            console.warn(f"{path}: {lacking:,} of {judged:,} verdicts have no URL of a web host.")
    more = f" and {len(files) - 1:,} more files" if len(files) > 1 else ""
    if by_host.without_host == by_host.judged:
        raise InputError(
            f"{files[0]}{more}: no verdict with the URL of a web page, from which hints are "
            "learned; give verdicts of pages with URLs"
        )


def _write(learned: Iterable[HostHints], outputs: HintOutputs) -> Table:
    """Write the files that are asked for; return a table of the first hints."""
    rules, encode = FilterRules(), msgspec.json.Encoder().encode
    rows: list[tuple[str | int, ...]] = []
    hosts = hints = 0
    with complete_output(outputs.out) if outputs.out else nullcontext() as file:
        for each in learned:
            rules.add(each)
            hosts, hints = hosts + 1, hints + len(each.hints)
            rows += [(each.host, *_row(hint)) for hint in each.hints[: ROWS_SHOWN - len(rows)]]
            if file is not None:
                file.write(encode(each) + b"\n")
    contents = {name: rules.nutch(name) for name in outputs.nutch or ()}
    if outputs.stormcrawler is not None:
        contents[outputs.stormcrawler] = rules.storm_crawler()
    for name, content in contents.items():
        with complete_output(name) as made:
            made.write(content)
    heads = ("host", "hint", "name", "URLs", "support", "differ", "error", "recheck", "canonical")
    cut = f"the first {ROWS_SHOWN}; --out writes all" if hints > ROWS_SHOWN else None
    return listing(heads, rows, text=3, title=f"{hints:,} hints for {hosts:,} hosts", caption=cut)


def _row(hint: Hint) -> tuple[str | int, ...]:
    where = "" if hint.under == WHOLE_HOST else f" under {hint.under}"
    name = hint.name
    if hint.kind is HintKind.SOFT_404 and hint.representative:
        name = hint.representative.url
    error = "-" if hint.error is None else f"{hint.error:.3f}"
    agrees = f"{hint.canonical.agree:,} of {hint.canonical.pages:,}" if hint.canonical else ""
    counts = hint.urls, hint.support, hint.differing
    return hint.kind.replace("_", " "), name + where, *counts, error, f"{hint.recheck:.3f}", agrees
