"""`streamer verify`: hold an index in Kafka against its promises."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from streamer.analysis.audit.scene import EXAMPLES_MAX, AuditReport
from streamer.analysis.audit.verify import VerifyOptions
from streamer.analysis.audit.verify import verify as verify_index
from streamer.analysis.cli import write_file
from streamer.cli.options import command, quiet_connection_of
from streamer.cli.progress import compile_with_bar, count_bar
from streamer.cli.terminal import Terminal
from streamer.config import KAFKA, REGISTRY, SECURITY, Settings
from streamer.deduplicator import page_parser
from streamer.errors import StreamerError
from streamer.kafka.topics import Names


@command
def verify(
    *,
    settled: Annotated[
        bool, typer.Option("--settled", help="Count pages that are still on their way as broken.")
    ] = False,
    wait: Annotated[
        float,
        typer.Option(
            min=0,
            help="Seconds to wait, at most, until the index is there and all of it is judged.",
        ),
    ] = 0.0,
    json: Annotated[Path | None, typer.Option(help="File to write the counts to.")] = None,
    settings: Annotated[Settings, "preset", "fields", "rules", "also", KAFKA, SECURITY, REGISTRY],
) -> None:
    """Hold an index in Kafka against its promises; exit code 1 if one is broken.

    Reads the pages, all logs, the verdicts and the dead letters, and folds the logs afresh. It
    writes nothing to Kafka, needs no key, and may run beside workers. Give it the worker's --preset
    or --fields, --rules, --also and --registry-url. Its scratch files, about 1 kB a kept page, go
    to TMPDIR.

    Example: streamer verify --settled --wait 60 --index-name streamer --brokers localhost:9092
    """
    wanted = VerifyOptions(
        quiet_connection_of(settings),
        Names(settings.index_name, settings.input_topic),
        page_parser(settings),
        settled=settled,
        wait_s=wait,
        also=settings.also,
    )
    compile_with_bar()
    with count_bar() as tell:
        report = asyncio.run(verify_index(wanted, tell))
    _print(report)
    if json is not None:
        data = msgspec.json.format(msgspec.json.encode(report.as_json())) + b"\n"
        write_file(json, data, "--json")
    if report.broken:
        total = sum(check.violations for check in report.checks.values())
        raise StreamerError(
            f"The index {settings.index_name} breaks its promises, {total:,} times: "
            f"{', '.join(report.broken)}. Examples stand above."
        )


def _print(report: AuditReport) -> None:
    console = Terminal()
    table = Table("check", "promise", "looked at", "broken", box=None, pad_edge=False)
    for column in table.columns[2:]:
        column.justify = "right"
    for name, check in report.checks.items():
        table.add_row(name, check.promise, f"{check.looked_at:,}", f"{check.violations:,}")
    console.print(table)
    counts = Table("\ncount", "", show_header=True, box=None, pad_edge=False)
    counts.columns[1].justify = "right"
    for name, count in sorted(report.counts.items()):
        counts.add_row(name, f"{count:,}")
    console.print(counts)
    for name in report.broken:
        check = report.checks[name]
        console.print(f"\n{name}: {check.violations:,} times")
        for example in check.examples:
            console.say(f"  {example}")
        if check.violations > EXAMPLES_MAX:
            console.print("  ...")
