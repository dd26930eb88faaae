"""Upkeep: an index's copies, what it forgets, the beginning of its logs, the kernels.

`streamer snapshot`, `restore`, `trim-log`, `forget` and `warm`.
"""

import asyncio
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from streamer.cli.options import Overwrite, command, quiet_connection_of
from streamer.cli.terminal import amount_bar, compile_with_bar
from streamer.config import Settings
from streamer.errors import SettingsError, StoreMismatch, StoreUnavailable, StreamerError
from streamer.index.forgetting import BEFORE, HOST, URL, terms_of
from streamer.index.messages import Forget, Term
from streamer.kafka.connection import connection_of
from streamer.kafka.log_upkeep import count_in_log, fingerprint_of_log, forget_in_log, trim
from streamer.kafka.topics import Names
from streamer.kafka.wire import read_position
from streamer.kernel import FOLDER
from streamer.pages.times import epoch_ms
from streamer.panels import SECURITY
from streamer.run.catalogue import read_catalogue
from streamer.run.index_folder import folder_of, shard_folders, store_folder
from streamer.run.output_checks import check_new
from streamer.stored.forget import forget as forget_pages
from streamer.stored.opening import has_index
from streamer.stored.store import Store
from streamer.upkeep import pages_of_verdicts
from streamer.upkeep.pages_of_verdicts import KeptSelection, RefOf, WantedPages, parse_carried
from streamer.upkeep.snapshots import SnapshotFolder, take_snapshot


@command
def snapshot(index: Path, to: str, *, keep: Annotated[int, typer.Option(min=0)] = 0) -> None:
    """Copy an index as of its newest flush; files that DIR already has are not copied again.

    No process may write the index meanwhile; a running worker takes snapshots itself, with
    --snapshot-to. If INDEX is a worker's folder, each shard gets its own folder in DIR. A key in
    the index is copied too: then protect DIR.

    Example: streamer snapshot my-index /backup/my-index --keep 7

    Args:
        index (INDEX): Folder of the index.
        to (DIR): Folder for its snapshots, or s3://BUCKET/PATH.
        keep: Number of snapshots to keep in DIR, the newest ones; 0: all.
    """
    SnapshotFolder(to).check_outside(index)
    for part in shard_folders(index):
        place = SnapshotFolder(to).below(part)
        taken = take_snapshot(index / part, place, keep)
        made = taken.snapshot
        typer.echo(
            f"Snapshot {made.number} in {place.name}: flush {made.flush}, {made.pages:,} pages, "
            f"{made.size:,} bytes, of which {taken.size:,} were copied."
        )


@command
def restore(
    to: str, index: Path, *, snapshot: Annotated[int | None, typer.Option(min=1)] = None
) -> None:
    """Create an index from a snapshot, all or nothing; compare every byte with its digest.

    The index is written to INDEX.restoring and renamed at the end. The next command removes what a
    killed one left there, and refuses a folder of this name from elsewhere.

    A worker that starts with the index continues in its log where the snapshot was taken; a replay
    continues in its files. If DIR has a worker's snapshots, each shard is created in INDEX.

    Example: streamer restore /backup/my-index my-index

    Args:
        to (DIR): Folder of snapshots, or s3://BUCKET/PATH.
        index (INDEX): Folder to create; it must be empty or missing.
        snapshot: Number of the snapshot. [default: the newest]
    """
    for folder, made in SnapshotFolder(to).restore(index, snapshot):
        typer.echo(
            f"Snapshot {made.number} in {folder}: flush {made.flush}, {made.pages:,} pages, "
            f"{made.size:,} bytes, made {made.made:%Y-%m-%d %H:%M:%S} UTC."
        )


