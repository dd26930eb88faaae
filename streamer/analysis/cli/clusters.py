"""The command `clusters`: a verdict file's duplicates as clusters, each with its survivor."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, TextIO

import typer
from rich.table import Table

from streamer.analysis import clusters as clustering
from streamer.analysis.cli import check_outputs
from streamer.analysis.clusters import Grouping, Row, Scope
from streamer.cli.options import Overwrite, command
from streamer.cli.terminal import Terminal, amount_bar, figures, open_output
from streamer.errors import InputError, SettingsError
from streamer.run.large_clusters import SHARE_MIN, suspicion
from streamer.run.output_checks import STANDARD_OUTPUT
from streamer.run.verdict_lines import NO_PAGE, VerdictLine

Policy = Annotated[
    str,
    typer.Option(
        metavar="longest|https|nutch|earliest|FIELD:max|FIELD:min",
        help="Which page of a cluster survives: that with the longest text, an https one, as in "
        "Nutch (highest score, newest fetched_at, shortest URL), the earliest, or that with the "
        "greatest or least value of a carried field, a number or a time; among equal ones the "
        "earliest.",
    ),
]
Writer = Callable[[TextIO, Iterator[Row]], None]


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

    def warn(self, console: Terminal) -> None:
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
    policy: Policy = clustering.EARLIEST,
    scope: Scope = Scope.NONE,
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
        scope: Clusters stay within a host or a domain, or are not split.
        every: List pages without duplicates too, as clusters of one page.
        warn_share: Warn of a cluster that holds this share of a source, 0 to 1.
    """
    rank, write = Choice(policy), writer(out)
    check_outputs([out], [str(verdicts)], overwrite=overwrite)
    size = verdicts.stat().st_size
    with amount_bar("reading verdicts", 2 * size) as report:
        grouping = clustering.group(
            verdicts, rank, clustering.numbering(scope), report, alone=every
        )
    rank.check()
    write_clusters(out, write, grouping, clustering.rows(verdicts, grouping))
    console = Terminal(stderr=True)
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
        amount_bar("writing clusters", len(grouping.places)) as report,
        open_output(out, sys.stdout, "w") as file,
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
    return figures([
        ("verdicts", grouping.judged), ("  of duplicates", grouping.duplicates),
        ("clusters", len(grouping)), ("  pages in them", len(grouping.places)),
        ("  pages to drop", len(grouping.places) - len(grouping)),
        ("largest cluster", int(grouping.sizes.max(initial=0))),
    ])  # fmt: skip
