"""`streamer forget`: take kept pages out of an index."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamer.cli.progress import amount_bar
from streamer.errors import SettingsError, StoreMismatch, StoreUnavailable
from streamer.index.store import Store, has_index
from streamer.index.types import BEFORE_ALL
from streamer.kafka.wire import stored_position
from streamer.pages.mapping import epoch_ms
from streamer.run.forget import Wanted
from streamer.run.forget import forget as forget_pages
from streamer.run.index_folder import store_folder


def forget(
    index: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the index.")],
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
        bool, typer.Option("--dry-run", help="Only tell how many pages these are.")
    ] = False,
) -> None:
    """Forget kept pages of an index of files: they answer no page any more, nor lie on the disk.

    Nobody may write the index meanwhile. What is forgotten still stands in verdicts that were
    given, and in the files that were judged.

    Example: streamer forget my-index --host example.org --dry-run

    Example: streamer forget my-index --url https://example.org/a.html --url https://example.org/b
    """
    if not (url or host or before):
        raise SettingsError("Say what to forget: --url, --host or --before.")
    wanted = Wanted(
        frozenset(url or ()), frozenset(each.lower() for each in host or ()), _moment(before)
    )
    if not has_index(index):
        raise StoreUnavailable(f"There is no index in {index}. Name the folder given as --index.")
    store = Store.open(store_folder(index), writable=not dry_run)
    try:
        if store.meta and stored_position(store.meta.owner):
            raise StoreMismatch(
                f"The index {index} is a worker's shard: its log would bring the pages back."
            )
        with amount_bar("reading", len(store.key_blocks)) as progress:
            pages = forget_pages(store, wanted, dry_run=dry_run, progress=progress)
    finally:
        store.close()
    what = "would be forgotten" if dry_run else "forgotten"
    typer.echo(f"{pages:,} kept {'page' if pages == 1 else 'pages'} {what}.")


def _moment(text: str | None) -> int:
    """Return a moment in milliseconds, BEFORE_ALL where none is given."""
    if text is None:
        return BEFORE_ALL
    moment = epoch_ms(text, "iso")
    if not moment:
        raise SettingsError(f"--before {text!r} is no time. Give one as 2026-01-31T12:00Z.")
    return moment