@command
def trim_log(
    *,
    snapshots: str,
    dry_run: bool = False,
    settings: Annotated[Settings, "index_name", "brokers", SECURITY],
) -> None:
    """Delete the part of an index's logs before the oldest snapshot.

    First, every byte of that snapshot is read, and its index is opened and compared with the log.
    Afterwards a lost index needs a snapshot, and commands that read whole logs, such as `streamer
    verify`, do not work any more. Workers may run meanwhile.

    Example: streamer trim-log --snapshots /backup/my-index --dry-run

    Args:
        snapshots (DIR): Folder of snapshots: the value of --snapshot-to.
        dry_run: Show what would be deleted, and delete nothing.
    """
    names = Names(settings.index_name, settings.input_topic)
    connection, folder = connection_of(settings), SnapshotFolder(snapshots)
    what = "would be deleted" if dry_run else "deleted"

    async def trim_all() -> None:
        async for log, number, start, end in trim(connection, names, folder, delete=not dry_run):
            typer.echo(f"{log}: records {start} to {end}, before snapshot {number}, {what}.")

    asyncio.run(trim_all())


@dataclass(frozen=True)
class ByVerdicts:
    """Which kept pages to forget, by the verdicts of the index.

    Attributes:
        verdicts: Verdict file of the index, for the next three. Repeatable.
        carried (FIELD=VALUE): Carried field of the pages to forget. Repeatable.
        source: Source of the pages to forget, as verdicts name it. Repeatable.
        dependents (FILE): File for the verdicts on duplicates that lose their original.
    """

    verdicts: Annotated[list[Path] | None, typer.Option(exists=True, dir_okay=False)] = None
    carried: list[str] | None = None
    source: list[str] | None = None
    dependents: str | None = None
    overwrite: Overwrite = False

    def with_selected(self, terms: Sequence[Term], ref_of: RefOf, own: str) -> list[Term]:
        """Return terms with the pages that are selected; write the dependents, if asked for.

        `own` is the fingerprint of the index.

        Raises:
            SettingsError: an option misses another one.
            InputError: as `KeptSelection`.
        """
        asks = bool(self.carried or self.source or self.dependents)
        if asks != bool(self.verdicts):
            raise SettingsError(
                "--carried, --source and --dependents need the verdicts of the index, and only "
                "they do: give --verdicts FILE, of workers as `streamer tail` prints them."
            )
        if self.dependents and any(kind == BEFORE for kind, _ in terms):
            raise SettingsError(
                "Verdicts have no times, so --dependents does not go with --before. Leave one out."
            )
        given = [each.resolve() for each in self.verdicts or ()]
        if self.dependents and Path(self.dependents).resolve() in given:
            raise SettingsError(
                f"--dependents {self.dependents} is a file of --verdicts. Name another."
            )
        if self.dependents:
            check_new([self.dependents], overwrite=self.overwrite)
        wanted = WantedPages(parse_carried(self.carried or ()), self.source or (), terms)
        if not asks:
            return [*terms]
        selection = KeptSelection(self.verdicts or (), wanted, ref_of, own)
        if self.dependents:
            count = selection.write_dependents(self.dependents)
            typer.echo(f"{count:,} duplicates lose their representative.", err=True)
        return [*terms, *selection.terms]

    @property
    def shown(self) -> list[str]:
        """Return what is looked for, in words."""
        return WantedPages(parse_carried(self.carried or ()), self.source or ()).in_words


