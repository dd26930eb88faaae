"""`streamer inspect` and `check`: what an index holds, whether settings fit it, what is damaged."""

from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from streamer.cli.options import command
from streamer.cli.terminal import Terminal, amount_bar, figures, show
from streamer.config import Settings, list_settings
from streamer.errors import DAMAGE_REMEDY, SettingsError, StoreDamaged, StoreMismatch, mask
from streamer.index.codec import ShardState, StoreMeta, unpack_state
from streamer.index.messages import CONFIG, MACHINE_VERSION, IndexSettings
from streamer.kafka.wire import read_position
from streamer.panels import duration_of
from streamer.run import index_folder
from streamer.run.catalogue import read_catalogue
from streamer.run.reference_indexes import ReferenceIndexes
from streamer.sketch.settings import NATIVE, SignatureSettings, derive_seeds, read_secret
from streamer.stored.deep_check import Finding, check_index, index_bytes
from streamer.stored.generations import read_note
from streamer.stored.store import Store

ROWS_AT_ONCE = 1 << 16

ShowAll = Annotated[bool, typer.Option("--all")]

_OF_LOG = {"log", CONFIG}  # positions of a worker that are of no pages
_WHOLE = ("bytes", "flushes", "url_versions", "format")
_TOTALS = ("pages_kept", "postings", "postings_refused", "buckets", "buckets_saturated")
_SHOWN = {"method", "threshold", "fingerprint", "key"}  # of an index, default or not
_ALWAYS = {"method", "threshold", "text"}  # of the settings: by what pages are judged
_SETTING_NAMES = {
    "shingles_min": "min_shingles",
    "expire_after_ms": "expire_after",
    "version": "rules_version",
}


@command
def inspect(index: Path, *, show_all: ShowAll = False, json: bool = False) -> None:
    """Show an index: its totals, and what differs from the defaults.

    DIR is the --index of a replay or a worker, or the folder of one shard of a worker.

    Example: streamer inspect my-index

    Args:
        index (DIR): Folder of the index.
        show_all: Show each setting, source and shard, and the buckets by size.
        json: Print JSON.
    """
    show(describe_folder(index), _print_all if show_all else _print, as_json=json)


def describe_folder(index: Path) -> dict[str, Any]:
    """Return what an index holds, as JSON values; of a worker's folder what its shards hold.

    Raises:
        StoreDamaged: something of it is missing, or cannot be read.
        StoreUnavailable: there is none, or it has no flush yet.
    """
    report: dict[str, Any] = {}
    for part in index_folder.shard_folders(index):
        store, meta = index_folder.read_meta(index / part)
        with closing(store):
            own = describe(store, meta, index_folder.shard_number(part))
        if part:
            own["position"] = {f"{part}, {name}": at for name, at in own["position"].items()}
        report = _join(report, own) if report else own
    return report


