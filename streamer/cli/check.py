"""`streamer check`: the settings in force, and whether they fit an index."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from streamer.cli.inspect import named_settings
from streamer.cli.options import command
from streamer.cli.progress import amount_bar
from streamer.config import Settings, declared
from streamer.errors import SettingsError, StoreDamaged, StoreMismatch
from streamer.index.codec import unpack_snapshot
from streamer.index.deep_check import Finding, check_index, index_bytes
from streamer.index.store_errors import REMEDY
from streamer.run.index_folder import (
    check_identity,
    identity_of,
    obtain_existing_secret,
    own_key,
    read_meta,
)
from streamer.run.others import OtherIndexes
from streamer.sketch.settings import derive_seeds, read_secret


@command
def check(
    index: Annotated[
        Path | None, typer.Option(help="Folder of the index to hold the settings against.")
    ] = None,
    *,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Read every byte of the index instead; say what is damaged."),
    ] = False,
    settings: Settings,
) -> None:
    """Show the settings in force and whether they fit an index; exit code 3 if they do not.

    With --deep, the settings are left aside: the whole index is read, beside a running writer if
    there is one, and each damage is told; exit code 3 if there is any. Nothing is written.

    Example: streamer check --index my-index --bands 20 --rows 4

    Example: streamer check --index my-index --deep
    """
    if deep:
        if index is None:
            raise SettingsError("--deep needs an index. Name its folder with --index.")
        _read_all(index, settings.key_file)
        return
    console = Console()
    table = Table("setting", "value", "meaning", box=None, pad_edge=False)
    own = settings.index  # of what is not set, the method's
    in_force = {"threshold": own.threshold, "min_shingles": own.shingles_min}
    for one in declared():
        value = in_force.get(one.name, getattr(settings, one.name))
        table.add_row(one.name, "" if value is None else escape(str(value)), escape(one.text))
    console.print(table)
    if index is not None:
        console.print(_fit(index, settings))


def _read_all(index: Path, key_file: Path | None) -> None:
    """Print what is damaged in an index; raise StreamerError if anything is."""
    with amount_bar("reading", index_bytes(index)) as progress:
        findings = check_index(index, progress)
    if not any(finding.damage for finding in findings):
        findings.append(_key_finding(index, key_file))
    table = Table("part", "bytes", "damage", box=None, pad_edge=False)
    for finding in findings:
        table.add_row(finding.part, f"{finding.size:,}", "; ".join(finding.damage) or "none")
    Console(soft_wrap=True).print(table, highlight=False, markup=False)
    if bad := [finding.part for finding in findings if finding.damage]:
        raise StoreDamaged(str(index), f"in {', '.join(bad)}", REMEDY)


def _key_finding(index: Path, key_file: Path | None) -> Finding:
    """Return whether the key of a sound index is the one that it was made with."""
    path = key_file or own_key(index)
    finding = Finding(path.name, path.stat().st_size if path.exists() else 0)
    store, meta = read_meta(index)
    store.close()
    if not path.exists():
        finding.damage.append("it is missing; if the index was made with a key file, give that")
        return finding
    try:
        key = derive_seeds(read_secret(path), 1, 1).id
    except SettingsError as error:
        finding.damage.append(str(error))
        return finding
    if key != meta.identity["key"]:
        finding.damage.append(
            f"it is the key {key}, the index was made with {meta.identity['key']}"
        )
    return finding


def _fit(index: Path, settings: Settings) -> str:
    """Return a sentence about an index that fits; raise StoreMismatch for one that does not."""
    store, meta = read_meta(index)
    store.close()
    secret = obtain_existing_secret(index, settings.key_file)
    identity = identity_of(settings.signature, settings.shards, secret)
    check_identity(index, meta.identity, identity)
    in_force = named_settings(unpack_snapshot(meta.shards[0].state).settings)
    with closing(OtherIndexes(settings.also, str(identity["fingerprint"]), identity)) as others:
        wanted = named_settings(others.named_in(settings.index).model_dump())
    assert wanted is not None
    if in_force is None or in_force["rules_version"] > wanted["rules_version"]:
        raise StoreMismatch(
            f"The index {index} was written by a later version of the program. Use that."
        )
    changes = [f"{n} {in_force[n]} -> {wanted[n]}" for n in wanted if wanted[n] != in_force[n]]
    if changes:
        return f"The index {index} fits. From the next page on: {', '.join(changes)}."
    return f"The index {index} fits, and nothing changes."
