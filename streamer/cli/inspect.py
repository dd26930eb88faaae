"""`streamer inspect`: what an index holds, read beside a running writer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from streamer.config import duration_of
from streamer.index.codec import Snapshot, StoreMeta, unpack_snapshot
from streamer.index.frozen import read_note
from streamer.index.store import Store
from streamer.index.types import IndexSettings
from streamer.kafka.wire import stored_position
from streamer.run.catalogue import unpack_catalogue
from streamer.run.index_folder import Identity, read_meta
from streamer.sketch.settings import NATIVE

ROWS_AT_ONCE = 1 << 16

_SETTING_NAMES = {
    "shingles_min": "min_shingles",
    "expire_after_ms": "expire_after",
    "version": "rules_version",
}


def inspect(
    index: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the index.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,  # noqa: FBT002 - a flag
) -> None:
    """Show an index: format, fingerprint, position, pages kept, bytes, flushes, buckets.

    Example: streamer inspect my-index
    """
    store, meta = read_meta(index)
    try:
        report = describe(store, meta)
    finally:
        store.close()
    if json:
        typer.echo(msgspec.json.format(msgspec.json.encode(report)))
    else:
        _print(report)


def describe(store: Store, meta: StoreMeta) -> dict[str, Any]:
    """Return what an index holds, as JSON values."""
    shards = [unpack_snapshot(shard.state) for shard in meta.shards]
    return {
        "format": meta.format,
        "identity": _named_identity(meta.identity),
        "flushes": meta.seq,
        "settings": named_settings(shards[0].settings),
        "bytes": store.size_bytes(),
        "position": _positions(meta, shards[0]),
        "url_versions": store.url_count,
        "shards": [_describe_shard(store, meta, i, shard) for i, shard in enumerate(shards)],
    }


def _named_identity(identity: Identity) -> Identity:
    """Return what identifies an index by the names of the settings, the native method's too."""
    named = {"method": NATIVE} | identity
    for kind, option in (("option", "method_option"), ("canonical", "canonical")):
        for name in [name for name in named if name.startswith(f"{kind}.")]:
            named[f"{option} {name.removeprefix(f'{kind}.')}"] = named.pop(name)
    return {name: value for name, value in named.items() if value != ""}


def named_settings(settings: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return an index's settings by the names under which they are given."""
    if settings is None:
        return None
    whole = IndexSettings.model_validate(settings)  # what an older one does not say is the default
    named = {_SETTING_NAMES.get(name, name): value for name, value in whole.model_dump().items()}
    age = whole.expire_after_ms // 1000
    own = {
        "measure": whole.measure.name.lower(),
        "rules": "; ".join(map(str, whole.rules)),
        "also": "; ".join(map(str, whole.also)),
        "expire_after": duration_of(age) if age else "never",
    }
    return named | own


def _positions(meta: StoreMeta, shard: Snapshot) -> dict[str, dict[str, Any]]:
    """Return how far each source is read: files, partitions of a topic, or a worker's log."""
    if log := stored_position(meta.owner):
        read = {"log": log.offset, **shard.positions}
        return {name: {"records": at, "finished": True} for name, at in sorted(read.items())}
    return {
        f"{entry.name}, partition {entry.partition}"
        if entry.topic_id or entry.partition
        else entry.name: {
            "records": entry.position,
            "finished": entry.finished or bool(entry.topic_id),
        }
        for entry in unpack_catalogue(meta.owner).entries
    }


def _describe_shard(store: Store, meta: StoreMeta, number: int, shard: Snapshot) -> dict[str, Any]:
    disk = meta.shards[number]
    sizes, frozen = _bucket_sizes(store, number), read_note(store, number)
    bucket_max = shard.settings["bucket_max"] if shard.settings else 0
    powers = np.bincount(np.ceil(np.log2(sizes)).astype(np.int64)).tolist()
    return {
        "pages_kept": disk.rows,
        "undecided": len(shard.undecided.refs),
        "held": sum(len(pages) for _, pages in shard.held),
        "postings": disk.postings,
        "postings_frozen": frozen.count,
        "generations": len(frozen.generations),
        "filter_bytes": frozen.filter_bytes,
        "buckets": len(sizes),
        "buckets_by_size": {f"<= {1 << i}": int(n) for i, n in enumerate(powers) if n},
        "buckets_saturated": int(np.count_nonzero(sizes >= bucket_max)),
        "postings_refused": shard.refused,
    }


def _bucket_sizes(store: Store, number: int) -> Any:  # noqa: ANN401 - an array of counts
    """Return the postings of each bucket of a shard."""
    posted = [np.empty(0, np.uint64)]
    for part in store.keys(number, ROWS_AT_ONCE, whole=False):
        columns = np.arange(part.keys.shape[1], dtype=np.uint64)
        posted.append(part.keys[(part.masks[:, None] >> columns & np.uint64(1)).astype(np.bool_)])
    return np.unique(np.concatenate(posted), return_counts=True)[1]


def _print(report: dict[str, Any]) -> None:
    console = Console()
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    for name in ("format", "flushes", "bytes", "url_versions"):
        table.add_row(name.replace("_", " "), f"{report[name]:,}")
    for name, value in {**report["identity"], **(report["settings"] or {})}.items():
        table.add_row(name, str(value))
    for name, at in report["position"].items():
        table.add_row(
            f"position in {name}",
            f"{at['records']:,}{'' if at['finished'] else ' (not at its end)'}",
        )
    for number, shard in enumerate(report["shards"]):
        table.add_row(f"shard {number}", "")
        for name in (
            "pages_kept",
            "undecided",
            "held",
            "postings",
            "postings_frozen",
            "generations",
            "filter_bytes",
            "buckets",
            "buckets_saturated",
            "postings_refused",
        ):
            table.add_row(f"  {name.replace('_', ' ')}", f"{shard[name]:,}")
        for size, count in shard["buckets_by_size"].items():
            table.add_row(f"  buckets {size} pages", f"{count:,}")
    console.print(table)
