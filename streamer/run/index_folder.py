"""An index's folder: its secret, its store, and whether they fit the settings of this run.

DIR/secret.key    the key of all hashes, readable by its owner only; absent with --key-file
DIR/store/        the database: rows, their keys, and all state
DIR/newest-flush  the number of the newest flush, and the lock of the index's writer
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from streamer import errors
from streamer.index.codec import StoreMeta
from streamer.rules import BETWEEN
from streamer.sketch import settings
from streamer.sketch.scheme import method_class
from streamer.stored.opening import has_index
from streamer.stored.store import Store
from streamer.stored.witness import make_folder

Identity = dict[str, str | int | float]
_SIZES = ("shingle_width", "bands", "rows")

_MEANING = {
    "method": "--method",
    "accept": "--accept",
    "bands": "--bands",
    "exact": "--exact",
    "key": "--key-file",
    "rows": "--rows",
    "scope": "--scope",
    "shingle_width": "--shingle-width",
    "site_memory": "--site-memory",
    "text_rules": "what --rules say of text",
}
_ASIDE = {  # what an index has that does not say
    "method": settings.NATIVE,
    "accept": "none",
    "exact": "no",
    "scope": "none",
    "site_memory": "0",
    "canonical.text": "visible",
    "text_rules": "nothing",
}


def store_folder(folder: Path) -> Path:
    """Return the folder of an index's store."""
    return folder / "store"


def shard_folders(folder: Path) -> list[str]:
    """Return the names of the indexes in a worker's folder, [""] where `folder` is an index."""
    below = [] if has_index(folder) else [path.name for path in folder.glob("shard-*")]
    return sorted(name for name in below if has_index(folder / name)) or [""]


def folders_of(folder: Path) -> list[Path]:
    """Return the folders of the indexes in a worker's folder, or `folder` where it is an index."""
    return [folder / name for name in shard_folders(folder)]


def folder_of(folder: Path) -> Path:
    """Return the folder of the one index in `folder`.

    Raises:
        StoreMismatch: there are several.
    """
    first, *others = folders_of(folder)
    if others:
        why = f"{folder} has {len(others) + 1} indexes. Name one, such as {first}."
        raise errors.StoreMismatch(why)
    return first


def shard_number(name: str) -> int:
    """Return the number of the shard in a folder of this name."""
    return int(name.partition("-")[2] or 0)


def obtain_existing_secret(folder: Path, key_file: Path | None) -> bytes:
    """Return the secret of an index: of the key file, else its own.

    Raises:
        SettingsError: a key file is unusable, or the index was made with one that is not given.
    """
    if key_file is not None:
        return settings.read_secret(key_file)
    if not errors.is_there(own_key(folder)):
        raise errors.SettingsError(
            f"The index {folder} has no key: it was made with a key file. Give it with --key-file. "
            f"If it had one of its own, put {own_key(folder)} back from a copy."
        )
    try:
        return settings.read_secret(own_key(folder))
    except errors.SettingsError as error:
        why = f"{error} No other key fits this index: put {own_key(folder)} back from a copy."
        raise errors.SettingsError(why) from error


def own_key(folder: Path) -> Path:
    """Return where an index has its own key, if it has one."""
    return folder / "secret.key"


def obtain_secret(folder: Path, key_file: Path | None) -> bytes:
    """Return the secret of an index, a new random one if neither it nor a key file is there.

    Raises:
        SettingsError: a key file is unusable, or the index was made with one that is not given.
        StoreUnavailable: the folder cannot be written.
    """
    exists = errors.is_there(own_key(folder)) or has_index(folder)
    if key_file is not None or exists:
        return obtain_existing_secret(folder, key_file)
    try:
        make_folder(folder)
        return settings.create_secret(own_key(folder))
    except OSError as error:
        raise errors.StoreUnavailable(
            f"Cannot write the index {folder}: {error.strerror}. Name a folder that can be written."
        ) from error


def identity_of(signature: settings.SignatureSettings, secret: bytes) -> Identity:
    """Return what must be equal for an index to fit: the fingerprint, and its parts by name."""
    key_id = settings.derive_seeds(secret, signature.shingle_width, signature.hashes).id
    return {"fingerprint": signature.fingerprint(key_id), "key": key_id, **signature.identity()}


def signature_of(identity: Identity) -> settings.SignatureSettings:
    """Return the settings in an index's identity."""
    name, accept = str(identity.get("method", settings.NATIVE)), str(identity.get("accept", ""))
    numbers = {key: int(identity[key]) for key in _SIZES if key in identity}
    options, rules = _pairs(identity, "option."), str(identity.get("text_rules", ""))
    return settings.SignatureSettings.model_validate(
        {
            **numbers,
            "method": name,
            "accept": accept,
            "options": options,
            "parameters": options,
            "canonical": _pairs(identity, "canonical."),
            "text_rules": tuple(filter(None, rules.split(BETWEEN))),
            "measure": method_class(accept or name).measure,
            "exact": "exact" in identity,
            "scope": str(identity.get("scope", "")),
            "site_memory": int(identity.get("site_memory", 0)),
        }
    )