@command
def forget(
    index: Path | None = None,
    *,
    url: list[str] | None = None,
    host: list[str] | None = None,
    before: str | None = None,
    dry_run: bool = False,
    wait: Annotated[float, typer.Option(min=0)] = 600.0,
    chosen: ByVerdicts,
    settings: Annotated[Settings, "index_name", "input_topic", "also", "brokers", SECURITY],
) -> None:
    """Forget kept pages: they match no page any more and are deleted from the index's disks.

    With workers, the command goes through their log and concerns all earlier pages. Workers
    continue meanwhile, and the command ends when all shards are done. With DIR, no process may
    write the folder meanwhile; if no page is affected, nothing in it changes. Published verdicts,
    input pages, logs and snapshots still contain the pages: docs/operations.md says how to remove
    them there. An index has no carried fields: verdicts say which of its pages have one.

    Example: streamer forget my-index --host example.org --dry-run

    Example: streamer forget my-index --carried crawl_id=2026-11 --verdicts v.jsonl

    Example: streamer forget my-index --url https://example.org/a.html --url https://example.org/b

    Example: streamer forget --index-name streamer --brokers localhost:9092 --host .example.org

    Args:
        index ([DIR]): Folder of an index of files. Without it, the index of running workers.
        url: URL whose pages to forget. Repeatable.
        host: Host whose pages to forget; with a leading dot, of all below it too. Repeatable.
        before: Time before which to forget all pages, for example 2026-01-31T12:00Z.
        dry_run: Only count the pages: in DIR, which may be a worker's, or by reading the whole log
            of the index (give the workers' --also), with 1 kB per kept page in TMPDIR.
        wait: Maximum time in seconds to wait for the workers.
    """
    before_ms = None if before is None else epoch_ms(before, "iso")
    if before is not None and not before_ms:
        raise SettingsError(f"--before {before!r} is no time. Give one as 2026-01-31T12:00Z.")
    terms = terms_of(url or (), host or (), before_ms)
    if not terms and not chosen.shown:
        raise SettingsError("Say what to forget: --url, --host, --before, --carried or --source.")
    if index is None:
        pages = _forget_in_log(settings, terms, chosen, None if dry_run else wait)
    else:
        pages = _forget_in_folder(index, settings, terms, chosen, dry_run=dry_run)
    what = "would be forgotten" if dry_run else "forgotten"
    typer.echo(f"{pages:,} kept {'page' if pages == 1 else 'pages'} {what}.")
    typer.echo(f"Looked for: {', '.join([*_describe_terms(terms), *chosen.shown])}.")


def _forget_in_folder(
    index: Path, settings: Settings, terms: list[Term], chosen: ByVerdicts, *, dry_run: bool
) -> int:
    """Forget what terms and verdicts name in a folder; return how many pages."""
    index = folder_of(index)
    if not has_index(index):
        raise StoreUnavailable(f"There is no index in {index}. Name the folder given as --index.")
    with closing(Store.open(store_folder(index), writable=not dry_run)) as store:
        own, ref_of = "", pages_of_verdicts.refs_of_topic(settings.input_topic)
        if meta := store.meta:
            own = str(meta.identity["fingerprint"])
            if read_position(meta.owner) is None:
                ref_of = pages_of_verdicts.refs_of_files(read_catalogue(store, meta))
            elif not dry_run:
                raise StoreMismatch(
                    f"The index {index} is a worker's shard: its log would bring the pages back. "
                    "Leave the folder out, to put it into the log: give --index-name and --brokers."
                )
        wanted = Forget(chosen.with_selected(terms, ref_of, own))
        with amount_bar("reading", len(store.key_blocks)) as progress:
            return forget_pages(store, wanted, dry_run=dry_run, progress=progress)


def _forget_in_log(
    settings: Settings, terms: list[Term], chosen: ByVerdicts, wait_s: float | None
) -> int:
    """Have workers forget what terms and verdicts name, or (None) only count; return the pages."""
    names = Names(settings.index_name, settings.input_topic)
    connection = quiet_connection_of(settings)
    own = asyncio.run(fingerprint_of_log(connection, names)) if chosen.verdicts else ""
    wanted = chosen.with_selected(terms, pages_of_verdicts.refs_of_topic(names.pages), own)
    if wait_s is None:
        with amount_bar("reading the log", None):
            return asyncio.run(count_in_log(connection, names, wanted, settings.also))
    with amount_bar("waiting for the shards", None):
        return asyncio.run(forget_in_log(connection, names, wanted, wait_s))


def _describe_terms(terms: Sequence[Term]) -> list[str]:
    """Return what is looked for, in words."""
    kinds = {URL: "URL", HOST: "host", BEFORE: "times before"}
    found = []
    for kind, value in terms:
        if isinstance(value, bytes):
            text = value.decode()
        else:
            text = datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="milliseconds")
        found.append(f"{kinds[kind]} {text}")
    return found


@command
def warm(*, settings: Annotated[Settings, "text"]) -> None:
    """Compile the kernels and store them on disk, so that later runs of this version start at once.

    Kernels for main text are compiled only with --text main.

    Example: streamer warm --text main
    """
    if FOLDER is None:  # a line on stderr has said why
        raise StreamerError("Nothing was compiled: it could be stored nowhere.")
    compile_with_bar(main_text=settings.signature.takes_main_text)