def _join(report: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return what the folders of two shards hold; what they have in common is there once."""
    sums = {name: report[name] + more[name] for name in ("flushes", "bytes", "url_versions")}
    position = report["position"] | more["position"]
    return {**report, **sums, "position": position, "shards": report["shards"] + more["shards"]}


def describe(store: Store, meta: StoreMeta, number: int = 0) -> dict[str, Any]:
    """Return what the index of a shard holds, as JSON values."""
    shard = unpack_state(meta.state)
    return {
        "format": meta.format,
        "identity": _name_identity(meta.identity),
        "flushes": meta.seq,
        "settings": settings_by_name(shard.settings),
        "bytes": store.size_bytes(),
        "position": _positions(store, meta, shard),
        "url_versions": store.url_count,
        "shards": [{"shard": number, **_describe_shard(store, meta, shard)}],
    }


def _name_identity(identity: Mapping[str, str | int | float]) -> index_folder.Identity:
    """Return what identifies an index by the names of the settings, the native method's too."""
    named: index_folder.Identity = {"method": NATIVE, **identity}
    for kind, option in (("option", "method_option"), ("canonical", "canonical")):
        for name in [name for name in named if name.startswith(f"{kind}.")]:
            named[f"{option} {name.removeprefix(f'{kind}.')}"] = named.pop(name)
    return {name: value for name, value in named.items() if value != ""}


def settings_by_name(settings: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return an index's settings by the names under which they are given."""
    if settings is None:
        return None
    whole = IndexSettings.model_validate(settings)
    named = {_SETTING_NAMES.get(name, name): value for name, value in whole.model_dump().items()}
    age = whole.expire_after_ms // 1000
    own = {
        "measure": whole.measure.name.lower(),
        "rules": "; ".join(map(str, whole.rules)),
        "also": "; ".join(map(str, whole.also)),
        "expire_after": duration_of(age) if age else "never",
    }
    return named | own


def _positions(store: Store, meta: StoreMeta, shard: ShardState) -> dict[str, dict[str, Any]]:
    """Return how far each source is read: files, partitions of a topic, or a worker's log."""
    if log := read_position(meta.owner):
        read = {"log": log.offset, **shard.positions}
        return {name: {"records": at, "finished": True} for name, at in sorted(read.items())}
    found = {}
    for one in read_catalogue(store, meta).entries:
        of_partition = f", partition {one.partition}" if one.topic_id or one.partition else ""
        is_finished = one.finished or bool(one.topic_id)
        found[f"{one.name}{of_partition}"] = {"records": one.position, "finished": is_finished}
    return found


def _describe_shard(store: Store, meta: StoreMeta, shard: ShardState) -> dict[str, Any]:
    posted = [np.empty(0, np.uint64)]
    for part in store.keys(ROWS_AT_ONCE, whole=False):
        columns = np.arange(part.keys.shape[1], dtype=np.uint64)
        posted.append(part.keys[(part.masks[:, None] >> columns & np.uint64(1)).astype(np.bool_)])
    sizes = np.unique(np.concatenate(posted), return_counts=True)[1]  # of each bucket
    frozen = read_note(store)
    bucket_max = shard.settings["bucket_max"] if shard.settings else 0
    powers = np.bincount(np.ceil(np.log2(sizes)).astype(np.int64)).tolist()
    return {
        "pages_kept": meta.rows,
        "postings": meta.postings,
        "postings_frozen": frozen.count,
        "generations": len(frozen.generations),
        "filter_bytes": frozen.filter_bytes,
        "buckets": len(sizes),
        "buckets_by_size": {f"<= {1 << i}": int(n) for i, n in enumerate(powers) if n},
        "buckets_saturated": int(np.count_nonzero(sizes >= bucket_max)),
        "postings_refused": shard.refused,
    }


def _print(report: dict[str, Any]) -> None:
    """Print an index in one screen."""
    shards = report["shards"]
    read = [at for name, at in report["position"].items() if name.split(", ")[-1] not in _OF_LOG]
    pages, rest = sum(at["records"] for at in read), sum(not at["finished"] for at in read)
    more = f", {rest:,} of them not to the end" if rest else ""
    usual_settings = settings_by_name(IndexSettings().model_dump()) or {}
    usual = {**_name_identity(SignatureSettings().identity()), **usual_settings}
    own = {**report["identity"], **(report["settings"] or {})}
    rows = {
        **{name: sum(each[name] for each in shards) for name in _TOTALS},
        **{name: report[name] for name in _WHOLE},
        "records read": f"{pages:,} of {len(read):,} sources" + more,
        **{name: own[name] for name in own if name in _SHOWN or own[name] != usual.get(name)},
    }
    console = Terminal()
    console.print(figures(((n.replace("_", " "), _cell(v)) for n, v in rows.items()), "left"))
    console.say("Other settings have their defaults. --all shows each setting, source and shard.")


def _cell(value: object) -> str | int:
    return value if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _print_all(report: dict[str, Any]) -> None:
    """Print all of an index."""
    rows = [(name.replace("_", " "), report[name]) for name in _WHOLE]
    rows += {**report["identity"], **(report["settings"] or {})}.items()
    for name, at in report["position"].items():
        rest = "" if at["finished"] else " (not at its end)"
        rows.append((f"position in {name}", f"{at['records']:,}{rest}"))
    for shard in report["shards"]:
        rows.append((f"shard {shard.pop('shard')}", ""))
        sizes = shard.pop("buckets_by_size").items()
        rows += [(f"  {name.replace('_', ' ')}", value) for name, value in shard.items()]
        rows += [(f"  buckets {size} pages", count) for size, count in sizes]
    Terminal().print(figures(((name, _cell(value)) for name, value in rows), "left"))


@command
def check(
    *, index: Path | None = None, deep: bool = False, show_all: ShowAll = False, settings: Settings
) -> None:
    """Show the settings that are not defaults, and whether they fit an index; exit code 3 if not.

    With --deep, the settings are ignored. The whole index is read, even next to a running writer,
    and each damage is reported; exit code 3 if there is any. Nothing is written.

    Example: streamer check --index my-index --bands 20 --rows 4

    Example: streamer check --index my-index --deep

    Args:
        index: Folder of the index to compare the settings with.
        deep: Read every byte of the index instead, and name what is damaged.
        show_all: Show all settings, and what each means.
    """
    if deep:
        if index is None:
            raise SettingsError("--deep needs an index. Name its folder with --index.")
        parts = index_folder.shard_folders(index)
        errors = [_read_all(index / part, settings.key_file) for part in parts]
        if failed := [error for error in errors if error is not None]:
            for error in failed[:-1]:
                Terminal(stderr=True).fail(str(error))
            raise failed[-1]
        return
    _print_settings(settings, show_all=show_all)
    if index is None:
        return
    said: dict[str, list[str]] = defaultdict(list)
    for part in index_folder.shard_folders(index):
        said[_fit(index / part, settings)].append(part)
    for sentence, parts in said.items():
        where = f", {', '.join(parts)}," if len(said) > 1 else ""
        Terminal().print(f"The index {index}{where} {sentence}")


def _print_settings(settings: Settings, *, show_all: bool) -> None:
    """Print the settings that differ from their defaults, or all with what they mean."""
    own = settings.index  # of what is not set, the method's
    in_force = {"threshold": own.threshold, "min_shingles": own.shingles_min}
    heads = ("setting", "value", "meaning" if show_all else "default")
    table, left_out = Table(*heads, box=None, pad_edge=False), 0
    for one in list_settings():
        value = in_force.get(one.name, getattr(settings, one.name))
        is_default = value == Settings.model_fields[one.name].default
        if is_default and not show_all and one.name not in _ALWAYS:
            left_out += 1
            continue
        shown = "" if value is None else mask(str(value))
        table.add_row(one.name, shown, one.text if show_all else one.default)
    console = Terminal()
    console.print(table)
    if left_out:
        console.say(f"{left_out} other settings have their defaults; --all shows what each means.")


def _read_all(index: Path, key_file: Path | None) -> StoreDamaged | StoreMismatch | None:
    """Print what is damaged in an index, and return the error about it, if anything is."""
    with amount_bar("reading", index_bytes(index)) as progress:
        findings = check_index(index, progress)
    is_sound = not any(finding.damage for finding in findings)
    if is_sound:
        findings.append(_key_finding(index, key_file))
    table = Table("part", "bytes", "damage", box=None, pad_edge=False)
    for finding in findings:
        table.add_row(finding.part, f"{finding.size:,}", "; ".join(finding.damage) or "none")
    Terminal().print(table, soft_wrap=True)
    if bad := [finding.part for finding in findings if finding.damage]:
        if is_sound:
            own = index_folder.own_key(index)
            return StoreMismatch(
                f"The key does not fit the index {index}, of which all else is sound. Give the one "
                f"that it was made with as --key-file, or put {own} back from a copy."
            )
        return StoreDamaged(str(index), f"in {', '.join(bad)}", DAMAGE_REMEDY)
    return None


def _key_finding(index: Path, key_file: Path | None) -> Finding:
    """Return whether the key of a sound index is the one that it was made with."""
    path = key_file or index_folder.own_key(index)
    finding = Finding(path.name, path.stat().st_size if path.exists() else 0)
    meta = index_folder.meta_of(index)
    if not path.exists():
        finding.damage.append("it is missing; if the index was made with a key file, give that")
        return finding
    try:
        key = derive_seeds(read_secret(path), 1, 1).id
    except SettingsError as error:
        finding.damage.append(str(error))
        return finding
    if key != meta.identity["key"]:
        finding.damage.append(f"it is the key {key}, that of the index is {meta.identity['key']}")
    return finding


def _fit(index: Path, settings: Settings) -> str:
    """Return what is to be said of an index that fits; raise StoreMismatch if it does not."""
    meta = index_folder.meta_of(index)
    secret = index_folder.obtain_existing_secret(index, settings.key_file)
    identity = index_folder.identity_of(settings.signature, secret)
    index_folder.check_identity(index, meta.identity, identity)
    in_force = settings_by_name(unpack_state(meta.state).settings)
    own = ReferenceIndexes(settings.also, str(identity["fingerprint"]), identity)
    with closing(own) as references:
        wanted = settings_by_name(references.name_in(settings.index).model_dump())
    assert wanted is not None
    if in_force is None:
        return "fits, and has judged no page."
    if in_force["rules_version"] != MACHINE_VERSION:
        raise StoreMismatch(f"Another version of the program wrote the index {index}. Use that.")
    changes = [f"{n} {in_force[n]} -> {wanted[n]}" for n in wanted if wanted[n] != in_force[n]]
    if changes:
        return f"fits. From the next page on: {', '.join(changes)}."
    return "fits, and nothing changes."