def _pairs(identity: Identity, kind: str) -> tuple[str, ...]:
    """Return the parts of one kind as `name=value`, ascending."""
    names = sorted(name for name in identity if name.startswith(kind))
    return tuple(f"{name.removeprefix(kind)}={identity[name]}" for name in names)


def check_identity(folder: Path, found: Identity, wanted: Identity) -> None:
    """Raise StoreMismatch, naming what differs, unless the index fits the settings."""
    if found == wanted:
        return
    own = ""
    if _part(found, "key") != _part(wanted, "key") and errors.is_there(own_key(folder)):
        own = f" If that key was its own, put {own_key(folder)} back from a copy."
    raise errors.StoreMismatch(
        f"The index {folder} was made with other settings: {differences(found, wanted)}. "
        f"Use the index's settings, or another --index.{own}"
    )


def differences(found: Identity, wanted: Identity) -> str:
    """Return in which settings what identifies an index differs from what is wanted."""
    differing = [name for name in _MEANING if _part(found, name) != _part(wanted, name)]
    if "method" in differing:
        differing = ["method"]  # what belongs to one method says nothing to the other
    else:
        others = sorted((found.keys() | wanted.keys()) - _MEANING.keys() - {"fingerprint"})
        differing += [name for name in others if found.get(name) != wanted.get(name)]
    parts = [
        f"{_option(n)} is {_part(found, n)} there and {_part(wanted, n)} here" for n in differing
    ]
    return "; ".join(parts) or "it was made by another version"


def check_folder(folder: Path, wanted: Identity) -> None:
    """Raise StoreMismatch as `check_identity`, if there is an index in `folder` with a flush."""
    if not has_index(folder):
        return
    with closing(Store.open(store_folder(folder), writable=False)) as store:
        if store.meta is not None:
            check_identity(folder, store.meta.identity, wanted)


def _part(identity: Identity, name: str) -> str | int | float:
    return identity.get(name) or _ASIDE.get(name, "not set")


def _option(name: str) -> str:
    """Return how the command line gives a part of the identity."""
    if name == "canonical.text":
        return "--text"
    kind, dot, own = name.partition(".")
    if not dot:
        return _MEANING[name]
    return f"{'--canonical' if kind == 'canonical' else '--method-option'} {own}"


@dataclass(slots=True)
class IndexFolder:
    """An open index: its store, what identifies it, and its secret."""

    path: Path
    store: Store
    identity: Identity
    secret: bytes

    @classmethod
    def open(
        cls, path: Path, signature: settings.SignatureSettings, key_file: Path | None = None
    ) -> IndexFolder:
        """Open or create the index in `path` for writing.

        Raises:
            SettingsError: the key file is unusable or missing, or the path is not UTF-8.
            StoreMismatch: the index was made with other settings, or is a worker's.
            StoreDamaged: something of it is missing, or cannot be read.
            StoreUnavailable: it is in use, or the disk refuses.
        """
        if not errors.is_utf8(path):
            why = f"The path of the index {str(path)!r} is not UTF-8. Use another."
            raise errors.SettingsError(why)
        if shard := shard_folders(path)[0]:
            why = f"The folder {path} has {shard} of a worker. Name another folder with --index."
            raise errors.StoreMismatch(why)
        secret = obtain_secret(path, key_file)
        identity = identity_of(signature, secret)
        store = Store.open(store_folder(path))
        with errors.on_failure(store.close):
            if store.meta is not None:
                check_identity(path, store.meta.identity, identity)
            elif key_file is None and not errors.is_there(own_key(path)):
                # A run that failed removed it after we had read it, and before we had the lock.
                secret = settings.create_secret(own_key(path))
                identity = identity_of(signature, secret)
        store.needed = () if key_file else (own_key(path),)
        return cls(path, store, identity, secret)

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint that verdicts carry."""
        return str(self.identity["fingerprint"])


def meta_of(folder: Path) -> StoreMeta:
    """Return the state of an index as of its newest flush; raises as `read_meta`."""
    store, meta = read_meta(folder)
    store.close()
    return meta


def read_meta(folder: Path) -> tuple[Store, StoreMeta]:
    """Open an index for reading; a writer may be active.

    Raises:
        StoreDamaged: something of it is missing, or cannot be read.
        StoreUnavailable: there is none, or it has no flush yet.
    """
    store = Store.open(store_folder(folder), writable=False)
    if store.meta is None:
        store.close()
        why = f"The index {folder} is empty: nothing has been flushed to it yet."
        raise errors.StoreUnavailable(why)
    return store, store.meta
