"""The command `select`: of each cluster of a verdict file one page, as it came."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from streamer.analysis.cli import check_outputs
from streamer.analysis.cli.clusters import Choice, Policy, write_clusters, writer
from streamer.analysis.clusters import EARLIEST, Grouping, Refs, Scope, numbering, rows
from streamer.analysis.survivors import Survivors, find_survivors, read_urls
from streamer.cli.options import Overwrite, command
from streamer.cli.terminal import Terminal, amount_bar, compile_with_bar, figures, progress_bar
from streamer.compression import is_table_name
from streamer.errors import SettingsError
from streamer.pages.files import Source
from streamer.pages.table_copy import ChosenRows, TableFile, common_schema, copy_rows
from streamer.run.kept_tables import tables_of
from streamer.run.output_checks import STANDARD_OUTPUT, output_key
from streamer.run.outputs import OutputFile, OutputSink, complete_output
from streamer.run.page_outputs import PageOutputs, pack_records
from streamer.run.page_reader import PageReader

_KINDS_APART = "Select each kind into an output of its own, with --some."


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
        check_outputs(self.names, inputs, overwrite=self.overwrite)


@dataclass(frozen=True)
class Selection:
    """The options that say which pages are written.

    Attributes:
        scope: Pages stay in one cluster within: anything, a host, a domain.
        exclude_urls: File of URLs, one a line: pages that never survive.
        some: PAGES are only some of the files that were judged.
    """

    policy: Policy = EARLIEST
    scope: Scope = Scope.NONE
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
    rank, out, clusters = Choice(selection.policy), targets.out, targets.clusters
    is_table = is_table_name(out)
    sources = reader.open(pages, whole_rows=not is_table)
    files = [source.name for source in sources if source.is_regular]
    targets.check([*(str(path) for path in (verdicts, selection.exclude_urls) if path), *files])
    if is_table:
        common_schema(out, _tables(out, sources), _KINDS_APART)
    write_table = writer(clusters, "--clusters") if clusters else None
    excluded = selection.excluded()
    compile_with_bar()
    with amount_bar("reading verdicts", 2 * verdicts.stat().st_size) as report:
        grouping, survivors = find_survivors(
            verdicts, rank, numbering(selection.scope), excluded, report
        )
    rank.check()
    survivors.expect([source.name for source in sources], some=selection.some)
    with complete_output(out) as file:
        (_write_rows if is_table else _write_records)(file, sources, survivors, reader)
    if clusters and write_table:
        write_clusters(clusters, write_table, grouping, rows(verdicts, grouping, excluded))
    Terminal(stderr=STANDARD_OUTPUT in targets.names).print(_summary(grouping, survivors))
    rank.warn(Terminal(stderr=True))
    if survivors.unjudged:
        Terminal(stderr=True).warn(
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
    with progress_bar(sources) as report:
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
    found: dict[str, list[Refs]] = {source.name: [none] for source in sources}
    with progress_bar(sources) as report:
        for name, _, batch in reader.read(sources, report):
            found[name].append(survivors.among(name, batch))
    survivors.check_found()
    tables = _tables(file.name, sources)
    chosen = (ChosenRows(table, np.concatenate(found[table.name])) for table in tables)
    copy_rows(chosen, file.name, OutputSink(file), _KINDS_APART)


def _tables(out: str, sources: Sequence[Source]) -> list[TableFile]:
    return tables_of(f"--out {out}", sources, _KINDS_APART)


def _summary(grouping: Grouping, survivors: Survivors) -> Table:
    return figures([
        ("verdicts", grouping.judged), ("clusters", len(grouping)),
        ("pages written", survivors.written),
        ("pages left out", survivors.dropped + survivors.excluded),
        ("  duplicates", survivors.dropped), ("  excluded", survivors.excluded),
        ("pages without a verdict", survivors.unjudged),
    ])  # fmt: skip
