"""The commands `clusters` and `select`: duplicates as clusters, and of each cluster one page."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TextIO

import numpy as np
import typer
from rich.table import Table

from streamer.analysis import clusters as clustering
from streamer.analysis.clusters import Grouping, Row, Scope
from streamer.analysis.survivors import Survivors, find_survivors, read_urls
from streamer.cli import terminal
from streamer.cli.options import Overwrite, command
from streamer.compression import is_table_name
from streamer.errors import InputError, SettingsError
from streamer.pages.files import Source
from streamer.pages.table_copy import ChosenRows, TableFile, common_schema, copy_rows
from streamer.run.kept_tables import tables_of
from streamer.run.output_checks import STANDARD_OUTPUT, check_new, output_key
from streamer.run.outputs import OutputFile, OutputSink, complete_output
from streamer.run.page_outputs import PageOutputs, pack_records
from streamer.run.reading import PageReader
from streamer.run.totals import SHARE_MIN, suspicion
from streamer.run.verdict_lines import NO_PAGE, VerdictLine

_KINDS_APART = "Select each kind into an output of its own, with --some."
Writer = Callable[[TextIO, Iterator[Row]], None]


@dataclass(frozen=True)
class Clustering:
    """The options that say what is a cluster, and which page of it survives.

    Attributes:
        policy (longest|https|nutch|earliest|FIELD:max|FIELD:min): Which page of a cluster survives:
            that with the longest text, an https one, as in Nutch (highest score, newest fetched_at,
            shortest URL), the earliest, or that with the greatest or least value of a carried
            field, a number or a time; among equal ones the earliest.
        scope: Clusters stay within a host or a domain, or are not split.
    """

    policy: str = clustering.EARLIEST
    scope: Scope = Scope.NONE


class Choice:
    """The rank of a page by its verdict, as `--policy` asks for; it counts missing fields.

    Raises:
        SettingsError: there is no such policy.
    """

    def __init__(self, policy: str) -> None:
        self._rank, self._fields = clustering.ranking(policy)
        self._pages, self._lacking = 0, Counter[str]()

    def __call__(self, judged: VerdictLine) -> tuple[float, ...]:
        """Return what `group` orders by."""
        if judged.page is not NO_PAGE:  # else only the number of ranks is asked
            self._pages += 1
            self._lacking.update(name for name in self._fields if judged.carried.get(name) is None)
        return self._rank(judged)

    def check(self) -> None:
        """Raise InputError if no verdict has a field of the policy: nothing is chosen by it."""
        if self._fields and self._pages == min(map(self._lacking.__getitem__, self._fields)) > 0:
            raise InputError(
                f"No verdict in a cluster carries {' or '.join(self._fields)}, which chooses the "
                f"survivor. Make them with --carry {self._fields[0]}, or correct the name."
            )

    def warn(self, console: terminal.Terminal) -> None:
        """Warn of the fields that verdicts lack."""
        for name, lacking in self._lacking.items():
            console.warn(
                f"{lacking:,} of {self._pages:,} verdicts in clusters carry no {name}, by which "
                f"the survivor is chosen; make them with --carry {name}, or name another policy."
            )


@command
def clusters(
    verdicts: Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True)],
    *,
    out: str = STANDARD_OUTPUT,
    overwrite: Overwrite = False,
    choice: Clustering,
    every: Annotated[bool, typer.Option("--all")] = False,
    warn_share: Annotated[float, typer.Option(min=0.0, max=1.0)] = SHARE_MIN,
) -> None:
    """Write the clusters of a verdict file, one line per page, the survivor of each cluster first.

    The file is read twice, and listed pages once more. Only listed pages take memory, up to 100
    bytes each. FIELD:max, FIELD:min and nutch need verdicts with these fields (--carry FIELD).

    Example: streamer clusters verdicts.jsonl --policy https --scope domain --out clusters.csv

    Args:
        verdicts: Verdicts as JSON lines, a plain file.
        out: File to write: .jsonl or .csv; - for JSON lines on stdout.
        every: List pages without duplicates too, as clusters of one page.
        warn_share: Warn of a cluster that holds this share of a source, 0 to 1.
    """
    rank, write = Choice(choice.policy), writer(out)
    check_new([out], [str(verdicts)], overwrite=overwrite)
    with terminal.amount_bar("reading verdicts", 2 * verdicts.stat().st_size) as report:
        grouping = clustering.group(
            verdicts, rank, clustering.numbering(choice.scope), report, alone=every
        )
    rank.check()
    write_clusters(out, write, grouping, clustering.rows(verdicts, grouping))
    console = terminal.Terminal(stderr=True)
    console.print(_summary(grouping))
    rank.warn(console)
    for suspect in clustering.suspects(verdicts, grouping, warn_share):
        who = f"survivor is {suspect.survivor}"
        console.warn(suspicion(suspect.source, suspect.pages, suspect.share, who))


def write_clusters(out: str, write: Writer, grouping: Grouping, table: Iterator[Row]) -> None:
    """Write the table of clusters with a bar.

    Raises:
        InputError: it cannot be written.
    """
    with (
        terminal.amount_bar("writing clusters", len(grouping.places)) as report,
        terminal.open_output(out, sys.stdout, "w") as file,
    ):
        write(file, _count(table, report))
        file.flush()  # before a summary is printed


def writer(out: str, option: str = "--out") -> Writer:
    """Return what writes the form that the name of the output asks for.

    Raises:
        SettingsError: its ending is none that is known.
    """
    suffix = ".jsonl" if out == STANDARD_OUTPUT else Path(out).suffix.lower()
    if suffix not in clustering.WRITERS:
        raise SettingsError(
            f"{option} {out} must end in {', '.join(clustering.WRITERS)}, or be - for stdout."
        )
    return clustering.WRITERS[suffix]


def _count(table: Iterator[Row], report: Callable[[int], None]) -> Iterator[Row]:
    for number, row in enumerate(table, 1):
        yield row
        report(number)


def _summary(grouping: Grouping) -> Table:
    return terminal.figures([
        ("verdicts", grouping.judged), ("  of duplicates", grouping.duplicates),
        ("clusters", len(grouping)), ("  pages in them", len(grouping.places)),
        ("  pages to drop", len(grouping.places) - len(grouping)),
        ("largest cluster", int(grouping.sizes.max(initial=0))),
    ])  # fmt: skip


@dataclass(frozen=True)
class SelectTargets:
    """The options that say where things go.

    Attributes:
        out: Where the survivors go, as they came; by the name compressed (.gz, .zst), or rows of
            Parquet and Arrow files as such (.parquet, .arrow); - for standard output.
        clusters: Where the table of clusters goes too: .jsonl or .csv.
    """

    out: str
    clusters: str | None = None
    overwrite: Overwrite = False

    @property
    def names(self) -> list[str]:
        """Return the names of the outputs."""
        return [self.out] if self.clusters is None else [self.out, self.clusters]

    def check(self, inputs: Sequence[str]) -> None:
        """Raise SettingsError if an output is an input, the other one, or there already."""
        if len({*map(output_key, self.names)}) < len(self.names):
            raise SettingsError("--out and --clusters must be different files.")
        check_new(self.names, inputs, overwrite=self.overwrite)


@dataclass(frozen=True)
class Selection:
    """The options that say which pages are written.

    Attributes:
        exclude_urls: File of URLs, one a line: pages that never survive.
        some: PAGES are only some of the files that were judged.
    """

    exclude_urls: Annotated[Path | None, typer.Option(exists=True, dir_okay=False)] = None
    some: bool = False

    def excluded(self) -> frozenset[str]:
        """Return the URLs that are left out."""
        return frozenset() if self.exclude_urls is None else read_urls(self.exclude_urls)


@command
def select(
    verdicts: Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True)],
    pages: list[str],
    *,
    targets: SelectTargets,
    choice: Clustering,
    selection: Selection,
    reader: PageReader,
) -> None:
    """Write one page of each cluster of a verdict file: a clean data set by another policy.

    Pages are written in the order of PAGES. A page that has no duplicate survives, and with
    --policy earliest the pages are those of `replay --kept`. Where the survivor is a page that an
    index had before the verdict file began, the cluster has none here. The output comes to be once
    it is complete. Memory is 14 bytes a verdict, and as for `clusters`.

    Example: streamer select verdicts.jsonl crawl.warc.gz --policy longest --out clean.warc.gz

    Example: streamer select verdicts.jsonl pages/ --policy score:max --exclude-urls urls.txt
    --out clean.jsonl.zst --clusters clusters.csv

    Args:
        verdicts: The verdicts of the pages, as JSON lines.
        pages (PAGES): The files that were judged, directories of these, or - for standard input.
    """
    rank, out, clusters = Choice(choice.policy), targets.out, targets.clusters
    is_table = is_table_name(out)
    sources = reader.open(pages, whole_rows=not is_table)
    files = [source.name for source in sources if source.is_regular]
    targets.check([*(str(path) for path in (verdicts, selection.exclude_urls) if path), *files])
    if is_table:
        common_schema(out, _tables(out, sources), _KINDS_APART)
    write_table = writer(clusters, "--clusters") if clusters else None
    excluded = selection.excluded()
    terminal.compile_with_bar()
    with terminal.amount_bar("reading verdicts", 2 * verdicts.stat().st_size) as report:
        grouping, survivors = find_survivors(
            verdicts, rank, clustering.numbering(choice.scope), excluded, report
        )
    rank.check()
    survivors.expect([source.name for source in sources], some=selection.some)
    with complete_output(out) as file:
        (_write_rows if is_table else _write_records)(file, sources, survivors, reader)
    if clusters and write_table:
        write_clusters(
            clusters, write_table, grouping, clustering.rows(verdicts, grouping, excluded)
        )
    terminal.Terminal(stderr=STANDARD_OUTPUT in targets.names).print(
        _select_summary(grouping, survivors)
    )
    rank.warn(terminal.Terminal(stderr=True))
    if survivors.unjudged:
        terminal.Terminal(stderr=True).warn(
            f"{survivors.unjudged:,} pages have no verdict in {verdicts}, and are not written. "
            "Judge them, or leave it at that if rules have left them out."
        )


def _write_records(
    file: OutputFile, sources: Sequence[Source], survivors: Survivors, reader: PageReader
) -> None:
    """Write the pages that survive, in their order.

    Raises:
        StreamerError: the pages cannot be read or written, or are not those of the verdicts.
    """
    outputs = PageOutputs({"out": file}, _KINDS_APART)
    outputs.check_sources(sources)
    with terminal.progress_bar(sources) as report:
        for name, chunk, batch in reader.read(sources, report):
            ordinals = survivors.among(name, batch)
            if len(ordinals):
                outputs.check(chunk, name)
                file.write_packed(pack_records(file.name, chunk, ordinals))
    survivors.check_found()


def _write_rows(
    file: OutputFile, sources: Sequence[Source], survivors: Survivors, reader: PageReader
) -> None:
    """Write the rows that survive, in their order, with all their columns.

    Raises:
        StreamerError: as `_write_records`, or the files have different columns.
    """
    none = np.empty(0, np.uint64)
    found: dict[str, list[clustering.Refs]] = {source.name: [none] for source in sources}
    with terminal.progress_bar(sources) as report:
        for name, _, batch in reader.read(sources, report):
            found[name].append(survivors.among(name, batch))
    survivors.check_found()
    tables = _tables(file.name, sources)
    chosen = (ChosenRows(table, np.concatenate(found[table.name])) for table in tables)
    copy_rows(chosen, file.name, OutputSink(file), _KINDS_APART)


def _tables(out: str, sources: Sequence[Source]) -> list[TableFile]:
    return tables_of(f"--out {out}", sources, _KINDS_APART)


def _select_summary(grouping: Grouping, survivors: Survivors) -> Table:
    return terminal.figures([
        ("verdicts", grouping.judged), ("clusters", len(grouping)),
        ("pages written", survivors.written),
        ("pages left out", survivors.dropped + survivors.excluded),
        ("  duplicates", survivors.dropped), ("  excluded", survivors.excluded),
        ("pages without a verdict", survivors.unjudged),
    ])  # fmt: skip
