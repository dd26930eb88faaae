"""`streamer verify`: hold an index, in Kafka or of files, against its promises."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from streamer.analysis.audit.facts import EXAMPLES_MAX, AuditReport
from streamer.analysis.audit.file_target import open_target
from streamer.analysis.audit.files import verify_files
from streamer.analysis.audit.verify import VerifyOptions
from streamer.analysis.audit.verify import verify as verify_index
from streamer.assembly import page_parser
from streamer.cli.options import Overwrite, command, quiet_connection_of
from streamer.cli.terminal import Terminal, compile_with_bar, count_bar, listing
from streamer.config import Settings
from streamer.errors import SettingsError, StreamerError
from streamer.kafka.topics import Names
from streamer.panels import KAFKA, REGISTRY, SECURITY
from streamer.run.output_checks import LINES_SUFFIX, check_new, table_of
from streamer.run.outputs import write_whole


@dataclass(frozen=True)
class OfFiles:
    """The options that name an index of files, and what it has written.

    Attributes:
        index (DIR): Folder of an index of files, to verify instead.
        verdicts: Verdict file of that index, JSON lines. Repeatable, in their order.
        dead_letters: Its file of dead letters. Repeatable. [default: VERDICTS.dead.jsonl]
    """

    index: Path | None = None
    verdicts: list[Path] | None = None
    dead_letters: list[Path] | None = None


@dataclass(frozen=True)
class OfTopics:
    """The options for an index in Kafka.

    Attributes:
        settled: Count pages without a verdict yet as broken.
        wait: Maximum time in seconds to wait until all pages are judged.
    """

    settled: bool = False
    wait: Annotated[float, typer.Option(min=0)] = 0.0


@command
def verify(
    pages: list[str] | None = None,
    *,
    files: OfFiles,
    topics: OfTopics,
    json: Path | None = None,
    overwrite: Overwrite = False,
    settings: Annotated[
        Settings, "preset", "fields", "value", "rules", "also", "carry", "url_prefix", "cdx_base",
        "include", "exclude", "page_bytes_max", "key_file", "threads", "index_memory",
        KAFKA, SECURITY, REGISTRY,
    ],
) -> None:  # fmt: skip
    """Check an index against its guarantees; exit code 1 if one is broken.

    For an index in Kafka, it reads pages, logs, verdicts and dead letters, and applies the logs
    again. It writes nothing to Kafka, needs no key, and may run next to workers. Give the worker's
    --preset or --fields, --value, --rules, --also and --registry-url. Scratch files go to TMPDIR,
    about 1 kB per kept page.

    With --index, for an index of `replay`, it judges PAGES again in a temporary index. It compares
    each line of the verdicts and dead letters, and each row of the index. Give the replay's
    --preset or --fields, --carry, --also, --key-file, --url-prefix, --cdx-base and
    --page-bytes-max. An index whose settings were changed, or that has read a topic or a pipe, is
    refused. Memory: 50 bytes per record, and --index-memory.

    Example: streamer verify --settled --wait 60 --index-name streamer --brokers localhost:9092

    Example: streamer verify crawl.jsonl.gz --index my-index --verdicts v.jsonl

    Args:
        pages (PAGES): With --index: all files and directories that the index has read.
        json: File for the counts, as JSON.
    """
    if json is not None:
        check_new([str(json)], overwrite=overwrite)
    if files.index is not None:
        report, name = _verify_files(pages or [], files, settings), str(files.index)
    else:
        report, name = _verify_topics(pages or [], files, topics, settings)
    _print(report)
    if json is not None:
        write_whole(json, msgspec.json.format(msgspec.json.encode(report.as_json())) + b"\n")
    if report.broken:
        total = sum(check.violations for check in report.checks.values())
        raise StreamerError(
            f"The index {name} breaks its promises, {total:,} times: "
            f"{', '.join(report.broken)}. See the examples above. Records are read with the "
            "options given here: give all of those that the index was made with."
        )


def _verify_topics(
    pages: Sequence[str], files: OfFiles, topics: OfTopics, settings: Settings
) -> tuple[AuditReport, str]:
    if pages or files.verdicts or files.dead_letters:
        raise SettingsError("Give --index with PAGES and --verdicts, or none of the three.")
    wanted = VerifyOptions(
        quiet_connection_of(settings),
        Names(settings.index_name, settings.input_topic),
        page_parser(settings),
        settled=topics.settled,
        wait_s=topics.wait,
        also=settings.also,
    )
    compile_with_bar()
    with count_bar() as progress:
        return asyncio.run(verify_index(wanted, progress)), settings.index_name


def _verify_files(pages: Sequence[str], files: OfFiles, settings: Settings) -> AuditReport:
    assert files.index is not None, files
    if not pages or not files.verdicts:
        raise SettingsError("--index needs the PAGES that it has read, and --verdicts.")
    letters = files.dead_letters
    if letters is None:
        found = [Path(f"{table_of(str(path), LINES_SUFFIX)}.dead.jsonl") for path in files.verdicts]
        letters = [path for path in found if path.exists()]
    with open_target(files.index, pages, settings) as target:
        compile_with_bar(main_text=target.index.signature.takes_main_text)
        with count_bar() as progress:
            return verify_files(target, files.verdicts, letters, settings.signing_threads, progress)


def _print(report: AuditReport) -> None:
    console = Terminal()
    rows = [
        (name, each.promise, each.looked_at, each.violations)
        for name, each in report.checks.items()
    ]
    console.print(listing(("check", "promise", "looked at", "broken"), rows, text=2))
    console.print(listing(("count", ""), sorted(report.counts.items())))
    for name in report.broken:
        check = report.checks[name]
        console.print(f"\n{name}: {check.violations:,} times")
        for example in check.examples:
            console.say(f"  {example}")
        if check.violations > EXAMPLES_MAX:
            console.print("  ...")
