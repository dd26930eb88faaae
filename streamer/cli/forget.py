"""`streamer forget`: take kept pages out of an index."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from streamer.cli.options import command, connection_of
from streamer.cli.progress import amount_bar
from streamer.config import SECURITY, Settings
from streamer.errors import SettingsError, StoreMismatch, StoreUnavailable
from streamer.index.forgetting import BEFORE, HOST, URL, Terms
from streamer.index.store import Store, has_index
from streamer.index.types import Forget, Term
from streamer.kafka.topics import Names
from streamer.kafka.wire import stored_position
from streamer.pages.mapping import epoch_ms
from streamer.run.forget import forget as forget_pages
from streamer.run.index_folder import store_folder


@command
def forget(
    index: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR]",
            help="Folder of an index of files. Without it, the index of workers is meant.",
        ),
    ] = None,
    *,
    url: Annotated[
        list[str] | None, typer.Option(help="Forget the pages with this URL. Repeatable.")
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="Forget the pages of this host; of those below it, too, where it begins with a "
            "dot. Repeatable."
        ),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(help="Forget the pages with a time before this one, as 2026-01-31T12:00Z."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Only tell how many pages these are, in DIR; it may be a worker's, as "
            "my-index/shard-0, while that runs.",
        ),
    ] = False,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait, at most, for the workers to be done.")
    ] = 600.0,
    settings: Annotated[Settings, "index_name", "brokers", SECURITY],
) -> None:
    """Forget kept pages: they answer no page any more, and are gone from the index's disks.

    With workers it goes through their log, where it concerns all pages before it; they go on
    meanwhile, and the command ends when all shards are done. Nobody may write a DIR meanwhile. What
    is forgotten still stands in verdicts that were given, in the pages that were judged, in logs
    and in snapshots: docs/operations.md tells how it goes from there.

    Example: streamer forget my-index --host example.org --dry-run

    Example: streamer forget my-index --url https://example.org/a.html --url https://example.org/b

    Example: streamer forget --index-name streamer --brokers localhost:9092 --host .example.org
    """
    terms: list[Term] = [(URL, each.encode()) for each in url or ()]
    terms += [(HOST, each.lower().encode()) for each in host or ()]
    terms += [] if before is None else [(BEFORE, _moment(before))]
    if not terms:
        raise SettingsError("Say what to forget: --url, --host or --before.")
    if index is None and dry_run:
        raise SettingsError("--dry-run counts in a folder: name one, as my-index/shard-0.")
    pages = _in_log(settings, terms, wait) if index is None else _in(index, terms, dry_run=dry_run)
    what = "would be forgotten" if dry_run else "forgotten"
    typer.echo(f"{pages:,} kept {'page' if pages == 1 else 'pages'} {what}.")


def _in(index: Path, terms: Sequence[Term], *, dry_run: bool) -> int:
    """Forget what the terms name in a folder; return how many pages."""
    if not has_index(index):
        raise StoreUnavailable(f"There is no index in {index}. Name the folder given as --index.")
    store = Store.open(store_folder(index), writable=not dry_run)
    try:
        if store.meta and stored_position(store.meta.owner) and not dry_run:
            raise StoreMismatch(
                f"The index {index} is a worker's shard: its log would bring the pages back. Leave "
                "the folder out, to put it into the log: give --index-name and --brokers."
            )
        wanted = Terms.of(Forget([*terms]))
        with amount_bar("reading", len(store.key_blocks)) as progress:
            return forget_pages(store, wanted, dry_run=dry_run, progress=progress)
    finally:
        store.close()


def _in_log(settings: Settings, terms: Sequence[Term], wait_s: float) -> int:
    """Have workers forget what the terms name; return how many pages."""
    from streamer.kafka.forget import forget_in_log  # noqa: PLC0415 - imports the Kafka client

    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # what fails is raised
    names = Names(settings.index_name, settings.input_topic)
    with amount_bar("waiting for the shards", None):
        return asyncio.run(forget_in_log(connection_of(settings), names, terms, wait_s))


def _moment(text: str) -> int:
    """Return a moment in milliseconds."""
    moment = epoch_ms(text, "iso")
    if not moment:
        raise SettingsError(f"--before {text!r} is no time. Give one as 2026-01-31T12:00Z.")
    return moment
